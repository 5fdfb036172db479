/**
 * A series of lives on one session, each killed at a random moment and judged; the next one goes on from there.
 *
 * - The seed decides what each life does and when it is killed; where that moment falls is the machine's affair.
 */
import { join } from "node:path"
import Database from "better-sqlite3"
import * as Effect from "effect/Effect"
import * as Inbox from "../../src/domain/Inbox.ts"
import * as Killer from "./Killer.ts"
import { type Orders, policyOf, type Round, type Sabotage, type Send } from "./Life.ts"
import * as Oracle from "./Oracle.ts"
import type { Shape } from "./Shapes.ts"

/** Where a life was when it was killed. */
export type Stage = "starting" | "opening" | "repairing" | "streaming" | "asked" | "in a body" | "between"

export interface Report {
  readonly seed: number
  readonly lives: number
  readonly kills: Record<Stage, number>
  /** Lives that had done everything before they were to be killed. */
  readonly ended: number
  readonly marks: number
  readonly sent: number
  readonly events: number
  readonly epoch: number
  readonly calls: Oracle.Fates
  /** What was wrong, after which life. The series stops there. */
  readonly problems: ReadonlyArray<string>
}

export interface Plan {
  readonly seed: number
  readonly kills: number
  readonly sabotage?: Sabotage
  /** Kills at these moments alone. */
  readonly moments?: typeof moments
}

/** How many lives of a series were killed. */
export const killed = ({ kills }: Pick<Report, "kills">): number => Object.values(kills).reduce((a, b) => a + b, 0)

/** A series in a place of its own, as long as nothing is wrong. `progress` is called after each life. */
export const run = (
  at: Killer.Place,
  plan: Plan,
  progress: (report: Report) => void = () => {}
): Effect.Effect<Report> =>
  Effect.gen(function* () {
    const orders = {
      file: join(at.folder, `${plan.seed}.db`),
      outside: join(at.folder, `${plan.seed}`),
      session: "victim",
      sabotage: plan.sabotage
    }
    const random = generator(plan.seed)
    const series: Series = { oracle: Oracle.make(), orders }
    let report = begin(plan.seed)
    while (killed(report) < plan.kills && report.problems.length === 0) {
      report = yield* another(at, series, report, drawn(random, plan))
      progress(report)
    }
    if (report.problems.length > 0 || plan.sabotage !== undefined) return report
    // the last owner repairs what the last kill left, and lives to its end
    report = yield* another(at, series, report, { rounds: [{ shape: "talk" }] })
    const problems = [...report.problems, ...(yield* whole(series))]
    return { ...report, problems }
  })

// internal

/** What a series goes on with. */
interface Series {
  readonly oracle: Oracle.Oracle
  readonly orders: Pick<Orders, "file" | "outside" | "session" | "sabotage">
}

const begin = (seed: number): Report => ({
  seed,
  lives: 0,
  kills: { starting: 0, opening: 0, repairing: 0, streaming: 0, asked: 0, "in a body": 0, between: 0 },
  ended: 0,
  marks: 0,
  sent: 0,
  events: 0,
  epoch: 0,
  calls: { real: 0, unknown: 0, neverStarted: 0, denied: 0, cancelled: 0 },
  problems: []
})

/** What one life does, and when it is killed. */
interface Draw {
  readonly rounds: ReadonlyArray<Round>
  readonly slowMillis?: number
  readonly moment?: Killer.Moment
}

/** One more life, and what is wrong with what it left. */
const another = Effect.fnUntraced(function* (at: Killer.Place, series: Series, before: Report, draw: Draw) {
  const { oracle, orders } = series
  const { moment, ...doing } = draw
  const life = before.lives + 1
  const wasOpen = Oracle.stateOf(oracle)?.brackets.open !== undefined
  const { epoch } = oracle
  const end = yield* Killer.life(at, { ...orders, ...doing, life }, moment)
  const look = yield* Killer.look(orders, Oracle.seen(oracle))
  const has = (word: string) => end.lines.some((line) => line.word === word)
  const found = [
    ...Oracle.judge(oracle, look, policyOf(life)),
    ...(look.epoch > epoch + 1 ? [`law 9: one life raised the epoch from ${epoch} to ${look.epoch}`] : []),
    ...(has("open") && look.epoch !== epoch + 1
      ? ["law 9: a life owned the session and its epoch is that of another"]
      : []),
    ...(end.killed || has("ended") ? [] : [`it failed: ${end.errors}`])
  ]
  const stage = stageOf(oracle, { isOpening: has("opening"), isOpen: has("open"), wasOpen })
  return {
    ...before,
    lives: life,
    kills: end.killed ? { ...before.kills, [stage]: before.kills[stage] + 1 } : before.kills,
    ended: before.ended + (end.killed ? 0 : 1),
    marks: oracle.marked.size,
    sent: before.sent + look.lines.filter(({ word }) => word === "sent").length,
    events: look.head,
    epoch: look.epoch,
    calls: { ...oracle.fates },
    problems: [...before.problems, ...found.map((problem) => `life ${life}: ${problem}`)]
  } satisfies Report
})

const stageOf = (
  oracle: Oracle.Oracle,
  { isOpen, isOpening, wasOpen }: { readonly isOpening: boolean; readonly isOpen: boolean; readonly wasOpen: boolean }
): Stage => {
  if (!isOpening) return "starting"
  if (!isOpen) return wasOpen ? "repairing" : "opening"
  const step = Oracle.stateOf(oracle)?.brackets.open?.step
  if (step === undefined) return "between"
  if (step.answer === undefined) return "streaming"
  if (step.calls.some((call) => call.approval === "asked")) return "asked"
  return step.calls.some(
    (call) => call.started !== undefined && call.settled === undefined && call.result === undefined
  )
    ? "in a body"
    : "between"
}

/** Reads all of it again: nothing that was ever read is another now, nothing waits, and the database is whole. */
const whole = Effect.fnUntraced(function* ({ oracle, orders }: Series) {
  const { events } = yield* Killer.look(orders)
  const state = Oracle.stateOf(oracle)
  const waiting = state === undefined ? [] : Inbox.pending(state.inbox)
  const db = new Database(orders.file, { readonly: true })
  const check = db.pragma("integrity_check", { simple: true })
  db.close()
  return [
    ...(Oracle.digestOf(events) === oracle.digest ? [] : ["law 8: what was read before is another now"]),
    ...waiting.map(({ id }) => `law 7: message ${id} still waits`),
    ...[...oracle.due].map((id) => `law 7: message ${id} was never used`),
    ...(check === "ok" ? [] : [`the database: ${String(check)}`])
  ]
})

/** Numbers from 0 to 1 that follow from a seed (mulberry32). */
const generator = (seed: number) => {
  let state = seed
  return (): number => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

type Random = () => number

const oneOf = <A>(random: Random, items: readonly [A, ...ReadonlyArray<A>]): A =>
  items[Math.floor(random() * items.length)] ?? items[0]

const upTo = (random: Random, most: number): number => 1 + Math.floor(random() * most)

const drawnShapes: readonly [Shape, ...ReadonlyArray<Shape>] = [
  "talk",
  "talk",
  "tools",
  "early",
  "questions",
  "command"
]

const drawnRound = (random: Random): Round => {
  const also = random() < 0.4 ? [oneOf<Send>(random, ["followup", "steer", "inject"])] : []
  const cancelAfterMillis = random() * 60
  return { shape: oneOf(random, drawnShapes), also, ...(random() < 0.2 ? { cancelAfterMillis } : {}) }
}

/** A word of a life, and how long after it at most the kill comes; the more often one stands here, the likelier it is. */
const moments: readonly [Draws, ...ReadonlyArray<Draws>] = [
  { word: "start", most: 1, millis: 400 },
  { word: "opening", most: 1, millis: 60 },
  { word: "repairing", most: 1, millis: 8 },
  { word: "open", most: 1, millis: 30 },
  { word: "sent", most: 4, millis: 0 },
  { word: "sent", most: 4, millis: 80 },
  { word: "sent", most: 4, millis: 80 },
  { word: "asked", most: 2, millis: 15 },
  { word: "mark", most: 6, millis: 0 },
  { word: "mark", most: 6, millis: 40 }
]

interface Draws {
  readonly word: Killer.Moment["word"]
  readonly most: number
  readonly millis: number
}

const drawn = (random: Random, plan: Plan): Draw => {
  const { millis, most, word } = oneOf(random, plan.moments ?? moments)
  return {
    rounds: [
      // a question comes where it is waited for
      word === "asked" ? { shape: "questions" } : drawnRound(random),
      drawnRound(random),
      drawnRound(random)
    ],
    // every other disk is slow; what does not wait for it shows there
    slowMillis: plan.sabotage === "barrier" ? 60 : Math.floor(random() * 2) * 3,
    moment: { word, nth: upTo(random, most), afterMillis: random() * millis }
  }
}
