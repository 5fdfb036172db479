/**
 * A journal over rows: what every implementation shares.
 *
 * - `make` checks arguments, encodes before a store is asked and decodes after; a store moves rows and knows no event.
 * - A broken argument or an event that may not be stored is a bug of the caller: it dies, and nothing was written.
 * - `verdict` tells apart why a batch found its session moved. Stores call it in the transaction that found it so.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { type JournalError, SeqConflict, SessionFenced, SessionNotFound } from "../domain/Errors.ts"
import type { Range } from "../domain/Event.ts"
import type { SessionId } from "../domain/Ids.ts"
import { emptySummary } from "../domain/SessionState.ts"
import * as Codec from "./Codec.ts"
import * as EventRows from "./EventRows.ts"
import * as RecordCodec from "./RecordCodec.ts"
import type { Append, Held, Log, SessionHeader, Take } from "./SessionRecord.ts"

/** A batch as a store gets it: rows from `head` on without a gap. */
export interface EncodedAppend {
  readonly id: SessionId
  readonly head: number
  readonly epoch: number
  readonly rows: ReadonlyArray<Codec.EventRow>
  readonly summary: RecordCodec.SummaryColumns
  readonly leaseExpires: number
}

/** A take as a store gets it: the rows stand under the new epoch. */
export interface EncodedTake extends EncodedAppend {
  readonly owner: RecordCodec.OwnerColumns
  readonly leaseRead: number
}

/** What became of a batch: its new head, or why it was refused. */
export type Verdict = Either.Either<number, SeqConflict | SessionFenced>

/** From a seq on, at most so many. */
export interface Page {
  readonly from: number
  readonly limit: number
}

/** What an implementation does; each method as the port says, on rows. */
export interface Store {
  readonly location: string
  readonly create: (
    row: RecordCodec.SessionRow,
    rows: ReadonlyArray<Codec.EventRow>
  ) => Effect.Effect<boolean, JournalError>
  readonly find: (id: SessionId) => Effect.Effect<Option.Option<RecordCodec.SessionRow>, JournalError>
  readonly take: (take: EncodedTake) => Effect.Effect<number, SeqConflict | JournalError>
  readonly renew: (token: string, leaseExpires: number) => Effect.Effect<ReadonlyArray<Held>, JournalError>
  readonly release: (id: SessionId, epoch: number) => Effect.Effect<void, JournalError>
  readonly append: (batches: ReadonlyArray<EncodedAppend>) => Effect.Effect<ReadonlyArray<Verdict>, JournalError>
  /** Rows from seq `from` on, in order. */
  readonly read: (id: SessionId, page: Page) => Effect.Effect<ReadonlyArray<Codec.EventRow>, JournalError>
  /** The same of those that are no chunks. */
  readonly outline: (id: SessionId, page: Page) => Effect.Effect<ReadonlyArray<Codec.EventRow>, JournalError>
  /** The chunks among the rows of a range, in order. */
  readonly chunks: (id: SessionId, range: Range) => Effect.Effect<ReadonlyArray<EventRows.ChunkRow>, JournalError>
  /** How many rows a session has in a range. */
  readonly count: (id: SessionId, range: Range) => Effect.Effect<number, JournalError>
  readonly unfenced: (id: SessionId, limit: number) => Effect.Effect<ReadonlyArray<number>, JournalError>
  readonly list: (offset: number, limit: number) => Effect.Effect<ReadonlyArray<RecordCodec.SessionRow>, JournalError>
}

/** What a session's row says of who may write where. */
export interface Standing {
  readonly head: number
  readonly epoch: number
}

/**
 * Judges a batch that did not find its session at its head and epoch, given the session as it stands and the rows in the
 * batch's places: written already, or why it is refused.
 */
export const verdict = (
  batch: EncodedAppend,
  standing: Standing | undefined,
  stored: ReadonlyArray<Codec.EventRow>
): Verdict => {
  const { epoch, head, id, rows } = batch
  if (standing !== undefined && standing.epoch !== epoch)
    return Either.left(new SessionFenced({ sessionId: id, epoch }))
  const written = rows.length > 0 && rows.every((row, index) => isSameRow(row, stored[index]))
  return written ? Either.right(head + rows.length) : Either.left(new SeqConflict({ sessionId: id, head }))
}

/** The journal over a store. */
export const make = (store: Store) => {
  const readerOf = (id: SessionId): EventRows.Reader => ({
    place: { location: store.location, id },
    rows: ({ from, to }) => store.read(id, { from, limit: to - from + 1 }),
    chunks: (range) => store.chunks(id, range)
  })
  return {
    location: store.location,
    create: Effect.fn("Journal.create")(function* (header: SessionHeader, log: Log = noLog) {
      const { id } = header
      const batch = { id, head: 0, events: log.events }
      const rows = yield* EventRows.encodeBatch(readerOf(id), batch, 0, Codec.encodeCopy)
      const row = RecordCodec.encodeHeader(header)
      return yield* store.create({ ...row, ...RecordCodec.encodeSummary(log.summary), head: rows.length }, rows)
    }),
    find: Effect.fn("Journal.find")(function* (id: SessionId) {
      const row = yield* store.find(id)
      if (Option.isNone(row)) return yield* new SessionNotFound({ sessionId: id })
      const record = yield* RecordCodec.decodeRecord(store.location, row.value)
      return yield* RecordCodec.checkVersion(store.location, record)
    }),
    take: Effect.fn("Journal.take")(function* (take: Take) {
      const rows = yield* EventRows.encodeBatch(readerOf(take.id), take, take.epoch + 1)
      return yield* store.take({
        ...batchOf(take, rows),
        owner: RecordCodec.encodeOwner(take.owner),
        leaseRead: take.leaseRead
      })
    }),
    renew: Effect.fn("Journal.renew")(store.renew),
    release: Effect.fn("Journal.release")(store.release),
    append: Effect.fnUntraced(
      function* (batches: ReadonlyArray<Append>) {
        const encoded: Array<EncodedAppend> = []
        for (const batch of batches)
          encoded.push(batchOf(batch, yield* EventRows.encodeBatch(readerOf(batch.id), batch, batch.epoch)))
        return encoded.length === 0 ? [] : yield* store.append(encoded)
      },
      // without a stack, which would cost a tenth of the commit
      Effect.withSpan("Journal.append", { captureStackTrace: false })
    ),
    read: Effect.fn("Journal.read")(function* (id: SessionId, { from, limit }: Page) {
      yield* checkCount("read from", from)
      yield* checkCount("read limit", limit)
      return yield* EventRows.decodePage(readerOf(id), from, yield* store.read(id, { from, limit }))
    }),
    outline: Effect.fn("Journal.outline")(function* (
      id: SessionId,
      { from, hidden, limit }: Page & { readonly hidden: ReadonlyArray<Range> }
    ) {
      yield* checkCount("outline from", from)
      yield* checkCount("outline limit", limit)
      const reader = readerOf(id)
      const rows = yield* store.outline(id, { from, limit })
      const last = rows.at(-1)?.seq
      if (last !== undefined && (yield* store.count(id, { from, to: last })) !== last + 1 - from)
        return yield* Codec.corrupt(reader.place, `between seq ${from} and seq ${last} events are missing`)
      const isHidden = (seq: number) => hidden.some((range) => seq >= range.from && seq <= range.to)
      return yield* EventRows.decodeOutline(reader, rows, isHidden)
    }),
    unfenced: Effect.fn("Journal.unfenced")(function* (id: SessionId, limit: number) {
      yield* checkCount("unfenced limit", limit)
      return yield* store.unfenced(id, limit)
    }),
    list: Effect.fn("Journal.list")(function* ({ limit, offset }: { readonly offset: number; readonly limit: number }) {
      yield* checkCount("list offset", offset)
      yield* checkCount("list limit", limit)
      return (yield* store.list(offset, limit)).map((row) => RecordCodec.decodeRecord(store.location, row))
    })
  }
}

// internal

const noLog: Log = { events: [], summary: emptySummary }

const checkCount = (what: string, value: number): Effect.Effect<void> =>
  Number.isSafeInteger(value) && value >= 0
    ? Effect.void
    : Effect.dieMessage(`${what}: ${value} is no whole number from 0 on`)

const batchOf = (batch: Append, rows: ReadonlyArray<Codec.EventRow>): EncodedAppend => ({
  id: batch.id,
  head: batch.head,
  epoch: batch.epoch,
  rows,
  summary: RecordCodec.encodeSummary(batch.summary),
  leaseExpires: batch.leaseExpires
})

const isSameRow = (row: Codec.EventRow, stored: Codec.EventRow | undefined): boolean =>
  stored !== undefined &&
  row.seq === stored.seq &&
  row.v === stored.v &&
  row.epoch === stored.epoch &&
  row.time === stored.time &&
  row.type === stored.type &&
  row.data === stored.data &&
  row.source === stored.source &&
  row.ignorable === stored.ignorable
