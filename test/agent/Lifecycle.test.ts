import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import { JournalFailed, JournalFull } from "../../src/domain/Errors.ts"
import { CallId } from "../../src/domain/Ids.ts"
import type { Status } from "../../src/domain/Notice.ts"
import * as Journal from "../../src/journal/Journal.ts"
import { call, say } from "../../src/model/ScriptedModel.ts"
import { claimed, logOf, stateOf, turnStart } from "../support/Facts.ts"
import * as HeldJournal from "../support/HeldJournal.ts"
import * as Inside from "../support/Inside.ts"
import { door, endings, of, others, react, statuses, stillWait, watch } from "../support/Watching.ts"
import * as World from "../support/World.ts"

const full = new JournalFull({ file: "memory", cause: new Error("no space") })

/** An agent, and its scope, whose first turn is in a body that a cancel lets finish. */
const held = (options: World.Options = {}) =>
  Effect.gen(function* () {
    const body = yield* door
    const scripts = [call(["finish", { id: "a" }]), say("2"), say("3")]
    const world = yield* World.make({ scripts, body: () => Effect.as(body.pass, "done"), ...options })
    // a test that fails holds nobody
    yield* Effect.addFinalizer(() => body.letGo)
    const scope = yield* Scope.make()
    const agent = yield* Scope.extend(world.open(), scope)
    return { agent, body, scope, world }
  })

describe("opening", () => {
  it.scoped("Q01: once it is open its session is stored and owned, nothing runs, and the first prompt works", () =>
    Effect.gen(function* () {
      const steps: Array<string> = []
      const noted = Layer.map(Journal.layerMemory, (context) => {
        const real = Context.get(context, Journal.Journal)
        const note = (step: string) => Effect.sync(() => steps.push(step))
        return Context.make(Journal.Journal, {
          ...real,
          create: (header) => Effect.zipRight(note("created"), real.create(header)),
          take: (request) => Effect.zipRight(note("taken"), real.take(request))
        })
      })
      const world = yield* World.make({ journal: noted, scripts: [say("ok")] })
      const agent = yield* world.open()
      assert.deepStrictEqual(steps, ["created", "taken"])
      assert.isTrue(Option.isSome((yield* world.journal.find(World.id)).owner))
      assert.deepStrictEqual(yield* agent.status, { _tag: "Idle", parked: 0 })
      assert.strictEqual(yield* world.shorthand, "")
      const seen = yield* watch(agent)
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      assert.deepStrictEqual(statuses(yield* seen), ["Running 1", "Idle"])
      assert.deepStrictEqual(yield* endings(world), ["completed"])
    })
  )

  it.scoped("Q03 law 9: of two that open one id at once one wins; the other is refused, and leaves nothing", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [say("ok")] })
      const scopes = [yield* Scope.make(), yield* Scope.make()]
      const exits = yield* Effect.forEach(scopes, (scope) => Effect.exit(Scope.extend(world.open(), scope)), {
        concurrency: 2
      })
      const [won, lost] = [exits.filter(Exit.isSuccess), exits.filter(Exit.isFailure)]
      assert.deepStrictEqual([won.length, lost.length], [1, 1])
      for (const { cause } of lost) assert.deepInclude(Cause.squash(cause), { _tag: "SessionOwned" })
      for (const { value: agent } of won) yield* Effect.zipRight(agent.followup("go"), agent.idle)
      assert.deepStrictEqual(yield* endings(world), ["completed"])
      yield* Effect.forEach(scopes, (scope) => Scope.close(scope, Exit.void))
      assert.isTrue(Option.isNone((yield* world.journal.find(World.id)).owner))
      yield* Effect.scoped(world.open())
    })
  )

  it.scoped(
    "Q06 H06 G10: a resume repairs before it returns, rests, and asks no model; the next request says resume",
    () =>
      Effect.gen(function* () {
        const journal = yield* HeldJournal.make
        const { agent, body, scope, world } = yield* held({ journal: journal.layer })
        yield* agent.followup("go")
        yield* body.entered
        // nothing more is stored: what a kill leaves
        journal.failWith(full)
        yield* Effect.zipRight(body.letGo, Scope.close(scope, Exit.void))
        journal.recover()
        assert.match(yield* world.shorthand, /TC\(c0\)$/)
        for (const _ of [1, 2])
          yield* Effect.scoped(
            Effect.gen(function* () {
              const again = yield* world.open()
              assert.match(yield* world.shorthand, /TC\(c0\) TR\(c0\) S>1 T>\(interrupted\)$/)
              assert.deepStrictEqual(yield* again.status, { _tag: "Idle", parked: 0 })
              assert.strictEqual((yield* world.requests).length, 1)
            })
          )
        const last = yield* world.open()
        yield* Effect.zipRight(last.followup("go on"), last.idle)
        const headers = of(yield* world.log, "request/header").map(({ data }) => data.reason)
        assert.deepStrictEqual(headers, ["initial", "resume"])
        assert.strictEqual(of(yield* world.log, "turn/start").at(-1)?.data.turn, 2)
        assert.strictEqual(of(yield* world.log, "tool/call").length, 1)
        assert.deepStrictEqual(
          (yield* world.requests)[1]?.messages.map(({ role }) => role),
          ["user", "assistant", "tool", "user"]
        )
      })
  )

  it.scoped("Q07 B21: a log that cannot be read, or does not fit, is told of; nothing is put in its place", () =>
    Effect.gen(function* () {
      let failing = true
      const unreadable = Layer.map(Journal.layerMemory, (context) => {
        const real = Context.get(context, Journal.Journal)
        const broken = Effect.fail(new JournalFailed({ file: "memory", operation: "reading", cause: "no" }))
        return Context.make(Journal.Journal, {
          ...real,
          outline: (id, range) => (failing ? broken : real.outline(id, range))
        })
      })
      const world = yield* World.make({ journal: unreadable, scripts: [say("ok")] })
      failing = false
      yield* Effect.scoped(Effect.flatMap(world.open(), (agent) => Effect.zipRight(agent.followup("go"), agent.idle)))
      const before = yield* world.log
      failing = true
      const open = world.sessions.acquire(World.id, { cwd: "/workspace", create: "if-absent" })
      assert.strictEqual((yield* Effect.flip(Effect.scoped(open)))._tag, "JournalFailed")
      assert.deepStrictEqual(yield* world.log, before)
      failing = false
      yield* Effect.scoped(open)

      const second = yield* World.make({ unchecked: true })
      const misfit = logOf(turnStart(1), claimed("next-turn", 3))
      yield* Inside.store(second.journal, World.id, misfit, stateOf(misfit.slice(0, 1)).summary)
      const refused = second.sessions.acquire(World.id, { cwd: "/workspace", create: "if-absent" })
      const error = yield* Effect.flip(Effect.scoped(refused))
      assert.strictEqual(error._tag, "JournalCorrupt")
      assert.include(error.message, "seq 1: a splice of 1 at 3 does not fit")
      assert.strictEqual((yield* second.log).length, 2)
    })
  )
})

describe("leaving", () => {
  it.scoped(
    "Q04 Q03 R12: one end for all who wait: the turn, then the agent, then the session, which is free again",
    () =>
      Effect.gen(function* () {
        const { agent, body, scope, world } = yield* held()
        const seen = yield* watch(agent)
        yield* agent.followup("go")
        yield* body.entered
        const owned = Effect.map(world.journal.find(World.id), ({ owner }) => Option.isSome(owner))
        const waiting: ReadonlyArray<Effect.Effect<unknown, unknown, Scope.Scope>> = [
          Scope.close(scope, Exit.void),
          agent.cancel("user"),
          agent.idle,
          world.open()
        ]
        const fibers = yield* Effect.forEach(waiting, (wait) => Effect.zipLeft(Effect.fork(wait), others))
        yield* stillWait(fibers)
        assert.isTrue(yield* owned)
        yield* body.letGo
        yield* Effect.forEach(fibers, Fiber.join)
        assert.match(yield* world.shorthand, /TR\(c0\) S>1 T>\(aborted\)$/)
        const items = yield* seen
        const end = items.findIndex((item) => item.type === "event" && item.event.type === "turn/end")
        const ended = items.findIndex((item) => item.type === "ended" && item.cause === "disposed")
        const left = items.findIndex((item) => item.type === "status" && item.status._tag === "Disposed")
        assert.isTrue(0 < end && end < ended && ended < left, `${end} ${ended} ${left}`)
        // the last of them has it now
        assert.isTrue(yield* owned)
        assert.deepStrictEqual(yield* endings(world), ["aborted"])
      })
  )

  it.scoped("Q05 Q03 R12: who closes may be interrupted; the session is given back all the same", () =>
    Effect.gen(function* () {
      const { agent, body, scope, world } = yield* held()
      yield* agent.followup("go")
      yield* body.entered
      const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* others
      yield* Fiber.interruptFork(closing)
      const opening = yield* Effect.fork(world.open())
      yield* stillWait([opening])
      yield* body.letGo
      yield* Fiber.await(closing)
      const next = yield* Fiber.join(opening)
      assert.deepStrictEqual(yield* next.status, { _tag: "Idle", parked: 0 })
      assert.deepStrictEqual(yield* endings(world), ["aborted"])
    })
  )

  it.scoped("Q09 W13 B14: a subscriber that always sends again does not keep an agent from being closed", () =>
    Effect.gen(function* () {
      const again = (turns: number) => Array.from({ length: turns }, () => say("again"))
      const { agent, body, scope, world } = yield* held({
        scripts: [...again(4), call(["finish", { id: "a" }]), ...again(100)]
      })
      const refused: Array<string> = []
      yield* react(agent, ({ type }) =>
        type === "ended" || type === "cancel"
          ? Effect.catchAll(agent.followup("again"), ({ _tag }) => Effect.sync(() => refused.push(_tag)))
          : Effect.void
      )
      yield* agent.followup("go")
      yield* body.entered
      const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* stillWait([closing])
      // it was told of the cancel, and sent again
      assert.deepStrictEqual(refused, ["AgentDisposed"])
      yield* body.letGo
      yield* Fiber.join(closing)
      yield* others
      assert.deepStrictEqual(yield* agent.status, { _tag: "Disposed" })
      assert.strictEqual((yield* Effect.flip(agent.followup("late")))._tag, "AgentDisposed")
      yield* others
      const leftAt = world.unsafeLeftAt() ?? assert.fail("nobody left")
      const turns = of(yield* world.log, "turn/start")
      assert.strictEqual(turns.length, 5)
      assert.isBelow(turns.at(-1)?.seq ?? leftAt, leftAt)
    })
  )
})

describe("what holds a turn", () => {
  it.scoped(
    "W17 R12 C17: a body that ignores the cancel holds the turn, the cancel and the disposal, and the status says so",
    () =>
      Effect.gen(function* () {
        const body = yield* door
        const { agent, scope, world } = yield* held({
          scripts: [call(["look", { id: "deaf" }], ["look", { id: "quick" }])],
          body: (id) => (id === "quick" ? Effect.succeed("did") : Effect.as(Effect.uninterruptible(body.pass), "done"))
        })
        yield* Effect.addFinalizer(() => body.letGo)
        yield* TestClock.adjust(1_000)
        yield* agent.followup("go")
        yield* body.entered
        yield* others
        const seen = yield* watch(agent)
        const running: Status = {
          _tag: "Running",
          turn: 1,
          cancelled: false,
          calls: [{ callId: CallId.make("t1s1c0"), name: "look", since: 1_000 }]
        }
        assert.deepStrictEqual(yield* agent.status, running)
        const waiting: ReadonlyArray<Effect.Effect<unknown, unknown>> = [
          agent.cancel("user"),
          agent.idle,
          Scope.close(scope, Exit.void)
        ]
        const fibers = yield* Effect.forEach(waiting, (wait) => Effect.zipLeft(Effect.fork(wait), others))
        yield* TestClock.adjust("1 hour")
        yield* stillWait(fibers)
        const holding: Status = { ...running, cancelled: true }
        assert.deepStrictEqual(yield* agent.status, holding)
        // whoever watches is told at the cancel
        assert.deepInclude(yield* seen, { type: "status", status: holding })
        yield* body.letGo
        yield* Effect.forEach(fibers, Fiber.join)
        assert.deepStrictEqual(yield* endings(world), ["aborted"])
      })
  )
})
