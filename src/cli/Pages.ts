/**
 * Stored events and sessions page by page: however long a log is, one page of it is in memory.
 */
import * as Chunk from "effect/Chunk"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { JournalCorrupt, JournalError } from "../domain/Errors.ts"
import type { StoredEvent } from "../domain/Event.ts"
import type { SessionId } from "../domain/Ids.ts"
import type { Journal, SessionRecord } from "../journal/Journal.ts"

/** How many events are read at once. One may be as large as a message. */
export const eventsAtOnce = 100

/** How many sessions are read at once. */
export const sessionsAtOnce = 200

/** The stored events of a session from a seq on, a page a chunk. */
export const events = (
  journal: Context.Tag.Service<Journal>,
  id: SessionId,
  from: number
): Stream.Stream<StoredEvent, JournalError> =>
  paged(from, eventsAtOnce, (at) => journal.read(id, { from: at, limit: eventsAtOnce }))

/** How often a log is looked at for what is new. */
export const pollInterval = "100 millis"

/** The same, and then what is appended, whoever appends it: each event once, in order. It never ends by itself. */
export const following = (
  journal: Context.Tag.Service<Journal>,
  id: SessionId,
  from: number
): Stream.Stream<StoredEvent, JournalError> =>
  Stream.paginateChunkEffect({ at: from, pause: false }, ({ at, pause }) =>
    Effect.map(
      Effect.zipRight(
        pause ? Effect.sleep(pollInterval) : Effect.void,
        journal.read(id, { from: at, limit: eventsAtOnce })
      ),
      (page) => [Chunk.unsafeFromArray(page), Option.some({ at: at + page.length, pause: page.length < eventsAtOnce })]
    )
  )

/** Every session that has events, a page a chunk; what is wrong with a record stands in its place. */
export const sessions = (
  journal: Context.Tag.Service<Journal>
): Stream.Stream<Either.Either<SessionRecord, JournalCorrupt>, JournalError> =>
  paged(0, sessionsAtOnce, (at) => journal.list({ offset: at, limit: sessionsAtOnce }))

// internal

const paged = <A, E>(
  from: number,
  size: number,
  read: (at: number) => Effect.Effect<ReadonlyArray<A>, E>
): Stream.Stream<A, E> =>
  Stream.paginateChunkEffect(from, (at) =>
    Effect.map(read(at), (page) => [
      Chunk.unsafeFromArray(page),
      page.length < size ? Option.none() : Option.some(at + page.length)
    ])
  )
