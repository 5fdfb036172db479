import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import type { Agent } from "../../src/agent/Agent.ts"
import type { SessionBroken } from "../../src/domain/Errors.ts"
import { CallId } from "../../src/domain/Ids.ts"
import { textOf } from "../../src/domain/Message.ts"
import * as Journal from "../../src/journal/Journal.ts"
import { call, fail, say, send, wait } from "../../src/model/ScriptedModel.ts"
import * as HeldJournal from "../support/HeldJournal.ts"
import { at, door, endings, inputs, others, stillWait, watch } from "../support/Watching.ts"
import * as World from "../support/World.ts"

describe("a cancel", () => {
  it.scoped("R4 R12 C17 law 5: the first cause wins; each cancel waits for the body that holds the turn", () =>
    Effect.gen(function* () {
      const body = yield* door
      const world = yield* World.make({
        scripts: [call(["finish", { id: "a" }])],
        body: () => Effect.as(body.pass, "done")
      })
      const agent = yield* world.open()
      const seen = yield* watch(agent)
      yield* agent.followup("go")
      yield* body.entered
      const first = yield* Effect.fork(agent.cancel("user"))
      yield* others
      const second = yield* Effect.fork(agent.cancel("parent"))
      yield* stillWait([first])
      assert.deepStrictEqual(yield* agent.status, {
        _tag: "Running",
        turn: 1,
        cancelled: true,
        calls: [{ callId: CallId.make("t1s1c0"), name: "finish", since: 0 }]
      })
      yield* body.letGo
      for (const fiber of [first, second])
        assert.deepInclude(yield* Fiber.join(fiber), { _tag: "Settled", cause: "user", ending: { kind: "aborted" } })
      const causes = (yield* seen).flatMap((item) => (item.type === "cancel" ? [item.cause] : []))
      assert.deepStrictEqual(causes, ["user"])
    })
  )

  it.scoped(
    "R2 law 5: once the ending is decided a cancel changes nothing about the turn, and drops what is queued",
    () =>
      Effect.gen(function* () {
        const streaming = yield* door
        const held = yield* HeldJournal.make
        const world = yield* World.make({ journal: held.layer, scripts: [at(streaming.pass), say("never")] })
        const agent = yield* world.open()
        const seen = yield* watch(agent)
        yield* agent.followup("p1")
        yield* streaming.entered
        const queued = yield* agent.followup("p2")
        yield* held.gate.close
        yield* streaming.letGo
        yield* others // the turn now waits for the disk
        const cancel = yield* Effect.fork(agent.cancel("user"))
        yield* stillWait([cancel])
        yield* held.gate.open
        assert.deepStrictEqual(yield* Fiber.join(cancel), { _tag: "Idle", dropped: [queued], durable: true })
        const { last } = yield* agent.idle
        assert.deepStrictEqual(Option.getOrThrow(last), { turn: 1, ending: { kind: "completed" }, durable: true })
        assert.deepStrictEqual(yield* endings(world), ["completed"])
        assert.isFalse((yield* seen).some((item) => item.type === "cancel"))
      })
  )

  it.scoped(
    "R2 R9: what is sent after the ending was decided runs, also behind a late cancel and behind an error",
    () =>
      Effect.gen(function* () {
        for (const script of [say("well"), [fail("QUOTA")]]) {
          const streaming = yield* door
          const held = yield* HeldJournal.make
          const world = yield* World.make({
            journal: held.layer,
            scripts: [[wait(streaming.pass), ...script], say("2")]
          })
          const agent = yield* world.open()
          yield* agent.followup("p1")
          yield* streaming.entered
          yield* held.gate.close
          yield* streaming.letGo
          yield* others
          yield* Effect.fork(agent.cancel("user"))
          yield* others
          const sent = yield* Effect.fork(agent.followup("p2"))
          yield* others
          yield* held.gate.open
          yield* Effect.zipRight(Fiber.join(sent), agent.idle)
          assert.deepStrictEqual(yield* inputs(world), ["p1", "p2"])
        }
      })
  )

  it.scoped("R3 law 3: the next turn opens only once the end of the last one is durable", () =>
    Effect.gen(function* () {
      const streaming = yield* door
      const held = yield* HeldJournal.make
      const world = yield* World.make({ journal: held.layer, scripts: [at(streaming.pass), say("2")] })
      const agent = yield* world.open()
      const seen = yield* watch(agent)
      yield* agent.followup("p1")
      yield* streaming.entered
      yield* agent.followup("p2")
      yield* held.gate.close
      yield* streaming.letGo
      yield* others
      assert.deepInclude(yield* agent.status, { turn: 1 })
      assert.isFalse((yield* seen).some((item) => item.type === "ended"))
      yield* held.gate.open
      yield* agent.idle
      assert.deepStrictEqual(yield* inputs(world), ["p1", "p2"])
    })
  )

  it.scoped("B09 B15 R9: a steering message after the cancel opens a turn of its own, unless it is taken back", () =>
    Effect.gen(function* () {
      for (const kept of [true, false]) {
        const body = yield* door
        const world = yield* World.make({
          scripts: [call(["finish", { id: "a" }]), say("2")],
          body: () => Effect.as(body.pass, "done")
        })
        const agent = yield* world.open()
        yield* agent.followup("p1")
        yield* body.entered
        const cancel = yield* Effect.fork(agent.cancel("user"))
        yield* others
        const id = yield* agent.steer("s")
        yield* agent.inject("x")
        if (!kept) assert.isTrue(yield* agent.remove(id))
        yield* body.letGo
        yield* Fiber.join(cancel)
        yield* agent.idle
        assert.deepStrictEqual(yield* inputs(world), kept ? ["p1", "s", "x"] : ["p1"])
        // removing one message leaves the others alone
        assert.deepStrictEqual((yield* agent.pending).map(textOf), kept ? [] : ["x"])
      }
    })
  )

  it.scoped("R11 B01: injecting after a cancel that keeps the inbox wakes nobody", () =>
    Effect.gen(function* () {
      const body = yield* door
      const world = yield* World.make({
        scripts: [call(["finish", { id: "a" }]), say("never")],
        body: () => Effect.as(body.pass, "done")
      })
      const agent = yield* world.open()
      const seen = yield* watch(agent)
      yield* agent.followup("p1")
      yield* body.entered
      yield* agent.followup("p2")
      const cancel = yield* Effect.fork(agent.cancel("user", { keepInbox: true }))
      yield* others
      yield* agent.inject("x")
      yield* body.letGo
      yield* Fiber.join(cancel)
      assert.deepInclude(yield* agent.idle, { parked: 1 })
      assert.deepStrictEqual(yield* inputs(world), ["p1"])
      const notices = (yield* seen).flatMap((item) => (item.type === "parked" ? [item.count] : []))
      assert.deepStrictEqual(notices, [1])
    })
  )

  it.scoped("C18 R11: what a cancel drops is told once, and is in the log as canceled", () =>
    Effect.gen(function* () {
      const world = yield* World.make({})
      const agent = yield* world.open()
      const seen = yield* watch(agent)
      const id = yield* agent.inject("x")
      yield* agent.cancel("user")
      const told = (yield* seen).flatMap((item) => (item.type === "discarded" ? [item.ids] : []))
      assert.deepStrictEqual(told, [[id]])
    })
  )

  it.scoped("law 7 B06 R11: removing, and cancelling while idle, return once what they did is durable", () =>
    Effect.gen(function* () {
      const held = yield* HeldJournal.make
      const world = yield* World.make({ journal: held.layer })
      const agent = yield* world.open()
      const first = yield* agent.inject("x")
      yield* agent.inject("y")
      const drops: ReadonlyArray<Effect.Effect<unknown, SessionBroken>> = [agent.remove(first), agent.cancel("user")]
      for (const drop of drops) {
        yield* held.gate.close
        const dropping = yield* Effect.fork(drop)
        yield* stillWait([dropping])
        yield* held.gate.open
        yield* Fiber.join(dropping)
      }
      assert.strictEqual(yield* world.shorthand, "in+ in+ in× in×")
    })
  )

  it.scoped("R11 C02: a cancel interrupts the turn before it drops what waits", () =>
    Effect.gen(function* () {
      const body = yield* door
      const world = yield* World.make({
        scripts: [call(["look", { id: "a" }])],
        body: () => Effect.as(body.pass, "done")
      })
      const agent = yield* world.open()
      const seen = yield* watch(agent)
      yield* agent.followup("p1")
      yield* body.entered
      yield* agent.followup("p2")
      yield* agent.cancel("user")
      const told = (yield* seen).flatMap(({ type }) => (type === "cancel" || type === "discarded" ? [type] : []))
      assert.deepStrictEqual(told, ["cancel", "discarded"])
    })
  )

  it.scoped("C12 R2: a cancel in the stopping hook aborts the turn, although its text is complete", () =>
    Effect.gen(function* () {
      const stopping = yield* door
      const world = yield* World.make({
        scripts: [say("whole")],
        hooks: { stopping: () => Effect.uninterruptible(stopping.pass) }
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* stopping.entered
      const cancel = yield* Effect.fork(agent.cancel("user"))
      yield* others
      yield* stopping.letGo
      assert.deepInclude(yield* Fiber.join(cancel), { _tag: "Settled", ending: { kind: "aborted" } })
      assert.match(yield* world.shorthand, /AM S>1 T>\(aborted\)$/)
    })
  )

  it.scoped("C16: a hook that answers the cancel with a failure of its own does not make the turn an error", () =>
    Effect.gen(function* () {
      const stopping = yield* door
      const world = yield* World.make({
        scripts: [say("whole")],
        hooks: { stopping: () => Effect.uninterruptible(Effect.zipRight(stopping.pass, Effect.die(new Error("cut")))) }
      })
      const agent = yield* world.open()
      const seen = yield* watch(agent)
      yield* agent.followup("go")
      yield* stopping.entered
      const cancel = yield* Effect.fork(agent.cancel("user"))
      yield* others
      yield* stopping.letGo
      yield* Fiber.join(cancel)
      assert.deepStrictEqual(yield* endings(world), ["aborted"])
      assert.isFalse((yield* seen).some((item) => item.type === "error"))
    })
  )

  it.scoped("C16 A13: a hook that interrupts itself makes it an error: nobody cancelled the turn", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [say("whole")], hooks: { stopping: () => Effect.interrupt } })
      const agent = yield* world.open()
      yield* agent.followup("go")
      const { last } = yield* agent.idle
      assert.deepInclude(Option.getOrThrow(last), {
        ending: {
          kind: "error",
          error: { message: "it was interrupted from inside: nobody cancelled it", code: "UNKNOWN" }
        }
      })
    })
  )

  it.scoped("R4 R12: from the cancel of eight running bodies to its answer there is one commit", () =>
    Effect.gen(function* () {
      let commits = 0
      const journal = Layer.map(Journal.layerMemory, (context) => {
        const real = Context.get(context, Journal.Journal)
        return Context.make(Journal.Journal, {
          ...real,
          append: (batches) => Effect.tap(real.append(batches), () => Effect.sync(() => commits++))
        })
      })
      let bodies = 0
      const running = yield* Deferred.make<void>()
      const world = yield* World.make({
        journal,
        scripts: [call(...Array.from({ length: 8 }, (_, index) => ["look", { id: `${index}` }] as const))],
        body: () =>
          Effect.zipRight(
            Effect.suspend(() => (++bodies === 8 ? Deferred.succeed(running, undefined) : Effect.void)),
            Effect.never
          )
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* Deferred.await(running)
      yield* others
      commits = 0
      assert.deepInclude(yield* agent.cancel("user"), { _tag: "Settled", durable: true })
      assert.strictEqual(commits, 1)
      assert.match(yield* world.shorthand, /TR\(c0\).*TR\(c7\) S>1 T>\(aborted\)$/)
    })
  )

  it.scoped("C13 D14: cancelled while it waits to try again, nothing of the failed attempt becomes an answer", () =>
    Effect.gen(function* () {
      const world = yield* World.make({
        scripts: [[send({ type: "text", index: 0, text: "lost" }), fail("SERVER")], say("never")],
        settings: { retry: { jitter: 0 } }
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* others
      yield* TestClock.adjust(499)
      yield* agent.cancel("user")
      assert.strictEqual(yield* world.shorthand, "in+ T<1 in- S<1 UM RH(initial) ck RR S>1 T>(aborted)")
      assert.strictEqual((yield* world.requests).length, 1)
    })
  )

  it.scoped("C03 A02: a cancel that comes before the turn's fiber runs cancels that turn", () =>
    Effect.gen(function* () {
      const asked = yield* Ref.make(false)
      const world = yield* World.make({ sections: Effect.as(Ref.set(asked, true), []), scripts: [say("never")] })
      const agent = yield* world.open()
      const held = yield* Effect.fork(agent.followup("go"))
      while ((yield* agent.status)._tag === "Idle") yield* Effect.yieldNow()
      assert.deepInclude(yield* agent.cancel("user", { keepInbox: true }), { _tag: "Settled", turn: 1, cause: "user" })
      yield* Fiber.join(held)
      assert.deepStrictEqual(yield* endings(world), ["aborted"])
      assert.deepStrictEqual(yield* world.requests, [])
    })
  )
})

describe("inside a turn", () => {
  /** Runs `inside` on the fibers of a turn, at a hook and in a body. */
  const from = (inside: (agent: Agent) => Effect.Effect<void>) =>
    Effect.gen(function* () {
      for (const place of ["hook", "body"]) {
        const holder = yield* Deferred.make<Agent>()
        const act = Effect.flatMap(Deferred.await(holder), inside)
        const world = yield* World.make({
          scripts: [call(["look", { id: "a" }]), say("so")],
          hooks: {
            request: ({ step }, config) => Effect.as(place === "hook" && step === 1 ? act : Effect.void, config)
          },
          body: () => Effect.as(place === "body" ? act : Effect.void, "done")
        })
        const agent = yield* world.open()
        yield* Deferred.succeed(holder, agent)
        yield* Effect.zipRight(agent.followup("go"), agent.idle)
      }
    })

  it.scoped("R2 C05: a cancel from the turn's own fibers returns once recorded, and the turn aborts", () =>
    Effect.gen(function* () {
      const answers = yield* Ref.make<ReadonlyArray<unknown>>([])
      yield* from((agent) =>
        Effect.uninterruptible(
          Effect.flatMap(agent.cancel("user"), (answer) => Ref.update(answers, (all) => [...all, answer]))
        )
      )
      const recorded = { _tag: "Recorded", turn: 1, dropped: [] }
      assert.deepStrictEqual(yield* Ref.get(answers), [recorded, recorded])
    })
  )

  it.scoped("C17 R12: idle fails on the fibers of the turn that it would wait for", () =>
    Effect.gen(function* () {
      const answers = yield* Ref.make<ReadonlyArray<string>>([])
      yield* from((agent) =>
        Effect.flatMap(Effect.flip(agent.idle), (error) => Ref.update(answers, (all) => [...all, error._tag])).pipe(
          Effect.orDie
        )
      )
      assert.deepStrictEqual(yield* Ref.get(answers), ["InsideTurn", "InsideTurn"])
    })
  )

  it.scoped("R12 M04: a turn inside a turn knows both", () =>
    Effect.gen(function* () {
      const answer = yield* Deferred.make<string>()
      const outerAgent = yield* Deferred.make<Agent>()
      const inner = yield* World.make({
        scripts: [say("so")],
        hooks: {
          stopping: () =>
            Deferred.await(outerAgent).pipe(
              Effect.flatMap((outer) => Effect.flip(outer.idle)),
              Effect.flatMap((error) => Deferred.succeed(answer, error._tag)),
              Effect.orDie
            )
        }
      })
      const delegate = Effect.scoped(
        Effect.flatMap(inner.open(), (agent) => Effect.zipRight(agent.followup("go"), agent.idle))
      )
      const outer = yield* World.make({
        scripts: [call(["look", { id: "a" }]), say("so")],
        body: () => Effect.as(Effect.orDie(delegate), "done")
      })
      const agent = yield* outer.open()
      yield* Deferred.succeed(outerAgent, agent)
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      assert.strictEqual(yield* Deferred.await(answer), "InsideTurn")
    })
  )
})

describe("disposal", () => {
  /** An agent whose scope closes while a body holds its turn. */
  const closing = Effect.gen(function* () {
    const body = yield* door
    const world = yield* World.make({
      scripts: [call(["finish", { id: "a" }]), say("never")],
      body: () => Effect.as(body.pass, "done")
    })
    const scope = yield* Scope.make()
    const agent = yield* Scope.extend(world.open(), scope)
    yield* agent.followup("go")
    yield* body.entered
    const closed = yield* Effect.fork(Scope.close(scope, Exit.void))
    yield* others
    return { body, world, agent, closed }
  })

  it.scoped("R12 Q09 W13: it is final: sends fail from its first moment, and no cancel takes it back", () =>
    Effect.gen(function* () {
      const { agent, body, closed, world } = yield* closing
      for (const send of [agent.followup, agent.steer, agent.inject])
        assert.strictEqual((yield* Effect.flip(send("late")))._tag, "AgentDisposed")
      const cancel = yield* Effect.fork(agent.cancel("user", { keepInbox: true }))
      yield* others
      yield* body.letGo
      assert.deepInclude(yield* Fiber.join(cancel), { _tag: "Settled", cause: "disposed" })
      yield* Fiber.join(closed)
      assert.deepStrictEqual(yield* agent.status, { _tag: "Disposed" })
      assert.deepStrictEqual(yield* endings(world), ["aborted"])
      assert.strictEqual((yield* world.requests).length, 1)
    })
  )

  it.scoped("Q04 R12 law 4: closing the scope waits until the turn has ended, and its end is in the log", () =>
    Effect.gen(function* () {
      const { body, closed, world } = yield* closing
      yield* stillWait([closed])
      yield* body.letGo
      yield* Fiber.join(closed)
      assert.match(yield* world.shorthand, /TR\(c0\) S>1 T>\(aborted\)$/)
    })
  )

  it.scoped("R12: an idle agent that is closed takes nothing in, and says so", () =>
    Effect.gen(function* () {
      const world = yield* World.make({})
      const agent = yield* Effect.scoped(world.open())
      assert.strictEqual((yield* Effect.flip(agent.inject("late")))._tag, "AgentDisposed")
      assert.strictEqual((yield* Effect.flip(agent.resume))._tag, "AgentDisposed")
      assert.strictEqual(yield* world.shorthand, "")
    })
  )
})

describe("leaving the agent's scope from inside its turn", () => {
  it.scoped("R12 law 3 law 4: dies with InsideTurn; the session is given back once the turn has ended", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const left = yield* Deferred.make<Exit.Exit<void>>()
      const rest = yield* door
      const world: World.World = yield* World.make({
        scripts: [call(["finish", { id: "a" }])],
        body: () =>
          Effect.exit(Scope.close(scope, Exit.void)).pipe(
            Effect.flatMap((exit) => Deferred.succeed(left, exit)),
            Effect.zipRight(rest.pass),
            Effect.as("left")
          )
      })
      const agent = yield* Scope.extend(world.open(), scope)
      yield* agent.followup("go")
      assert.isTrue(Exit.isFailure(yield* Deferred.await(left)))
      assert.strictEqual((yield* Effect.flip(agent.followup("too late")))._tag, "AgentDisposed")
      const opening = yield* Effect.fork(world.open())
      yield* others
      assert.isTrue(Option.isNone(yield* Fiber.poll(opening)), "its body still runs")
      yield* rest.letGo
      yield* Fiber.join(opening)
      assert.match(yield* world.shorthand, /TR\(c0\) S>1 T>\(aborted\)$/)
    })
  )
})
