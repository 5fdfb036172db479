/**
 * What a life writes outside of its journal: one line a fact, on the disk before anything else happens.
 *
 * - Every line names the life: the number of a turn that was lost can come again, that of a life cannot.
 */
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs"

/**
 * `sent`: a send had returned. `asked`: somebody is asked about a call. `mark`: a body began, with the tag that its arguments
 * bear. The others are stages of a life.
 */
export type Word = "opening" | "repairing" | "open" | "sent" | "asked" | "mark" | "held" | "rest" | "ended" | "failed"

export interface Line {
  readonly life: number
  readonly word: Word
  readonly args: ReadonlyArray<string>
}

/** A line as it is written. */
export const written = ({ args, life, word }: Line): string => [life, word, ...args].join(" ")

/** A line as it was written. */
export const parsed = (line: string): Line => {
  const [life, word, ...args] = line.split(" ")
  return { life: Number(life), word: word as Word, args } // only `written` writes here
}

/** Appends a line; it is on the disk on return. */
export const append = (file: string, line: Line): void => {
  const handle = openSync(file, "a")
  writeSync(handle, `${written(line)}\n`)
  fsyncSync(handle)
  closeSync(handle)
}

/** All lines of a file, or those after the first `from`. */
export const read = (file: string, from = 0): ReadonlyArray<Line> =>
  existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(from, -1).map(parsed) : []
