import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { textOf } from "../../src/domain/Message.ts"
import { ChatError } from "../../src/model/ChatModel.ts"
import { call, fail, say, send } from "../../src/model/ScriptedModel.ts"
import { lingerMillis } from "../../src/session/Writer.ts"
import { at, door, endings, inputs, of, others, react, watch } from "../support/Watching.ts"
import * as World from "../support/World.ts"

describe("a cancel in a turn", () => {
  it.scoped("C03 R1: whoever waits is told the cause, live; the journal keeps the abort alone", () =>
    Effect.gen(function* () {
      for (const cause of ["user", "parent", "disposed"] as const) {
        const answer = yield* door
        const world = yield* World.make({ scripts: [at(answer.pass)] })
        const agent = yield* world.open()
        const seen = yield* watch(agent)
        yield* agent.followup("go")
        yield* answer.entered
        const ending = { kind: "aborted" as const }
        const settled = { _tag: "Settled" as const, turn: 1, ending, cause, dropped: [], durable: true }
        assert.deepStrictEqual(yield* agent.cancel(cause), settled)
        assert.deepStrictEqual(Option.getOrThrow((yield* agent.idle).last), { turn: 1, cause, ending, durable: true })
        const told = (yield* seen).filter(({ type }) => type === "cancel" || type === "ended")
        assert.deepStrictEqual(told, [
          { type: "cancel", turn: 1, cause },
          { type: "ended", turn: 1, cause, ending }
        ])
        assert.deepStrictEqual(
          of(yield* world.log, "turn/end").map(({ data }) => data),
          [{ turn: 1, reason: ending }]
        )
      }
    })
  )

  it.scoped(
    "C08 R8 W09: before the first step nothing was claimed: the prompt is dropped with the rest, or still waits",
    () =>
      Effect.gen(function* () {
        for (const place of ["assembly", "hook"])
          for (const keepInbox of [false, true]) {
            const waiting = yield* door
            let isFirst = true
            const once = (name: string) =>
              Effect.suspend(() => {
                if (name !== place || !isFirst) return Effect.void
                isFirst = false
                return waiting.pass
              })
            const world = yield* World.make({
              scripts: [say("2")],
              sections: Effect.as(once("assembly"), []),
              hooks: { preStep: (_, messages) => Effect.as(once("hook"), { _tag: "Enter", messages } as const) }
            })
            const agent = yield* world.open()
            const id = yield* agent.followup("go")
            yield* waiting.entered
            const { dropped } = yield* agent.cancel("user", { keepInbox })
            assert.deepStrictEqual(dropped, keepInbox ? [] : [id])
            assert.strictEqual(yield* world.shorthand, keepInbox ? "in+ T<1 T>(aborted)" : "in+ T<1 in× T>(aborted)")
            assert.deepStrictEqual((yield* agent.pending).map(textOf), keepInbox ? ["go"] : [])
            assert.deepStrictEqual(yield* world.requests, [])
            assert.strictEqual(yield* agent.resume, keepInbox)
            yield* Effect.zipRight(agent.followup("next"), agent.idle)
            assert.deepStrictEqual(yield* inputs(world), keepInbox ? ["go", "next"] : ["next"])
          }
      })
  )

  it.scoped("C09: a subscriber that cancels at the start of the step leaves no header, and no request", () =>
    Effect.gen(function* () {
      const hook = yield* door
      const world = yield* World.make({
        scripts: [say("never")],
        hooks: { request: (_, config) => Effect.as(hook.pass, config) }
      })
      const agent = yield* world.open()
      yield* react(agent, (item) =>
        item.type === "event" && item.event.type === "step/start" ? agent.cancel("user") : Effect.void
      )
      yield* agent.followup("go")
      yield* hook.entered
      // the start of the step is told of once it is stored
      yield* TestClock.adjust(lingerMillis)
      yield* agent.idle
      assert.strictEqual(yield* world.shorthand, "in+ T<1 in- S<1 UM S>1 T>(aborted)")
      assert.deepStrictEqual(yield* world.requests, [])
    })
  )

  it.scoped("C13 O09: what the request-error hook decides after the cancel counts for nothing", () =>
    Effect.gen(function* () {
      const hook = yield* door
      const world = yield* World.make({
        scripts: [[send({ type: "text", index: 0, text: "lost" }), fail("SERVER")], say("never")],
        hooks: { requestError: () => Effect.as(Effect.uninterruptible(hook.pass), "retry" as const) }
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* hook.entered
      const cancel = yield* Effect.fork(agent.cancel("user"))
      yield* Effect.zipRight(others, hook.letGo)
      assert.deepInclude(yield* Fiber.join(cancel), { ending: { kind: "aborted" } })
      assert.strictEqual(yield* world.shorthand, "in+ T<1 in- S<1 UM RH(initial) ck S>1 T>(aborted)")
      assert.strictEqual((yield* world.requests).length, 1)
    })
  )

  it.scoped("C16 D02: an adapter that answers the cancel with an error of its own does not make the turn one", () =>
    Effect.gen(function* () {
      const cut = new ChatError({ reason: "TRANSPORT", message: "the socket was closed" })
      const reactions = [
        Effect.fail(cut),
        Effect.die(new Error("the socket was closed")),
        // and one that brings the rest of its answer instead
        Effect.succeed({ type: "text", index: 0, text: " and more" } as const)
      ]
      for (const reaction of reactions) {
        const stream = yield* door
        const world = yield* World.make({
          model: {
            stream: () =>
              Stream.concat(
                Stream.make({ type: "text", index: 0, text: "half" } as const),
                Stream.fromEffect(Effect.uninterruptible(Effect.zipRight(stream.pass, reaction)))
              )
          }
        })
        const agent = yield* world.open()
        const seen = yield* watch(agent)
        yield* agent.followup("go")
        yield* stream.entered
        const cancel = yield* Effect.fork(agent.cancel("user"))
        yield* Effect.zipRight(others, stream.letGo)
        assert.deepInclude(yield* Fiber.join(cancel), { _tag: "Settled", ending: { kind: "aborted" } })
        assert.match(yield* world.shorthand, /RH\(initial\) ck AM! S>1 T>\(aborted\)$/)
        assert.isFalse((yield* seen).some(({ type }) => type === "error"))
      }
    })
  )

  it.scoped("C12 R2 B03: cancelled in the stopping hook, the turn takes no further step, also where input waits", () =>
    Effect.gen(function* () {
      const hook = yield* door
      const world = yield* World.make({
        scripts: [say("whole"), say("never")],
        hooks: { stopping: () => Effect.uninterruptible(hook.pass) }
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* hook.entered
      yield* agent.inject("x")
      const cancel = yield* Effect.fork(agent.cancel("user", { keepInbox: true }))
      yield* Effect.zipRight(others, hook.letGo)
      assert.deepInclude(yield* Fiber.join(cancel), { _tag: "Settled", ending: { kind: "aborted" } })
      assert.match(yield* world.shorthand, /AM S>1 in\+ T>\(aborted\)$/)
      assert.deepStrictEqual((yield* agent.pending).map(textOf), ["x"])
    })
  )

  it.scoped("C14 law 5: a cancel of an agent that rests says nothing about the next turn, however often it came", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [call(["look", { id: "a" }]), say("1"), say("2")] })
      const agent = yield* world.open()
      for (const words of ["one", "two"]) {
        for (const keepInbox of [false, true])
          assert.deepStrictEqual(yield* agent.cancel("user", { keepInbox }), {
            _tag: "Idle",
            dropped: [],
            durable: true
          })
        yield* Effect.zipRight(agent.followup(words), agent.idle)
      }
      assert.deepStrictEqual(yield* endings(world), ["completed", "completed"])
    })
  )
})
