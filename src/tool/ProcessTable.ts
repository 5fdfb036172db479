/**
 * The processes of this host, as `/proc` shows them, and signals to them.
 *
 * - Zombies are no processes here: they still answer signals, and nothing ends them but their parent.
 * - A process that left its group belongs to a call by any of these: the session of the group, a mark in the environment
 *   that it started with, a parent that belongs to the call, or an earlier look that saw it belong.
 * - Everything is synchronous: a table that is read over several turns of the event loop is of no moment in time.
 */
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync } from "node:fs"
import * as ProcStat from "../internal/ProcStat.ts"

/** What belongs to a call: a group, whatever comes from it, and whatever bears its mark. */
export interface Wanted {
  /** Its leader leads a session of the same number. */
  readonly pgid: number
  /** An assignment, `NAME=value`, in the environment of every process of the call. */
  readonly mark: string
  /** An assignment in the environment of the guard alone. */
  readonly guardMark: string
  /**
   * When the leader started, where it is no child of ours: its number may be somebody else's by now, and then the mark alone
   * tells.
   */
  readonly leaderStart?: number
}

export interface Found {
  /** Processes of the command in its group, */
  readonly members: ReadonlyArray<number>
  /** and those that left it. */
  readonly escaped: ReadonlyArray<number>
  /** The guards of the group: ours, and gone once the rest is. */
  readonly guards: ReadonlyArray<number>
  /** Whether that is all. Who is just becoming another program has no environment for a moment: look again then. */
  readonly sure: boolean
}

/** Whether there is a table to be read. */
export const isReadable = (proc: string): boolean => existsSync(`${proc}/self/stat`)

/**
 * Gives looks at the living processes of a call. Nothing older than `since`, in the host's ticks, belongs to it. A look
 * throws where the table cannot be read, for want of descriptors for one.
 */
export const looks = (proc: string, wanted: Wanted): ((since: number) => Found) => {
  /** Who was seen, by the time of its start: it stays ours where it leaves the group and its parent is gone. */
  const known = new Map<number, number>()
  return (since) => {
    const found: Growing = { members: [], escaped: [], guards: [] }
    const ours = new Set<number>()
    const strangers = new Map<number, ProcStat.ProcStat>()
    const seen = new Set<number>()
    let unsure = 0
    /** Whether the number of the group still means it: that of a zombie is nobody else's yet. */
    const isGroup = wanted.leaderStart === undefined || readStat(proc, wanted.pgid)?.started === wanted.leaderStart
    /** Whether this host says where an environment lies. */
    const tells = readStat(proc, "self")?.environment === "some"
    const join = (stat: ProcStat.ProcStat, kind: "members" | "escaped") => {
      ours.add(stat.pid)
      found[kind].push(stat.pid)
      known.set(stat.pid, stat.started)
    }
    const isOurs = (stat: ProcStat.ProcStat) =>
      (isGroup && stat.session === wanted.pgid) || known.get(stat.pid) === stat.started || ours.has(stat.ppid)

    // Read the list again until there is nobody new on it: who is about to fork and to exit must not slip through.
    for (let round = 0; round < maxRounds; round++) {
      const fresh = pids(proc).filter((pid) => !seen.has(pid))
      unsure = 0
      if (fresh.length === 0) break
      for (const pid of fresh) {
        const stat = readLiving(proc, pid)
        const kind =
          stat === undefined || stat.started < since
            ? "gone"
            : kindOf(proc, stat, wanted, isGroup && stat.pgid === wanted.pgid, tells)
        if (kind === "unsure") unsure++
        else seen.add(pid)
        if (stat === undefined || kind === "gone" || kind === "unsure") continue
        if (kind === "stranger") strangers.set(pid, stat)
        else if (kind === "guards") found.guards.push(pid)
        else join(stat, kind)
      }
      // a child may stand before its parent, so again until nobody joins
      for (let before = -1; before !== ours.size; ) {
        before = ours.size
        for (const [pid, stat] of strangers) if (isOurs(stat) && strangers.delete(pid)) join(stat, "escaped")
      }
    }
    return { ...found, sure: unsure === 0 }
  }
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

type Growing = Record<"members" | "escaped" | "guards", Array<number>>

type Kind = keyof Growing | "stranger" | "unsure"

/** Where processes come faster than they can be read, whoever was missed is found by the next look. */
const maxRounds = 20

const pids = (proc: string): ReadonlyArray<number> => readdirSync(proc).map(Number).filter(Number.isInteger)

const kindOf = (proc: string, stat: ProcStat.ProcStat, wanted: Wanted, isMember: boolean, tells: boolean): Kind => {
  const environment = readEnvironment(proc, stat.pid)
  if (isMember) return has(environment, wanted.guardMark) ? "guards" : "members"
  if (environment !== "") return has(environment, wanted.mark) ? "escaped" : "stranger"
  if (environment === undefined || !tells) return "stranger"
  // asked again: while one program is replaced by another there is none, and then there is one that was not read yet
  const now = readLiving(proc, stat.pid)
  return now === undefined || now.isKernel || now.environment === "empty" ? "stranger" : "unsure"
}

/** What a process that is gone, or that is not ours to look at, reads like. */
const nothing = (error: unknown): undefined => {
  const code = error instanceof Error && "code" in error ? error.code : undefined
  if (code === "ENOENT" || code === "ESRCH" || code === "EACCES" || code === "EPERM") return undefined
  // anything else says nothing about that process: to take it for gone would let it live
  throw error
}

const readEnvironment = (proc: string, pid: number): string | undefined => {
  try {
    return readFileSync(`${proc}/${pid}/environ`, "latin1")
  } catch (error) {
    return nothing(error)
  }
}

/** More than a line of `stat` can hold. One for all: nothing is kept in it between two reads. */
const line = Buffer.alloc(4096)

/** By hand, as it is done for every process of the host: `readFileSync` takes three times as long. */
const readLine = (path: string): string | undefined => {
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

const readStat = (proc: string, pid: number | "self"): ProcStat.ProcStat | undefined =>
  ProcStat.parse(readLine(`${proc}/${pid}/stat`) ?? "")

/** A process that lives; a zombie is none. */
const readLiving = (proc: string, pid: number): ProcStat.ProcStat | undefined => {
  const stat = readStat(proc, pid)
  return stat?.hasEnded === true ? undefined : stat
}

const has = (environment: string | undefined, assignment: string): boolean =>
  environment !== undefined && (environment.startsWith(`${assignment}\0`) || environment.includes(`\0${assignment}\0`))
