import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import { textOf } from "../../src/domain/Message.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import { call, say } from "../../src/model/ScriptedModel.ts"
import * as Approvals from "../../src/tool/Approvals.ts"
import { Judgement } from "../../src/tool/Approvals.ts"
import * as Approver from "../../src/tool/Approver.ts"
import { Answer } from "../../src/tool/Approver.ts"
import { asked, followedBy, logOf, placed, said, stateOf, stepAsking, turnStart } from "../support/Facts.ts"
import { door, endings, of, others, results, watch } from "../support/Watching.ts"
import * as World from "../support/World.ts"

const look = (...ids: ReadonlyArray<string>) => ids.map((id) => ["look", { id }] as const)
const touch = (...ids: ReadonlyArray<string>) => ids.map((id) => ["touch", { id }] as const)
const allow = Approvals.Judgement.Allow()

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
            judge: () =>
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
          toolHooks: { before: () => Effect.as(Effect.uninterruptible(hook.pass), Judgement.Allow()) },
          approvals: {
            judge: ({ callId }) =>
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
        approvals: { judge: () => Effect.flatMap(Effect.forkDaemon(Effect.as(question.pass, allow)), Fiber.join) },
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
            judge: () =>
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

/** An approver that answers by the id that a call is about. */
const answering = (answers: Record<string, Approver.Answerer["ask"]>): Approver.Answerer => ({
  ask: (question) =>
    Effect.suspend(() => {
      const { arguments: args } = question.call
      const id = Predicate.hasProperty(args, "id") ? String(args.id) : ""
      return (answers[id] ?? (() => Effect.succeed(Answer.AllowOnce())))(question)
    })
})

/** How the questions of a log were decided, by call. */
const decisions = (world: World.World) =>
  Effect.map(world.log, (log) => of(log, "approval/decided").map(({ data }) => `${data.callId} ${data.decision}`))

describe("a question about a call", () => {
  it.scoped("F04 R3: asked and decided are a pair in the log, and the body begins once that is durable", () =>
    Effect.gen(function* () {
      const durable: Array<string> = []
      const world: World.World = yield* World.make({
        scripts: [call(...touch("a")), say("done")],
        approver: answering({}),
        body: () =>
          Effect.map(world.shorthand, (log) => {
            durable.push(log)
            return "ran"
          })
      })
      const agent = yield* world.open()
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      assert.match(durable[0] ?? "", /TC\(c0\) AA AD$/)
      assert.match(yield* world.shorthand, /TC\(c0\) AA AD TR\(c0\) S>1/)
      assert.deepStrictEqual(yield* decisions(world), ["t1s1c0 allowed-once"])
    })
  )

  it.scoped(
    "F05 F06 O-K11: rejected, unanswered, failed and senseless answers deny, each with a reason of its own",
    () =>
      Effect.gen(function* () {
        const world = yield* World.make({
          scripts: [call(...touch("no", "why", "nobody", "broken", "dead", "odd", "itself")), say("done")],
          approver: answering({
            no: () => Effect.succeed(Answer.Reject({})),
            why: () => Effect.succeed(Answer.Reject({ reason: "not on Sundays" })),
            nobody: () => Effect.fail(new Approver.ApproverUnavailable({ message: "all have gone home" })),
            broken: () => Effect.die("the screen is black"),
            dead: () => Effect.sync(() => assert.fail("thrown")),
            // out of the vocabulary: what a program without types may answer
            odd: () => Effect.succeed({ _tag: "Maybe" } as unknown as Approver.Answer),
            itself: () => Effect.interrupt
          }),
          body: () => Effect.die("it must not run")
        })
        const agent = yield* world.open()
        yield* Effect.zipRight(agent.followup("go"), agent.idle)
        const told = yield* results(world)
        assert.deepStrictEqual(new Set(told.map(({ code }) => code)), new Set(["TOOL_DENIED"]))
        assert.strictEqual(new Set(told.map(({ text }) => text)).size, told.length)
        for (const [index, words] of [
          /^Error: this call needed approval, and was rejected$/,
          /rejected: not on Sundays$/,
          /nobody could give it: all have gone home$/,
          /nobody could give it: the screen is black$/,
          /nobody could give it: thrown$/,
          /the answer was none that is known$/,
          /interrupted from inside/
        ].entries())
          assert.match(told[index]?.text ?? "", words)
        assert.deepStrictEqual(
          (yield* decisions(world)).map((decision) => decision.split(" ")[1]),
          ["rejected", "rejected", "unavailable", "unavailable", "unavailable", "unavailable", "unavailable"]
        )
        assert.deepStrictEqual(yield* endings(world), ["completed"])
      })
  )

  it.scoped("F05 F06: without anybody to ask, or where all is rejected, the pair is logged and nobody waits", () =>
    Effect.gen(function* () {
      for (const [approver, decision] of [
        [Layer.empty, "unavailable"],
        [Approver.layerReject, "rejected"]
      ] as const) {
        const answerer = yield* Effect.provide(Approver.Approver, approver)
        const world = yield* World.make({ scripts: [call(...touch("a")), say("done")], approver: answerer })
        const agent = yield* world.open()
        yield* Effect.zipRight(agent.followup("go"), agent.idle)
        assert.match(yield* world.shorthand, /TC\(c0\) AA AD TR\(c0\)/)
        assert.deepStrictEqual(yield* decisions(world), [`t1s1c0 ${decision}`])
      }
    })
  )

  it.scoped("W14: one that waits holds no other call of its group up, whatever the limit is", () =>
    Effect.gen(function* () {
      for (const limit of [1, 2]) {
        const question = yield* door
        let running = 0
        let most = 0
        const world = yield* World.make({
          scripts: [call(...look("wait", "a", "b", "late", "c")), say("done")],
          settings: { "agent-loop": { maxParallelToolCalls: limit } },
          approver: answering({
            wait: () => Effect.as(question.pass, Answer.AllowOnce()),
            late: () => Effect.as(question.pass, Answer.AllowOnce())
          }),
          body: (id) =>
            Effect.acquireUseRelease(
              Effect.sync(() => {
                running++
                most = Math.max(most, running)
              }),
              () => Effect.as(Effect.yieldNow(), id),
              () => Effect.sync(() => running--)
            )
        })
        const agent = yield* world.open()
        yield* agent.followup("go")
        yield* Effect.zipRight(question.entered, others)
        const settled = of(yield* world.log, "tool/settled").map(({ data }) => data.callId)
        assert.deepStrictEqual(settled, ["t1s1c1", "t1s1c2", "t1s1c4"])
        yield* Effect.zipRight(question.letGo, agent.idle)
        // those that were allowed waited for a slot
        assert.strictEqual(most, limit)
        assert.deepStrictEqual(
          (yield* results(world)).map(({ text }) => text),
          ["wait", "a", "b", "late", "c"]
        )
      }
    })
  )

  it.scoped("F04 law 1: a tool that was allowed for the session is not asked about again, also by its next owner", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      const world = yield* World.make({
        scripts: [call(...touch("a", "b")), call(...look("c")), say("1"), call(...touch("d")), say("2")],
        approver: {
          ask: ({ call: { callId } }) =>
            Effect.sync(() => {
              asked.push(callId)
              return Answer.AllowAlways()
            })
        }
      })
      yield* Effect.scoped(Effect.flatMap(world.open(), (agent) => Effect.zipRight(agent.followup("go"), agent.idle)))
      assert.deepStrictEqual(asked, ["t1s1c0", "t1s2c0"])
      const agent = yield* world.open()
      yield* Effect.zipRight(agent.followup("again"), agent.idle)
      assert.deepStrictEqual(asked, ["t1s1c0", "t1s2c0"])
      assert.strictEqual((yield* results(world)).filter(({ code }) => code === undefined).length, 4)
    })
  )

  it.scoped(
    "O-K10 W22: a cancel takes the question back, closes the pair once, and a late answer changes nothing",
    () =>
      Effect.gen(function* () {
        const question = yield* door
        let taken = 0
        const world = yield* World.make({
          scripts: [call(...look("a", "b")), say("2")],
          approver: {
            ask: () =>
              // a screen that cannot be taken back: the question outlives its asker
              Effect.flatMap(Effect.forkDaemon(Effect.as(question.pass, Answer.AllowAlways())), Fiber.join).pipe(
                Effect.onInterrupt(() => Effect.sync(() => taken++))
              )
          },
          body: () => Effect.die("it must not run")
        })
        const agent = yield* world.open()
        const items = yield* watch(agent)
        yield* agent.followup("go")
        yield* Effect.zipRight(question.entered, others)
        yield* agent.cancel("user")
        assert.strictEqual(taken, 2)
        assert.deepStrictEqual(yield* decisions(world), ["t1s1c0 canceled", "t1s1c1 canceled"])
        const log = yield* world.shorthand
        yield* Effect.zipRight(question.letGo, others)
        assert.strictEqual(yield* world.shorthand, log)
        const told = (yield* items).filter((item) => item.type === "event" && item.event.type === "approval/decided")
        assert.strictEqual(told.length, 2)
        yield* Effect.zipRight(agent.followup("go on"), agent.idle)
        assert.deepStrictEqual(yield* endings(world), ["aborted", "completed"])
      })
  )

  it.scoped(
    "R6 law 10: where another call of the group breaks, it is taken back, and no result is made up for its call",
    () =>
      Effect.gen(function* () {
        const question = yield* door
        const world = yield* World.make({
          scripts: [call(...look("wait", "breaks")), say("2")],
          approvals: {
            judge: ({ callId }) =>
              Effect.succeed(callId.endsWith("c0") ? Approvals.Judgement.Ask({}) : Approvals.Judgement.Allow())
          },
          approver: { ask: () => Effect.as(question.pass, Answer.AllowOnce()) },
          // a fault of the pipeline itself, once the question stands
          onCall: (block) =>
            block.callId.endsWith("c1") ? Effect.zipRight(question.entered, Effect.die("broken")) : Effect.void,
          body: () => Effect.die("it must not run")
        })
        const agent = yield* world.open()
        yield* Effect.zipRight(agent.followup("go"), agent.idle)
        assert.deepStrictEqual(yield* decisions(world), ["t1s1c0 canceled"])
        assert.deepStrictEqual(yield* results(world), [])
        assert.deepStrictEqual(yield* endings(world), ["error"])
        yield* Effect.zipRight(agent.followup("go on"), agent.idle)
        const answers = (yield* world.requests).at(-1)?.messages.filter(({ role }) => role === "tool") ?? []
        // asked about and not allowed: it never ran. Of the other one that is not known
        assert.match(textOf(answers[0] ?? assert.fail("no answer")), /never started/)
        assert.match(textOf(answers[1] ?? assert.fail("no answer")), /outcome unknown/)
      })
  )

  it.scoped(
    "F02: a hook may have a call asked about that the approval allows, and refuse one before anybody is asked",
    () =>
      Effect.gen(function* () {
        const seen: Array<string> = []
        const world = yield* World.make({
          scripts: [call(...look("ask", "deny", "pass")), say("done")],
          toolHooks: {
            before: ({ arguments: args }) => {
              const id = Predicate.hasProperty(args, "id") ? args.id : ""
              if (id === "ask") return Effect.succeed(Approvals.Judgement.Ask({ reason: "it looks odd" }))
              return Effect.succeed(
                id === "deny" ? Approvals.Judgement.Deny({ reason: "no" }) : Approvals.Judgement.Allow()
              )
            }
          },
          approvals: { judge: () => Effect.succeed(Approvals.Judgement.Allow()) },
          approver: {
            ask: ({ call: { callId }, reason }) =>
              Effect.sync(() => {
                seen.push(`${callId} ${reason}`)
                return Answer.AllowOnce()
              })
          }
        })
        const agent = yield* world.open()
        yield* Effect.zipRight(agent.followup("go"), agent.idle)
        assert.deepStrictEqual(seen, ["t1s1c0 it looks odd"])
        assert.deepStrictEqual(
          (yield* results(world)).map(({ code }) => code),
          [undefined, "TOOL_DENIED", undefined]
        )
      })
  )

  it("F08: outside of an open call it cannot stand in a log", () => {
    for (const log of [[], logOf(turnStart(1)), followedBy(stepAsking(said("p", "go")))]) {
      const asking = SessionState.fold(placed([asked([1, 1, 0])], log), stateOf(log))
      assert.isTrue(Either.isLeft(asking))
    }
  })
})
