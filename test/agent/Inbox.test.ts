import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Agent } from "../../src/agent/Agent.ts"
import { MessageId } from "../../src/domain/Ids.ts"
import { textOf } from "../../src/domain/Message.ts"
import { call, fail, type Script, say, send, wait } from "../../src/model/ScriptedModel.ts"
import { endings, inputs, stillWait } from "../support/Watching.ts"
import * as World from "../support/World.ts"

/** An answer that tells when it streams, and goes on when it is let go. */
const paused = Effect.map(Effect.all([Deferred.make<void>(), Deferred.make<void>()]), ([streaming, gate]) => {
  const script: Script = [
    send({ type: "text", index: 0, text: "well" }),
    wait(Effect.zipRight(Deferred.succeed(streaming, undefined), Deferred.await(gate))),
    send({ type: "finish", reason: "stop" })
  ]
  return { script, streaming: Deferred.await(streaming), letGo: Deferred.succeed(gate, undefined) }
})

describe("the inbox", () => {
  it.scoped("B01 B02: injected input waits for a prompt, and enters before it", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [say("ok")] })
      const agent = yield* world.open()
      yield* agent.inject("x")
      assert.strictEqual(yield* world.shorthand, "in+")
      assert.deepStrictEqual(yield* agent.status, { _tag: "Idle", parked: 0 })
      assert.deepStrictEqual((yield* agent.pending).map(textOf), ["x"])
      yield* Effect.zipRight(agent.followup("p"), agent.idle)
      assert.match(yield* world.shorthand, /^in\+ in\+ T<1 in- in- S<1 UM UM/)
      assert.deepStrictEqual(yield* inputs(world), ["x", "p"])
    })
  )

  it.scoped("B03: steering or injecting while the last text streams keeps the turn going", () =>
    Effect.gen(function* () {
      for (const kind of ["steer", "inject"] as const) {
        const pause = yield* paused
        const world = yield* World.make({ scripts: [pause.script, say("steered")] })
        const agent = yield* world.open()
        yield* agent.followup("p")
        yield* pause.streaming
        yield* agent[kind]("s")
        yield* pause.letGo
        yield* agent.idle
        assert.match(yield* world.shorthand, /S>1 in- S<2 UM ck AM S>2 T>\(completed\)$/)
      }
    })
  )

  it.scoped("B04 B05: a prompt waits for the turn to end; inner boundaries take next-step input only", () =>
    Effect.gen(function* () {
      const pause = yield* paused
      const world = yield* World.make({ scripts: [pause.script, say("2"), say("3")] })
      const agent = yield* world.open()
      yield* agent.followup("p1")
      yield* pause.streaming
      yield* agent.followup("p2")
      yield* agent.inject("x")
      yield* agent.steer("y")
      yield* pause.letGo
      yield* agent.idle
      assert.deepStrictEqual(yield* inputs(world), ["p1", "x", "y", "p2"])
      assert.deepStrictEqual(yield* endings(world), ["completed", "completed"])
    })
  )

  it.scoped("B06: removing writes one splice, and only once", () =>
    Effect.gen(function* () {
      const world = yield* World.make({})
      const agent = yield* world.open()
      const id = yield* agent.inject("x")
      assert.isTrue(yield* agent.remove(id))
      assert.isFalse(yield* agent.remove(id))
      assert.strictEqual(yield* world.shorthand, "in+ in×")
    })
  )

  it.scoped("B08: an id that waits is not accepted again, and nothing is written", () =>
    Effect.gen(function* () {
      const world = yield* World.make({})
      const agent = yield* world.open()
      const id = MessageId.make("mine")
      yield* agent.inject({ id, text: "x" })
      const error = yield* Effect.flip(agent.followup({ id, text: "y" }))
      assert.strictEqual(error._tag, "InvalidMessage")
      assert.strictEqual(yield* world.shorthand, "in+")
    })
  )

  it.scoped(
    "B08 law 7: an id is accepted once in a session, also after its turn and after a restore; ours are nobody's to choose",
    () =>
      Effect.gen(function* () {
        const world = yield* World.make({ scripts: [say("ok")] })
        const input = { id: MessageId.make("mine"), text: "x" }
        yield* Effect.scoped(
          Effect.gen(function* () {
            const agent = yield* world.open()
            yield* Effect.zipRight(agent.followup(input), agent.idle)
            assert.deepInclude(yield* Effect.flip(agent.followup(input)), { reason: "used-id" })
          })
        )
        const agent = yield* world.open()
        assert.deepInclude(yield* Effect.flip(agent.steer(input)), { reason: "used-id" })
        const ours = { id: MessageId.make("t7s1"), text: "x" }
        assert.deepInclude(yield* Effect.flip(agent.inject(ours)), { reason: "used-id" })
        for (const id of ["", "x\ud800"])
          assert.deepInclude(yield* Effect.flip(agent.inject({ id: id as MessageId, text: "x" })), { reason: "bad-id" })
        assert.strictEqual((yield* world.requests).length, 1)
      })
  )

  it.scoped("an empty message and one over 4 MiB are refused, half pairs and NULs become U+FFFD", () =>
    Effect.gen(function* () {
      const world = yield* World.make({})
      const agent = yield* world.open()
      assert.deepInclude(yield* Effect.flip(agent.followup("  \n")), { _tag: "InvalidMessage", reason: "empty" })
      const large = yield* Effect.flip(agent.inject("x".repeat(4 * 1024 * 1024 + 1)))
      assert.deepInclude(large, { _tag: "InvalidMessage", reason: "too-large" })
      yield* agent.inject("a\0b\uD83Dc")
      assert.deepStrictEqual((yield* agent.pending).map(textOf), ["a\uFFFDb\uFFFDc"])
    })
  )

  it.scoped("B16: a cancel that keeps the inbox parks it; the next waking send runs it first", () =>
    Effect.gen(function* () {
      const pause = yield* paused
      const world = yield* World.make({ scripts: [pause.script, say("2"), say("3"), say("4")] })
      const agent = yield* world.open()
      yield* agent.followup("p1")
      yield* pause.streaming
      yield* agent.followup("p2")
      yield* agent.cancel("user", { keepInbox: true })
      assert.deepInclude(yield* agent.idle, { parked: 1 })
      yield* Effect.zipRight(agent.followup("p3"), agent.idle)
      assert.deepStrictEqual(yield* inputs(world), ["p1", "p2", "p3"])
      assert.deepStrictEqual(yield* endings(world), ["aborted", "completed", "completed"])
    })
  )

  it.scoped("B09 C14 O-L2: what comes after a cancel runs, what waited before it does not", () =>
    Effect.gen(function* () {
      const holding = yield* Deferred.make<void>()
      const gate = yield* Deferred.make<void>()
      const world = yield* World.make({
        scripts: [call(["finish", { id: "a" }]), say("B done")],
        body: () => Effect.as(Effect.zipRight(Deferred.succeed(holding, undefined), Deferred.await(gate)), "a")
      })
      const agent = yield* world.open()
      yield* agent.followup("p1")
      yield* Deferred.await(holding)
      yield* agent.followup("A")
      const cancel = yield* Effect.fork(agent.cancel("user"))
      yield* Effect.yieldNow()
      yield* agent.followup("B")
      yield* Deferred.succeed(gate, undefined)
      const cancelled = yield* Fiber.join(cancel)
      assert.strictEqual(cancelled.dropped.length, 1)
      yield* agent.idle
      assert.deepStrictEqual(yield* inputs(world), ["p1", "B"])
      assert.deepStrictEqual(yield* endings(world), ["aborted", "completed"])
    })
  )

  it.scoped("C01 C02 R11: a cancel while idle drops what waits, or keeps it, and arms nothing", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [say("ok")] })
      const agent = yield* world.open()
      assert.deepStrictEqual(yield* agent.cancel("user"), { _tag: "Idle", dropped: [], durable: true })
      assert.strictEqual(yield* world.shorthand, "")
      const kept = yield* agent.inject("x")
      assert.deepStrictEqual((yield* agent.cancel("user", { keepInbox: true })).dropped, [])
      assert.deepStrictEqual((yield* agent.cancel("user")).dropped, [kept])
      assert.strictEqual(yield* world.shorthand, "in+ in×")
      yield* Effect.zipRight(agent.followup("p"), agent.idle)
      assert.deepStrictEqual(yield* endings(world), ["completed"])
    })
  )

  it.scoped("R9: after an error prompts are parked, and the next waking send runs them first", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [[fail("QUOTA")], say("2"), say("3")] })
      const agent = yield* world.open()
      yield* Effect.all([agent.followup("p1"), agent.followup("p2")], { concurrency: 2 })
      assert.deepInclude(yield* agent.idle, { parked: 1 })
      yield* Effect.zipRight(agent.followup("p3"), agent.idle)
      assert.deepStrictEqual(yield* inputs(world), ["p1", "p2", "p3"])
    })
  )

  it.scoped("B21 R9 law 7: after a restore what waited still waits, nothing runs by itself, and resume runs it", () =>
    Effect.gen(function* () {
      const pause = yield* paused
      const world = yield* World.make({ scripts: [pause.script, say("2"), say("3")] })
      const scope = yield* Scope.make()
      const first = yield* Scope.extend(world.open(), scope)
      yield* first.followup("p1")
      yield* pause.streaming
      yield* first.followup("p2")
      yield* first.inject("x")
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(yield* endings(world), ["aborted"])
      const second = yield* world.open()
      assert.deepInclude(yield* second.idle, { parked: 1 })
      assert.deepStrictEqual((yield* second.pending).map(textOf), ["x", "p2"])
      assert.strictEqual((yield* world.requests).length, 1)
      assert.isTrue(yield* second.resume)
      yield* second.idle
      assert.deepStrictEqual(yield* inputs(world), ["p1", "x", "p2"])
      assert.isFalse(yield* second.resume)
    })
  )

  it.scoped("W11 R10: no send is accepted and forgotten, wherever it falls around the end of a turn", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: Array.from({ length: 80 }, () => say("ok")) })
      const agent = yield* world.open()
      for (let delay = 0; delay < 40; delay++) {
        yield* agent.followup(`first ${delay}`)
        yield* Effect.replicateEffect(Effect.yieldNow(), delay)
        yield* agent.followup(`second ${delay}`)
        yield* agent.idle
      }
      assert.strictEqual((yield* inputs(world)).length, 80)
      assert.deepStrictEqual(yield* agent.pending, [])
    })
  )

  it.scoped("W18: a subscriber that sends while an event is told of is heard", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [say("1"), say("2")] })
      const agent = yield* world.open()
      const subscribed = yield* Deferred.make<void>()
      const sender = yield* agent.events.pipe(
        Stream.onStart(Deferred.succeed(subscribed, undefined)),
        Stream.filter((item) => item.type === "event" && item.event.type === "turn/end"),
        Stream.take(1),
        Stream.runForEach(() => agent.followup("from the subscriber")),
        Effect.fork
      )
      yield* Deferred.await(subscribed)
      yield* Effect.yieldNow()
      yield* agent.followup("p1")
      yield* Fiber.join(sender)
      yield* agent.idle
      assert.deepStrictEqual(yield* inputs(world), ["p1", "from the subscriber"])
    })
  )

  it.scoped("O-A10 I07: a subscriber that fails or dies hurts nobody", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [call(["look", { id: "a" }]), say("2")] })
      const agent = yield* world.open()
      const subscribed = yield* Deferred.make<void>()
      const others = yield* Effect.fork(
        agent.events.pipe(
          Stream.takeUntil((item) => item.type === "ended"),
          Stream.runCount
        )
      )
      const broken = yield* agent.events.pipe(
        Stream.onStart(Deferred.succeed(subscribed, undefined)),
        Stream.runForEach(() => Effect.die(new Error("observer broke"))),
        Effect.exit,
        Effect.fork
      )
      yield* Deferred.await(subscribed)
      yield* Effect.yieldNow()
      yield* Effect.zipRight(agent.followup("p1"), agent.idle)
      assert.isTrue(Exit.isFailure(yield* Fiber.join(broken)))
      assert.isAbove(yield* Fiber.join(others), 5)
      assert.match(yield* world.shorthand, /TR\(c0\).*T>\(completed\)$/)
    })
  )

  it.scoped("Q05: an open during the teardown of a turn waits until that has settled", () =>
    Effect.gen(function* () {
      const running = yield* Deferred.make<void>()
      const gate = yield* Deferred.make<void>()
      const world = yield* World.make({
        scripts: [call(["look", { id: "slow to stop" }])],
        body: () =>
          Effect.onInterrupt(Effect.zipRight(Deferred.succeed(running, undefined), Effect.never), () =>
            Deferred.await(gate)
          )
      })
      const scope = yield* Scope.make()
      const agent = yield* Scope.extend(world.open(), scope)
      yield* agent.followup("go")
      yield* Deferred.await(running)
      const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* Effect.replicateEffect(Effect.yieldNow(), 5)
      const second = yield* Effect.fork(world.open())
      yield* stillWait([second])
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(closing)
      assert.deepStrictEqual(yield* Effect.flatMap(Fiber.join(second), (again) => again.status), {
        _tag: "Idle",
        parked: 0
      })
      assert.isFalse(yield* agent.remove(MessageId.make("none")))
      assert.deepStrictEqual(yield* agent.cancel("user"), { _tag: "Idle", dropped: [], durable: true })
    })
  )

  it.scoped("B14 Q09 W13: once disposal has begun no turn starts, and sends fail", () =>
    Effect.gen(function* () {
      const pause = yield* paused
      const world = yield* World.make({ scripts: [pause.script, say("never")] })
      const scope = yield* Scope.make()
      const agent: Agent = yield* Scope.extend(world.open(), scope)
      yield* agent.followup("p1")
      yield* pause.streaming
      yield* agent.followup("p2")
      yield* Scope.close(scope, Exit.void)
      const error = yield* Effect.flip(agent.followup("p3"))
      assert.strictEqual(error._tag, "AgentDisposed")
      assert.deepStrictEqual(yield* agent.status, { _tag: "Disposed" })
      assert.deepStrictEqual(yield* endings(world), ["aborted"])
      assert.strictEqual((yield* world.requests).length, 1)
      const report = yield* agent.idle
      assert.strictEqual(Option.getOrUndefined(report.last)?.cause, "disposed")
    })
  )
})
