/**
 * The config of requests: where each field comes from, what of it is logged, and what an adapter makes of a request that the log
 * never sees.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Agent } from "../../src/agent/Agent.ts"
import type { ChatRequest, ModelConfig } from "../../src/domain/Request.ts"
import { canonical } from "../../src/internal/Json.ts"
import * as OpenAi from "../../src/model/OpenAi.ts"
import * as OpenAiWire from "../../src/model/OpenAiWire.ts"
import { type Script, say, send } from "../../src/model/ScriptedModel.ts"
import * as World from "../support/World.ts"

const prompt = (agent: Agent, text: string) => Effect.zipRight(agent.followup(text), agent.idle)

const says = (count: number): ReadonlyArray<Script> => Array.from({ length: count }, (_, index) => say(`${index}`))

/** The reason and the config of each header in the log. */
const headers = (world: World.World) =>
  Effect.map(world.log, (events) =>
    events.flatMap((event) =>
      event.type === "request/header" ? [[event.data.reason, event.data.config] as const] : []
    )
  )

describe("the config of a request", () => {
  it.scoped("H07: a change of provider or model has one header, before its request; without one there is none", () =>
    Effect.gen(function* () {
      const routes = [
        ["a", "x"],
        ["a", "x"],
        ["a", "y"],
        ["a", "y"],
        ["b", "y"],
        ["b", "y"],
        ["a", "x"]
      ].map(([provider = "", model = ""]) => ({ provider, model }))
      const world = yield* World.make({
        scripts: says(routes.length),
        hooks: { request: ({ turn }) => Effect.succeed(routes[turn - 1] ?? World.config) }
      })
      const agent = yield* world.open()
      yield* Effect.forEach(routes, () => prompt(agent, "go"), { discard: true })
      assert.deepStrictEqual<unknown>(yield* headers(world), [
        ["initial", routes[0]],
        ["change", routes[2]],
        ["change", routes[4]],
        ["change", routes[6]]
      ])
      assert.deepStrictEqual(
        (yield* world.requests).map(({ config }) => config),
        routes
      )
      assert.match(yield* world.shorthand, /S<1 UM RH\(change\) ck AM S>1 T>\(completed\)$/)
    })
  )

  it.scoped("H08 P07: what an adapter falls back to is in no log and found anew each time; what is set stays", () =>
    Effect.gen(function* () {
      const sent: Array<Partial<ModelConfig>> = []
      let fallback = 1000
      /** An adapter with defaults of its own, which change. */
      const model = {
        stream: ({ config }: ChatRequest) =>
          Stream.suspend(() => {
            sent.push({ maxTokens: fallback++, reasoningEffort: "medium", ...config })
            return Stream.make({ type: "text", index: 0, text: "ok" } as const)
          })
      }
      const world = yield* World.make({
        model,
        hooks: {
          request: ({ turn }, config) => Effect.succeed(turn === 3 ? { ...config, reasoningEffort: "high" } : config)
        }
      })
      const agent = yield* world.open()
      yield* Effect.forEach(["1", "2", "3", "4"], (words) => prompt(agent, words), { discard: true })
      const set = { ...World.config, reasoningEffort: "high" }
      assert.deepStrictEqual(yield* headers(world), [
        ["initial", World.config],
        ["change", set]
      ])
      assert.deepStrictEqual(
        sent.map(({ maxTokens, reasoningEffort }) => [maxTokens, reasoningEffort]),
        [
          [1000, "medium"],
          [1001, "medium"],
          [1002, "high"],
          [1003, "high"]
        ]
      )
    })
  )

  const logged = { provider: "scripted", model: "script", reasoningEffort: "high", maxTokens: 100 }
  const reopened: ReadonlyArray<readonly [what: string, options: Partial<ModelConfig>, config: ModelConfig]> = [
    ["the same route", World.config, logged],
    ["nothing", {}, logged],
    ["an effort that is undefined", { ...World.config, reasoningEffort: undefined }, logged],
    ["the same provider alone", { provider: "scripted" }, logged],
    ["another effort", { reasoningEffort: "low" }, { ...logged, reasoningEffort: "low" }],
    ["the same route and a temperature", { ...World.config, temperature: 0 }, { ...logged, temperature: 0 }],
    ["another model", { ...World.config, model: "other" }, { ...World.config, model: "other" }],
    ["another provider", { ...World.config, provider: "other" }, { ...World.config, provider: "other" }]
  ]
  it.scoped.each(reopened)("H09: a restored session whose options say %s", ([, options, config]) =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: says(3) })
      yield* Effect.scoped(Effect.flatMap(world.open({ config: logged }), (agent) => prompt(agent, "one")))
      const agent = yield* world.open({ config: options })
      yield* prompt(agent, "two")
      yield* prompt(agent, "three")
      assert.deepStrictEqual(yield* headers(world), [
        ["initial", logged],
        ["resume", config]
      ])
      assert.deepStrictEqual(
        (yield* world.requests).slice(1).map((request) => request.config),
        [config, config]
      )
    })
  )

  it.scoped("A field that a hook takes away, or leaves undefined, is gone", () =>
    Effect.gen(function* () {
      const world = yield* World.make({
        scripts: says(2),
        hooks: {
          request: ({ turn }, config) => Effect.succeed(turn === 2 ? { ...config, reasoningEffort: undefined } : config)
        }
      })
      const agent = yield* world.open({ config: logged })
      yield* prompt(agent, "one")
      yield* prompt(agent, "two")
      const { reasoningEffort: _effort, ...rest } = logged
      assert.deepStrictEqual(
        (yield* world.requests).map(({ config }) => config),
        [logged, rest]
      )
    })
  )

  it.scoped("H09: another model without a provider is not guessed at", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: says(1) })
      yield* Effect.scoped(Effect.flatMap(world.open({ config: logged }), (agent) => prompt(agent, "one")))
      const report = yield* prompt(yield* world.open({ config: { model: "other" } }), "two")
      assert.include(JSON.stringify(report), "no provider is set")
    })
  )

  it.scoped(
    "H12: another provider's blobs are in the request that is checked, left out on the wire, and the log knows of neither",
    () =>
      Effect.gen(function* () {
        const signature = "signed-by-another"
        const thought: Script = [
          send(
            { type: "reasoning", index: 0, text: "hm" },
            { type: "blob", index: 0, blob: { signature } },
            { type: "text", index: 1, text: "first" },
            { type: "blob", index: 2, blob: { encrypted: signature } },
            { type: "finish", reason: "stop" }
          )
        ]
        const world = yield* World.make({
          scripts: [thought, say("second")],
          hooks: {
            request: ({ turn }) =>
              Effect.succeed(turn === 1 ? World.config : { provider: OpenAi.deepseek.provider, model: "another" })
          }
        })
        const agent = yield* world.open()
        yield* prompt(agent, "one")
        const before = yield* world.log
        yield* prompt(agent, "two")
        const request = (yield* world.requests)[1]
        if (request === undefined) return assert.fail("no request")
        assert.strictEqual(canonical(request).split(signature).length, 3)
        for (const profile of [OpenAi.openai, OpenAi.deepseek]) {
          const body = OpenAiWire.body(request, profile)
          assert.notInclude(body, signature)
          assert.include(body, "first")
          // thinking of another provider is not its own
          assert.notInclude(body, '"hm"')
        }
        const after = yield* world.log
        assert.deepStrictEqual(after.slice(0, before.length), before)
        assert.notInclude(JSON.stringify(after.slice(before.length)), signature)
      })
  )
})
