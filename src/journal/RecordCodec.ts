/**
 * The codec of session records: what is stored of a session beside its events, to a row and back.
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { JournalCorrupt, type JournalUnsupported } from "../domain/Errors.ts"
import { Range } from "../domain/Event.ts"
import { Seq, SessionId } from "../domain/Ids.ts"
import { emptySummary, type Summary } from "../domain/SessionState.ts"
import { TurnEnding } from "../domain/TurnEnding.ts"
import { otherVersion } from "./Codec.ts"
import { formatVersion, type Owner, type SessionHeader, type SessionRecord } from "./SessionRecord.ts"

/** What a summary is kept as. */
export interface SummaryColumns {
  readonly title: string
  readonly turns: number
  readonly ending: string | null
  readonly open: number
  /** The hidden ranges as JSON text, or null. */
  readonly hidden: string | null
  /** Null where a build wrote it that did not know; the same for `dropped`. */
  readonly waiting: number | null
  readonly dropped: number | null
}

/** What an owner is kept as; all null without one. */
export interface OwnerColumns {
  readonly owner_host: string | null
  readonly owner_pid: number | null
  readonly owner_start: string | null
  readonly owner_boot: string | null
  readonly owner_token: string | null
  readonly owner_since: number | null
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
  ...encodeSummary(emptySummary)
})

export const encodeSummary = (summary: Summary): SummaryColumns => ({
  title: summary.title,
  turns: summary.turns,
  ending: summary.ending ?? null,
  open: summary.open ? 1 : 0,
  hidden: summary.hidden === undefined ? null : JSON.stringify(summary.hidden),
  waiting: summary.waiting ?? null,
  dropped: summary.dropped === undefined ? null : Number(summary.dropped)
})

export const encodeOwner = (owner: Owner): OwnerColumns => ({
  owner_host: owner.host,
  owner_pid: owner.pid,
  owner_start: owner.processStart,
  owner_boot: owner.bootId,
  owner_token: owner.token,
  owner_since: owner.since
})

/** The columns of a session that nobody owns. */
export const noOwner: OwnerColumns = {
  owner_host: null,
  owner_pid: null,
  owner_start: null,
  owner_boot: null,
  owner_token: null,
  owner_since: null
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
  const { created, cwd, depth, dropped, ending, epoch, head, hidden, id, open, parent, title, turns, v, waiting } =
    decoded.right
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
    summary: {
      title,
      turns,
      open: open === 1,
      ...(ending === null ? {} : { ending }),
      ...(hidden === null ? {} : { hidden }),
      ...(waiting === null ? {} : { waiting }),
      ...(dropped === null ? {} : { dropped: dropped === 1 })
    }
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

// internal

const isSessionId = Schema.is(SessionId)

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
  owner_since: Schema.NullOr(Schema.Int),
  lease_expires: Schema.Int,
  title: Schema.String,
  turns: Seq,
  ending: Schema.NullOr(Schema.Literal(...endings)),
  open: Schema.Literal(0, 1),
  hidden: Schema.NullOr(Schema.parseJson(Schema.Array(Range))),
  waiting: Schema.NullOr(Seq),
  dropped: Schema.NullOr(Schema.Literal(0, 1))
})

const decodeSession = Schema.decodeUnknownEither(StoredSession)

const ownerOf = (row: typeof StoredSession.Type): Option.Option<Owner> => {
  const { owner_boot: bootId, owner_host: host, owner_pid: pid, owner_start: processStart, owner_token: token } = row
  if (host === null || pid === null || processStart === null || bootId === null || token === null) return Option.none()
  return Option.some({ host, pid, processStart, bootId, token, since: row.owner_since ?? 0 })
}
