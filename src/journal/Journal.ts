/**
 * The journal: the durable, append-only log of every session. The only authority.
 *
 * - What `append` and `take` acknowledge survives kill -9; what they refuse left nothing behind.
 * - Each write checks head and epoch in its own transaction; a former owner's write is refused, not merged (law 9).
 * - Reading needs no ownership and never writes.
 * - The port holds nothing that only one database has.
 */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { JournalCorrupt, JournalError, SeqConflict, SessionFenced, SessionNotFound } from "../domain/Errors.ts"
import type { Range, StoredEvent } from "../domain/Event.ts"
import type { SessionId } from "../domain/Ids.ts"
import * as MemoryJournal from "./MemoryJournal.ts"
import type { Append, Held, Log, SessionHeader, SessionRecord, Take } from "./SessionRecord.ts"
import * as SqliteFile from "./SqliteFile.ts"
import * as SqlJournal from "./SqlJournal.ts"

export type { Append, Held, Log, Owner, SessionHeader, SessionRecord, Take } from "./SessionRecord.ts"
export { formatVersion } from "./SessionRecord.ts"

export class Journal extends Context.Tag("daybook/journal/Journal")<
  Journal,
  {
    /** Where the journal lies, as errors name it: a file, or "memory". */
    readonly location: string
    /**
     * Stores a new session, owned by nobody, at epoch 0, with these events or without any, all or nothing. False if the id
     * is taken: then nothing changed. Until its first event a session is not listed (J05), and where it has no owner
     * either, one with events may take its id. An ignorable event of a newer version, as a load gave it, is kept here alone.
     */
    readonly create: (header: SessionHeader, log?: Log) => Effect.Effect<boolean, JournalError>
    /** The stored record of a session. Fails with `JournalUnsupported` if its log is of another version. */
    readonly find: (id: SessionId) => Effect.Effect<SessionRecord, SessionNotFound | JournalError>
    /**
     * Takes ownership and appends the closing events, in one transaction: the new epoch, `epoch + 1`. Fails with
     * `SeqConflict` if head, epoch or lease moved since they were read; then nothing changed: read again.
     */
    readonly take: (take: Take) => Effect.Effect<number, SeqConflict | JournalError>
    /** Lets the leases of all that this token owns end at that time, in one statement, and tells which those are. */
    readonly renew: (token: string, leaseExpires: number) => Effect.Effect<ReadonlyArray<Held>, JournalError>
    /** Gives the session back, if `epoch` is still its epoch; else nothing. A session without events is removed. */
    readonly release: (id: SessionId, epoch: number) => Effect.Effect<void, JournalError>
    /**
     * Writes the batches of several sessions in one commit: the new head of each, in order, durable on return. Each is
     * judged alone: `SeqConflict` if its head is not the stored one, `SessionFenced` if its epoch is not; the others are
     * written all the same. Events that are stored already with the same seqs, epoch and bytes count as written, so that
     * a write whose answer was lost may be tried again. An event of unknown type, of data that does not fit it, or whose
     * seq does not follow dies, and nothing of any batch was written.
     */
    readonly append: (
      batches: ReadonlyArray<Append>
    ) => Effect.Effect<ReadonlyArray<Either.Either<number, SeqConflict | SessionFenced>>, JournalError>
    /**
     * The stored events from seq `from` on, at most `limit` of them, in order; fewer only at the end of the log. Empty past
     * it and for an unknown session. A `from` or `limit` that is negative or no whole number dies (J14). Fails with
     * `JournalUnsupported` for what another version wrote, with `JournalCorrupt` for what is damaged (J10).
     */
    readonly read: (
      id: SessionId,
      range: { readonly from: number; readonly limit: number }
    ) => Effect.Effect<ReadonlyArray<StoredEvent>, JournalError>
    /**
     * The same without the chunks: events from seq `from` on that are none, at most `limit` of them, in order. Answers and
     * results in a range of `hidden` come without the texts that they share with other events: what this costs is the texts
     * of the rest, not what was ever streamed.
     */
    readonly outline: (
      id: SessionId,
      range: { readonly from: number; readonly limit: number; readonly hidden: ReadonlyArray<Range> }
    ) => Effect.Effect<ReadonlyArray<StoredEvent>, JournalError>
    /**
     * The seqs of events that no owner can have stored there: their epoch is below that of the event before, or above the
     * session's. In order, at most `limit`; none as long as every write was fenced (law 9).
     */
    readonly unfenced: (id: SessionId, limit: number) => Effect.Effect<ReadonlyArray<number>, JournalError>
    /**
     * Sessions that have events, of any version, the last created first, at most `limit` after the first `offset`. A
     * record that cannot be read stands in its place as what is wrong with it: the others are listed all the same.
     */
    readonly list: (page: {
      readonly offset: number
      readonly limit: number
    }) => Effect.Effect<ReadonlyArray<Either.Either<SessionRecord, JournalCorrupt>>, JournalError>
  }
>() {}

/** A journal in memory, new for each build of the layer. */
export const layerMemory: Layer.Layer<Journal> = Layer.effect(Journal, MemoryJournal.make)

/**
 * A journal in a SQLite file, created if it is not there; the folder must be. Fails without having touched the file if
 * that is not a journal of this version.
 */
export const layerSqlite = ({ filename }: { readonly filename: string }): Layer.Layer<Journal, JournalError> =>
  Layer.provide(Layer.scoped(Journal, Effect.map(SqliteFile.open(filename), SqlJournal.make)), nodeFiles)

/** The same for reading alone: creates nothing. Without a file the journal is empty; every write fails. */
export const layerSqliteReadonly = ({
  filename
}: {
  readonly filename: string
}): Layer.Layer<Journal, JournalError> => {
  const opened = Effect.map(
    SqliteFile.openReadonly(filename),
    Option.match({ onNone: () => MemoryJournal.makeEmpty(filename), onSome: SqlJournal.make })
  )
  return Layer.provide(Layer.scoped(Journal, opened), nodeFiles)
}

// internal

const nodeFiles = Layer.merge(NodeFileSystem.layer, NodePath.layer)
