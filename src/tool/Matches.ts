/**
 * What a search has found so far: the lines that matched, and what was left out.
 *
 * - Bounded in matches, entries of folders, files, bytes, the time of matching and the length of a line. Only a block and
 *   one unfinished line of a file are held.
 */
import * as Duration from "effect/Duration"
import * as Either from "effect/Either"
import { boundary, clip } from "../internal/Cut.ts"
import { isBinary } from "./Lines.ts"
import type { Pattern } from "./Pattern.ts"

/** How many matching lines are shown at most. */
export const maxMatches = 200
/** How many entries of folders are looked at, whatever they are. */
const maxEntries = 200_000
const maxFiles = 20_000
const maxBytes = 256 * 1024 * 1024
/** How long all blocks may take together. What is allowed to be read takes a few seconds with a pattern that is none too bad. */
const maxMatching = Duration.seconds(30)
/** The longest part of a line that is matched, and that is shown, in characters. */
const maxLine = 65_536
const maxShown = 300
/** How much of a long line is shown before its match. */
const before = 100

/** Takes the next bytes of a file, none at its end: whether it wants more of it, or why it cannot go on. */
export type Take = (bytes: Uint8Array | undefined) => Either.Either<boolean, string>

/** A search that goes on. */
export interface Matches {
  /** Begins a folder; `name` is what it is called if the search stops there. Whether its entries are wanted. */
  readonly enter: (name: string, entries: number) => boolean
  /** Begins another file; `name` stands before each of its lines. None if no file is wanted any more. */
  readonly begin: (name: string) => Take | undefined
  /** Whether nothing more is wanted. */
  readonly isStopped: () => boolean
  /** Notes that something could not be read. */
  readonly skip: (name: string, detail: string) => void
  /** What was found, and what was left out. */
  readonly text: () => string
}

/** A search that has found nothing yet. */
export const make = (pattern: Pattern): Matches => {
  const matches: Array<string> = []
  const unread: Array<string> = []
  let entries = 0
  let files = 0
  let read = 0
  let binary = 0
  let cut = false
  let stopped: string | undefined
  const stop = (why: string) => {
    stopped = why
    return false
  }

  /** Whether there is room for all of the matches. */
  const keep = (name: string, { first, lines }: Block, places: ReadonlyArray<number>): boolean => {
    for (const [index, line] of lines.entries()) {
      const at = places[index] ?? -1
      if (at === -1) continue
      if (matches.length === maxMatches) return stop(`only the first ${maxMatches} matches are shown; there are more`)
      matches.push(`${name}:${first + index}: ${excerpt(line, at)}`)
    }
    return true
  }

  const take = (name: string): Take => {
    const blockOf = makeBlocks()
    return (bytes) => {
      read += bytes?.length ?? 0
      const block = blockOf(bytes)
      if (block === undefined) {
        binary++
        return Either.right(false)
      }
      cut ||= block.cut
      return Either.map(pattern.places(block.lines), (places) => {
        if (!keep(name, block, places)) return false
        if (read >= maxBytes) return stop(`the search stopped after ${read} bytes, in ${name}`)
        if (pattern.spentMillis() >= Duration.toMillis(maxMatching))
          return stop(`the search stopped after ${Duration.format(maxMatching)} of matching, in ${name}`)
        return bytes !== undefined
      })
    }
  }

  return {
    enter: (name, more) => {
      entries += more
      return entries <= maxEntries || stop(`the search stopped after ${maxEntries} entries of folders, before ${name}`)
    },
    begin: (name) => {
      if (stopped === undefined && files === maxFiles)
        stop(`the search stopped after ${maxFiles} files, before ${name}`)
      if (stopped !== undefined) return undefined
      files++
      return take(name)
    },
    isStopped: () => stopped !== undefined,
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

/** Lines next to each other, the number of the first of them, and whether one was too long so far. */
interface Block {
  readonly lines: ReadonlyArray<string>
  readonly first: number
  readonly cut: boolean
}

/** Cuts a file into lines, as its bytes come; none where it turns out to be no text. */
const makeBlocks = (): ((bytes: Uint8Array | undefined) => Block | undefined) => {
  const decoder = new TextDecoder()
  let size = 0
  let next = 1
  let rest = ""
  let cut = false
  const clipped = (line: string): string => {
    if (line.length <= maxLine) return line
    cut = true
    return line.slice(0, maxLine)
  }
  return (bytes) => {
    if (bytes !== undefined && isBinary(bytes, size)) return undefined
    size += bytes?.length ?? 0
    const parts = (rest + decoder.decode(bytes, { stream: bytes !== undefined })).split("\n")
    const last = parts.pop() ?? ""
    if (bytes !== undefined) rest = clipped(last)
    else if (last !== "") parts.push(last)
    const lines = parts.map((line) => clipped(line.endsWith("\r") ? line.slice(0, -1) : line))
    const first = next
    next += lines.length
    return { lines, first, cut }
  }
}

const maxUnread = 10

const listed = (names: ReadonlyArray<string>): string =>
  names.length <= maxUnread
    ? names.join(", ")
    : `${names.slice(0, maxUnread).join(", ")} and ${names.length - maxUnread} more`

/** A line as it is shown: whole, or what is around the match, cut between characters and marked where it was cut. */
const excerpt = (line: string, at: number): string => {
  if (line.length <= maxShown) return line
  const start = boundary(line, Math.max(0, at - before))
  return `${start > 0 ? "…" : ""}${clip(line.slice(start), maxShown)}`
}
