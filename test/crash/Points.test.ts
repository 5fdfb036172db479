import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Killer from "./Killer.ts"
import * as Points from "./Points.ts"

const reason = Points.unavailable()
if (reason !== undefined) console.log(`crash points are not tried: ${reason}`)

/** Two lanes side by side, each with every other point. */
const lanes = [1, 2]

describe.skipIf(reason !== undefined)("SIGKILL at every call that changes the database", () => {
  it.live(
    "law 6 law 7 law 8 W03 W23 J20: whole and torn, and again while the next owner recovers, it balances",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const at = yield* Killer.victims
          const shim = Points.compile(at.folder)
          const reports = yield* Effect.forEach(lanes, (first) => Points.run(at, shim, { first, step: lanes.length }), {
            concurrency: lanes.length
          })
          const sum = (of: (report: Points.Report) => number) => reports.reduce((all, report) => all + of(report), 0)
          const points = sum((report) => report.points)
          console.log(`${points} crash points; ${sum((report) => report.recoveries)} recoveries were killed as well`)
          assert.deepStrictEqual(
            reports.flatMap((report) => report.problems),
            []
          )
          assert.isAbove(points, 100)
        })
      ),
    900_000
  )

  it.live(
    "law 8: without transactions, a point is found where the record and the events part",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const at = yield* Killer.victims
          const plan = { first: 100, step: 1, sabotage: "transaction" } as const
          const { problems } = yield* Points.run(at, Points.compile(at.folder), plan)
          assert.match(problems.join("\n"), /law 8: there are \d+ events, the record says \d+/)
        })
      ),
    120_000
  )
})
