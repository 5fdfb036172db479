/**
 * Short forms: anything as one line that a person reads on a terminal.
 *
 * - A line holds no control character, whoever wrote the text: it cannot move the cursor or start another line.
 * - Widths are columns, not characters: a clipped line fits where it was clipped for.
 */
import * as Predicate from "effect/Predicate"

/** A text in one line: white space and control characters become single spaces. */
export const flattened = (text: string): string => text.replace(unprintable, " ").trim()

/** A text without control characters: line breaks and tabs stay, others show as U+FFFD. */
export const uncontrolled = (text: string): string => text.replace(control, "\uFFFD")

/** A text as it may go to a terminal: the same, and what would show its characters in another order is U+FFFD as well. */
export const printable = (text: string): string => uncontrolled(text).replace(reordering, "\uFFFD")

/** A line of a text as it stands: its blanks and columns are kept, other control characters show as U+FFFD. */
export const verbatim = (line: string, columns: number): string =>
  // as many characters as can matter, each of two units at most
  clip(uncontrolled(untabbed(line.slice(0, 2 * columns + 2))), columns)

/** As much of a line as fits into `columns`, with `…` where it was cut. */
export const clip = (line: string, columns: number): string => {
  let width = 0
  let fits = 0
  for (const character of line) {
    width += widthOf(character)
    if (width > columns) return `${line.slice(0, fits)}…`
    // one column is kept free for the mark, until the whole line is known to fit
    if (width < columns) fits += character.length
  }
  return line
}

/** The beginning of a text as one clipped line, at the cost of that beginning alone. */
export const brief = (text: string, columns: number): string =>
  clip(flattened(text.slice(0, 4 * columns + 200)), columns)

/** A line filled up with spaces to `columns`. */
export const pad = (line: string, columns: number): string => {
  let width = 0
  for (const character of line) width += widthOf(character)
  return width < columns ? line + " ".repeat(columns - width) : line
}

/** A duration as one reads it: `0.4 s`, `2 min 05 s`, `1 h 05 min`. */
export const elapsed = (millis: number): string => {
  const seconds = Math.floor(millis / 1000)
  if (seconds < 60) return `${(Math.floor(millis / 100) / 10).toFixed(1)} s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${twoDigits(seconds % 60)} s`
  return `${Math.floor(seconds / 3600)} h ${twoDigits(Math.floor(seconds / 60) % 60)} min`
}

/** Unix milliseconds as an ISO time in UTC. */
export const isoTime = (millis: number): string => {
  const date = new Date(millis)
  return Number.isNaN(date.getTime()) ? String(millis) : date.toISOString()
}

/** `1 prompt`, `2 prompts`. */
export const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? "" : "s"}`

/** A call in one line: its name, what it is about, and its other arguments where they fit as well. */
export const callLine = (name: string, rawArguments: string, columns = 80): string => {
  const { about, rest } = argumentsLine(rawArguments)
  if (about === "") return clip(`${brief(name, 40)} ${rest}`.trim(), columns)
  const short = `${brief(name, 40)} ${about}`
  const long = rest === "" ? short : `${short} (${rest})`
  return clip(clip(long, columns) === long ? long : short, columns)
}

// internal

const unprintable = /[\s\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]+/g
const control = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g
const reordering = /[\u202a-\u202e\u2066-\u2069]/g

/** A line with spaces up to the next eighth column in place of tabs: what stands before it moves no column of it. */
const untabbed = (line: string): string => {
  if (!line.includes("\t")) return line
  let width = 0
  let result = ""
  for (const character of line) {
    const text = character === "\t" ? " ".repeat(8 - (width % 8)) : character
    width += character === "\t" ? text.length : widthOf(character)
    result += text
  }
  return result
}

/** Ranges of characters that take two columns: East Asian ones and pictures. */
const wide: ReadonlyArray<readonly [number, number]> = [
  [0x1100, 0x115f],
  [0x2e80, 0xa4cf],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x1f300, 0x1faff],
  [0x20000, 0x3fffd]
]

const widthOf = (character: string): number => {
  const code = character.codePointAt(0) ?? 0
  return code >= 0x1100 && wide.some(([from, to]) => code >= from && code <= to) ? 2 : 1
}

const twoDigits = (number: number): string => String(number).padStart(2, "0")

/** Arguments that say by themselves what a call is about. */
const telling = ["command", "path", "pattern", "prompt"]

const argumentsLine = (raw: string): { readonly about: string; readonly rest: string } => {
  const args = parsed(raw)
  if (!Predicate.isRecord(args)) return { about: brief(raw, 200), rest: "" }
  const main = telling.find((key) => typeof args[key] === "string")
  const others = Object.entries(args).filter(([key]) => key !== main)
  const rest = others.map(([key, value]) => `${brief(key, 40)}: ${valueLine(value)}`).join(", ")
  return { about: main === undefined ? "" : valueLine(args[main]), rest }
}

const valueLine = (value: unknown): string =>
  brief(typeof value === "string" ? value : (JSON.stringify(value) ?? String(value)), 200)

const parsed = (raw: string): unknown => {
  try {
    return JSON.parse(raw)
  } catch {
    return undefined
  }
}
