import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Killer from "./Killer.ts"
import * as Series from "./Series.ts"

/** How many kills, and from which seed: `DAYBOOK_KILLS` and `DAYBOOK_CRASH_SEED` say others. */
const kills = Number(process.env["DAYBOOK_KILLS"] ?? 300)
const seed = Number(process.env["DAYBOOK_CRASH_SEED"] ?? Math.floor(Math.random() * 2 ** 31))

/** How many kills one session lives through at most: what a life costs grows with its log. */
const maxKills = 500

/** As many sessions as that takes, at least two: they are killed side by side. */
const sessions = Math.max(2, Math.ceil(kills / maxKills))

const shown = ({ calls, kills, problems, ...report }: Series.Report): string =>
  JSON.stringify({ ...report, killed: Series.killed({ kills }), kills, calls })

describe("SIGKILL at random moments", () => {
  it.live(
    "law 1 law 2 law 3 law 6 law 7 law 8 law 9 law 10 W01 J20 O-A5 O-M3: one session lives through a series of kills, and every look finds it balanced",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const at = yield* Killer.victims
          const began = performance.now()
          const progress = (report: Series.Report) => {
            const seconds = Math.round((performance.now() - began) / 1000)
            if (report.lives % 250 === 0) console.log(`after ${seconds} s: ${shown(report)}`)
          }
          const reports = yield* Effect.forEach(
            Array.from({ length: sessions }, (_, index) => seed + index),
            (own) => Series.run(at, { seed: own, kills: Math.ceil(kills / sessions) }, progress),
            { concurrency: 2 }
          )
          console.log([`DAYBOOK_CRASH_SEED=${seed} DAYBOOK_KILLS=${kills}`, ...reports.map(shown)].join("\n"))
          assert.deepStrictEqual(
            reports.flatMap((report) => report.problems),
            []
          )
          assert.isAtLeast(
            reports.reduce((sum, report) => sum + Series.killed(report), 0),
            kills
          )
        })
      ),
    120_000 + kills * 3_000
  )

  /** What shows of victims that lack a guard. */
  const caught = (plan: Required<Pick<Series.Plan, "sabotage" | "moments">>) =>
    Effect.scoped(
      Effect.gen(function* () {
        const at = yield* Killer.victims
        const { problems } = yield* Series.run(at, { seed, kills: 60, ...plan })
        return problems.join("\n")
      })
    )

  it.live(
    "law 6 law 7: without the barrier, bodies run that the log does not know, and accepted messages are lost",
    () =>
      Effect.gen(function* () {
        const ran = yield* caught({ sabotage: "barrier", moments: [{ word: "mark", most: 1, millis: 0 }] })
        assert.match(ran, /law 6: .* left the mark .* and is not in the log/)
        const lost = yield* caught({ sabotage: "barrier", moments: [{ word: "sent", most: 1, millis: 0 }] })
        assert.match(lost, /law 7: .* was accepted and is not in the log/)
      }),
    120_000
  )

  it.live(
    "law 6: a repair that says of a started call that it never started is found out by the marks",
    () =>
      Effect.map(caught({ sabotage: "repair", moments: [{ word: "mark", most: 1, millis: 0 }] }), (problems) =>
        assert.match(problems, /law 6: .* left a mark and is told as TOOL_NOT_STARTED/)
      ),
    120_000
  )

  it.live(
    "law 8: without transactions, the record and the events part",
    () =>
      Effect.map(caught({ sabotage: "transaction", moments: [{ word: "sent", most: 2, millis: 60 }] }), (problems) =>
        assert.match(problems, /law 8: there are \d+ events, the record says \d+/)
      ),
    120_000
  )
})
