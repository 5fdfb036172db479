/**
 * Sends, cancels, removals and disposals in any order, from outside, from a subscriber and from inside of a body, while the
 * fibers run in any order too.
 *
 * `DAYBOOK_RUNS` is how many are tried, `DAYBOOK_SEED` what they are drawn from; without one, each day has its own.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as fc from "effect/FastCheck"
import * as EveryPoint from "../support/EveryPoint.ts"
import { scenarios } from "../support/Scenarios.ts"

const patience = 24 * 3_600_000
const dayMillis = 86_400_000

const acts = {
  cancel: EveryPoint.cancelling,
  "cancel, keeping the inbox": EveryPoint.keeping,
  followup: EveryPoint.following,
  steer: EveryPoint.steering,
  inject: EveryPoint.injecting,
  remove: EveryPoint.removing
}
type Name = keyof typeof acts | "dispose"

const names = fc.constantFrom(...(Object.keys(acts) as ReadonlyArray<keyof typeof acts>)) // the keys of a literal
/** A turn cannot wait for its own end: a body never leaves the scope of its agent. */
const outside: fc.Arbitrary<Name> = fc.oneof({ weight: 12, arbitrary: names }, fc.constant<Name>("dispose"))

const moment: fc.Arbitrary<readonly [EveryPoint.Moment, Name]> = fc.oneof(
  { weight: 4, arbitrary: fc.tuple(fc.integer({ min: 1, max: 4000 }), outside) },
  { weight: 2, arbitrary: fc.tuple(fc.record({ item: fc.nat(60) }), outside) },
  { weight: 1, arbitrary: fc.tuple(fc.record({ body: fc.nat(5) }), names) }
)

const stepOf = ([at]: readonly [EveryPoint.Moment, Name]): number => (typeof at === "number" ? at : 0)

const interleaving = fc.record({
  name: fc.constantFrom(...scenarios.map(({ name }) => name)),
  prompts: fc.integer({ min: 1, max: 3 }),
  plan: fc.array(moment, { minLength: 1, maxLength: 7 }).map((plan) => plan.sort((a, b) => stepOf(a) - stepOf(b))),
  seed: fc.option(fc.integer())
})

describe("random interleavings", () => {
  it.live(
    "W30 law 3 law 4 law 5 law 7 R2 R9 R10 R11 R12: whatever is done, in whatever order, every promise is kept",
    () =>
      Effect.gen(function* () {
        const numRuns = yield* Config.integer("DAYBOOK_RUNS").pipe(Config.withDefault(2000))
        const today = Math.floor((yield* Clock.currentTimeMillis) / dayMillis)
        const seed = yield* Config.integer("DAYBOOK_SEED").pipe(Config.withDefault(today))
        const ended = new Map<string, number>()
        let runs = 0
        const property = fc.asyncProperty(interleaving, async ({ name, plan, prompts, seed }) => {
          const scenario = scenarios.find((scenario) => scenario.name === name)
          if (scenario === undefined) return
          const planned = plan.map(
            ([at, name]) => [at, name === "dispose" ? EveryPoint.disposing : acts[name]] as const
          )
          const options = seed === null ? {} : { seed }
          const { log, problems } = EveryPoint.run({ ...scenario, prompts }, planned, options)
          assert.strictEqual(problems.join("; "), "", log)
          for (const [, kind = ""] of log.matchAll(/T>\(([a-z-]+)\)/g)) ended.set(kind, (ended.get(kind) ?? 0) + 1)
          // the test runner wants to hear of its worker
          if (++runs % 20 === 0) await new Promise((resolve) => setImmediate(resolve))
        })
        yield* Effect.promise(() => fc.assert(property, { numRuns, seed }))
        const kinds = [...ended].map(([kind, count]) => `${count} ${kind}`).join(", ")
        yield* Console.log(`${runs} runs from seed ${seed}; turns that ended: ${kinds}`)
        assert.deepStrictEqual([...ended.keys()].sort(), ["aborted", "completed", "error"])
      }),
    patience
  )
})
