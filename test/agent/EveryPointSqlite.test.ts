/**
 * A cancel at every step, on a journal in a real SQLite file; each run has a session of its own in it.
 *
 * One scenario has every step; the others every n-th, from an offset that moves with the days. `DAYBOOK_STRIDE` is that n,
 * for every scenario: 1 is all of them.
 */

import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Console from "effect/Console"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { SessionId } from "../../src/domain/Ids.ts"
import * as Journal from "../../src/journal/Journal.ts"
import * as EveryPoint from "../support/EveryPoint.ts"
import { scenarios } from "../support/Scenarios.ts"

const patience = 24 * 3_600_000
const dayMillis = 86_400_000

/** The scenario that has every step. */
const whole = "text only"

/** A journal in a file, opened outside of the world that is run step by step: opening waits for the file system. */
const journal = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped()
  const context = yield* Layer.build(Journal.layerSqlite({ filename: `${folder}/journal.db` }))
  return Context.get(context, Journal.Journal)
})

describe("a cancel at every point, on SQLite", () => {
  it.scopedLive.each(scenarios)(
    "law 1 law 2 law 3 law 4 law 5 law 7: $name",
    (scenario) =>
      Effect.gen(function* () {
        const file = yield* journal
        let runs = 0
        const runAt = (plan: EveryPoint.Plan) =>
          EveryPoint.run(scenario, plan, { stored: { journal: file, id: SessionId.make(`world-${runs++}`) } })
        // the first run prepares the statements
        for (const _ of [1, 2]) assert.deepStrictEqual(runAt([]).problems, [])
        const { steps } = runAt([])
        const usual = scenario.name === whole ? 1 : 37
        const stride = yield* Config.integer("DAYBOOK_STRIDE").pipe(Config.withDefault(usual))
        const from = 1 + (Math.floor((yield* Clock.currentTimeMillis) / dayMillis) % stride)
        const landed = yield* EveryPoint.everyStep({ from, stride, to: steps }, (step) =>
          runAt([[step, EveryPoint.cancelling]])
        )
        const every = stride === 1 ? "each" : `every ${stride}th from ${from} on`
        yield* Console.log(
          `${scenario.name}: ${steps} points, ${every}: ${landed.runs} runs; ${EveryPoint.told(landed)}`
        )
        assert.isAbove(landed.runs, 0)
        if (stride > 1) return
        for (const phase of scenario.has) assert.isAbove(landed.phases.get(phase) ?? 0, 0, phase)
      }).pipe(Effect.provide(NodeContext.layer)),
    patience
  )
})
