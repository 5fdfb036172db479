/**
 * A session as a file: what `daybook export` writes and `daybook import` reads.
 *
 * - JSONL: a header; each event as `daybook events --json` prints it; a last line with the number of events and a digest of
 *   all bytes before it. Equal sessions are equal files, and a file that lacks its end is known as such.
 * - Reading believes nothing: a line is decoded as a stored row is, must stand where it stands in a log, and must be what it
 *   would be written as. The first line that does not says why, and nothing of the file counts.
 * - A reading is filled in place by `take`, and by nothing else.
 */
import { createHash, type Hash } from "node:crypto"
import { posix, win32 } from "node:path"
import * as Data from "effect/Data"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type { StoredEvent } from "../domain/Event.ts"
import { Seq, SessionId } from "../domain/Ids.ts"
import * as Inbox from "../domain/Inbox.ts"
import * as SessionState from "../domain/SessionState.ts"
import * as Codec from "../journal/Codec.ts"
import { formatVersion, type Log, type SessionHeader } from "../journal/Journal.ts"
import * as Gist from "./Gist.ts"
import { count } from "./Line.ts"

/** How long a line may be, in bytes. A message has at most 4 MiB, and JSON makes of a byte six at most. */
export const maxLineBytes = 64 * 1024 * 1024

/** Why a file is not imported: it is none of ours, it is not what was written, or another version wrote it. */
export class ImportRefused extends Data.TaggedError("ImportRefused")<{
  readonly file: string
  readonly line: number
  readonly reason: "foreign" | "damaged" | "newer" | "older"
  readonly detail: string
}> {
  override get message() {
    return `${this.file}, line ${this.line}: ${words[this.reason].what}: ${this.detail}. Nothing was imported. ${words[this.reason].next}`
  }
}

/** The digest of what was written or read so far. */
export const digest = (): Hash => createHash("sha256")

/** The first line of a session's file. */
export const headerLine = ({ created, cwd, depth, id, parent, seedLength, version }: SessionHeader): string =>
  JSON.stringify({ format, version, id, cwd, created, parent: Option.getOrNull(parent), seedLength, depth })

/** The last line, after so many events. */
export const lastLine = (events: number, hash: Hash): string => JSON.stringify({ events, sha256: hash.digest("hex") })

/** A file that is being read. */
export interface Reading {
  readonly file: string
  /** What is there of the current line. */
  parts: Array<Uint8Array>
  size: number
  /** How many lines were read. */
  lines: number
  readonly hash: Hash
  header: SessionHeader | undefined
  readonly events: Array<StoredEvent>
  state: SessionState.SessionState
  isOver: boolean
}

/** A file of which nothing was read. */
export const start = (file: string): Reading => ({
  file,
  parts: [],
  size: 0,
  lines: 0,
  hash: digest(),
  header: undefined,
  events: [],
  state: SessionState.initial(),
  isOver: false
})

/** Takes the next bytes in. */
export const take = (reading: Reading, bytes: Uint8Array): Either.Either<void, ImportRefused> => {
  for (let from = 0; from < bytes.length; ) {
    const stop = bytes.indexOf(lineBreak, from)
    const part = bytes.subarray(from, stop === -1 ? bytes.length : stop)
    reading.size += part.length
    reading.parts.push(part)
    if (reading.size > maxLineBytes)
      return refuse(reading, "damaged", `it is longer than ${maxLineBytes / 1024 / 1024} MiB`, 1)
    if (stop === -1) return done
    const line = Buffer.concat(reading.parts)
    reading.parts = []
    reading.size = 0
    reading.lines++
    const read = takeLine(reading, line)
    if (Either.isLeft(read)) return read
    from = stop + 1
  }
  return done
}

/** What a file holds. */
export interface Held {
  readonly header: SessionHeader
  readonly log: Log
  /** Whether something waits that an agent goes on with. */
  readonly wakes: boolean
}

/** What the file holds, once all of it was taken in. */
export const end = (reading: Reading): Either.Either<Held, ImportRefused> => {
  const { events, header, isOver, size, state } = reading
  if (header === undefined && size === 0) return refuse(reading, "foreign", "it is empty", 1)
  if (header === undefined || !isOver || size > 0) return refuse(reading, "damaged", "the file is cut off here", 1)
  return Either.right({ header, log: { events, summary: state.summary }, wakes: Inbox.wakes(state.inbox) })
}

// internal

const format = "daybook session"

const words = {
  foreign: { what: "it is no session", next: "Name a file that `daybook export` wrote." },
  damaged: { what: "the file is damaged", next: "Export the session again, or take another copy of the file." },
  newer: { what: "unsupported format (newer)", next: "Use a newer daybook." },
  older: { what: "unsupported format (older)", next: "Use the daybook that wrote it." }
}

const lineBreak = 0x0a

const done: Either.Either<void> = Either.void

/** Refuses the line that was read last, or one after it. */
const refuse = ({ file, lines }: Reading, reason: ImportRefused["reason"], detail: string, after = 0) =>
  Either.left(new ImportRefused({ file, line: lines + after, reason, detail }))

const FileHeader = Schema.Struct({
  version: Schema.Literal(formatVersion),
  id: SessionId,
  cwd: Schema.String,
  created: Schema.Int,
  parent: Schema.NullOr(SessionId),
  seedLength: Seq,
  depth: Seq
})
const decodeHeader = Schema.decodeUnknownEither(FileHeader)

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

/** A line as it stands, and as JSON. */
interface Line {
  readonly text: string
  readonly value: Fields
}

type Fields = { readonly [key: string]: unknown }

const takeLine = (reading: Reading, bytes: Uint8Array): Either.Either<void, ImportRefused> => {
  if (reading.isOver) return refuse(reading, "damaged", "something follows the last line")
  const text = Either.try(() => utf8.decode(bytes))
  const { hash, header } = reading
  const odd = header === undefined ? "foreign" : "damaged"
  if (Either.isLeft(text)) return refuse(reading, odd, "it is not UTF-8")
  const parsed = Either.try((): unknown => JSON.parse(text.right))
  if (Either.isLeft(parsed) || !Predicate.isRecord(parsed.right)) return refuse(reading, odd, "it is no JSON object")
  const line: Line = { text: text.right, value: parsed.right }
  if (header !== undefined && "sha256" in line.value) return takeLast(reading, header, line)
  hash.update(bytes).update("\n")
  return header === undefined ? takeHeader(reading, line) : takeEvent(reading, header, line)
}

const takeHeader = (reading: Reading, { text, value }: Line): Either.Either<void, ImportRefused> => {
  if (value["format"] !== format) return refuse(reading, "foreign", `it does not begin with {"format":"${format}"`)
  const { version } = value
  if (typeof version === "number" && version !== formatVersion) {
    const detail = `it is of version ${version}, this build knows ${formatVersion}`
    return refuse(reading, version < formatVersion ? "older" : "newer", detail)
  }
  const decoded = decodeHeader(value)
  if (Either.isLeft(decoded)) return refuse(reading, "damaged", "its header is malformed")
  const header = { ...decoded.right, parent: Option.fromNullable(decoded.right.parent) }
  if (headerLine(header) !== text) return refuse(reading, "damaged", unlike)
  const senseless = senselessIn(header)
  if (senseless !== undefined) return refuse(reading, "damaged", senseless)
  reading.header = header
  reading.state = SessionState.initial(header.seedLength)
  return done
}

/** What no session can have begun with. */
const senselessIn = ({ cwd, id, parent, seedLength }: SessionHeader): string | undefined => {
  if (!posix.isAbsolute(cwd) && !win32.isAbsolute(cwd)) return "its folder is no whole path"
  if (Option.contains(parent, id)) return "its session is its own parent"
  if (Option.isNone(parent) && seedLength > 0) return "its session inherited events, and has no parent"
  return undefined
}

const takeEvent = (
  reading: Reading,
  { id }: SessionHeader,
  { text, value }: Line
): Either.Either<void, ImportRefused> => {
  // what nests too deeply is thrown
  const decoded = Either.try(() =>
    Either.map(decodeEvent({ location: reading.file, id }, value), (event) => [event, Gist.json(event)] as const)
  )
  if (Either.isLeft(decoded)) return refuse(reading, "damaged", "it nests too deeply")
  if (Either.isLeft(decoded.right)) {
    const error = decoded.right.left
    const isOurs = error._tag === "JournalUnsupported" && error.direction !== "foreign"
    return refuse(reading, isOurs ? error.direction : "damaged", error.detail)
  }
  const [event, line] = decoded.right.right
  if (line !== text) return refuse(reading, "damaged", unlike)
  const state = SessionState.apply(reading.state, event)
  if (Either.isLeft(state)) return refuse(reading, "damaged", state.left)
  reading.events.push(event)
  reading.state = state.right
  return done
}

const takeLast = (
  reading: Reading,
  { seedLength }: SessionHeader,
  { text, value }: Line
): Either.Either<void, ImportRefused> => {
  const { events, hash } = reading
  if (value["events"] !== events.length)
    return refuse(reading, "damaged", `it does not say that ${count(events.length, "event")} stand before it`)
  if (text !== lastLine(events.length, hash))
    return refuse(reading, "damaged", "its digest is not that of what stands before it")
  if (events.length === 0 || events.length < seedLength)
    return refuse(reading, "damaged", "it has fewer events than its session began with")
  reading.isOver = true
  return done
}

const unlike = "it is not written as `daybook export` writes it"

/** The event of a line, by way of the row that it would be stored as. */
const decodeEvent = (place: Codec.Place, value: Fields): Either.Either<StoredEvent, Codec.Undecodable> => {
  const { data, ignorable, seq, sourceEventSeqs, time, type } = value
  const row = {
    seq,
    v: formatVersion,
    epoch: 0,
    time,
    type,
    data: JSON.stringify(data),
    source: sourceEventSeqs === undefined ? null : JSON.stringify(sourceEventSeqs),
    ignorable: ignorable === true ? 1 : 0
  }
  // a row is as little believed as a line
  return Either.flatMap(Codec.parseRow(place, row as Codec.EventRow), (parsed) => Codec.decodeEvent(place, parsed))
}
