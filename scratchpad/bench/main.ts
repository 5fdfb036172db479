/**
 * Question: how far is Daybook from the floor, raw better-sqlite3 writing or reading the same bytes with full sync?
 * Command:  npm run bench            (a table)
 *           npm run bench -- --json  (one object)
 *           npm run bench -- turns   (some of: streaming, steps, turns, resume, compacted, cancelling)
 * Answer:   printed as ratios of the same run: work and floor take turns, and each is the median of its rounds. The rest
 *           is the machine's.
 */
import { statSync } from "node:fs"
import { FileSystem } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import type { Agent } from "daybook"
import { Console, Effect, Fiber, Metric, MetricState } from "effect"
import { calls, deltas, turn, withAgent } from "./agent.ts"
import * as Floor from "./floor.ts"
import { longSession } from "./long.ts"

/** `measured` and `floor` in milliseconds of one unit of work. */
interface Row {
  readonly work: string
  readonly measured: number
  readonly floor: number
  readonly target: string
  readonly notes: Record<string, number>
}

const median = (values: ReadonlyArray<number>): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0

/** How much longer the last of these took than the first. */
const growth = (each: ReadonlyArray<number>, count: number): number =>
  median(each.slice(-count)) / median(each.slice(0, count))

const timed = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<number, E, R> =>
  Effect.suspend(() => {
    const from = performance.now()
    return Effect.map(effect, () => performance.now() - from)
  })

/** Takes turns: one unit of work, one of the floor. */
const rounds = <E, R>(count: number, unit: Effect.Effect<number, E, R>, floor: () => number) =>
  Effect.map(Effect.replicateEffect(Effect.zip(unit, Effect.sync(floor)), count), (pairs) => ({
    each: pairs.map(([millis]) => millis),
    floor: median(pairs.map(([, millis]) => millis))
  }))

const streaming = Effect.fnUntraced(function* (folder: string) {
  const count = 20_000
  const answer = deltas(count)
  let file = ""
  let round = 0
  const unit = Effect.suspend(() => {
    file = `${folder}/stream-${round++}.db`
    return withAgent(
      file,
      () => answer,
      (agent) => timed(turn(agent))
    )
  })
  yield* unit
  const { each, floor } = yield* rounds(7, unit, () => Floor.streaming(`${folder}/floor-stream-${round}.db`, count))
  const measured = median(each)
  const row: Row = {
    work: "streaming 20,000 deltas of 12 bytes, durable",
    measured,
    floor,
    target: "ratio 2; 1.3 bytes a byte; a row for 4 KiB",
    notes: {
      "deltas a second": (count / measured) * 1000,
      "bytes a byte": statSync(file).size / (count * 12),
      "chunk rows": Floor.chunkRows(file)
    }
  }
  return row
})

/** One turn of many steps; the time of each is that from request to request, without the floor's in between. */
const steps = Effect.fnUntraced(function* (folder: string) {
  const count = 220
  // the rows of: step/start and step/end, the answer and its chunk, four calls, their results and a settled one
  const floorUnit = Floor.commits(`${folder}/floor-steps.db`, [2, 2, 4, 5])
  const each: Array<number> = []
  const floors: Array<number> = []
  let from = 0
  const answers = (request: number) => {
    if (request > 1) each.push(performance.now() - from)
    floors.push(floorUnit())
    from = performance.now()
    return request <= count ? calls("noop", 4) : []
  }
  yield* withAgent(`${folder}/steps.db`, answers, turn)
  const warm = each.slice(-200)
  const row: Row = {
    work: "a step with 4 parallel no-op tools, 4 barriers",
    measured: median(warm),
    floor: median(floors),
    target: "ratio 2; growth 1.2",
    notes: { growth: growth(warm, 50) }
  }
  return row
})

const turns = Effect.fnUntraced(function* (folder: string) {
  // the rows of: the prompt and turn/start; its claim, step/start, user/message and header; chunk, answer and both ends
  const floorUnit = Floor.commits(`${folder}/floor-turns.db`, [2, 4, 4])
  const work = (agent: Agent.Agent) =>
    Effect.zipRight(Effect.replicateEffect(turn(agent), 50), rounds(1000, timed(turn(agent)), floorUnit))
  const { each, floor } = yield* withAgent(`${folder}/turns.db`, () => deltas(3), work)
  const row: Row = {
    work: "a short turn, 1,000 in one session",
    measured: median(each),
    floor,
    target: "2.5 ms; growth 1.2",
    notes: { growth: growth(each, 100) }
  }
  return row
})

/** From opening the file to the first request, of a session that is there. */
const resuming = Effect.fnUntraced(function* (folder: string, name: string, compacted: boolean) {
  const file = `${folder}/${name}.db`
  const events = yield* longSession(file, 100_000, compacted)
  const unit = Effect.suspend(() => {
    let millis = 0
    const from = performance.now()
    const answers = () => {
      millis = performance.now() - from
      return deltas(1)
    }
    return Effect.map(withAgent(file, answers, turn), () => millis)
  })
  const { each, floor } = yield* rounds(5, unit, () => Floor.reading(file))
  return { measured: median(each), floor, notes: { events } }
})

const resume = (folder: string) =>
  Effect.map(
    resuming(folder, "resume", false),
    (result): Row => ({ work: "100,000-event session to its first request", target: "ratio 3", ...result })
  )

const compacted = (folder: string) =>
  Effect.map(
    resuming(folder, "compacted", true),
    (result): Row => ({
      work: "the same with all but one turn replaced",
      target: "in proportion to what a model still sees",
      ...result
    })
  )

const cancelling = Effect.fnUntraced(function* (folder: string) {
  let entered = 0
  /** The most commits that a cancel took. */
  let most = 0
  const ready = yield* Effect.makeLatch(false)
  const hanging = Effect.suspend(() => (++entered % 8 === 0 ? ready.open : Effect.void))
  const unit = (agent: Agent.Agent) =>
    Effect.gen(function* () {
      yield* ready.close
      const sent = yield* Effect.fork(agent.followup("go"))
      yield* ready.await
      yield* Fiber.join(sent)
      const before = yield* committed
      const millis = yield* timed(agent.cancel("user"))
      most = Math.max(most, (yield* committed) - before)
      return millis
    })
  // the rows of: eight results and both ends
  const floorUnit = Floor.commits(`${folder}/floor-cancel.db`, [10])
  const work = (agent: Agent.Agent) =>
    Effect.zipRight(Effect.replicateEffect(unit(agent), 20), rounds(100, unit(agent), floorUnit))
  const { each, floor } = yield* withAgent(`${folder}/cancel.db`, () => calls("hang", 8), work, Effect.asVoid(hanging))
  const row: Row = {
    work: "cancel with 8 running tools to settled and durable",
    measured: median(each),
    floor,
    target: "2.5 ms; 1 commit",
    notes: { "commits at most": most }
  }
  return row
})

/** How often the journal has committed. */
const committed = Effect.map(Metric.snapshot, (pairs) => {
  const found = pairs.find(({ metricKey }) => metricKey.name === "daybook_commits")?.metricState
  return MetricState.isCounterState(found) ? Number(found.count) : 0
})

const print = (rows: ReadonlyArray<Row>, peakMiB: number) => {
  if (process.argv.includes("--json")) {
    const withRatios = rows.map((row) => ({ ...row, ratio: row.measured / row.floor }))
    return Console.log(JSON.stringify({ rows: withRatios, peakMiB }))
  }
  const lines = rows.map(({ floor, measured, notes, target, work }) => {
    const more = Object.entries(notes).map(([name, value]) => `, ${name} ${Number(value.toFixed(2))}`)
    const ratio = (measured / floor).toFixed(2)
    return `${work}\n  ${measured.toFixed(2)} ms, floor ${floor.toFixed(2)} ms, ratio ${ratio}${more.join("")} (to reach: ${target})`
  })
  return Console.log([...lines, `peak memory ${peakMiB.toFixed(0)} MiB`].join("\n"))
}

const bench = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "daybook-bench-" })
  const rows: Array<Row> = []
  const asked = process.argv.slice(2).filter((word) => !word.startsWith("--"))
  for (const [name, work] of Object.entries({ streaming, steps, turns, resume, compacted, cancelling }))
    if (asked.length === 0 || asked.includes(name)) rows.push(yield* work(folder))
  yield* print(rows, process.resourceUsage().maxRSS / 1024)
})

NodeRuntime.runMain(Effect.provide(Effect.scoped(bench), NodeContext.layer))
