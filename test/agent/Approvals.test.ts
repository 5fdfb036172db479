import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { call, say } from "../../src/model/ScriptedModel.ts"
import * as Approvals from "../../src/tool/Approvals.ts"
import { Before } from "../../src/tool/ToolHooks.ts"
import { door, endings, others, results, watch } from "../support/Watching.ts"
import * as World from "../support/World.ts"

const look = (...ids: ReadonlyArray<string>) => ids.map((id) => ["look", { id }] as const)
const touch = (...ids: ReadonlyArray<string>) => ids.map((id) => ["touch", { id }] as const)
const allow = Approvals.Decision.Allowed()

describe("approvals of a cancelled turn", () => {
  it.scoped("O-K9: a cancel interrupts the question that waits, and no other is asked", () =>
    Effect.gen(function* () {
      for (const [calls, questions] of [
        [touch("a", "b", "c"), 1],
        [look("a", "b", "c", "d"), 2]
      ] as const) {
        const question = yield* door
        const seen = { asked: 0, interrupted: 0, ran: 0 }
        const world = yield* World.make({
          scripts: [call(...calls)],
          settings: { "agent-loop": { maxParallelToolCalls: 2 } },
          approvals: {
            decide: () =>
              Effect.sync(() => seen.asked++).pipe(
                Effect.zipRight(question.pass),
                Effect.as(allow),
                Effect.onInterrupt(() => Effect.sync(() => seen.interrupted++))
              )
          },
          body: () => Effect.sync(() => String(seen.ran++))
        })
        const agent = yield* world.open()
        yield* agent.followup("go")
        yield* Effect.zipRight(question.entered, others)
        assert.deepInclude(yield* agent.cancel("user"), { _tag: "Settled", durable: true })
        yield* Effect.zipRight(question.letGo, others)
        assert.deepStrictEqual(seen, { asked: questions, interrupted: questions, ran: 0 })
        assert.deepStrictEqual(
          (yield* results(world)).map(({ code }) => code),
          calls.map(() => "TOOL_ABORTED_BEFORE_DISPATCH")
        )
      }
    })
  )

  it.scoped(
    "O-K14 law 5: nobody is asked about a call of a turn that was cancelled, and the next turn asks and goes on",
    () =>
      Effect.gen(function* () {
        const hook = yield* door
        const asked: Array<string> = []
        const world = yield* World.make({
          scripts: [call(...touch("a", "b")), call(...touch("c")), say("done")],
          // it ignores the cancel, and then lets the call go on
          toolHooks: { before: () => Effect.as(Effect.uninterruptible(hook.pass), Before.Allow()) },
          approvals: {
            decide: ({ callId }) =>
              Effect.as(
                Effect.sync(() => asked.push(callId)),
                allow
              )
          }
        })
        const agent = yield* world.open()
        yield* agent.followup("go")
        yield* hook.entered
        const cancel = yield* Effect.fork(agent.cancel("user"))
        yield* Effect.zipRight(others, hook.letGo)
        yield* Fiber.join(cancel)
        assert.deepStrictEqual(asked, [])
        yield* Effect.zipRight(agent.followup("go on"), agent.idle)
        assert.deepStrictEqual(asked, ["t2s1c0"])
        assert.deepStrictEqual(yield* endings(world), ["aborted", "completed"])
      })
  )

  it.scoped("R4 law 5: an answer that comes after the cancel changes nothing, also where its question goes on", () =>
    Effect.gen(function* () {
      const question = yield* door
      let ran = 0
      const world = yield* World.make({
        scripts: [call(...touch("a", "b")), say("2")],
        // a screen that cannot be taken back: the question outlives its asker
        approvals: { decide: () => Effect.flatMap(Effect.forkDaemon(Effect.as(question.pass, allow)), Fiber.join) },
        body: () => Effect.sync(() => String(ran++))
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* question.entered
      yield* agent.cancel("user")
      const log = yield* world.shorthand
      yield* Effect.zipRight(question.letGo, others)
      assert.strictEqual(yield* world.shorthand, log)
      assert.strictEqual(ran, 0)
      yield* Effect.zipRight(agent.followup("go on"), agent.idle)
      assert.deepStrictEqual(yield* endings(world), ["aborted", "completed"])
    })
  )

  it.scoped(
    "O-K11 law 5: a message while an approval waits leaves the question alone; it is asked once and its answer counts",
    () =>
      Effect.gen(function* () {
        const question = yield* door
        const seen = { asked: 0, interrupted: 0 }
        const world = yield* World.make({
          scripts: [call(...touch("a")), say("so"), say("2")],
          approvals: {
            decide: () =>
              Effect.sync(() => seen.asked++).pipe(
                Effect.zipRight(question.pass),
                Effect.as(allow),
                Effect.onInterrupt(() => Effect.sync(() => seen.interrupted++))
              )
          }
        })
        const agent = yield* world.open()
        const items = yield* watch(agent)
        yield* agent.followup("go")
        yield* question.entered
        for (const send of [agent.steer, agent.inject, agent.followup]) yield* send("meanwhile")
        yield* Effect.zipRight(others, question.letGo)
        yield* agent.idle
        assert.deepStrictEqual(seen, { asked: 1, interrupted: 0 })
        assert.deepStrictEqual(yield* results(world), [{ code: undefined, text: "did a", late: false }])
        const told = (yield* items).filter((item) => item.type === "event" && item.event.type === "tool/result")
        assert.strictEqual(told.length, 1)
      })
  )
})
