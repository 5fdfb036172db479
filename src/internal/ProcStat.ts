/**
 * What Linux tells of a process in a line, `/proc/PID/stat`. Its fields are numbered as the manual of `proc` does.
 */

/** A process, or what is left of one that nobody waited for yet. */
export interface ProcStat {
  readonly pid: number
  readonly ppid: number
  readonly pgid: number
  readonly session: number
  /** When it started, in clock ticks since boot. With it a pid names one process: its number comes again. */
  readonly started: number
  /** Whether all of it has ended: what it held is given back. Its first thread may end before others do. */
  readonly hasEnded: boolean
  /** A thread of the kernel is no program, and never has an environment. */
  readonly isKernel: boolean
  /** Whether it has an environment, and anything in it. A host may not say: that reads like none. */
  readonly environment: "none" | "empty" | "some"
}

/** Reads a line. What is no such line tells of no process. */
export const parse = (line: string): ProcStat | undefined => {
  // the second field, the name of the program, may hold anything: count from its last parenthesis
  const [state, ...rest] = line.slice(line.lastIndexOf(")") + 2).split(" ")
  if (state === undefined || rest.length < 19) return undefined
  const field = (index: number) => Number(rest[index - 4])
  const begin = field(50)
  const end = field(51)
  return {
    pid: Number.parseInt(line, 10),
    ppid: field(4),
    pgid: field(5),
    session: field(6),
    started: field(22),
    hasEnded: "Xx".includes(state) || (state === "Z" && field(20) <= 1),
    isKernel: (field(9) & 0x200000) !== 0,
    environment: end > 0 ? (end > begin ? "some" : "empty") : "none"
  }
}
