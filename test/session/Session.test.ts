import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { JournalFull } from "../../src/domain/Errors.ts"
import type { SessionEvent } from "../../src/domain/Event.ts"
import { CallId, MessageId, SessionId } from "../../src/domain/Ids.ts"
import { text } from "../../src/domain/Message.ts"
import type { FeedItem } from "../../src/domain/Notice.ts"
import { requestMessages } from "../../src/domain/SessionState.ts"
import { call, type Script, say, send, wait } from "../../src/model/ScriptedModel.ts"
import * as Feed from "../../src/session/Feed.ts"
import * as HeldJournal from "../support/HeldJournal.ts"
import * as World from "../support/World.ts"

const full = new JournalFull({ file: "memory", cause: new Error("no space") })

const injected = (n: number): SessionEvent => ({
  type: "agent/inbox/spliced",
  data: {
    target: "next-step",
    start: n,
    inserted: [{ id: MessageId.make(`m${n}`), role: "user", source: { kind: "inject" }, content: [text(`${n}`)] }]
  }
})

const acquire = (world: World.World, id = World.id) =>
  world.sessions.acquire(id, { cwd: "/workspace", create: "if-absent" })

describe("a session", () => {
  it.scoped("R3 J17: no request is made before everything up to it is durable", () =>
    Effect.gen(function* () {
      const held = yield* HeldJournal.make
      const world = yield* World.make({ journal: held.layer, scripts: [say("ok")] })
      const agent = yield* world.open()
      yield* held.gate.close
      const sending = yield* Effect.fork(agent.followup("go"))
      yield* Effect.replicateEffect(Effect.yieldNow(), 50)
      assert.deepStrictEqual(yield* world.requests, [])
      assert.isTrue(Option.isNone(yield* Fiber.poll(sending)))
      yield* held.gate.open
      yield* Fiber.join(sending)
      yield* agent.idle
      assert.strictEqual((yield* world.requests).length, 1)
    })
  )

  it.scoped(
    "law 6 W01 J18: no body runs before its call is durable, and a cancel meanwhile leaves it undispatched",
    () =>
      Effect.gen(function* () {
        const ran = yield* Ref.make(false)
        const held = yield* HeldJournal.make
        const world = yield* World.make({
          journal: held.layer,
          // the writes stop right after the request was sent
          scripts: [[wait(held.gate.close), ...call(["look", { id: "a" }])]],
          body: () => Effect.as(Ref.set(ran, true), "ran")
        })
        const agent = yield* world.open()
        yield* agent.followup("go")
        yield* Effect.replicateEffect(Effect.yieldNow(), 100)
        assert.isFalse(yield* Ref.get(ran))
        const cancel = yield* Effect.fork(agent.cancel("user"))
        yield* Effect.yieldNow()
        yield* held.gate.open
        yield* Fiber.join(cancel)
        assert.isFalse(yield* Ref.get(ran))
        const results = (yield* world.log).flatMap((event) =>
          event.type === "tool/result" ? [event.data.error?.code] : []
        )
        assert.deepStrictEqual(results, ["TOOL_ABORTED_BEFORE_DISPATCH"])
      })
  )

  it.scoped("J19: the next request leaves only once the last step's answer and results are durable", () =>
    Effect.gen(function* () {
      const held = yield* HeldJournal.make
      const stored = yield* Ref.make("")
      const look = Effect.flatMap(
        Effect.suspend(() => world.shorthand),
        (log) => Ref.set(stored, log)
      )
      const world: World.World = yield* World.make({
        journal: held.layer,
        scripts: [call(["look", { id: "a" }]), [wait(look), ...say("ok")]]
      })
      const agent = yield* world.open()
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      assert.match(yield* Ref.get(stored), /AM TC\(c0\) TR\(c0\) S>1 S<2$/)
    })
  )

  it.scoped(
    "A failed write breaks the session: nothing more is dispatched, bodies stop, cancel and idle still answer (O-A7 W16)",
    () =>
      Effect.gen(function* () {
        const running = yield* Deferred.make<void>()
        const stopped = yield* Ref.make(false)
        const held = yield* HeldJournal.make
        const world = yield* World.make({
          journal: held.layer,
          scripts: [call(["look", { id: "stuck" }]), say("later")],
          body: () =>
            Effect.onInterrupt(Effect.zipRight(Deferred.succeed(running, undefined), Effect.never), () =>
              Ref.set(stopped, true)
            )
        })
        yield* Effect.scoped(
          Effect.gen(function* () {
            const agent = yield* world.open()
            yield* agent.followup("go")
            yield* Deferred.await(running)
            const before = (yield* world.log).length
            held.failWith(full)
            const error = yield* Effect.flip(agent.followup("lost"))
            assert.strictEqual(error._tag, "SessionBroken")
            if (error._tag === "SessionBroken") assert.strictEqual(error.durableHead, before)
            const report = yield* agent.idle
            assert.isTrue(yield* Ref.get(stopped))
            assert.isFalse(Option.getOrThrow(report.last).durable)
            assert.deepInclude(yield* agent.cancel("user"), { _tag: "Idle", durable: false })
            assert.strictEqual((yield* Effect.flip(agent.inject("lost too")))._tag, "SessionBroken")
            assert.strictEqual((yield* world.log).length, before)
            assert.strictEqual((yield* world.requests).length, 1)
          })
        )
        held.recover()
        // opening it again, in the same process, repairs it
        const agent = yield* world.open()
        assert.match(yield* world.shorthand, /TC\(c0\) TR\(c0\) S>1 T>\(interrupted\)$/)
        yield* Effect.zipRight(agent.followup("go on"), agent.idle)
        assert.match(yield* world.shorthand, /T>\(completed\)$/)
      })
  )

  it.scoped("cancel is answered with durable: false when the end of the turn could not be stored", () =>
    Effect.gen(function* () {
      const running = yield* Deferred.make<void>()
      const held = yield* HeldJournal.make
      const world = yield* World.make({
        journal: held.layer,
        scripts: [call(["look", { id: "a" }])],
        body: () => Effect.zipRight(Deferred.succeed(running, undefined), Effect.never)
      })
      yield* Effect.scoped(
        Effect.gen(function* () {
          const agent = yield* world.open()
          yield* agent.followup("go")
          yield* Deferred.await(running)
          held.failWith(full)
          assert.deepInclude(yield* agent.cancel("user"), { _tag: "Settled", cause: "user", durable: false })
          assert.deepStrictEqual(yield* agent.status, { _tag: "Broken" })
        })
      )
      held.recover()
      yield* world.open()
      assert.match(yield* world.shorthand, /TR\(c0\) S>1 T>\(interrupted\)$/)
    })
  )

  it.scoped("I08 I01 W24: an event that cannot stand there dies, and the log is as it was", () =>
    Effect.gen(function* () {
      const world = yield* World.make({})
      const session = yield* acquire(world)
      const at = { turn: 1, step: 1 }
      const refused: ReadonlyArray<unknown> = [
        { type: "turn/end", data: { turn: 1, reason: { kind: "completed" } } },
        { type: "step/start", data: at },
        { type: "tool/call", data: { ...at, callId: CallId.make("t1s1c0"), name: "x", arguments: "{}" } },
        { type: "request/header", data: { reason: "initial", config: {}, system: "", tools: [] } },
        { type: "made/up", data: {} },
        { type: "unrecognized", data: { type: "x", data: {} } },
        { type: "turn/start", data: { turn: Number.NaN } },
        { type: "turn/start", data: { turn: 1, extra: undefined } },
        { type: "turn/start", data: { turn: 1, when: new Date(0) } }
      ]
      for (const event of refused) {
        // rubbish on purpose: what a caller with a cast could hand in
        const exit = yield* Effect.exit(session.append(() => [injected(0), event as SessionEvent]))
        assert.isTrue(Exit.isFailure(exit), JSON.stringify(event))
        assert.strictEqual(session.unsafeState().head, 0)
      }
      yield* session.append(() => [injected(0)])
      yield* session.barrier
      assert.strictEqual((yield* world.log).length, 1)
    })
  )

  it.scoped(
    "I03: its type says whether an event is a message: one outside a step is refused, no other joins a request",
    () =>
      Effect.gen(function* () {
        const world = yield* World.make({ unchecked: true })
        const session = yield* acquire(world)
        const message: SessionEvent = {
          type: "user/message",
          data: { id: MessageId.make("m"), role: "user", source: { kind: "prompt" }, content: [text("hello")] }
        }
        assert.isTrue(Exit.isFailure(yield* Effect.exit(session.append(() => [message]))))
        const at = { turn: 1, step: 1 }
        yield* session.append(() => [
          { type: "turn/start", data: { turn: 1 } },
          { type: "step/start", data: at },
          message,
          injected(0),
          { type: "assistant/chunk", data: { ...at, chunk: { type: "text", index: 0, text: "no message yet" } } }
        ])
        assert.deepStrictEqual(requestMessages(session.unsafeState()), [message.data])
        yield* session.barrier
      })
  )

  it.scoped("I02: the log keeps one frozen snapshot, and times never go back", () =>
    Effect.gen(function* () {
      const world = yield* World.make({})
      const session = yield* acquire(world)
      const mine = { type: "turn/start" as const, data: { turn: 1 } }
      const [stored] = yield* session.append(() => [mine])
      mine.data.turn = 2
      assert.deepStrictEqual(stored?.data, { turn: 1 })
      assert.isTrue(Object.isFrozen(stored) && Object.isFrozen(stored?.data))
      yield* session.append(() => [{ type: "turn/end", data: { turn: 1, reason: { kind: "aborted" } } }])
      yield* session.barrier
    })
  )

  it.scoped("W23 J06: events appended together are stored together, in one commit", () =>
    Effect.gen(function* () {
      const held = yield* HeldJournal.make
      const world = yield* World.make({ journal: held.layer })
      const session = yield* acquire(world)
      yield* session.append(() => Array.from({ length: 50 }, (_, n) => injected(n)))
      yield* session.barrier
      assert.strictEqual(held.appends(), 1)
      assert.strictEqual((yield* world.log).length, 50)
    })
  )

  it.scoped("W16 W20: sessions share commits, and one that fails hurts no other", () =>
    Effect.gen(function* () {
      const held = yield* HeldJournal.make
      const world = yield* World.make({ journal: held.layer })
      const [a, b] = yield* Effect.all([acquire(world), acquire(world, SessionId.make("other"))])
      yield* a.append(() => [injected(0)])
      yield* b.append(() => [injected(0)])
      yield* Effect.all([a.barrier, b.barrier], { concurrency: 2 })
      assert.strictEqual(held.appends(), 1)
      // somebody else takes one of them over
      const record = yield* world.journal.find(World.id)
      yield* world.journal.take({
        id: World.id,
        head: record.head,
        epoch: record.epoch,
        events: [],
        summary: record.summary,
        owner: { host: "h", pid: 1, processStart: "1", bootId: "b", token: "t" },
        leaseExpires: 0
      })
      yield* a.append(() => [injected(1)])
      yield* b.append(() => [injected(1)])
      const exits = yield* Effect.all([Effect.either(a.barrier), Effect.either(b.barrier)], { concurrency: 2 })
      assert.isTrue(Either.isLeft(exits[0]))
      assert.isTrue(Either.isRight(exits[1]))
      assert.strictEqual((yield* a.broken)._tag, "SessionBroken")
    })
  )

  it.scoped("W16: whoever appends faster than the disk waits, once too much is pending", () =>
    Effect.gen(function* () {
      const held = yield* HeldJournal.make
      const world = yield* World.make({ journal: held.layer, unchecked: true })
      const session = yield* acquire(world)
      yield* held.gate.close
      const writing = yield* Effect.fork(
        Effect.forEach(
          Array.from({ length: 6000 }, (_, n) => n),
          (n) => session.append(() => [injected(n)]),
          {
            discard: true
          }
        )
      )
      yield* Effect.replicateEffect(Effect.yieldNow(), 200)
      assert.isTrue(Option.isNone(yield* Fiber.poll(writing)))
      assert.isBelow(session.unsafeState().head, 4200)
      yield* held.gate.open
      yield* Fiber.join(writing)
      yield* session.barrier
    })
  )

  it.scoped("R14: a second open in this process is refused; one that closes is waited for", () =>
    Effect.gen(function* () {
      const held = yield* HeldJournal.make
      const world = yield* World.make({ journal: held.layer })
      const scope = yield* Scope.make()
      const first = yield* Scope.extend(acquire(world), scope)
      assert.strictEqual((yield* Effect.flip(Effect.scoped(acquire(world))))._tag, "SessionOwned")
      yield* held.gate.close
      yield* first.append(() => [injected(0)])
      const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* Effect.yieldNow()
      const second = yield* Effect.fork(acquire(world))
      yield* Effect.replicateEffect(Effect.yieldNow(), 20)
      assert.isTrue(Option.isNone(yield* Fiber.poll(second)))
      yield* held.gate.open
      yield* Fiber.join(closing)
      // releasing made everything durable
      assert.strictEqual((yield* Fiber.join(second)).unsafeState().head, 1)
    })
  )

  it.scoped("an id that is not stored is created only where that was asked for", () =>
    Effect.gen(function* () {
      const world = yield* World.make({})
      const error = yield* Effect.flip(
        Effect.scoped(world.sessions.acquire(SessionId.make("nobody"), { cwd: "/", create: "never" }))
      )
      assert.strictEqual(error._tag, "SessionNotFound")
      // J05: a session without events is not listed
      yield* Effect.scoped(acquire(world))
      assert.deepStrictEqual(yield* world.journal.list({ offset: 0, limit: 10 }), [])
    })
  )
})

describe("the feed", () => {
  it.scoped("every subscriber sees every durable event once and in order; who lags gets one notice", () =>
    Effect.gen(function* () {
      const world = yield* World.make({})
      const session = yield* acquire(world)
      const go = yield* Effect.makeLatch(false)
      const subscribed = yield* Deferred.make<void>()
      const count = Feed.capacity * 2
      const slow = yield* session.feed.pipe(
        Stream.onStart(Deferred.succeed(subscribed, undefined)),
        Stream.tap(() => go.await),
        Stream.takeUntil((item) => item.type === "event" && item.event.seq === count - 1),
        Stream.runCollect,
        Effect.fork
      )
      yield* Deferred.await(subscribed)
      yield* Effect.yieldNow()
      yield* Effect.forEach(
        Array.from({ length: count }, (_, n) => n),
        (n) => session.append(() => [injected(n)]),
        {
          discard: true
        }
      )
      yield* session.barrier
      yield* go.open
      const items: ReadonlyArray<FeedItem> = Array.from(yield* Fiber.join(slow))
      assert.deepStrictEqual(
        items.flatMap((item) => (item.type === "event" ? [item.event.seq] : [])),
        Array.from({ length: count }, (_, n) => n)
      )
      assert.strictEqual(items.filter((item) => item.type === "lagged").length, 1)
    })
  )

  it.scoped("O-A6: whoever sees the end of a turn sees a log that balances", () =>
    Effect.gen(function* () {
      const streaming = yield* Deferred.make<void>()
      const script: Script = [
        send({ type: "text", index: 0, text: "a" }),
        wait(Effect.zipRight(Deferred.succeed(streaming, undefined), Effect.never))
      ]
      const world = yield* World.make({ scripts: [script] })
      const agent = yield* world.open()
      const subscribed = yield* Deferred.make<void>()
      const seen = yield* agent.events.pipe(
        Stream.onStart(Deferred.succeed(subscribed, undefined)),
        Stream.filter((item) => item.type === "event" && item.event.type === "turn/end"),
        Stream.take(1),
        Stream.mapEffect(() => world.shorthand),
        Stream.runCollect,
        Effect.fork
      )
      yield* Deferred.await(subscribed)
      yield* Effect.yieldNow()
      yield* agent.followup("go")
      yield* Deferred.await(streaming)
      yield* agent.cancel("user")
      assert.match(Array.from(yield* Fiber.join(seen))[0] ?? "", /S>1 T>\(aborted\)$/)
    })
  )
})
