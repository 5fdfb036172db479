/**
 * What a search has found so far: the lines that matched, and what was left out.
 *
 * - Bounded in matches, files, bytes and the length of a line. Only a block and one unfinished line of a file are held.
 */
import * as Either from "effect/Either"
import { clip } from "./Arguments.ts"
import { isBinary } from "./Lines.ts"
import type { Pattern } from "./Pattern.ts"

export const maxMatches = 200
const maxFiles = 20_000
const maxBytes = 256 * 1024 * 1024
/** The longest part of a line that is matched, and that is shown, in characters. */
const maxLine = 65_536
const maxShown = 300
/** How much of a long line is shown before its match. */
const before = 100

/** Takes the next bytes of a file, none at its end: whether it wants more of it, or why it cannot go on. */
export type Take = (bytes: Uint8Array | undefined) => Either.Either<boolean, string>

/** A search that goes on. */
export interface Matches {
  /** Begins another file; `name` stands before each of its lines. None if no file is wanted any more. */
  readonly begin: (name: string) => Take | undefined
  /** Notes that something could not be read. */
  readonly skip: (name: string, detail: string) => void
  /** What was found, and what was left out. */
  readonly text: () => string
}

/** A search that has found nothing yet. */
export const make = (pattern: Pattern): Matches => {
  const matches: Array<string> = []
  const unread: Array<string> = []
  let files = 0
  let read = 0
  let binary = 0
  let cut = false
  let stopped: string | undefined
  const stop = (why: string) => {
    stopped = why
    return false
  }

  const clipped = (line: string): string => {
    if (line.length <= maxLine) return line
    cut = true
    return line.slice(0, maxLine)
  }

  /** Whether there is room for all of the matches. */
  const keep = (name: string, first: number, lines: ReadonlyArray<string>, places: ReadonlyArray<number>): boolean => {
    for (const [index, line] of lines.entries()) {
      const at = places[index] ?? -1
      if (at === -1) continue
      if (matches.length === maxMatches) return stop(`only the first ${maxMatches} matches are shown; there are more`)
      matches.push(`${name}:${first + index}: ${excerpt(line, at)}`)
    }
    return true
  }

  const take = (name: string): Take => {
    const decoder = new TextDecoder()
    let size = 0
    let next = 1
    let rest = ""
    return (bytes) => {
      if (bytes !== undefined && isBinary(bytes, size)) {
        binary++
        return Either.right(false)
      }
      size += bytes?.length ?? 0
      read += bytes?.length ?? 0
      const parts = (rest + decoder.decode(bytes, { stream: bytes !== undefined })).split("\n")
      const last = parts.pop() ?? ""
      if (bytes !== undefined) rest = clipped(last)
      else if (last !== "") parts.push(last)
      const lines = parts.map((line) => clipped(line.endsWith("\r") ? line.slice(0, -1) : line))
      return Either.map(pattern.places(lines), (places) => {
        const first = next
        next += lines.length
        if (!keep(name, first, lines, places)) return false
        if (read >= maxBytes) return stop(`the search stopped after ${read} bytes, in ${name}`)
        return bytes !== undefined
      })
    }
  }

  return {
    begin: (name) => {
      if (stopped === undefined && files === maxFiles)
        stop(`the search stopped after ${maxFiles} files, before ${name}`)
      if (stopped !== undefined) return undefined
      files++
      return take(name)
    },
    skip: (name, detail) => unread.push(`${name} (${detail})`),
    text: () =>
      [
        ...(matches.length === 0 && stopped === undefined ? ["[nothing matches]"] : matches),
        ...(stopped === undefined ? [] : [`[${stopped}; narrow the pattern or the path]`]),
        ...(cut ? [`[of lines longer than ${maxLine} characters only the beginning was searched]`] : []),
        ...(binary === 0 ? [] : [`[binary files that were not searched: ${binary}]`]),
        ...(unread.length === 0 ? [] : [`[not searched: ${listed(unread)}]`])
      ].join("\n")
  }
}

// internal

const maxUnread = 10

const listed = (names: ReadonlyArray<string>): string =>
  names.length <= maxUnread
    ? names.join(", ")
    : `${names.slice(0, maxUnread).join(", ")} and ${names.length - maxUnread} more`

/** A line as it is shown: whole, or what is around the match, cut between characters and marked where it was cut. */
const excerpt = (line: string, at: number): string => {
  if (line.length <= maxShown) return line
  const from = Math.max(0, at - before)
  const start = /^[\uDC00-\uDFFF]/.test(line.slice(from, from + 1)) ? from - 1 : from
  return `${start > 0 ? "…" : ""}${clip(line.slice(start), maxShown)}`
}
