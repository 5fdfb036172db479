import { assert, describe, it } from "@effect/vitest"
import * as Console from "effect/Console"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Mailbox from "effect/Mailbox"
import * as Queue from "effect/Queue"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import type { Agent, Cancelled } from "../../src/agent/Agent.ts"
import { call, type Script, say, send, wait } from "../../src/model/ScriptedModel.ts"
import { ToolCall } from "../../src/tool/ToolCall.ts"
import * as EveryPoint from "../support/EveryPoint.ts"
import * as HeldJournal from "../support/HeldJournal.ts"
import { door, endings, inputs, others, statuses, stillWait, watch } from "../support/Watching.ts"
import * as World from "../support/World.ts"

const endingsIn = (log: string): ReadonlyArray<string> => [...log.matchAll(/T>\((\w+)\)/g)].map(([, kind]) => `${kind}`)

const slow: Script = [
  send({ type: "text", index: 0, text: "one " }),
  wait(Effect.sleep(20)),
  send({ type: "text", index: 0, text: "two" }, { type: "finish", reason: "stop" })
]

describe("cancels and turns that follow each other", () => {
  it.live(
    "O-K1 law 5: wherever two cancels fall between two turns, they end the turn that they name and no other",
    () =>
      Effect.gen(function* () {
        const scenario: EveryPoint.Scenario = { name: "", scripts: [say("1"), slow], prompts: 2, has: [] }
        let answers: ReadonlyArray<Cancelled> = []
        const cancelling: EveryPoint.Act = (agent) =>
          Effect.map(agent.cancel("user", { keepInbox: true }), (answer) => {
            answers = [...answers, answer]
          })
        let late = 0
        const landed = yield* EveryPoint.everyStep({ to: EveryPoint.run(scenario).steps, stride: 9 }, (step) => {
          answers = []
          const run = EveryPoint.run(scenario, [
            [step, cancelling],
            [step + 3, cancelling]
          ])
          const named = new Set(answers.flatMap((answer) => (answer._tag === "Settled" ? [answer.turn] : [])))
          if (named.size === 0) late++
          assert.strictEqual(answers.length, 2, `step ${step}: ${run.log}`)
          for (const [index, kind] of endingsIn(run.log).entries())
            assert.strictEqual(kind === "aborted", named.has(index + 1), `step ${step}: ${run.log}`)
          return run
        })
        assert.isAbove(late, 0)
        yield* Console.log(`two cancels: ${landed.runs} points; ${EveryPoint.told(landed)}`)
      }),
    120_000
  )

  it.live(
    "O-K2 law 7: a prompt right behind a cancel waits for the unwind, and opens exactly one turn",
    () =>
      Effect.gen(function* () {
        const scenario: EveryPoint.Scenario = {
          name: "",
          scripts: [call(["look", { id: "a" }], ["finish", { id: "b" }]), slow, slow, slow],
          body: (id) => Effect.as(Effect.sleep(10), id),
          has: []
        }
        const cancelThenPrompt: EveryPoint.Act = (agent) =>
          Effect.gen(function* () {
            const cancel = yield* Effect.fork(agent.cancel("user"))
            yield* Effect.yieldNow()
            yield* agent.followup("next")
            yield* Fiber.join(cancel)
          })
        const ways = new Set<string>()
        const landed = yield* EveryPoint.everyStep({ to: EveryPoint.run(scenario).steps, stride: 13 }, (step) => {
          const run = EveryPoint.run(scenario, [[step, cancelThenPrompt]])
          const ended = endingsIn(run.log)
          ways.add(`${ended}`)
          assert.strictEqual(ended.length, 2, `step ${step}: ${run.log}`)
          assert.match(run.log, /T<2 in- S<1 UM .*T>\(completed\)$/, `step ${step}`)
          return run
        })
        assert.deepStrictEqual([...ways].toSorted(), ["aborted,completed", "completed,completed"])
        yield* Console.log(`a prompt behind a cancel: ${landed.runs} points; ${EveryPoint.told(landed)}`)
      }),
    120_000
  )

  it.scoped("O-K3 R12: a tool that ignores the cancel for ten seconds holds the turn that long, and no longer", () =>
    Effect.gen(function* () {
      const body = yield* door
      const world = yield* World.make({
        scripts: [call(["look", { id: "a" }], ["touch", { id: "never" }]), say("2")],
        body: () => Effect.as(Effect.uninterruptible(Effect.zipRight(body.pass, Effect.sleep("10 seconds"))), "done")
      })
      const agent = yield* world.open()
      const seen = yield* watch(agent)
      yield* agent.followup("p1")
      yield* body.entered
      yield* body.letGo
      const cancel = yield* Effect.fork(agent.cancel("user"))
      yield* others
      yield* agent.followup("p2")
      yield* TestClock.adjust(9_999)
      yield* stillWait([cancel])
      assert.strictEqual((yield* world.requests).length, 1)
      yield* TestClock.adjust(1)
      assert.deepInclude(yield* Fiber.join(cancel), { _tag: "Settled", turn: 1, durable: true })
      yield* agent.idle
      assert.match(yield* world.shorthand, /TC\(c0\) in\+ TR\(c0\) TC\(c1\) TR\(c1\) S>1 T>\(aborted\) T<2 /)
      // nothing of turn 1 is told of once turn 2 is
      const turns = (yield* seen).flatMap((item) => ("turn" in item ? [item.turn] : []))
      assert.deepStrictEqual(
        turns,
        turns.toSorted((a, b) => a - b)
      )
    })
  )

  it.scoped(
    "O-K3 law 3: what a body left behind says after its turn has ended changes no log and is told to nobody",
    () =>
      Effect.gen(function* () {
        const stray = yield* door
        const told = yield* Deferred.make<Exit.Exit<void, unknown>>()
        const world = yield* World.make({
          scripts: [call(["look", { id: "a" }]), say("2")],
          body: () =>
            Effect.gen(function* () {
              const it = yield* ToolCall
              const record = it.recordProcess({ pgid: 7, startTime: "1", bootId: "b" })
              yield* it.progress("early")
              yield* Effect.zipRight(stray.pass, Effect.zipRight(it.progress("late"), record)).pipe(
                Effect.onExit((exit) => Deferred.succeed(told, exit)),
                Effect.forkDaemon
              )
              return yield* Effect.never
            })
        })
        const agent = yield* world.open()
        const seen = yield* watch(agent)
        yield* agent.followup("p1")
        yield* stray.entered
        yield* agent.cancel("user")
        const log = yield* world.shorthand
        yield* stray.letGo
        assert.isTrue(Exit.isFailure(yield* Deferred.await(told)))
        assert.strictEqual(yield* world.shorthand, log)
        yield* Effect.zipRight(agent.followup("p2"), agent.idle)
        assert.deepStrictEqual(yield* endings(world), ["aborted", "completed"])
        const progress = (yield* seen).flatMap((item) => (item.type === "tool-progress" ? [item.text] : []))
        assert.deepStrictEqual(progress, ["early"])
      })
  )

  it.scoped(
    "O-K4 law 4: the next turn starts once the cleanup is over, and that cleanup does not take it for idle",
    () =>
      Effect.gen(function* () {
        const body = yield* door
        const cleanup = yield* door
        let changing = true
        const world: World.World = yield* World.make({
          scripts: [call(["look", { id: "a" }]), [wait(Effect.sync(() => assert.isFalse(changing))), ...say("2")]],
          body: () =>
            Effect.zipRight(body.pass, Effect.never).pipe(
              Effect.onInterrupt(() =>
                Effect.zipRight(
                  cleanup.pass,
                  Effect.sync(() => {
                    changing = false
                  })
                )
              )
            )
        })
        const agent = yield* world.open()
        const seen = yield* watch(agent)
        yield* agent.followup("p1")
        yield* Effect.zipRight(body.entered, body.letGo)
        yield* others
        const cancel = yield* Effect.fork(agent.cancel("user"))
        yield* cleanup.entered
        yield* agent.followup("p2")
        yield* others
        assert.deepInclude(yield* agent.status, { _tag: "Running", turn: 1, cancelled: true })
        yield* cleanup.letGo
        yield* Fiber.join(cancel)
        yield* agent.idle
        assert.deepStrictEqual(statuses(yield* seen), ["Running 1", "Running 2", "Idle"])
        assert.deepStrictEqual(yield* endings(world), ["aborted", "completed"])
      })
  )

  it.scoped("O-K8 R3: prompts during a slow cancel are kept, and no request is sent before its end is durable", () =>
    Effect.gen(function* () {
      const body = yield* door
      const held = yield* HeldJournal.make
      let stored = ""
      const world: World.World = yield* World.make({
        journal: held.layer,
        scripts: [
          call(["finish", { id: "a" }]),
          [
            wait(
              Effect.map(
                Effect.suspend(() => world.shorthand),
                (log) => {
                  stored = log
                }
              )
            ),
            ...say("2")
          ],
          say("3")
        ],
        body: () => Effect.as(body.pass, "done")
      })
      const agent = yield* world.open()
      yield* agent.followup("p1")
      yield* body.entered
      const cancel = yield* Effect.fork(agent.cancel("user"))
      yield* others
      yield* agent.followup("p2")
      yield* agent.followup("p3")
      yield* held.gate.close
      yield* body.letGo
      yield* others
      assert.strictEqual((yield* world.requests).length, 1)
      yield* stillWait([cancel])
      yield* held.gate.open
      yield* Fiber.join(cancel)
      yield* agent.idle
      assert.match(stored, /T>\(aborted\) T<2 in- S<1 UM$/)
      assert.deepStrictEqual(yield* inputs(world), ["p1", "p2", "p3"])
    })
  )
})

describe("what waits in a turn", () => {
  it.scoped("O-K13 O-K15 law 4: whatever a body waits for, a cancel ends the wait at once", () =>
    Effect.gen(function* () {
      const never = yield* Effect.makeLatch(false)
      const semaphore = yield* Effect.makeSemaphore(0)
      const child = Effect.flatMap(Effect.fork(Effect.never), Fiber.join)
      const waits: Record<string, Effect.Effect<unknown, unknown>> = {
        "a mailbox": Effect.flatMap(Mailbox.make(), (mailbox) => mailbox.take),
        "a queue": Effect.flatMap(Queue.unbounded<void>(), Queue.take),
        "a deadline": Effect.timeout(Effect.never, "1 minute"),
        "a sleep": Effect.sleep("1 minute"),
        "a latch": never.await,
        "a permit": semaphore.withPermits(1)(Effect.void),
        "a child": child,
        children: Effect.all([child, child, child], { concurrency: "unbounded" }),
        "a race": Effect.race(Effect.never, Effect.never)
      }
      for (const [name, waiting] of Object.entries(waits)) {
        const entered = yield* Deferred.make<void>()
        const world = yield* World.make({
          scripts: [call(["look", { id: "a" }])],
          body: () => Effect.as(Effect.orDie(Effect.zipRight(Deferred.succeed(entered, undefined), waiting)), "")
        })
        const agent = yield* world.open()
        yield* agent.followup("go")
        yield* Deferred.await(entered)
        yield* others
        // the clock stands still: this returns only where nothing waits for it
        assert.deepInclude(yield* agent.cancel("user"), { _tag: "Settled", durable: true }, name)
        assert.match(yield* world.shorthand, /TR\(c0\) S>1 T>\(aborted\)$/, name)
      }
    })
  )

  it.scoped(
    "O-K15: whoever waits for a turn that a slow cleanup holds can be interrupted, and the turn is as it was",
    () =>
      Effect.gen(function* () {
        const body = yield* door
        const cleanup = yield* door
        const held = yield* HeldJournal.make
        const world = yield* World.make({
          journal: held.layer,
          scripts: [call(["look", { id: "a" }])],
          body: () =>
            Effect.scoped(
              Effect.zipRight(
                Effect.addFinalizer(() => cleanup.pass),
                Effect.as(body.pass, "done")
              )
            )
        })
        const scope = yield* Scope.make()
        const agent: Agent = yield* Scope.extend(world.open(), scope)
        yield* agent.followup("go")
        yield* body.entered
        const cancelling = yield* Effect.fork(agent.cancel("user"))
        yield* cleanup.entered
        yield* held.gate.close
        const waits: ReadonlyArray<Effect.Effect<unknown, unknown>> = [
          agent.cancel("user"),
          agent.idle,
          agent.followup("p"),
          agent.steer("s"),
          agent.inject("x")
        ]
        for (const waiting of waits) {
          const waiter = yield* Effect.fork(waiting)
          yield* stillWait([waiter])
          assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(waiter)))
        }
        const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
        yield* others
        const opening = yield* Effect.fork(Effect.scoped(world.open()))
        yield* stillWait([opening])
        assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(opening)))
        yield* Effect.zipRight(held.gate.open, cleanup.letGo)
        yield* Fiber.join(cancelling)
        yield* Fiber.join(closing)
        assert.deepStrictEqual(yield* endings(world), ["aborted"])
      })
  )

  it.scoped("O-K12 law 4: cancelling a turn whose body drives an agent of its own ends both turns as aborted", () =>
    Effect.gen(function* () {
      const working = yield* door
      let stopped = 0
      const stopping = Effect.sync(() => stopped++)
      const inner = yield* World.make({
        scripts: [call(["look", { id: "a" }], ["look", { id: "b" }]), say("never")],
        body: () => Effect.onInterrupt(Effect.zipRight(working.pass, Effect.never), () => stopping)
      })
      const outer = yield* World.make({
        scripts: [call(["look", { id: "delegate" }]), say("never")],
        body: () =>
          Effect.scoped(
            Effect.flatMap(inner.open(), (agent) => Effect.zipRight(agent.followup("deeper"), agent.idle))
          ).pipe(Effect.orDie, Effect.as("done"))
      })
      const agent = yield* outer.open()
      yield* agent.followup("go")
      yield* Effect.zipRight(working.entered, working.letGo)
      yield* others
      assert.deepInclude(yield* agent.cancel("user"), { _tag: "Settled", ending: { kind: "aborted" } })
      assert.strictEqual(stopped, 2)
      for (const world of [inner, outer]) assert.match(yield* world.shorthand, /TR\(c\d\) S>1 T>\(aborted\)$/)
      assert.strictEqual((yield* inner.requests).length + (yield* outer.requests).length, 2)
      // both are free again
      yield* Effect.scoped(inner.open())
    })
  )
})
