/**
 * A window of lines over a stream of bytes.
 *
 * - It takes bytes until it has its lines or its bytes are used up; what comes before the window is counted, never kept.
 * - Pure: a step returns a new window. Work is linear in what is read.
 */

/** Which lines, and how many bytes of them at most. */
export interface Range {
  /** From 1. */
  readonly offset: number
  readonly limit: number
  readonly maxBytes: number
}

export interface Window {
  readonly range: Range
  /** The number of the line that the next byte belongs to. */
  readonly line: number
  readonly pieces: ReadonlyArray<Uint8Array>
  readonly size: number
  /** Bytes were read so far. */
  readonly read: number
  /** Why nothing more is taken: it has its lines, or its bytes are used up. */
  readonly full?: "lines" | "bytes"
  /** A NUL was among the first bytes, which no text has. */
  readonly binary: boolean
}

export const empty = (range: Range): Window => ({ range, line: 1, pieces: [], size: 0, read: 0, binary: false })

/** Whether another step would change nothing. */
export const isDone = (window: Window): boolean => window.full !== undefined || window.binary

/** The window after more bytes of the stream. There is at least one byte in them. */
export const take = (window: Window, bytes: Uint8Array): Window => {
  const binary = isBinary(bytes, window.read)
  const before = { ...window, read: window.read + bytes.length, binary }
  if (isDone(before)) return before
  const { limit, maxBytes, offset } = window.range
  const past = skip(bytes, 0, window.line, Math.max(window.line, offset))
  if (past.line < offset) return { ...before, line: past.line }
  if (past.line >= offset + limit) return { ...before, full: "lines" }
  const end = skip(bytes, past.at, past.line, offset + limit)
  const wanted = bytes.subarray(past.at, end.at)
  const room = maxBytes - window.size
  if (wanted.length > room)
    return { ...before, ...kept(window, wanted.subarray(0, room)), line: past.line, full: "bytes" }
  const full = end.line >= offset + limit && end.at < bytes.length
  return { ...before, ...kept(window, wanted), line: end.line, ...(full ? { full: "lines" } : {}) }
}

/** Whether bytes, after so many that were looked at before, show that this is no text: a NUL among the first ones. */
export const isBinary = (bytes: Uint8Array, before: number): boolean =>
  before < sniffed && bytes.subarray(0, sniffed - before).includes(0)

/** The text of a window, and how it relates to the whole. */
export const textOf = (
  window: Window
): { readonly text: string; readonly lines: number; readonly partial: boolean } => {
  const bytes = new Uint8Array(window.size)
  let at = 0
  for (const piece of window.pieces) {
    bytes.set(piece, at)
    at += piece.length
  }
  // what was cut for its size ends with a whole line, or, if not even one fits, with a whole character
  const cut = window.full === "bytes"
  const lastLine = cut ? bytes.lastIndexOf(newline) + 1 : bytes.length
  const whole = lastLine === 0 ? bytes : bytes.subarray(0, lastLine)
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(whole, { stream: cut })
  const breaks = whole.reduce((count, byte) => (byte === newline ? count + 1 : count), 0)
  return {
    text,
    lines: breaks + (whole.length === 0 || whole.at(-1) === newline ? 0 : 1),
    partial: cut && lastLine === 0
  }
}

// internal

const newline = 10

/** How many bytes tell a text from something else. */
const sniffed = 8192

const kept = (window: Window, bytes: Uint8Array): Pick<Window, "pieces" | "size"> => ({
  pieces: bytes.length === 0 ? window.pieces : [...window.pieces, bytes],
  size: window.size + bytes.length
})

/** From `at`, in line `line`, on to where line `goal` begins, or to the end of the bytes. */
const skip = (bytes: Uint8Array, at: number, line: number, goal: number) => {
  while (line < goal) {
    const next = bytes.indexOf(newline, at)
    if (next === -1) return { at: bytes.length, line }
    at = next + 1
    line++
  }
  return { at, line }
}
