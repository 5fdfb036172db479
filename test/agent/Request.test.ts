/**
 * The requests of the loop: what they are made of, and that they are nobody's to change.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import type { Agent } from "../../src/agent/Agent.ts"
import { textOf } from "../../src/domain/Message.ts"
import type { ModelConfig } from "../../src/domain/Request.ts"
import { call, say } from "../../src/model/ScriptedModel.ts"
import * as World from "../support/World.ts"

const prompt = (agent: Agent, text: string) => Effect.zipRight(agent.followup(text), agent.idle)

/** The paths in a value at which something can still be changed. */
const loose = (value: unknown, path: string): ReadonlyArray<string> =>
  value === null || typeof value !== "object"
    ? []
    : [
        ...(Object.isFrozen(value) ? [] : [path]),
        ...Object.entries(value).flatMap(([key, item]) => loose(item, `${path}.${key}`))
      ]

const headers = (world: World.World) =>
  Effect.map(world.log, (events) => events.flatMap((event) => (event.type === "request/header" ? [event.data] : [])))

describe("a request", () => {
  it.scoped("H04: is frozen with all that it holds, in its first step, after tools, and after a restore", () =>
    Effect.gen(function* () {
      const scripts = [call(["look", { id: "x" }]), say("one"), say("two")]
      const world = yield* World.make({ scripts })
      yield* Effect.scoped(Effect.flatMap(world.open(), (agent) => prompt(agent, "1")))
      yield* Effect.scoped(Effect.flatMap(world.open(), (agent) => prompt(agent, "2")))
      const requests = yield* world.requests
      assert.strictEqual(requests.length, 3)
      for (const request of requests) assert.deepStrictEqual(loose(request, "request"), [])
    })
  )

  it.scoped("H05: a change of any one field of its header is in the log before it is sent, and in it", () =>
    Effect.gen(function* () {
      const changes: ReadonlyArray<Partial<ModelConfig>> = [
        {},
        { provider: "another" },
        { model: "another" },
        { maxTokens: 7 },
        { temperature: 0.5 },
        { stop: ["."] },
        { reasoningEffort: "high" }
      ]
      const world = yield* World.make({
        scripts: changes.map((_, turn) => say(`${turn}`)),
        hooks: { request: ({ turn }) => Effect.succeed({ ...World.config, ...changes[turn - 1] }) }
      })
      const agent = yield* world.open()
      yield* Effect.forEach(changes, () => prompt(agent, "go"), { discard: true })
      const configs = changes.map((change): ModelConfig => ({ ...World.config, ...change }))
      const logged = yield* headers(world)
      assert.deepStrictEqual(
        logged.map(({ config }) => config),
        configs
      )
      assert.deepStrictEqual(
        logged.map(({ reason }) => reason),
        ["initial", ...changes.slice(1).map(() => "change" as const)]
      )
      assert.deepStrictEqual(
        (yield* world.requests).map(({ config }) => config),
        configs
      )
    })
  )

  it.scoped("H06: many steps of the same header have one header in the log", () =>
    Effect.gen(function* () {
      const steps = Array.from({ length: 10 }, (_, index) => call(["look", { id: `${index}` }]))
      const world = yield* World.make({ scripts: [...steps, say("one"), say("two")] })
      const agent = yield* world.open()
      yield* prompt(agent, "1")
      yield* prompt(agent, "2")
      assert.deepStrictEqual(
        (yield* headers(world)).map(({ reason }) => reason),
        ["initial"]
      )
      assert.strictEqual((yield* world.requests).length, 12)
    })
  )
})

/** What was asked and what was answered, in the order of the log. */
const talk = (world: World.World) =>
  Effect.map(world.log, (events) =>
    events.flatMap((event) =>
      event.type === "user/message"
        ? [textOf(event.data)]
        : event.type === "assistant/message"
          ? [textOf(event.data.message)]
          : []
    )
  )

const minutes = (count: number) => 1_760_000_000_000 + count * 60_000

describe("the clock decides nothing", () => {
  it.scoped("O-P4: under a clock that stands still the loop ends after its one answer", () =>
    Effect.gen(function* () {
      // one request more than there are scripts would fail
      const world = yield* World.make({ scripts: [call(["look", { id: "x" }]), say("one"), say("two")] })
      const agent = yield* world.open()
      yield* prompt(agent, "1")
      yield* prompt(agent, "2")
      assert.deepStrictEqual(yield* talk(world), ["1", "", "one", "2", "two"])
      assert.strictEqual(new Set((yield* world.log).map((event) => event.time)).size, 1)
    })
  )

  it.scoped("O-P4: nor does one that jumps while the turn runs repeat it or end it early", () =>
    Effect.gen(function* () {
      const jumps = [10, -10, 30, -30]
      const calls = jumps.map((jump) => call(["touch", { id: String(jump) }]))
      const world = yield* World.make({
        scripts: [...calls, say("done")],
        body: (jump) => Effect.as(TestClock.setTime(minutes(Number(jump))), `at ${jump}`)
      })
      yield* TestClock.setTime(minutes(0))
      yield* prompt(yield* world.open(), "go")
      assert.deepStrictEqual(yield* talk(world), ["go", "", "", "", "", "done"])
      const times = (yield* world.log).map((event) => event.time)
      assert.deepStrictEqual(
        times,
        times.toSorted((a, b) => a - b)
      )
    })
  )

  it.scoped(
    "O-P5: prompts sent ten minutes ahead and ten minutes back get one answer each, in the order they were sent",
    () =>
      Effect.gen(function* () {
        const world = yield* World.make({ scripts: [say("one"), say("two"), say("three")] })
        yield* TestClock.setTime(minutes(0))
        const agent = yield* world.open()
        for (const [index, offset] of [10, -10, 0].entries()) {
          yield* TestClock.setTime(minutes(offset))
          yield* agent.followup(`${index + 1}`)
        }
        yield* agent.idle
        assert.deepStrictEqual(yield* talk(world), ["1", "one", "2", "two", "3", "three"])
        yield* TestClock.setTime(minutes(-20))
        yield* Effect.scoped(Effect.void)
        assert.strictEqual((yield* world.requests).length, 3)
      })
  )
})
