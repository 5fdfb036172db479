import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { type MessageId, MessageId as makeId } from "../../src/domain/Ids.ts"
import { textOf } from "../../src/domain/Message.ts"
import { call, type Script, say } from "../../src/model/ScriptedModel.ts"
import { at, door, endings, inputs, of, others, react, statuses, watch } from "../support/Watching.ts"
import * as World from "../support/World.ts"

const sends = ["followup", "steer", "inject"] as const

/** An agent whose first turn streams, and stands at a door before its answer ends. */
const streaming = (...scripts: ReadonlyArray<Script>) =>
  Effect.gen(function* () {
    const answer = yield* door
    const world = yield* World.make({ scripts: [at(answer.pass), ...scripts] })
    const agent = yield* world.open()
    const seen = yield* watch(agent)
    yield* agent.followup("p1")
    yield* answer.entered
    return { agent, answer, seen, world }
  })

describe("what waits", () => {
  it.scoped("B05: the first boundary takes all that was injected and one prompt, an inner one takes no prompt", () =>
    Effect.gen(function* () {
      const { agent, world } = yield* streaming(call(["look", { id: "a" }]), say("2"), say("3"))
      yield* agent.followup("p2")
      yield* agent.followup("p3")
      yield* agent.cancel("user", { keepInbox: true })
      yield* agent.inject("x")
      yield* agent.inject("y")
      assert.deepStrictEqual((yield* agent.pending).map(textOf), ["x", "y", "p2", "p3"])
      assert.isTrue(yield* agent.resume)
      yield* agent.idle
      // nothing is claimed at the boundary behind the tools
      assert.match(
        yield* world.shorthand,
        /T<2 in- in- S<1 UM UM UM ck AM TC\(c0\) TR\(c0\) S>1 S<2 ck AM S>2 T>\(completed\) T<3 in- S<1 UM ck AM/
      )
      assert.deepStrictEqual(yield* inputs(world), ["p1", "x", "y", "p2", "p3"])
    })
  )

  it.scoped("B04 B18: prompts open turns one after another, without rest between them, and then no more", () =>
    Effect.gen(function* () {
      const { agent, answer, seen, world } = yield* streaming(say("steered"), say("2"), say("never"))
      yield* agent.followup("p2")
      // each of these asks for a turn once more
      yield* agent.steer("s")
      const taken = yield* agent.followup("taken back")
      assert.isTrue(yield* agent.remove(taken))
      yield* answer.letGo
      yield* agent.idle
      assert.deepStrictEqual(yield* inputs(world), ["p1", "s", "p2"])
      assert.deepStrictEqual(statuses(yield* seen), ["Running 1", "Running 2", "Idle"])
      assert.strictEqual((yield* world.requests).length, 3)
      assert.isFalse(yield* agent.resume)
    })
  )

  it.scoped("B18: a wake whose prompt was taken back before the turn ends opens none", () =>
    Effect.gen(function* () {
      const { agent, answer, seen, world } = yield* streaming(say("never"))
      const ids = yield* Effect.forEach([agent.followup, agent.steer], (send) => send("no"))
      yield* Effect.forEach(ids, agent.remove)
      yield* answer.letGo
      yield* agent.idle
      assert.deepStrictEqual(statuses(yield* seen), ["Running 1", "Idle"])
      assert.deepStrictEqual(yield* endings(world), ["completed"])
    })
  )

  it.scoped("B06: clearing everything is a splice for each list that has something, and told of once", () =>
    Effect.gen(function* () {
      const { agent, seen, world } = yield* streaming()
      const prompts = yield* Effect.forEach(["p2", "p3"], agent.followup)
      const injected = yield* Effect.forEach(["x", "y"], agent.inject)
      assert.deepStrictEqual((yield* agent.cancel("user")).dropped, [...injected, ...prompts])
      const drops = of(yield* world.log, "agent/inbox/spliced").filter(({ data }) => data.outcome === "canceled")
      assert.deepStrictEqual(
        drops.map(({ data }) => ({ ...data })),
        (["next-step", "next-turn"] as const).map((target) => ({
          target,
          start: 0,
          removedCount: 2,
          inserted: [],
          outcome: "canceled" as const
        }))
      )
      const told = () =>
        Effect.map(seen, (items) => items.flatMap((item) => (item.type === "discarded" ? [item.ids] : [])))
      assert.deepStrictEqual(yield* told(), [[...injected, ...prompts]])
      // one list is empty, then both
      const last = yield* agent.inject("z")
      yield* agent.cancel("user")
      const before = yield* world.shorthand
      assert.match(before, /in\+ in×$/)
      yield* agent.cancel("user")
      assert.isFalse(yield* agent.remove(last))
      assert.strictEqual(yield* world.shorthand, before)
      assert.deepStrictEqual((yield* told()).slice(1), [[last]])
    })
  )

  it.scoped(
    "B12: what a subscriber's cancel finds was sent before it: it goes with the rest, and wakes nobody later",
    () =>
      Effect.gen(function* () {
        for (const kind of sends) {
          const { agent, world } = yield* streaming(say("never"))
          const answered = yield* Deferred.make<ReadonlyArray<MessageId>>()
          yield* react(agent, (item) =>
            item.type === "event" && item.event.type === "agent/inbox/spliced" && item.event.data.inserted.length > 0
              ? Effect.flatMap(agent.cancel("user"), ({ dropped }) => Deferred.succeed(answered, dropped))
              : Effect.void
          )
          const id = yield* agent[kind]("late")
          assert.deepStrictEqual(yield* Deferred.await(answered), [id], kind)
          assert.deepInclude(yield* agent.idle, { parked: 0 })
          assert.deepStrictEqual(yield* agent.pending, [])
          assert.match(yield* world.shorthand, /in\+ in× ck AM! S>1 T>\(aborted\)$/, kind)
        }
      })
  )

  it.scoped("B23 W18: a subscriber that sends at whatever it is told of loses nothing, and nothing fails", () =>
    Effect.gen(function* () {
      const world = yield* World.make({
        scripts: [call(["look", { id: "a" }]), ...Array.from({ length: 40 }, () => say("so"))]
      })
      const agent = yield* world.open()
      const sent: Array<MessageId> = []
      let kinds = new Set<string>()
      yield* react(agent, (item) => {
        const kind = item.type === "event" ? item.event.type : item.type
        if (kinds.has(kind)) return Effect.void
        kinds = new Set([...kinds, kind])
        return Effect.map(agent.followup(`at ${kind}`), (id) => sent.push(id))
      })
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      yield* Effect.zipRight(others, agent.idle)
      assert.isAtLeast(sent.length, 12)
      const entered = of(yield* world.log, "user/message").map(({ data }) => data.id)
      assert.deepStrictEqual(entered.slice(1).toSorted(), sent.toSorted())
      assert.deepStrictEqual([...new Set(yield* endings(world))], ["completed"])
    })
  )
})

describe("messages and cancels", () => {
  it.scoped(
    "O-L3 C18: a cancel drops or keeps what was queued, says which it did, and the next prompt finds just that",
    () =>
      Effect.gen(function* () {
        for (const keepInbox of [false, true]) {
          const { agent, world } = yield* streaming(say("2"), say("3"), say("4"))
          const queued = yield* Effect.forEach(["old 1", "old 2"], agent.followup)
          const answer = yield* agent.cancel("user", { keepInbox })
          assert.deepInclude(answer, { _tag: "Settled", turn: 1, durable: true, dropped: keepInbox ? [] : queued })
          assert.deepInclude(yield* agent.idle, { parked: keepInbox ? 2 : 0 })
          yield* Effect.zipRight(agent.followup("do this instead"), agent.idle)
          const rest = keepInbox ? ["old 1", "old 2", "do this instead"] : ["do this instead"]
          assert.deepStrictEqual(yield* inputs(world), ["p1", ...rest])
          assert.strictEqual((yield* world.requests).length, 1 + rest.length)
          // what was dropped left nothing but its splices
          const log = yield* world.log
          assert.strictEqual(of(log, "turn/start").length, 1 + rest.length)
          const canceled = of(log, "agent/inbox/spliced").filter(({ data }) => data.outcome === "canceled")
          assert.deepStrictEqual(
            canceled.map(({ data }) => data.removedCount),
            keepInbox ? [] : [2]
          )
        }
      })
  )

  it.scoped("O-L5 law 7: a cancel removes no prompt that was entered, also where an agent below it was at work", () =>
    Effect.gen(function* () {
      const working = yield* door
      const inner = yield* World.make({ scripts: [at(working.pass)] })
      const delegate = Effect.scoped(
        Effect.flatMap(inner.open(), (agent) => Effect.zipRight(agent.followup("deeper"), agent.idle))
      )
      const world = yield* World.make({
        scripts: [say("1"), say("2"), call(["look", { id: "delegate" }]), say("4")],
        body: () => Effect.as(Effect.orDie(delegate), "done")
      })
      const agent = yield* world.open()
      for (const words of ["one", "two"]) yield* Effect.zipRight(agent.followup(words), agent.idle)
      yield* agent.followup("three")
      yield* working.entered
      yield* agent.cancel("user")
      yield* Effect.zipRight(agent.followup("four"), agent.idle)
      const said = ((yield* world.requests).at(-1)?.messages ?? []).filter(({ role }) => role === "user")
      assert.deepStrictEqual(said.map(textOf), ["one", "two", "three", "four"])
      assert.deepStrictEqual(yield* inputs(inner), ["deeper"])
      assert.deepStrictEqual(yield* endings(inner), ["aborted"])
    })
  )

  it.scoped("B08 law 7: the id of a message that a cancel dropped stays used", () =>
    Effect.gen(function* () {
      const world = yield* World.make({})
      const agent = yield* world.open()
      const mine = { id: makeId.make("mine"), text: "x" }
      yield* agent.inject(mine)
      yield* agent.cancel("user")
      assert.deepInclude(yield* Effect.flip(agent.inject(mine)), { reason: "used-id" })
    })
  )
})
