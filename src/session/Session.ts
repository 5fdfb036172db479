/**
 * A live session: its log in memory, ahead of the journal by what the writer has not stored yet.
 *
 * - `append` is one synchronous step: the events join the log, and the state moves, or the fiber dies and nothing changed.
 * - What was appended becomes durable in order; `barrier` waits for it. Nothing else waits for the disk.
 * - When a write fails the session is broken for good: nothing more is appended, and what is stored is what is kept.
 */
import type * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FiberId from "effect/FiberId"
import type * as Stream from "effect/Stream"
import { type JournalError, SessionBroken } from "../domain/Errors.ts"
import type { SessionEvent, StoredEvent } from "../domain/Event.ts"
import * as Event from "../domain/Event.ts"
import type { SessionId } from "../domain/Ids.ts"
import type { FeedItem, Notice } from "../domain/Notice.ts"
import * as SessionState from "../domain/SessionState.ts"
import * as Metrics from "../internal/Metrics.ts"
import type { SessionHeader } from "../journal/Journal.ts"
import * as Backlog from "./Backlog.ts"
import * as Feed from "./Feed.ts"
import type { Client, Writer } from "./Writer.ts"

/** How long ownership lasts without a sign of life. */
export const leaseMillis = 30_000

/** How many events may wait for the disk before whoever appends has to wait too. */
export const maxBacklog = 4096

export interface Session {
  readonly id: SessionId
  readonly header: SessionHeader
  /** How many events were stored before this owner took the session: what repair added begins there. */
  readonly foundHead: number
  /** How many events were stored when this owner took the session, repair included. */
  readonly loadedHead: number
  /** The state of the log as it is in memory now; of a broken session, as far as it is durable. */
  readonly unsafeState: () => SessionState.SessionState
  /**
   * Appends in one synchronous step: all of the events or none. Fails only when the session is broken; an event that
   * cannot stand there is thrown as a defect, and nothing has changed.
   */
  readonly unsafeAppend: (
    events: ReadonlyArray<SessionEvent>
  ) => Either.Either<ReadonlyArray<StoredEvent>, SessionBroken>
  /**
   * Appends the events that `make` gives for the state as it is, in one step. Returns once they are in the log, not once
   * they are durable; waits only while too many events wait for the disk. Dies on an event that cannot stand there.
   */
  readonly append: (
    make: (state: SessionState.SessionState) => ReadonlyArray<SessionEvent>
  ) => Effect.Effect<ReadonlyArray<StoredEvent>, SessionBroken>
  /** The head of all that was ever appended: of a broken session, what was lost included. */
  readonly unsafeHead: () => number
  /** Returns once everything before a head is durable, also in a session that is over; fails once it never will be. */
  readonly durable: (head: number) => Effect.Effect<void, SessionBroken>
  /** Returns once everything that is in the log is durable. Fails in a session that is over: nothing may follow there. */
  readonly barrier: Effect.Effect<void, SessionBroken>
  /** Has what was appended stored now rather than in a moment, and waits for nothing. */
  readonly hurry: Effect.Effect<void>
  /** Returns when the session is broken: a write failed, or its owner gave up on it. */
  readonly broken: Effect.Effect<SessionBroken>
  /** Breaks the session: what is not durable yet is dropped, and nothing more is appended. The first cause stands. */
  readonly unsafeBreak: (cause: unknown) => SessionBroken
  /** Says that the owner is on its way out: whoever opens the session from here on waits until it is released. */
  readonly unsafeLeave: () => void
  /** The stored events from a seq on, at most so many of them, as `Journal.read` gives them. */
  readonly read: (from: number, limit: number) => Effect.Effect<ReadonlyArray<StoredEvent>, JournalError>
  /** Shows a notice to every subscriber. Never waits. */
  readonly unsafeNotify: (notice: Notice) => void
  /** Durable events as they commit, and live notices, from the moment of subscription on. Ends with the session. */
  readonly feed: Stream.Stream<FeedItem, JournalError>
}

/** What a session is made of, once it was taken. */
export interface Taken {
  readonly header: SessionHeader
  readonly epoch: number
  /** How many events were stored before that. */
  readonly found: number
  readonly state: SessionState.SessionState
}

const orThrow = Either.getOrThrowWith((detail: string) => new Error(detail))

/** The events in their places, and the state after them. Throws where one cannot stand: that is a bug of the caller. */
const place = (
  state: SessionState.SessionState,
  events: ReadonlyArray<SessionEvent>,
  now: number
): { readonly stored: ReadonlyArray<StoredEvent>; readonly state: SessionState.SessionState } => {
  const stored: Array<StoredEvent> = []
  let next = state
  for (const event of events) {
    const placed = orThrow(Event.place(event, next.head, Math.max(now, next.time)))
    next = orThrow(SessionState.apply(next, placed))
    stored.push(placed)
  }
  return { stored, state: next }
}

/** What a live session runs on. */
export interface Services {
  readonly writer: Writer
  readonly clock: Clock.Clock
  readonly read: (from: number, limit: number) => Effect.Effect<ReadonlyArray<StoredEvent>, JournalError>
  readonly leave: () => void
}

/** The live session. `end` is called once everything is durable: then its feed ends and nothing more is appended. */
export const make = (
  { epoch, found, header, state: loaded }: Taken,
  { clock, leave, read, writer }: Services
): { readonly session: Session; readonly end: Effect.Effect<void> } => {
  const id = header.id
  const backlog = Backlog.make(loaded)
  const feed = Feed.make({ durableHead: () => backlog.kept.head, read })
  const broken = Deferred.unsafeMake<SessionBroken>(FiberId.none)
  let state = loaded
  /** Why nothing more is appended, once that is so. */
  let over: SessionBroken | undefined

  const overBecause = (cause: unknown) => new SessionBroken({ sessionId: id, durableHead: backlog.kept.head, cause })

  const unsafeBreak = (cause: unknown): SessionBroken => {
    if (over !== undefined) return over
    over = overBecause(cause)
    Backlog.abandon(backlog, over)
    Deferred.unsafeDone(broken, Effect.succeed(over))
    feed.unsafePublish({ type: "broken", durableHead: over.durableHead, message: over.message })
    return over
  }

  const client: Client = {
    waiting: () =>
      backlog.events.length === 0
        ? undefined
        : {
            id,
            head: backlog.kept.head,
            epoch,
            events: Backlog.send(backlog, state),
            summary: state.summary,
            leaseExpires: clock.unsafeCurrentTimeMillis() + leaseMillis
          },
    stored: () => {
      const events = Backlog.stored(backlog)
      Metrics.unsafeAdd(Metrics.events, events.length)
      for (const event of events) feed.unsafePublish({ type: "event", event })
    },
    failed: (cause) => {
      unsafeBreak(cause)
    }
  }

  const unsafeAppend: Session["unsafeAppend"] = (events) => {
    if (over !== undefined) return Either.left(over)
    const placed = place(state, events, clock.unsafeCurrentTimeMillis())
    if (placed.stored.length > 0) {
      state = placed.state
      Backlog.push(backlog, placed.stored)
      writer.unsafeWake(client)
    }
    return Either.right(placed.stored)
  }

  const durable = (head: number): Effect.Effect<void, SessionBroken> => {
    if (backlog.kept.head >= head) return Effect.void
    if (over !== undefined) return Effect.fail(over)
    writer.unsafeHurry()
    const startNanos = clock.unsafeCurrentTimeNanos()
    const counted = Effect.sync(() => {
      Metrics.unsafeAdd(Metrics.barriers, 1)
      Metrics.unsafeAdd(Metrics.barrierMillis, Number(clock.unsafeCurrentTimeNanos() - startNanos) / 1e6)
    })
    return Backlog.wait(backlog, head).pipe(
      Effect.ensuring(counted),
      Effect.withSpan("Session.barrier", { attributes: { sessionId: id }, captureStackTrace: false })
    )
  }
  const barrier = Effect.suspend(() => (over === undefined ? durable(state.head) : Effect.fail(over)))

  const session: Session = {
    id,
    header,
    foundHead: found,
    loadedHead: loaded.head,
    unsafeState: () => (over === undefined ? state : backlog.kept),
    unsafeAppend,
    append: (make) =>
      Effect.flatMap(
        Effect.suspend(() => unsafeAppend(make(session.unsafeState()))),
        (stored) => (backlog.events.length > maxBacklog ? Effect.as(barrier, stored) : Effect.succeed(stored))
      ),
    unsafeHead: () => state.head,
    durable: (head) => Effect.suspend(() => durable(head)),
    barrier,
    hurry: Effect.sync(writer.unsafeHurry),
    broken: Deferred.await(broken),
    unsafeBreak,
    unsafeLeave: leave,
    read,
    unsafeNotify: feed.unsafePublish,
    feed: feed.subscribe
  }
  const end = Effect.sync(() => {
    if (over === undefined) {
      over = overBecause(new Error("it was released"))
      // whoever appended after the last barrier is told that it will not be stored
      Backlog.abandon(backlog, over)
    }
    feed.unsafeEnd()
  })
  return { session, end }
}
