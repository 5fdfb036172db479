/**
 * A cancel at every step of every scenario, on a journal in memory.
 *
 * Of the longest scenarios it is every third step, from an offset that moves with the days; with `DAYBOOK_STRIDE` every n-th
 * step of all of them, and 1 is each.
 * `DAYBOOK_PAIRS` is how many pairs of a cancel and another thing are tried of each kind, or `all`.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { PCGRandom } from "effect/Utils"
import { say } from "../../src/model/ScriptedModel.ts"
import * as EveryPoint from "../support/EveryPoint.ts"
import { scenarios } from "../support/Scenarios.ts"

/** How many steps a scenario may have for each to be tried as usual. */
const maxPoints = 4600

const dayMillis = 24 * 3_600_000

/** Longer than any machine takes: what a test finds does not depend on it. */
const patience = 24 * 3_600_000

describe("a cancel at every point", () => {
  it.live.each(scenarios)(
    "law 1 law 2 law 3 law 4 law 5 law 7 O-L1: $name",
    (scenario) =>
      Effect.gen(function* () {
        const untouched = EveryPoint.run(scenario)
        assert.deepStrictEqual(untouched.problems, [])
        const usual = untouched.steps > maxPoints ? 3 : 1
        const stride = yield* Config.integer("DAYBOOK_STRIDE").pipe(Config.withDefault(usual))
        const from = 1 + (Math.floor((yield* Clock.currentTimeMillis) / dayMillis) % stride)
        const landed = yield* EveryPoint.everyStep({ from, stride, to: untouched.steps }, (step) =>
          EveryPoint.run(scenario, [[step, EveryPoint.cancelling]])
        )
        const every = stride === 1 ? "each" : `every ${stride}th from ${from} on`
        yield* Console.log(`${scenario.name}: ${untouched.steps} points, ${every}; ${EveryPoint.told(landed)}`)
        for (const phase of scenario.has) assert.isAbove(landed.phases.get(phase) ?? 0, 0, phase)
      }),
    patience
  )
})

describe("the hand-over", () => {
  it.live(
    "R2 law 5 law 7: a cancel belongs to a turn up to one point, and then to none; what is sent after it runs",
    () =>
      Effect.gen(function* () {
        const scenario = { name: "", scripts: [say("first"), say("second")], prompts: 2, has: [] }
        const answers: Array<string> = []
        const act: EveryPoint.Act = (agent) =>
          Effect.gen(function* () {
            const answer = yield* agent.cancel("user")
            answers.push(answer._tag === "Settled" ? `${answer.turn}` : answer._tag)
            yield* agent.followup("and then")
          })
        const runAt = (step: number) => EveryPoint.run(scenario, [[step, act]])
        const { steps } = EveryPoint.run(scenario)
        // roughly at first: between which steps the first turn ends and the second one asks its model
        const rough = Array.from({ length: Math.ceil(steps / 50) }, (_, index) => 1 + 50 * index)
        const phases = rough.map((step) => runAt(step).phases[0])
        const ending = phases.indexOf("in the ending", phases.indexOf("streaming"))
        const asking = phases.indexOf("streaming", ending)
        answers.length = 0
        const window = { from: rough[ending - 1] ?? 1, to: rough[asking] ?? steps }
        const landed = yield* EveryPoint.everyStep(window, (step) => {
          const run = runAt(step)
          // an idle cancel aborted nothing, and what was sent after it ran
          assert.strictEqual(run.log.includes("T>(aborted)"), answers.at(-1) !== "Idle", run.log)
          assert.match(run.log, /UM (RH\(initial\) )?ck AM S>1 T>\(completed\)$/)
          return run
        })
        const stretches = answers.filter((answer, index) => answer !== answers[index - 1])
        assert.deepStrictEqual(stretches, ["1", "Idle", "2"])
        yield* Console.log(`the hand-over: ${landed.runs} points; ${EveryPoint.told(landed)}`)
      }),
    patience
  )
})

describe("a cancel, and another thing some steps later", () => {
  const acts = {
    "a cancel": EveryPoint.cancelling,
    "a cancel that keeps the inbox": EveryPoint.keeping,
    "a prompt": EveryPoint.following,
    "a steering message": EveryPoint.steering,
    "the end of its scope": EveryPoint.disposing
  }

  it.live.each(scenarios)(
    "law 3 law 4 law 5 law 7 B09 B14 R2: $name",
    (scenario) =>
      Effect.gen(function* () {
        const wanted = yield* Config.string("DAYBOOK_PAIRS").pipe(Config.withDefault("25"))
        const { steps } = EveryPoint.run(scenario)
        /** How many steps there are with a cancel at this one: what comes later comes at one of those. */
        const stepsWith = (first: number) => EveryPoint.run(scenario, [[first, EveryPoint.cancelling]]).steps
        const counts: Array<string> = []
        for (const [index, [name, act]] of Object.entries(acts).entries()) {
          const pairs = wanted === "all" ? allPairs(steps, stepsWith) : drawn(Number(wanted), index, steps, stepsWith)
          const { runs } = yield* EveryPoint.each(pairs, ([first, second]) =>
            EveryPoint.run(scenario, [
              [first, EveryPoint.cancelling],
              [second, act]
            ])
          )
          assert.isAbove(runs, 0)
          counts.push(`${runs} with ${name}`)
        }
        yield* Console.log(`${scenario.name}: pairs: ${counts.join(", ")}`)
      }),
    patience
  )
})

type Pair = readonly [first: number, second: number]

function* allPairs(steps: number, stepsWith: (first: number) => number): Generator<Pair> {
  for (let first = 1; first <= steps; first++) {
    const last = stepsWith(first)
    for (let second = first + 1; second <= last; second++) yield [first, second]
  }
}

function* drawn(count: number, seed: number, steps: number, stepsWith: (first: number) => number): Generator<Pair> {
  const dice = new PCGRandom(seed)
  for (let n = 0; n < count; n++) {
    const first = 1 + dice.integer(steps)
    const left = stepsWith(first) - first
    // after the last step nothing happens any more
    yield [first, first + 1 + dice.integer(Math.max(1, left))]
  }
}
