import { assert, describe, it } from "@effect/vitest"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { call, fail, type Script, say, send, wait } from "../../src/model/ScriptedModel.ts"
import type { Scenario } from "../support/EveryPoint.ts"
import * as EveryPoint from "../support/EveryPoint.ts"

const said = (text: string, index = 0) => send({ type: "text", index, text })
const thought = (text: string, index = 0) => send({ type: "reasoning", index, text })
const stop = send({ type: "finish", reason: "stop" })
const pause = (millis: number) => wait(Effect.sleep(millis))
const slowly = (id: string) => Effect.as(Effect.sleep(10), `did ${id}`)

const streaming: Script = [said("one "), pause(20), said("two "), pause(60), said("three"), stop]

const scenarios: ReadonlyArray<Scenario> = [
  { name: "text only", scripts: [streaming], has: ["before the request", "streaming", "in the ending"] },
  {
    name: "reasoning, then text",
    scripts: [[thought("hm "), pause(20), thought("so"), said("one ", 1), pause(60), said("two", 1), stop]],
    has: ["before the request", "streaming", "in the ending"]
  },
  {
    name: "three parallel tools and one exclusive",
    scripts: [
      call(["look", { id: "a" }], ["look", { id: "b" }], ["look", { id: "c" }], ["touch", { id: "d" }]),
      say("done")
    ],
    body: slowly,
    has: EveryPoint.phases
  },
  {
    name: "a failing tool",
    scripts: [call(["look", { id: "a" }], ["touch", { id: "b" }]), say("done")],
    body: (id) => Effect.zipRight(Effect.sleep(5), id === "a" ? Effect.fail("no") : Effect.die("worse")),
    has: EveryPoint.phases
  },
  {
    name: "a tool annotated to finish",
    scripts: [call(["finish", { id: "a" }], ["look", { id: "b" }], ["touch", { id: "c" }]), say("done")],
    body: slowly,
    has: EveryPoint.phases
  },
  {
    name: "a tool that races inside",
    scripts: [call(["look", { id: "a" }]), say("done")],
    body: (id) => Effect.race(slowly(id), Effect.zipRight(Effect.sleep(3), slowly("other"))),
    has: EveryPoint.phases
  },
  {
    name: "a retry wait",
    scripts: [[said("half "), fail("SERVER")], streaming],
    has: ["before the request", "streaming", "in the ending"]
  },
  {
    name: "the stopping hook",
    scripts: [say("done")],
    hooks: { stopping: () => Effect.sleep(5) },
    has: ["before the request", "streaming", "in the ending"]
  },
  {
    name: "two queued prompts",
    scripts: [say("first"), streaming],
    prompts: 2,
    has: ["before the request", "streaming", "in the ending"]
  }
]

/** Runs a scenario once for each step, and lets the test runner breathe in between. */
const everyStep = (steps: number, runAt: (step: number) => void) =>
  Effect.forEach(
    Array.from({ length: steps }, (_, index) => index + 1),
    (step) =>
      Effect.zipRight(
        Effect.sync(() => runAt(step)),
        step % 20 === 0 ? Effect.sleep(0) : Effect.void
      ),
    { discard: true }
  )

/** Pairs of steps, the second after the first: the same for the same seed, always. */
const pairs = (steps: number, count: number, seed: number): ReadonlyArray<readonly [number, number]> => {
  let state = seed
  const draw = (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return 1 + (state % below)
  }
  return Array.from({ length: count }, () => {
    const first = draw(steps)
    return [first, first + draw(Math.max(1, Math.min(400, steps - first)))]
  })
}

describe("a cancel, and another thing some steps later", () => {
  const acts = {
    "a cancel": EveryPoint.cancelling,
    "a cancel that keeps the inbox": EveryPoint.keeping,
    "a prompt": EveryPoint.following,
    "a steering message": EveryPoint.steering,
    "the end of its scope": EveryPoint.disposing
  }
  const count = Number(process.env["DAYBOOK_PAIRS"] ?? 25)
  it.live.each(scenarios)(
    "law 3 law 4 law 5 law 7 B09 B14: $name",
    (scenario) =>
      Effect.gen(function* () {
        const { steps } = EveryPoint.run(scenario)
        for (const [index, [name, act]] of Object.entries(acts).entries()) {
          const sampled = pairs(steps, count, index + 1)
          yield* everyStep(sampled.length, (step) => {
            const [first, second] = sampled[step - 1] ?? [1, 2]
            const { log, problems } = EveryPoint.run(scenario, [
              [first, EveryPoint.cancelling],
              [second, act]
            ])
            assert.deepStrictEqual(problems, [], `${name} at ${second} after ${first}: ${log}`)
          })
        }
      }),
    600_000
  )
})

describe("a cancel at every point", () => {
  it.live.each(scenarios)(
    "law 1 law 2 law 3 law 4 law 5 law 7: $name",
    (scenario) =>
      Effect.gen(function* () {
        const untouched = EveryPoint.run(scenario)
        assert.deepStrictEqual(untouched.problems, [])
        const landed = new Map<EveryPoint.Phase, number>()
        const logs = new Set<string>()
        yield* everyStep(untouched.steps, (step) => {
          const { log, phases, problems } = EveryPoint.run(scenario, [[step, EveryPoint.cancelling]])
          assert.deepStrictEqual(problems, [], `step ${step}: ${log}`)
          for (const phase of phases) landed.set(phase, (landed.get(phase) ?? 0) + 1)
          logs.add(log)
        })
        const told = [...landed].map(([phase, count]) => `${count} ${phase}`).join(", ")
        yield* Console.log(`${scenario.name}: ${untouched.steps} points, ${logs.size} logs; ${told}`)
        for (const phase of scenario.has) assert.isAbove(landed.get(phase) ?? 0, 0, phase)
      }),
    600_000
  )
})
