import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { Judgement } from "../../src/tool/Approvals.ts"
import { Pipeline } from "../../src/tool/Pipeline.ts"
import { ToolCall } from "../../src/tool/ToolCall.ts"
import { After } from "../../src/tool/ToolHooks.ts"
import {
  type Body,
  block,
  echo,
  hi,
  interruptingAt,
  newCall,
  pipeline,
  probing,
  start,
  startAt,
  textOf,
  unasked
} from "./support.ts"

describe("the tool pipeline, interrupted", () => {
  it.effect("R4: an interrupted body is no result: the interrupt passes once its cleanup is done", () =>
    Effect.gen(function* () {
      const entered = yield* Deferred.make<void>()
      let cleaned = false
      const body: Body = () =>
        Effect.gen(function* () {
          const call = yield* ToolCall
          yield* call.onAbort(() => "half\0")
          yield* Deferred.succeed(entered, undefined)
          return yield* Effect.never
        }).pipe(
          Effect.ensuring(
            Effect.zipRight(
              Effect.yieldNow(),
              Effect.sync(() => {
                cleaned = true
              })
            )
          )
        )
      const { fiber, notes } = yield* Effect.provide(start("probe", hi), pipeline(probing(body)))
      yield* Deferred.await(entered)
      const exit = yield* Fiber.interrupt(fiber)
      assert.isTrue(Exit.isFailure(exit) && Cause.isInterruptedOnly(exit.cause))
      assert.isTrue(cleaned)
      assert.isTrue(yield* notes.started)
      assert.strictEqual(yield* notes.partialOutput, "half\ufffd")
    })
  )

  it.effect("R4: also where its cleanup breaks", () =>
    Effect.gen(function* () {
      const entered = yield* Deferred.make<void>()
      const body: Body = () =>
        Effect.zipRight(Deferred.succeed(entered, undefined), Effect.never).pipe(Effect.ensuring(Effect.die("broken")))
      const { fiber } = yield* Effect.provide(start("probe", hi), pipeline(probing(body)))
      yield* Deferred.await(entered)
      const exit = yield* Fiber.interrupt(fiber)
      assert.isTrue(Exit.isFailure(exit) && Cause.isInterruptedOnly(exit.cause))
    })
  )

  it.effect(
    "R4 W15: past its point of no return a body finishes, wherever in it that was, and the call ends after it",
    () =>
      Effect.gen(function* () {
        const shapes: Record<string, (finishing: Effect.Effect<string>) => Effect.Effect<string>> = {
          alone: (finishing) => finishing,
          "then more": (finishing) => Effect.zipLeft(finishing, Effect.never),
          race: (finishing) => Effect.race(finishing, Effect.never),
          raceFirst: (finishing) => Effect.raceFirst(finishing, Effect.never),
          "beside others": (finishing) =>
            Effect.map(Effect.all([finishing, Effect.never], { concurrency: "unbounded" }), ([text]) => text),
          "fork and join": (finishing) => Effect.flatMap(Effect.fork(finishing), Fiber.join),
          "a daemon": (finishing) => Effect.flatMap(Effect.forkDaemon(finishing), Fiber.join),
          disconnected: (finishing) => Effect.disconnect(finishing),
          "its cleanup breaks": (finishing) => Effect.ensuring(finishing, Effect.die("broken"))
        }
        for (const [name, shape] of Object.entries(shapes)) {
          const [entered, go] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
          const effect = Deferred.succeed(entered, undefined).pipe(
            Effect.zipRight(Deferred.await(go)),
            Effect.as("changed")
          )
          const body: Body = () => Effect.flatMap(ToolCall, ({ finish }) => shape(finish(effect)))
          const { fiber } = yield* Effect.provide(start("probe", hi), pipeline(probing(body)))
          yield* Deferred.await(entered)
          yield* Fiber.interruptFork(fiber)
          yield* Effect.replicateEffect(Effect.yieldNow(), 50)
          assert.isTrue(Option.isNone(yield* Fiber.poll(fiber)), name)
          yield* Deferred.succeed(go, undefined)
          assert.strictEqual(textOf(yield* Fiber.join(fiber)), "changed", name)
        }
      })
  )

  it.effect("R4: a cancel while a hook or an approval is asked ends the call before its body", () =>
    Effect.gen(function* () {
      for (const stage of ["before", "approval"]) {
        const asked = yield* Deferred.make<void>()
        const wait = Effect.zipRight(Deferred.succeed(asked, undefined), Effect.never)
        const layer = pipeline(echo, {
          hooks: stage === "before" ? { before: () => wait } : {},
          approvals: { judge: () => wait }
        })
        for (const tools of [
          layer,
          pipeline(
            probing(() => Effect.succeed(""), "finish"),
            { hooks: { before: () => wait } }
          )
        ]) {
          const { fiber, notes } = yield* Effect.provide(start("probe", hi), tools)
          yield* Deferred.await(asked)
          assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(fiber)))
          assert.isFalse(yield* notes.started)
        }
      }
    })
  )

  it.effect("R4, W15: what a body returned is kept when the cancel comes while the after hook works", () =>
    Effect.gen(function* () {
      const asked = yield* Deferred.make<void>()
      const go = yield* Deferred.make<void>()
      const after = () =>
        Effect.zipRight(Deferred.succeed(asked, undefined), Deferred.await(go)).pipe(Effect.as(After.Accept()))
      const { fiber } = yield* Effect.provide(start("probe", hi), pipeline(echo, { hooks: { after } }))
      yield* Deferred.await(asked)
      yield* Fiber.interruptFork(fiber)
      yield* Effect.yieldNow()
      yield* Deferred.succeed(go, undefined)
      assert.strictEqual(textOf(yield* Fiber.join(fiber)), "hi")
    })
  )

  it.effect("R4: a body that is let finish keeps its result, and its own time limits still work", () =>
    Effect.gen(function* () {
      const entered = yield* Deferred.make<void>()
      const go = yield* Deferred.make<void>()
      const body: Body = () =>
        Effect.gen(function* () {
          yield* Effect.timeoutOption(Effect.never, 0)
          yield* Deferred.succeed(entered, undefined)
          yield* Deferred.await(go)
          return "written"
        })
      const { fiber } = yield* Effect.provide(start("probe", hi), pipeline(probing(body, "finish")))
      yield* Effect.yieldNow()
      yield* Deferred.await(entered)
      yield* Fiber.interruptFork(fiber)
      yield* Effect.yieldNow()
      yield* Deferred.succeed(go, undefined)
      assert.strictEqual(textOf(yield* Fiber.join(fiber)), "written")
    })
  )

  it.effect("law 4: whoever interrupts the pipeline waits for an after hook, also if it was forked interruptible", () =>
    Effect.gen(function* () {
      const asked = yield* Deferred.make<void>()
      const go = yield* Deferred.make<void>()
      let done = false
      const after = () =>
        Effect.gen(function* () {
          yield* Deferred.succeed(asked, undefined)
          yield* Deferred.await(go)
          done = true
          return After.Accept()
        })
      const { call, notes } = yield* newCall("probe")
      const { run } = yield* Effect.provide(Pipeline, pipeline(echo, { hooks: { after } }))
      const fiber = yield* Effect.fork(Effect.provideService(run(block("probe", hi), notes, unasked), ToolCall, call))
      yield* Deferred.await(asked)
      const interrupting = yield* Effect.fork(Fiber.interrupt(fiber))
      for (let turn = 0; turn < 20; turn++) yield* Effect.yieldNow()
      assert.isTrue(Option.isNone(yield* Fiber.poll(interrupting)))
      yield* Deferred.succeed(go, undefined)
      yield* Fiber.join(interrupting)
      assert.isTrue(done)
    })
  )

  it.live(
    "R4: cancelled at every single point, a call was either never begun, or cut in its body, or has its result",
    () =>
      Effect.gen(function* () {
        for (const onCancel of ["stop", "finish"] as const) {
          const seen = { unbegun: 0, cut: 0, kept: 0 }
          let entered = false
          const body: Body = () => {
            entered = true
            return Effect.as(Effect.yieldNow(), "done")
          }
          const hook = Effect.yieldNow()
          const layer = pipeline(probing(body, onCancel), {
            hooks: { before: () => Effect.as(hook, Judgement.Allow()), after: () => Effect.as(hook, After.Accept()) }
          })
          for (let point = 1; ; point++) {
            entered = false
            const scheduler = interruptingAt(point)
            const { exit, started } = yield* Effect.gen(function* () {
              const { fiber, notes } = yield* startAt("probe", hi, Effect.void, scheduler.watched)
              return { exit: yield* Fiber.await(fiber), started: yield* notes.started }
            }).pipe(Effect.withScheduler(scheduler), Effect.provide(layer))
            assert.strictEqual(started, entered, `point ${point}`)
            if (Exit.isSuccess(exit)) assert.strictEqual(textOf(exit.value), "done")
            else assert.isTrue(Cause.isInterruptedOnly(exit.cause))
            if (!scheduler.hasFired()) break
            seen[Exit.isSuccess(exit) ? "kept" : started ? "cut" : "unbegun"]++
          }
          assert.isAbove(seen.unbegun, 10)
          assert.isAbove(seen.kept, 10)
          assert.isTrue(onCancel === "stop" ? seen.cut > 0 : seen.cut === 0, `${seen.cut} cut`)
        }
      })
  )
})
