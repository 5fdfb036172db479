/**
 * The journal in memory: for tests, and for programs that need nothing after they end.
 *
 * - It keeps the rows that a database would, so that what is read was really encoded.
 * - Each operation is one synchronous step: no other sees half of it.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { JournalFailed, SeqConflict } from "../domain/Errors.ts"
import type { Range } from "../domain/Event.ts"
import type { SessionId } from "../domain/Ids.ts"
import type { EventRow } from "./Codec.ts"
import * as EncodedJournal from "./EncodedJournal.ts"
import { noOwner, type SessionRow } from "./RecordCodec.ts"
import type { Held } from "./SessionRecord.ts"

/** A new journal that nobody else sees. */
export const make = Effect.sync(() => EncodedJournal.make(makeStore()))

/** The journal of a database that is not there: empty to read, and it refuses every write. */
export const makeEmpty = (location: string) => {
  const refuse = (operation: string) => {
    const cause = new Error("it was opened for reading only, and is not there")
    return Effect.fail(new JournalFailed({ file: location, operation, cause }))
  }
  return EncodedJournal.make({
    location,
    create: () => refuse("create"),
    find: () => Effect.succeedNone,
    take: () => refuse("take"),
    renew: () => refuse("renew"),
    release: () => refuse("release"),
    append: () => refuse("append"),
    read: () => Effect.succeed([]),
    outline: () => Effect.succeed([]),
    chunks: () => Effect.succeed([]),
    count: () => Effect.succeed(0),
    unfenced: () => Effect.succeed([]),
    list: () => Effect.succeed([])
  })
}

// internal

interface Entry {
  row: SessionRow
  readonly events: Array<EventRow>
}

const isChunk = (row: EventRow): boolean => row.type === "assistant/chunk"

const makeStore = (): EncodedJournal.Store => {
  const sessions = new Map<string, Entry>()

  const standsAt = (entry: Entry, batch: EncodedJournal.EncodedAppend): boolean =>
    entry.row.head === batch.head && entry.row.epoch === batch.epoch

  const write = (entry: Entry, batch: EncodedJournal.EncodedAppend, columns: Partial<SessionRow> = {}): number => {
    const head = batch.head + batch.rows.length
    entry.row = { ...entry.row, ...batch.summary, lease_expires: batch.leaseExpires, ...columns, head }
    for (const row of batch.rows) entry.events.push(row)
    return head
  }

  const appendOne = (batch: EncodedJournal.EncodedAppend): EncodedJournal.Verdict => {
    const entry = sessions.get(batch.id)
    if (entry !== undefined && standsAt(entry, batch)) return Either.right(write(entry, batch))
    const stored = entry?.events.slice(batch.head, batch.head + batch.rows.length) ?? []
    return EncodedJournal.verdict(batch, entry?.row, stored)
  }

  const release = (id: SessionId, epoch: number): void => {
    const entry = sessions.get(id)
    if (entry === undefined || entry.row.epoch !== epoch) return
    if (entry.row.head === 0) sessions.delete(id)
    else entry.row = { ...entry.row, ...noOwner, lease_expires: 0 }
  }

  const renew = (token: string, lease: number): ReadonlyArray<Held> => {
    const held = [...sessions.values()].filter((entry) => entry.row.owner_token === token)
    for (const entry of held) entry.row = { ...entry.row, lease_expires: lease }
    // an id of the map is one that was given as such
    return held.map(({ row }) => ({ id: row.id as SessionId, epoch: row.epoch }))
  }

  const eventsOf = (id: SessionId, { from, to }: Range): ReadonlyArray<EventRow> =>
    sessions.get(id)?.events.slice(from, to + 1) ?? []

  return {
    location: "memory",
    create: (row, rows) =>
      Effect.sync(() => {
        const there = sessions.get(row.id)?.row
        // nobody saw an empty session that nobody owns: whoever was to fill it died
        const isUnused = rows.length > 0 && there?.head === 0 && there.owner_token === null
        if (there !== undefined && !isUnused) return false
        sessions.set(row.id, { row, events: [...rows] })
        return true
      }),
    find: (id) => Effect.sync(() => Option.fromNullable(sessions.get(id)?.row)),
    take: (take) =>
      Effect.suspend(() => {
        const entry = sessions.get(take.id)
        if (entry === undefined || !standsAt(entry, take) || entry.row.lease_expires !== take.leaseRead)
          return Effect.fail(new SeqConflict({ sessionId: take.id, head: take.head }))
        const epoch = take.epoch + 1
        write(entry, take, { ...take.owner, epoch })
        return Effect.succeed(epoch)
      }),
    renew: (token, lease) => Effect.sync(() => renew(token, lease)),
    release: (id, epoch) => Effect.sync(() => release(id, epoch)),
    append: (batches) => Effect.sync(() => batches.map(appendOne)),
    read: (id, { from, limit }) => Effect.sync(() => eventsOf(id, { from, to: from + limit - 1 })),
    outline: (id, { from, limit }) =>
      Effect.sync(() =>
        eventsOf(id, { from, to: Number.POSITIVE_INFINITY })
          .filter((row) => !isChunk(row))
          .slice(0, limit)
      ),
    chunks: (id, range) => Effect.sync(() => eventsOf(id, range).filter(isChunk)),
    count: (id, range) => Effect.sync(() => eventsOf(id, range).length),
    unfenced: (id, limit) =>
      Effect.sync(() => {
        const { events = [], row } = sessions.get(id) ?? {}
        const isUnfenced = ({ epoch }: EventRow, index: number) =>
          epoch < (events[index - 1]?.epoch ?? 0) || epoch > (row?.epoch ?? 0)
        return events
          .filter(isUnfenced)
          .map(({ seq }) => seq)
          .slice(0, limit)
      }),
    list: (offset, limit) =>
      Effect.sync(() =>
        Array.from(sessions.values(), (entry) => entry.row)
          .filter((row) => row.head > 0)
          .sort((a, b) => b.created - a.created || (a.id < b.id ? 1 : -1))
          .slice(offset, offset + limit)
      )
  }
}
