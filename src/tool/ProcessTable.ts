/**
 * The processes of this host, as `/proc` shows them, and signals to them.
 *
 * - Zombies are no processes here: they still answer signals, and nothing ends them but their parent.
 * - A process that left its group is known by a mark in the environment that it started with.
 * - Everything is synchronous: a table that is read over several turns of the event loop is of no moment in time.
 */
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync } from "node:fs"

/** What belongs to a call: a group, and whatever bears its mark. */
export interface Wanted {
  readonly pgid: number
  /** An assignment, `NAME=value`, in the environment of every process of the call. */
  readonly mark: string
  /** An assignment in the environment of the guard alone. */
  readonly guardMark: string
  /** When the group started, in the host's ticks: nothing older belongs to it. */
  readonly since: number
}

export interface Found {
  /** Processes of the command in its group, */
  readonly members: ReadonlyArray<number>
  /** and those that left it. */
  readonly escaped: ReadonlyArray<number>
  /** The guards of the group: ours, and gone once the rest is. */
  readonly guards: ReadonlyArray<number>
}

/** Whether there is a table to be read. */
export const isReadable = (proc: string): boolean => existsSync(`${proc}/self/stat`)

/** The living processes of a call. Throws where the table cannot be read, for want of descriptors for one. */
export const find = (proc: string, wanted: Wanted): Found => {
  const found = { members: [] as number[], escaped: [] as number[], guards: [] as number[] }
  const seen = new Set<number>()
  // Read the list again until there is nobody new on it: who is about to fork and to exit must not slip through.
  for (let round = 0; round < maxRounds; round++) {
    const fresh = pids(proc).filter((pid) => !seen.has(pid))
    if (fresh.length === 0) break
    for (const pid of fresh) {
      seen.add(pid)
      const kind = kindOf(proc, pid, wanted)
      if (kind !== undefined) found[kind].push(pid)
    }
  }
  return found
}

/** Sends a signal to a process, or to a group by its negated id; signal 0 only asks. */
export const signal = (target: number, name: NodeJS.Signals | 0): "sent" | "gone" | "refused" => {
  try {
    process.kill(target, name)
    return "sent"
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "ESRCH" ? "gone" : "refused"
  }
}

// internal

/** Where processes come faster than they can be read, whoever was missed is found by the next look. */
const maxRounds = 20

const pids = (proc: string): ReadonlyArray<number> => readdirSync(proc).map(Number).filter(Number.isInteger)

const kindOf = (proc: string, pid: number, wanted: Wanted): keyof Found | undefined => {
  const stat = readStat(proc, pid)
  if (stat === undefined || "ZXx".includes(stat.state) || stat.started < wanted.since) return undefined
  const environment = readEnvironment(proc, pid)
  if (stat.pgid === wanted.pgid) return has(environment, wanted.guardMark) ? "guards" : "members"
  return has(environment, wanted.mark) ? "escaped" : undefined
}

/** What a process that is gone, or that is not ours to look at, reads like. */
const nothing = (error: unknown): string => {
  const code = error instanceof Error && "code" in error ? error.code : undefined
  if (code === "ENOENT" || code === "ESRCH" || code === "EACCES" || code === "EPERM") return ""
  // anything else says nothing about that process: to take it for gone would let it live
  throw error
}

const readEnvironment = (proc: string, pid: number): string => {
  try {
    return readFileSync(`${proc}/${pid}/environ`, "latin1")
  } catch (error) {
    return nothing(error)
  }
}

/** More than a line of `stat` can hold. One for all: nothing is kept in it between two reads. */
const line = Buffer.alloc(4096)

/** By hand, as it is done for every process of the host: `readFileSync` takes three times as long. */
const readLine = (path: string): string => {
  try {
    const file = openSync(path, "r")
    try {
      return line.toString("latin1", 0, readSync(file, line))
    } finally {
      closeSync(file)
    }
  } catch (error) {
    return nothing(error)
  }
}

const readStat = (proc: string, pid: number) => {
  const stat = readLine(`${proc}/${pid}/stat`)
  // the command name may hold anything, so count from the last parenthesis
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  const [state, , pgid] = fields
  if (state === undefined || pgid === undefined) return undefined
  return { state, pgid: Number(pgid), started: Number(fields[19]) }
}

const has = (environment: string, assignment: string): boolean =>
  environment.startsWith(`${assignment}\0`) || environment.includes(`\0${assignment}\0`)
