/**
 * Stored events and sessions page by page: however long a log is, one page of it is in memory.
 *
 * - What cannot be read hides nothing that stands before it.
 */
import * as Chunk from "effect/Chunk"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { JournalCorrupt, type JournalError, type JournalUnsupported } from "../domain/Errors.ts"
import type { StoredEvent } from "../domain/Event.ts"
import type { SessionId } from "../domain/Ids.ts"
import type { Journal, SessionRecord } from "../journal/Journal.ts"

/** How many events are read at once. One may be as large as a message. */
export const eventsAtOnce = 100

/** How many sessions are read at once. */
export const sessionsAtOnce = 200

/** Stored events next to each other. */
export interface Page {
  /** As many as are read at once; fewer only before the damage, or at the end of the log. */
  readonly events: ReadonlyArray<StoredEvent>
  /** Why the event after them cannot be read. */
  readonly damage?: JournalCorrupt | JournalUnsupported
}

/** A page of a log from a seq on; where part of it cannot be read, event by event up to that. */
export const page = (
  journal: Context.Tag.Service<Journal>,
  id: SessionId,
  from: number
): Effect.Effect<Page, JournalError> =>
  Effect.map(journal.read(id, { from, limit: eventsAtOnce }), (events): Page => ({ events })).pipe(
    Effect.catchIf(isDamage, () => readSingly(journal, id, from))
  )

/** Which part of a log. */
export interface Part {
  /** The first seq. */
  readonly from: number
  /** How many events the log has at least, as its record says: where one of them is not there, that is damage. */
  readonly head?: number
}

/** The stored events of a session from a seq on, a page a chunk. Fails after all that stand before what is damaged. */
export const events = (
  journal: Context.Tag.Service<Journal>,
  id: SessionId,
  part: Part
): Stream.Stream<StoredEvent, JournalError> => reading({ journal, id, part, follow: false })

/** How often a log is looked at for what is new. */
export const pollInterval = Duration.millis(100)

/** The same, and then what is appended, whoever appends it: each event once, in order. It never ends by itself. */
export const following = (
  journal: Context.Tag.Service<Journal>,
  id: SessionId,
  part: Part
): Stream.Stream<StoredEvent, JournalError> => reading({ journal, id, part, follow: true })

/** Every session that has events, a page a chunk; what is wrong with a record stands in its place. */
export const sessions = (
  journal: Context.Tag.Service<Journal>
): Stream.Stream<Either.Either<SessionRecord, JournalCorrupt>, JournalError> =>
  paged(0, sessionsAtOnce, (at) => journal.list({ offset: at, limit: sessionsAtOnce }))

// internal

const isDamage = (error: JournalError): error is JournalCorrupt | JournalUnsupported =>
  error._tag === "JournalCorrupt" || error._tag === "JournalUnsupported"

const readSingly = Effect.fnUntraced(function* (journal: Context.Tag.Service<Journal>, id: SessionId, from: number) {
  const events: Array<StoredEvent> = []
  while (events.length < eventsAtOnce) {
    const read = yield* Effect.either(journal.read(id, { from: from + events.length, limit: 1 }))
    if (Either.isLeft(read)) {
      if (isDamage(read.left)) return { events, damage: read.left } satisfies Page
      return yield* read.left
    }
    if (read.right.length === 0) break
    events.push(...read.right)
  }
  return { events } satisfies Page
})

/** What is read next: the page at a seq, after a pause or at once; or the damage that was found there. */
type Next = { readonly at: number; readonly pause: boolean } | Required<Pick<Page, "damage">>

interface Log {
  readonly journal: Context.Tag.Service<Journal>
  readonly id: SessionId
  readonly part: Part
  readonly follow: boolean
}

const reading = (log: Log): Stream.Stream<StoredEvent, JournalError> =>
  Stream.paginateChunkEffect<Next, StoredEvent, JournalError, never>({ at: log.part.from, pause: false }, (next) =>
    "damage" in next
      ? Effect.fail(next.damage)
      : Effect.map(
          Effect.zipRight(next.pause ? Effect.sleep(pollInterval) : Effect.void, page(log.journal, log.id, next.at)),
          (found) => [Chunk.unsafeFromArray(found.events), after(log, next.at, found)]
        )
  )

const after = ({ follow, id, journal, part }: Log, from: number, { damage, events }: Page): Option.Option<Next> => {
  if (damage !== undefined) return Option.some({ damage })
  const at = from + events.length
  const isLast = events.length < eventsAtOnce
  if (isLast && at < (part.head ?? 0)) {
    const detail = `seq ${at} is missing`
    return Option.some({
      damage: new JournalCorrupt({ file: journal.location, sessionId: id, detail, cause: undefined })
    })
  }
  return isLast && !follow ? Option.none() : Option.some({ at, pause: isLast })
}

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
