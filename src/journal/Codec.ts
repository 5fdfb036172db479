/**
 * The storage codec: domain values to the rows that a store keeps, and back. The same for every store.
 *
 * - A row is decoded first, its event second: what this build does not know is told apart from what is damaged.
 * - A stored row is never rewritten; fields that this build does not know are kept in what it decodes.
 * - The text of an event is compact, and depends on the event alone.
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { JournalCorrupt, JournalUnsupported } from "../domain/Errors.ts"
import { isAppendable, knownTypes, SessionEvent, Sources, type StoredEvent } from "../domain/Event.ts"
import { Seq, SessionId } from "../domain/Ids.ts"
import type { Summary } from "../domain/SessionState.ts"
import { TurnEnding } from "../domain/TurnEnding.ts"
import { formatVersion, type Owner, type SessionHeader, type SessionRecord } from "./SessionRecord.ts"

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

/** What a summary is kept as. */
export interface SummaryColumns {
  readonly title: string
  readonly turns: number
  readonly ending: string | null
  readonly open: number
}

/** What an owner is kept as; all null without one. */
export interface OwnerColumns {
  readonly owner_host: string | null
  readonly owner_pid: number | null
  readonly owner_start: string | null
  readonly owner_boot: string | null
  readonly owner_token: string | null
}

/** A session without its events as a store keeps it: a row of `session`. */
export interface SessionRow extends SummaryColumns, OwnerColumns {
  readonly id: string
  readonly v: number
  readonly cwd: string
  readonly created: number
  readonly parent: string | null
  readonly seed_length: number
  readonly depth: number
  readonly head: number
  readonly epoch: number
  readonly lease_expires: number
}

/** Where a row lies, for the errors that tell of it. */
export interface Place {
  readonly location: string
  readonly id: SessionId
}

/** Why a row gives no event. */
export type Undecodable = JournalCorrupt | JournalUnsupported

/**
 * A stored event's row under that epoch; or why it may not be stored, a bug of whoever made it. Its numbers are finite
 * and its JSON is plain: whoever appends has seen to that (`snapshot`).
 */
export const encodeEvent = (epoch: number, event: StoredEvent): Either.Either<EventRow, string> => {
  const { data, ignorable, seq, sourceEventSeqs, time, type } = event
  if (!isAppendable(event)) return Either.left(`seq ${seq} (${type}) is no event that may be appended`)
  return Either.right({
    seq,
    v: formatVersion,
    epoch,
    time,
    type,
    data: JSON.stringify(data),
    source: sourceEventSeqs === undefined ? null : JSON.stringify(sourceEventSeqs),
    ignorable: ignorable === true ? 1 : 0
  })
}

/** The event of a row; `unrecognized` if its type is unknown and ignorable. */
export const decodeEvent = (place: Place, row: EventRow): Either.Either<StoredEvent, Undecodable> => {
  if (!isEventRow(row)) return Either.left(corrupt(place, `seq ${String(row.seq)}: its columns are malformed`))
  if (row.v !== formatVersion) return Either.left(otherVersion(place, `seq ${row.seq} is`, row.v))
  const known = knownTypes.has(row.type)
  if (!known && row.ignorable !== 1) {
    const detail = `seq ${row.seq} has the type ${JSON.stringify(row.type)}, which this version does not know`
    return Either.left(unsupported(place, "newer", detail))
  }
  return Either.mapLeft(eventOf(row, known), (cause) =>
    corrupt(place, `seq ${row.seq} (${row.type}) is malformed`, cause)
  )
}

/** The row of a new session: without events, owned by nobody, at epoch 0. */
export const encodeHeader = (header: SessionHeader): SessionRow => ({
  id: header.id,
  v: header.version,
  cwd: header.cwd,
  created: header.created,
  parent: Option.getOrNull(header.parent),
  seed_length: header.seedLength,
  depth: header.depth,
  head: 0,
  epoch: 0,
  ...noOwner,
  lease_expires: 0,
  ...encodeSummary({ title: "", turns: 0, open: false })
})

export const encodeSummary = (summary: Summary): SummaryColumns => ({
  title: summary.title,
  turns: summary.turns,
  ending: summary.ending ?? null,
  open: summary.open ? 1 : 0
})

export const encodeOwner = (owner: Owner): OwnerColumns => ({
  owner_host: owner.host,
  owner_pid: owner.pid,
  owner_start: owner.processStart,
  owner_boot: owner.bootId,
  owner_token: owner.token
})

/** The columns of a session that nobody owns. */
export const noOwner: OwnerColumns = {
  owner_host: null,
  owner_pid: null,
  owner_start: null,
  owner_boot: null,
  owner_token: null
}

/** The record of a row. Its version is told, not judged. */
export const decodeRecord = (location: string, row: SessionRow): Either.Either<SessionRecord, JournalCorrupt> => {
  const decoded = decodeSession(row)
  if (Either.isLeft(decoded)) {
    const detail = `the record of ${JSON.stringify(row.id)} is malformed`
    const cause = decoded.left
    return Either.left(
      isSessionId(row.id)
        ? new JournalCorrupt({ file: location, sessionId: row.id, detail, cause })
        : new JournalCorrupt({ file: location, detail, cause })
    )
  }
  const { created, cwd, depth, ending, epoch, head, id, open, parent, title, turns, v } = decoded.right
  return Either.right({
    header: {
      id,
      version: v,
      cwd,
      created,
      parent: Option.fromNullable(parent),
      seedLength: decoded.right.seed_length,
      depth
    },
    head,
    epoch,
    owner: ownerOf(decoded.right),
    leaseExpires: decoded.right.lease_expires,
    summary: { title, turns, open: open === 1, ...(ending === null ? {} : { ending }) }
  })
}

/** Refuses a record whose log this build does not read. */
export const checkVersion = (
  location: string,
  record: SessionRecord
): Either.Either<SessionRecord, JournalUnsupported> => {
  const { id, version } = record.header
  return version === formatVersion
    ? Either.right(record)
    : Either.left(otherVersion({ location, id }, "its log is", version))
}

export const corrupt = (place: Place, detail: string, cause?: unknown): JournalCorrupt =>
  new JournalCorrupt({ file: place.location, sessionId: place.id, detail, cause })

// internal

const unsupported = (place: Place, direction: "older" | "newer", detail: string) =>
  new JournalUnsupported({ file: place.location, sessionId: place.id, direction, detail })

const otherVersion = (place: Place, what: string, version: number) =>
  unsupported(
    place,
    version > formatVersion ? "newer" : "older",
    `${what} of version ${version}, this build knows ${formatVersion}`
  )

type Decoder = (data: unknown) => Either.Either<unknown, unknown>

/** One decoder of data for each type, which costs half of what the union's does. Unknown fields are kept. */
const decoders: ReadonlyMap<string, Decoder> = new Map(
  SessionEvent.members.map((member): readonly [string, Decoder] => [
    member.fields.type.literals[0],
    Schema.decodeUnknownEither(Schema.asSchema<Schema.Schema.AnyNoContext>(member.fields.data), {
      onExcessProperty: "preserve"
    })
  ])
)

const decodeSources = Schema.decodeUnknownEither(Sources)

const parse = (text: string): Either.Either<unknown, unknown> => Either.try((): unknown => JSON.parse(text))

const eventOf = (row: EventRow, known: boolean): Either.Either<StoredEvent, unknown> => {
  const { seq, time, type } = row
  const parsed = parse(row.data)
  const decode = known ? decoders.get(type) : undefined
  const data = decode === undefined ? parsed : Either.flatMap(parsed, decode)
  if (Either.isLeft(data)) return Either.left(data.left)
  const cited = row.source === null ? noSources : Either.flatMap(parse(row.source), decodeSources)
  if (Either.isLeft(cited)) return Either.left(cited.left)
  return Either.right({
    seq,
    time,
    // the data of a known type came from that type's own decoder
    ...((known
      ? { type, data: data.right }
      : { type: "unrecognized", data: { type, data: data.right } }) as SessionEvent),
    ...(cited.right === undefined ? {} : { sourceEventSeqs: cited.right }),
    ...(row.ignorable === 1 ? { ignorable: true } : {})
  })
}

const noSources: Either.Either<Sources | undefined> = Either.right(undefined)

const isSessionId = Schema.is(SessionId)

/** By hand: a schema costs as much for the row as for the event in it. */
const isEventRow = (row: EventRow): boolean =>
  Number.isSafeInteger(row.seq) &&
  Number.isSafeInteger(row.v) &&
  Number.isSafeInteger(row.time) &&
  typeof row.type === "string" &&
  typeof row.data === "string" &&
  (row.source === null || typeof row.source === "string")

const endings = TurnEnding.members.map((member) => member.fields.kind.literals[0])

const StoredSession = Schema.Struct({
  id: SessionId,
  v: Schema.Int,
  cwd: Schema.String,
  created: Schema.Int,
  parent: Schema.NullOr(SessionId),
  seed_length: Seq,
  depth: Seq,
  head: Seq,
  epoch: Seq,
  owner_host: Schema.NullOr(Schema.String),
  owner_pid: Schema.NullOr(Schema.Int),
  owner_start: Schema.NullOr(Schema.String),
  owner_boot: Schema.NullOr(Schema.String),
  owner_token: Schema.NullOr(Schema.String),
  lease_expires: Schema.Int,
  title: Schema.String,
  turns: Seq,
  ending: Schema.NullOr(Schema.Literal(...endings)),
  open: Schema.Literal(0, 1)
})

const decodeSession = Schema.decodeUnknownEither(StoredSession)

const ownerOf = (row: typeof StoredSession.Type): Option.Option<Owner> => {
  const { owner_boot: bootId, owner_host: host, owner_pid: pid, owner_start: processStart, owner_token: token } = row
  if (host === null || pid === null || processStart === null || bootId === null || token === null) return Option.none()
  return Option.some({ host, pid, processStart, bootId, token })
}
