import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { HookFailed } from "../../src/agent/Hooks.ts"
import { JournalFull } from "../../src/domain/Errors.ts"
import { call, die, fail, say, send } from "../../src/model/ScriptedModel.ts"
import { Judgement } from "../../src/tool/Approvals.ts"
import { ToolHookError } from "../../src/tool/ToolHooks.ts"
import * as HeldJournal from "../support/HeldJournal.ts"
import { at, door, endings, react, watch } from "../support/Watching.ts"
import * as World from "../support/World.ts"

const full = new JournalFull({ file: "memory", cause: new Error("no space") })

describe("what can go wrong in a turn", () => {
  it.scoped("W19 A11 law 3: nothing that a composition does keeps a step or a turn from ending", () =>
    Effect.gen(function* () {
      const broken = Effect.die(new Error("it broke"))
      const hookFailed = Effect.fail(new HookFailed({ sessionId: World.id, hook: "stopping", detail: "no" }))
      const looking = [call(["look", { id: "a" }]), say("so")]
      const vetoes: ReadonlyArray<World.Options> = [
        { sections: broken },
        { hooks: { preStep: () => broken } },
        { hooks: { preStep: () => hookFailed } },
        { hooks: { preStep: () => Effect.succeed({ _tag: "Reject", message: "no" }) } },
        { hooks: { request: () => broken } },
        { hooks: { request: () => hookFailed } },
        { hooks: { requestError: () => broken }, scripts: [[fail("SERVER")]] },
        { hooks: { stopping: () => broken }, scripts: looking },
        { hooks: { stopping: () => hookFailed }, scripts: looking },
        { scripts: [[die(new Error("it broke"))]] },
        { scripts: looking, body: () => broken },
        { scripts: looking, toolHooks: { before: () => Effect.fail(new ToolHookError({ message: "no" })) } },
        { scripts: looking, toolHooks: { before: () => Effect.succeed(Judgement.Deny({ reason: "no" })) } },
        { scripts: looking, toolHooks: { after: () => broken } },
        { scripts: looking, approvals: { judge: () => broken } },
        { scripts: looking, onCall: () => broken },
        { scripts: looking, onSettingsRead: broken }
      ]
      for (const [index, options] of vetoes.entries()) {
        const world = yield* World.make(options)
        const agent = yield* world.open()
        yield* react(agent, () => Effect.die(new Error("a subscriber broke")))
        for (const turn of [1, 2]) {
          yield* Effect.zipRight(agent.followup(`go ${turn}`), agent.idle)
          assert.strictEqual((yield* endings(world)).length, turn, `${index}`)
        }
        const shorthand = yield* world.shorthand
        assert.strictEqual(shorthand.match(/S</g)?.length, shorthand.match(/S>/g)?.length, `${index}: ${shorthand}`)
      }
    })
  )

  it.scoped(
    "W19 law 10: where the end of a turn cannot be stored the session is broken, and says so to everybody",
    () =>
      Effect.gen(function* () {
        for (const isCancelled of [true, false]) {
          const answer = yield* door
          const journal = yield* HeldJournal.make
          const world = yield* World.make({ journal: journal.layer, scripts: [at(answer.pass), say("2")] })
          yield* Effect.scoped(
            Effect.gen(function* () {
              const agent = yield* world.open()
              const seen = yield* watch(agent)
              yield* agent.followup("go")
              yield* answer.entered
              const before = yield* world.shorthand
              journal.failWith(full)
              if (isCancelled)
                assert.deepInclude(yield* agent.cancel("user"), { _tag: "Settled", cause: "user", durable: false })
              yield* answer.letGo
              const { last } = yield* agent.idle
              assert.deepInclude(Option.getOrThrow(last), { turn: 1, durable: false })
              assert.deepStrictEqual(yield* agent.status, { _tag: "Broken" })
              for (const send of [agent.followup, agent.steer, agent.inject])
                assert.deepInclude(yield* Effect.flip(send("more")), { _tag: "SessionBroken", sessionId: World.id })
              assert.isTrue((yield* seen).some(({ type }) => type === "broken"))
              assert.isFalse((yield* seen).some(({ type }) => type === "ended"))
              assert.strictEqual(yield* world.shorthand, before)
            })
          )
          journal.recover()
          const agent = yield* world.open()
          yield* Effect.zipRight(agent.followup("go on"), agent.idle)
          assert.deepStrictEqual(yield* endings(world), ["interrupted", "completed"])
        }
      })
  )

  it.scoped(
    "W12 R11 law 5: a cancel from a subscriber, at whatever it is told of, cannot fail, and interrupts first",
    () =>
      Effect.gen(function* () {
        const types = [
          "agent/inbox/spliced",
          "turn/start",
          "claimed",
          "status",
          "step/start",
          "request/header",
          "delta",
          "assistant/message",
          "tool/call"
        ]
        for (const type of types) {
          const world = yield* World.make({
            scripts: [[send({ type: "text", index: 5, text: "well" }), ...call(["look", { id: "a" }])], say("never")],
            body: () => Effect.never
          })
          const agent = yield* world.open()
          const answered = yield* Deferred.make<string>()
          let isFirst = true
          const seen = yield* watch(agent, (item) => {
            const isIt = isFirst && (item.type === "event" ? item.event.type : item.type) === type
            if (!isIt) return Effect.void
            isFirst = false
            return Effect.flatMap(agent.inject("x"), () =>
              Effect.flatMap(agent.cancel("user"), ({ _tag }) => Deferred.succeed(answered, _tag))
            )
          })
          yield* agent.followup("go")
          assert.strictEqual(yield* Deferred.await(answered), "Settled", type)
          yield* agent.idle
          assert.deepStrictEqual(yield* endings(world), ["aborted"], type)
          assert.deepStrictEqual(yield* agent.pending, [], type)
          // what it dropped, if it found something, is told of after it
          const told = (yield* seen).filter((item) => item.type === "cancel" || item.type === "discarded")
          assert.strictEqual(told[0]?.type, "cancel", type)
          assert.isAtMost(told.length, 2, type)
        }
      })
  )

  it.scoped("W12 W13: a cancel during the disposal, and one whose drop cannot be stored, still stop the turn", () =>
    Effect.gen(function* () {
      const journal = yield* HeldJournal.make
      let stopped = 0
      const body = yield* door
      const world = yield* World.make({
        journal: journal.layer,
        scripts: [call(["look", { id: "a" }])],
        body: () => Effect.onInterrupt(Effect.zipRight(body.pass, Effect.never), () => Effect.sync(() => stopped++))
      })
      const scope = yield* Scope.make()
      const agent = yield* Scope.extend(world.open(), scope)
      yield* agent.followup("go")
      yield* Effect.zipRight(body.entered, body.letGo)
      yield* agent.followup("waits")
      journal.failWith(full)
      const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
      assert.deepInclude(yield* agent.cancel("user"), { durable: false })
      yield* Fiber.join(closing)
      assert.strictEqual(stopped, 1)
      journal.recover()
      const next = yield* world.open()
      assert.deepInclude(yield* next.idle, { parked: 1 })
      assert.deepStrictEqual(yield* endings(world), ["interrupted"])
    })
  )
})
