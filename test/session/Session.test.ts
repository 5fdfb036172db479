import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { JournalFull, SeqConflict } from "../../src/domain/Errors.ts"
import type { SessionEvent, StoredEvent } from "../../src/domain/Event.ts"
import { answerId, CallId, callId, MessageId, SessionId } from "../../src/domain/Ids.ts"
import { text } from "../../src/domain/Message.ts"
import type { FeedItem } from "../../src/domain/Notice.ts"
import { answerCalls } from "../../src/domain/Results.ts"
import { requestMessages } from "../../src/domain/SessionState.ts"
import * as Host from "../../src/internal/Host.ts"
import * as Journal from "../../src/journal/Journal.ts"
import { call, type Script, say, send, wait } from "../../src/model/ScriptedModel.ts"
import * as Feed from "../../src/session/Feed.ts"
import { Reaper } from "../../src/session/Reaper.ts"
import * as Repair from "../../src/session/Repair.ts"
import * as Sessions from "../../src/session/Sessions.ts"
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

/** The nth event of a log that only opens and closes turns: cheap, however many there are. */
const boundary = (n: number): SessionEvent => {
  const turn = Math.floor(n / 2) + 1
  return n % 2 === 0
    ? { type: "turn/start", data: { turn } }
    : { type: "turn/end", data: { turn, reason: { kind: "completed" } } }
}

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

  it.scoped("W16 R11: a write that fails while the agent is idle breaks it, and says so", () =>
    Effect.gen(function* () {
      const held = yield* HeldJournal.make
      const world = yield* World.make({ journal: held.layer })
      const agent = yield* world.open()
      held.failWith(full)
      assert.strictEqual((yield* Effect.flip(agent.inject("lost")))._tag, "SessionBroken")
      yield* Effect.replicateEffect(Effect.yieldNow(), 50)
      assert.deepStrictEqual(yield* agent.status, { _tag: "Broken" })
      assert.strictEqual((yield* Effect.flip(agent.resume))._tag, "SessionBroken")
      assert.deepInclude(yield* agent.cancel("user"), { _tag: "Idle", durable: false })
    })
  )

  it.scoped("Q03: an open that fails holds nothing: the id can be opened in the same scope", () =>
    Effect.gen(function* () {
      const world = yield* World.make({})
      const open = (create: "never" | "if-absent") => world.sessions.acquire(World.id, { cwd: "/workspace", create })
      assert.strictEqual((yield* Effect.flip(open("never")))._tag, "SessionNotFound")
      assert.strictEqual((yield* open("if-absent")).loadedHead, 0)
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
        owner: { host: "h", pid: 1, processStart: "1", bootId: "b", token: "t", since: 0 },
        leaseRead: record.leaseExpires,
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
          (n) => session.append(() => [boundary(n)]),
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

describe("taking a session", () => {
  const answer: SessionEvent = {
    type: "assistant/message",
    data: {
      turn: 1,
      step: 1,
      message: {
        id: answerId(1, 1),
        role: "assistant",
        source: World.config,
        content: [0, 1].map((n) => ({ type: "tool-call", callId: callId(1, 1, n), name: "bash", arguments: "{}" }))
      },
      finish: "tool-calls"
    }
  }
  const process = (n: number): SessionEvent => ({
    type: "tool/process",
    data: { turn: 1, step: 1, callId: callId(1, 1, n), pgid: 100 + n, startTime: `${n}`, bootId: "b" }
  })
  const open: ReadonlyArray<SessionEvent> = [
    { type: "turn/start", data: { turn: 1 } },
    { type: "step/start", data: { turn: 1, step: 1 } },
    answer,
    ...[0, 1].map(
      (n): SessionEvent => ({
        type: "tool/call",
        data: { turn: 1, step: 1, callId: callId(1, 1, n), name: "bash", arguments: "{}" }
      })
    ),
    process(0),
    process(1)
  ]

  /** Sessions over a journal, with a reaper that notes what it is asked to end. */
  const reaping = (journal: Context.Tag.Service<Journal.Journal>, reaped: Array<number>) =>
    Layer.build(
      Sessions.layer.pipe(
        Layer.provide(
          Layer.mergeAll(
            Layer.succeed(Journal.Journal, journal),
            Repair.layer,
            NodeFileSystem.layer,
            Layer.succeed(Reaper, {
              reap: (processes) =>
                Effect.sync(() => {
                  reaped.push(...processes.map((process) => process.pgid))
                  return []
                }),
              look: () => Effect.succeed([])
            })
          )
        )
      )
    ).pipe(Effect.map((context) => Context.get(context, Sessions.Sessions)))

  /** A session whose owner died with a step open, one of its two calls answered. */
  const dead = Effect.gen(function* () {
    const world = yield* World.make({ unchecked: true }) // its log has no header
    yield* TestClock.setTime(5_000)
    yield* Effect.scoped(
      Effect.gen(function* () {
        const session = yield* acquire(world)
        yield* session.append(() => open)
        yield* session.append((state) =>
          answerCalls(state, (call) =>
            call.block.callId.endsWith("c0") ? { content: [text("ok")], isError: false } : undefined
          )
        )
        yield* session.barrier
        session.unsafeBreak(new Error("the host died"))
      })
    )
    yield* TestClock.setTime(90_000)
    return world
  })

  it.scoped("W25: what unanswered calls of a dead owner left running is ended first, and nobody else's", () =>
    Effect.gen(function* () {
      const self = yield* Host.identity
      const owners: ReadonlyArray<readonly [string, Partial<Journal.Owner> | undefined, ReadonlyArray<number>]> = [
        ["dead", { pid: 2 ** 30 }, [101]],
        ["left behind by this process", {}, [101]],
        ["silent, and out of sight", { bootId: "another boot" }, []],
        [
          "silent, and alive",
          { pid: globalThis.process.ppid, processStart: yield* Host.startTimeOf(globalThis.process.ppid) },
          []
        ],
        ["nobody: what was stored is a copy", undefined, []]
      ]
      for (const [name, owner, due] of owners) {
        const world = yield* dead
        const { epoch, head, leaseExpires, summary } = yield* world.journal.find(World.id)
        const taken = { ...self, token: "t", since: 0, ...owner }
        const more = { events: [], summary, owner: taken, leaseRead: leaseExpires, leaseExpires: 0 }
        if (owner !== undefined) yield* world.journal.take({ id: World.id, head, epoch, ...more })
        const reaped: Array<number> = []
        const sessions = yield* reaping(world.journal, reaped)
        yield* sessions.acquire(World.id, { cwd: "/", create: "never" })
        // what answered calls started is not touched
        assert.deepStrictEqual(reaped, due, name)
      }
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scoped("law 8: what repair adds carries the time of the last real event", () =>
    Effect.gen(function* () {
      const world = yield* dead
      const before = (yield* world.log).length
      yield* acquire(world)
      const added = (yield* world.log).slice(before)
      assert.strictEqual(World.shorthand(added), "TR(c1) S>1 T>(interrupted)")
      assert.deepStrictEqual([...new Set(added.map((event) => event.time))], [5_000])
    })
  )

  it.scoped("R13 R14: a log that moves while it is taken is loaded and closed again", () =>
    Effect.gen(function* () {
      const world = yield* dead
      let moves = 2
      const sessions = yield* reaping(
        {
          ...world.journal,
          take: (request) =>
            moves-- > 0
              ? Effect.fail(new SeqConflict({ sessionId: World.id, head: request.head }))
              : world.journal.take(request)
        },
        []
      )
      const session = yield* sessions.acquire(World.id, { cwd: "/", create: "never" })
      assert.isUndefined(session.unsafeState().brackets.open)
    })
  )

  it.scoped("Q07: a log that ends before its record says is corrupt, and nothing is written", () =>
    Effect.gen(function* () {
      const world = yield* dead
      const before = yield* world.log
      const cut = Effect.map((events: ReadonlyArray<StoredEvent>) => events.slice(0, -1))
      const sessions = yield* reaping(
        {
          ...world.journal,
          read: (id, range) => cut(world.journal.read(id, range)),
          outline: (id, range) => cut(world.journal.outline(id, range))
        },
        []
      )
      const error = yield* Effect.flip(Effect.scoped(sessions.acquire(World.id, { cwd: "/", create: "never" })))
      assert.strictEqual(error._tag, "JournalCorrupt")
      assert.deepStrictEqual(yield* world.log, before)
    })
  )

  it.scoped("R14: leaving gives the lease back, also after a failed write", () =>
    Effect.gen(function* () {
      const world = yield* dead
      assert.isTrue(Option.isNone((yield* world.journal.find(World.id)).owner))
      yield* Effect.scoped(acquire(world))
      assert.isTrue(Option.isNone((yield* world.journal.find(World.id)).owner))
    })
  )
})

describe("a broken or released session", () => {
  it.scoped("W16: whoever waits for the disk is told when the session breaks, and the first cause stands", () =>
    Effect.gen(function* () {
      const held = yield* HeldJournal.make
      const world = yield* World.make({ journal: held.layer })
      const session = yield* acquire(world)
      yield* held.gate.close
      yield* session.append(() => [injected(0)])
      const waiting = yield* Effect.fork(session.barrier)
      yield* Effect.replicateEffect(Effect.yieldNow(), 20)
      const first = session.unsafeBreak(new Error("first"))
      assert.strictEqual(session.unsafeBreak(new Error("second")), first)
      // the same error, as its span shows it
      assert.strictEqual((yield* Effect.flip(Fiber.join(waiting))).cause, first.cause)
      assert.strictEqual(yield* session.broken, first)
      assert.strictEqual(yield* Effect.flip(session.barrier), first)
      assert.strictEqual(yield* Effect.flip(session.append(() => [injected(1)])), first)
      yield* held.gate.open
    })
  )

  it.scoped("J18: a barrier returns only when everything before its own call is durable", () =>
    Effect.gen(function* () {
      const held = yield* HeldJournal.make
      const world = yield* World.make({ journal: held.layer })
      const session = yield* acquire(world)
      yield* held.gate.close
      yield* session.append(() => [injected(0)])
      const early = yield* Effect.fork(session.barrier)
      yield* Effect.replicateEffect(Effect.yieldNow(), 20) // the first commit is under way, and waits
      yield* session.append(() => [injected(1)])
      const stored = yield* Effect.fork(
        Effect.zipRight(
          session.barrier,
          Effect.map(world.log, (log) => log.length)
        )
      )
      yield* Effect.replicateEffect(Effect.yieldNow(), 20)
      yield* held.gate.open
      yield* Fiber.join(early)
      assert.strictEqual(yield* Fiber.join(stored), 2)
    })
  )

  it.scoped(
    "I01: nothing is appended to a session that was released, and its feed ends, for late subscribers too",
    () =>
      Effect.gen(function* () {
        const world = yield* World.make({})
        const scope = yield* Scope.make()
        const session = yield* Scope.extend(acquire(world), scope)
        const before = yield* Effect.fork(Stream.runCollect(session.feed))
        yield* Effect.replicateEffect(Effect.yieldNow(), 20)
        yield* session.append(() => [injected(0)])
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual((yield* Effect.flip(session.append(() => [injected(1)])))._tag, "SessionBroken")
        const items = Array.from(yield* Fiber.join(before))
        assert.deepStrictEqual(
          items.map((item) => item.type),
          ["event"]
        )
        assert.strictEqual((yield* Stream.runCollect(session.feed)).length, 0)
        assert.strictEqual((yield* world.log).length, 1)
      })
  )
})

describe("the feed", () => {
  /** A feed over a log of `count` events; what is durable is said by hand. */
  const feedOver = (count: number) => {
    const log = Array.from({ length: count }, (_, seq): StoredEvent => ({ ...injected(seq), seq, time: 0 }))
    let durable = 0
    const feed = Feed.make({
      durableHead: () => durable,
      read: (from, limit) => Effect.sync(() => log.slice(from, Math.min(from + limit, count)))
    })
    const publish = (from: number, to: number) => {
      durable = to
      for (const event of log.slice(from, to)) feed.unsafePublish({ type: "event", event })
    }
    return { feed, publish }
  }

  const seqs = (items: Iterable<FeedItem>) =>
    Array.from(items).flatMap((item) => (item.type === "event" ? [item.event.seq] : []))

  it.scoped("O-A6: whoever lags reads page after page, and nothing twice that comes by the feed as well", () =>
    Effect.gen(function* () {
      const count = Feed.capacity * 3
      const { feed, publish } = feedOver(count)
      const go = yield* Effect.makeLatch(false)
      const caughtUp = yield* Deferred.make<void>()
      const reading = yield* feed.subscribe.pipe(
        Stream.tap(() => go.await),
        Stream.tap((item) =>
          item.type === "event" && item.event.seq === count - 1 ? Deferred.succeed(caughtUp, undefined) : Effect.void
        ),
        Stream.runCollect,
        Effect.fork
      )
      yield* Effect.replicateEffect(Effect.yieldNow(), 20)
      publish(0, count - 10)
      yield* go.open
      // the journal already holds the last ten: they are read before they are told of
      yield* Deferred.await(caughtUp)
      publish(count - 10, count)
      feed.unsafeEnd()
      const items = yield* Fiber.join(reading)
      assert.deepStrictEqual(
        seqs(items),
        Array.from({ length: count }, (_, n) => n)
      )
    })
  )

  it.scoped("O-A6: an event is shown once it is durable, and not before", () =>
    Effect.gen(function* () {
      const held = yield* HeldJournal.make
      const world = yield* World.make({ journal: held.layer })
      const session = yield* acquire(world)
      const seen = yield* Ref.make(0)
      yield* Effect.fork(Stream.runForEach(session.feed, () => Ref.update(seen, (n) => n + 1)))
      yield* Effect.replicateEffect(Effect.yieldNow(), 20)
      yield* held.gate.close
      yield* session.append(() => [injected(0)])
      yield* Effect.replicateEffect(Effect.yieldNow(), 50)
      assert.strictEqual(yield* Ref.get(seen), 0)
      yield* held.gate.open
      yield* session.barrier
      yield* Effect.replicateEffect(Effect.yieldNow(), 50)
      assert.strictEqual(yield* Ref.get(seen), 1)
    })
  )

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
        (n) => session.append(() => [boundary(n)]),
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
