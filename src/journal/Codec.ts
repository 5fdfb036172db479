/**
 * The storage codec: events to the rows that a store keeps, and back. The same for every store.
 *
 * - A row is decoded first, its event second: what this build does not know is told apart from what is damaged.
 * - A stored row is never rewritten; fields that this build does not know are kept in what it decodes.
 * - The text of a row is compact, and depends on its event and on what that cites alone.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { JournalCorrupt, JournalUnsupported } from "../domain/Errors.ts"
import { isAppendable, knownTypes, SessionEvent, Sources, type StoredEvent } from "../domain/Event.ts"
import type { SessionId } from "../domain/Ids.ts"
import type { Parsed } from "./References.ts"
import * as References from "./References.ts"
import { formatVersion } from "./SessionRecord.ts"

/** An event as a store keeps it: a row of `session_event`, but for its session. */
export interface EventRow {
  readonly seq: number
  readonly v: number
  readonly epoch: number
  readonly time: number
  readonly type: string
  /** JSON text. */
  readonly data: string
  /** The cited seqs as JSON text, or null. */
  readonly source: string | null
  readonly ignorable: number
}

/** Where a row lies, for the errors that tell of it. */
export interface Place {
  readonly location: string
  readonly id: SessionId
}

/** Why a row gives no event. */
export type Undecodable = JournalCorrupt | JournalUnsupported

/** A sound row whose data is parsed and not yet decoded. */
export interface ParsedRow extends Parsed {
  readonly row: EventRow
  readonly sources: Sources | undefined
}

/**
 * A stored event's row under that epoch, given what the event cites; or why it may not be stored, a bug of whoever made it.
 * Its numbers are finite and its JSON is plain: whoever appends has seen to that (`snapshot`).
 */
export const encodeEvent = (
  epoch: number,
  event: StoredEvent,
  cited: ReadonlyArray<Parsed>
): Either.Either<EventRow, string> => {
  const { seq, type } = event
  if (!isAppendable(event)) return Either.left(`seq ${seq} (${type}) is no event that may be appended`)
  return Either.right(rowOf(epoch, event, type, References.shorten(event, cited)))
}

/** The same of an event that another log holds: one that is `unrecognized` becomes again what it was. */
export const encodeCopy = (
  epoch: number,
  event: StoredEvent,
  cited: ReadonlyArray<Parsed>
): Either.Either<EventRow, string> =>
  event.type === "unrecognized" && event.ignorable === true && !knownTypes.has(event.data.type)
    ? Either.right(rowOf(epoch, event, event.data.type, event.data.data))
    : encodeEvent(epoch, event, cited)

/** Parses a row. Its type is known to this build, or ignorable. */
export const parseRow = (place: Place, row: EventRow): Either.Either<ParsedRow, Undecodable> => {
  if (!isEventRow(row)) return Either.left(corrupt(place, `seq ${String(row.seq)}: its columns are malformed`))
  const { seq, type } = row
  if (row.v !== formatVersion) return Either.left(otherVersion(place, `seq ${seq} is`, row.v))
  if (!knownTypes.has(type) && row.ignorable !== 1) {
    const detail = `seq ${seq} has the type ${JSON.stringify(type)}, which this version does not know`
    return Either.left(unsupported(place, "newer", detail))
  }
  const data = parse(row.data)
  if (Either.isLeft(data)) return Either.left(malformed(place, row, data.left))
  const sources = row.source === null ? noSources : Either.flatMap(parse(row.source), decodeSources)
  if (Either.isLeft(sources)) return Either.left(malformed(place, row, sources.left))
  return Either.right({ row, seq, type, data: data.right, sources: sources.right })
}

/** Parses the row of a chunk for its text alone. */
export const parseChunk = (
  place: Place,
  { data, seq }: Pick<EventRow, "seq" | "data">
): Either.Either<Parsed, Undecodable> =>
  Either.mapBoth(parse(data), {
    onLeft: (cause) => corrupt(place, `seq ${seq} (assistant/chunk) is malformed`, cause),
    onRight: (parsed) => ({ seq, type: "assistant/chunk", data: parsed })
  })

/** A short row with all that it refers to, which is among what it cites. */
export const restoreRow = (
  place: Place,
  parsed: ParsedRow,
  cited: ReadonlyArray<Parsed>
): Either.Either<ParsedRow, Undecodable> =>
  Either.mapBoth(References.restore(parsed, cited), {
    onLeft: (cause) => malformed(place, parsed.row, cause),
    onRight: (data) => ({ ...parsed, data })
  })

/** The event of a row that is whole; `unrecognized` if its type is unknown and ignorable. */
export const decodeEvent = (place: Place, parsed: ParsedRow): Either.Either<StoredEvent, Undecodable> => {
  const { row, seq, sources, type } = parsed
  const decode = decoders.get(type)
  const data = decode === undefined ? Either.right(parsed.data) : decode(parsed.data)
  if (Either.isLeft(data)) return Either.left(malformed(place, row, data.left))
  const event: Record<string, unknown> =
    decode !== undefined
      ? { seq, time: row.time, type, data: data.right }
      : { seq, time: row.time, type: "unrecognized", data: { type, data: data.right } }
  if (sources !== undefined) event["sourceEventSeqs"] = sources
  if (row.ignorable === 1) event["ignorable"] = true
  // the data of a known type came from that type's own decoder
  return Either.right(event as unknown as StoredEvent)
}

/** Something is damaged; `cause` is what the decoder said. */
export const corrupt = (place: Place, detail: string, cause?: unknown): JournalCorrupt =>
  new JournalCorrupt({ file: place.location, sessionId: place.id, detail, cause })

/** Something is stored in a version of the format that this build does not know. */
export const otherVersion = (place: Place, what: string, version: number) =>
  unsupported(
    place,
    version > formatVersion ? "newer" : "older",
    `${what} of version ${version}, this build knows ${formatVersion}`
  )

// internal

const rowOf = (epoch: number, event: StoredEvent, type: string, data: unknown): EventRow => ({
  seq: event.seq,
  v: formatVersion,
  epoch,
  time: event.time,
  type,
  data: JSON.stringify(data),
  source: event.sourceEventSeqs === undefined ? null : JSON.stringify(event.sourceEventSeqs),
  ignorable: event.ignorable === true ? 1 : 0
})

const unsupported = (place: Place, direction: "older" | "newer", detail: string) =>
  new JournalUnsupported({ file: place.location, sessionId: place.id, direction, detail })

const malformed = (place: Place, { seq, type }: EventRow, cause: unknown) =>
  corrupt(place, `seq ${seq} (${type}) is malformed`, cause)

type Decoder = (data: unknown) => Either.Either<unknown, unknown>

/** One decoder of data for each type, which costs half of what the union's does. Unknown fields are kept. */
const decoders: ReadonlyMap<string, Decoder> = new Map(
  SessionEvent.members
    .filter((member) => knownTypes.has(member.fields.type.literals[0]))
    .map((member): readonly [string, Decoder] => [
      member.fields.type.literals[0],
      Schema.decodeUnknownEither(Schema.asSchema<Schema.Schema.AnyNoContext>(member.fields.data), {
        onExcessProperty: "preserve"
      })
    ])
)

const decodeSources = Schema.decodeUnknownEither(Sources)

const parse = (text: string): Either.Either<unknown, unknown> => Either.try((): unknown => JSON.parse(text))

const noSources: Either.Either<Sources | undefined> = Either.right(undefined)

/** By hand: a schema costs as much for the row as for the event in it. */
const isEventRow = (row: EventRow): boolean =>
  Number.isSafeInteger(row.seq) &&
  Number.isSafeInteger(row.v) &&
  Number.isSafeInteger(row.time) &&
  typeof row.type === "string" &&
  typeof row.data === "string" &&
  (row.source === null || typeof row.source === "string")
