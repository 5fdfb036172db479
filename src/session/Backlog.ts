/**
 * The backlog of a session: what is in its log and not yet on the disk, and who waits for that.
 *
 * - Events leave in order; `stored` knows them as those that were sent, whatever came or broke meanwhile.
 * - All of it is synchronous. The session pushes and waits, the writer sends and stores.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"
import type { SessionBroken } from "../domain/Errors.ts"
import type { StoredEvent } from "../domain/Event.ts"
import type { SessionState } from "../domain/SessionState.ts"

interface Waiter {
  readonly head: number
  readonly done: Deferred.Deferred<void, SessionBroken>
}

/** Only the functions of this file write to it. */
export interface Backlog {
  readonly events: Array<StoredEvent>
  /** The state of the log as far as it is durable. */
  kept: SessionState
  /** What is on its way to the disk, and the state after it. */
  sent: { readonly events: ReadonlyArray<StoredEvent>; readonly state: SessionState }
  waiters: ReadonlyArray<Waiter>
  /** Why nothing more will be durable, once that is so. */
  abandoned: SessionBroken | undefined
}

/** The backlog of a log that is durable up to this state. */
export const make = (state: SessionState): Backlog => ({
  events: [],
  kept: state,
  sent: { events: [], state },
  waiters: [],
  abandoned: undefined
})

/** Adds events that are in the log now. */
export const push = (backlog: Backlog, events: ReadonlyArray<StoredEvent>): void => {
  for (const event of events) backlog.events.push(event)
}

/** All events that wait; they are on their way from now on. `state` is the one after them. */
export const send = (backlog: Backlog, state: SessionState): ReadonlyArray<StoredEvent> => {
  backlog.sent = { events: [...backlog.events], state }
  return backlog.sent.events
}

/** What was sent is durable: those events, after whoever waited for them was answered. */
export const stored = (backlog: Backlog): ReadonlyArray<StoredEvent> => {
  const { events, state } = backlog.sent
  backlog.events.splice(0, events.length)
  backlog.kept = state
  const served = backlog.waiters.filter((waiter) => waiter.head <= state.head)
  backlog.waiters = backlog.waiters.filter((waiter) => waiter.head > state.head)
  for (const waiter of served) Deferred.unsafeDone(waiter.done, Effect.void)
  return events
}

/** Returns once everything before a head is durable. Fails once nothing more will be. */
export const wait = (backlog: Backlog, head: number): Effect.Effect<void, SessionBroken> =>
  Effect.suspend(() => {
    // others may have run since the caller looked: nobody would tell it of what happened by now
    if (backlog.kept.head >= head) return Effect.void
    if (backlog.abandoned !== undefined) return Effect.fail(backlog.abandoned)
    // completed by the writer, whose fiber outlives it: it belongs to no fiber
    const waiter: Waiter = { head, done: Deferred.unsafeMake(FiberId.none) }
    backlog.waiters = [...backlog.waiters, waiter]
    return Deferred.await(waiter.done)
  })

/** Nothing more will be durable: what waits is dropped, and whoever waits is told. */
export const abandon = (backlog: Backlog, error: SessionBroken): void => {
  backlog.abandoned = error
  backlog.events.length = 0
  for (const waiter of backlog.waiters) Deferred.unsafeDone(waiter.done, Effect.fail(error))
  backlog.waiters = []
}
