/**
 * Every crash point: a scenario that is killed at its k-th call that changes a database file, whole and torn, and once more
 * while the next owner recovers, for every k until it survives.
 */
import { spawnSync } from "node:child_process"
import { rmSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"
import * as Killer from "./Killer.ts"
import { live, type Orders, policyOf, type Sabotage } from "./Life.ts"
import * as Oracle from "./Oracle.ts"
import * as Outside from "./Outside.ts"

/** Why there is no shim here; nothing if there can be one. */
export const unavailable = (): string | undefined => {
  if (process.platform !== "linux") return `there is no LD_PRELOAD on ${process.platform}`
  return spawnSync("cc", ["--version"]).status === 0 ? undefined : "there is no C compiler"
}

/** Compiles the shim into a folder. */
export const compile = (folder: string): string => {
  const source = fileURLToPath(new URL("shim.c", import.meta.url))
  const shim = join(folder, "shim.so")
  const { status, stderr } = spawnSync("cc", ["-shared", "-fPIC", "-O1", "-o", shim, source])
  if (status !== 0) throw new Error(`the shim does not compile: ${String(stderr)}`)
  return shim
}

export interface Report {
  /** How many points of the scenario were killed at; a torn one counts again. */
  readonly points: number
  /** How many recoveries were killed before they were done. */
  readonly recoveries: number
  readonly problems: ReadonlyArray<string>
}

/** Where to kill: at every `step`-th point from `first` on. */
export interface Plan {
  readonly first: number
  readonly step: number
  readonly sabotage?: Sabotage
}

/** Goes through points until the scenario survives, or until something is wrong. */
export const run = (at: Killer.Place, shim: string, { first, sabotage, step }: Plan): Effect.Effect<Report> =>
  Effect.gen(function* () {
    let report: Report = { points: 0, recoveries: 0, problems: [] }
    for (let k = first; report.problems.length === 0; k += step) {
      const files = filesOf(at, first, sabotage)
      const whole = yield* point(files, { at, shim, k, torn: false })
      if (whole === undefined) return report
      report = added(report, whole)
      // what is no write cannot be torn
      const torn = whole.call === "write" ? yield* point(files, { at, shim, k, torn: true }) : undefined
      // how many calls a life makes may differ by a few: what is appended at one time shares a commit
      if (torn !== undefined) report = added(report, torn)
    }
    return report
  })

// internal

/** How often a recovery changes a file at most before it goes on with something new. */
const recoveryCalls = 16

const filesOf = (at: Killer.Place, lane: number, sabotage: Sabotage | undefined) => ({
  file: join(at.folder, `${lane}.db`),
  outside: join(at.folder, `${lane}`),
  session: "victim",
  sabotage
})

interface Found {
  readonly call: string
  readonly recoveries: number
  readonly problems: ReadonlyArray<string>
}

const added = (report: Report, found: Found): Report => ({
  points: report.points + 1,
  recoveries: report.recoveries + found.recoveries,
  problems: [...report.problems, ...found.problems]
})

interface Where {
  readonly at: Killer.Place
  readonly shim: string
  readonly k: number
  readonly torn: boolean
}

/** Kills at one point, and again while the next owner recovers; what is wrong with what was left. None where it survives. */
const point = Effect.fnUntraced(function* (files: ReturnType<typeof filesOf>, { at, k, shim, torn }: Where) {
  const { file, outside } = files
  for (const path of [file, `${file}-wal`, `${file}-shm`, outside]) rmSync(path, { force: true })
  const killedAt = (n: number, orders: Pick<Orders, "life" | "rounds">) =>
    Effect.map(
      Killer.life(at, { ...files, ...orders }, undefined, {
        LD_PRELOAD: shim,
        DAYBOOK_SHIM_FILE: file,
        DAYBOOK_SHIM_AT: String(n),
        ...(torn ? { DAYBOOK_SHIM_TORN: "1" } : {})
      }),
      (end) => ({ ...end, call: /killed in (\w+)/.exec(end.errors)?.[1] ?? "" })
    )
  const first = yield* killedAt(k, { life: 1, rounds: [{ shape: "brief" }] })
  if (!first.killed) return undefined
  const oracle = Oracle.make()
  const problems: Array<string> = []
  const judge = (life: number) =>
    Effect.map(Killer.look(files, Oracle.seen(oracle)), (look) => {
      problems.push(...Oracle.judge(oracle, look, policyOf(life)))
    })
  yield* judge(1)
  const recovery = (k * 7 + (torn ? 3 : 0)) % recoveryCalls
  const second = yield* killedAt(1 + recovery, { life: 2, rounds: [{ shape: "brief" }] })
  yield* judge(2)
  // the last owner is this process
  const tell = (line: Outside.Line) => Outside.append(outside, line)
  const orders: Orders = { ...files, sabotage: undefined, life: 3, rounds: [{ shape: "brief" }] }
  const third = yield* Effect.either(live({ orders, tell, go: Effect.unsafeMakeLatch(true) }))
  if (third._tag === "Left") problems.push(`it cannot be opened: ${third.left.message}`)
  yield* judge(3)
  problems.push(...[...oracle.due].map((id) => `law 7: message ${id} was never used`))
  const where = `point ${k}${torn ? ", torn" : ""}, recovery ${recovery + 1}`
  return {
    call: first.call,
    recoveries: second.killed ? 1 : 0,
    problems: problems.map((problem) => `${where}: ${problem}`)
  } satisfies Found
})
