/**
 * Which sessions are live in this process: one owner an id.
 *
 * - Claiming is one synchronous step. Whoever comes while the owner closes waits until it has closed.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FiberId from "effect/FiberId"
import type { Scope } from "effect/Scope"
import { type SessionFenced, SessionOwned } from "../domain/Errors.ts"
import type { SessionId } from "../domain/Ids.ts"

/** What a session is owned by, once it was taken. */
export interface Holding {
  readonly epoch: number
  /** It was lost to somebody else. */
  readonly unsafeLose: (cause: SessionFenced) => void
}

/** The place of a live session, or of one that is being taken or given back. Only the functions of this file write to it. */
export interface Place {
  /** When it was claimed, in Unix milliseconds. */
  readonly since: number
  /** Completed when the place is free again. */
  readonly closed: Deferred.Deferred<void>
  phase: "open" | "closing"
  holding?: Holding
}

export interface Registry {
  readonly places: Map<SessionId, Place>
  /** Open while there is any place. */
  readonly any: Effect.Latch
}

export const make: Effect.Effect<Registry> = Effect.map(Effect.makeLatch(false), (any) => ({ places: new Map(), any }))

/** The session was taken. */
export const hold = (place: Place, holding: Holding): void => {
  place.holding = holding
}

/** Its owner is on its way out: whoever comes from here on waits until it has closed. */
export const leave = (place: Place): void => {
  place.phase = "closing"
}

const claim = ({ any, places }: Registry, id: SessionId): Effect.Effect<Either.Either<Place, Place>> =>
  Effect.map(Clock.currentTimeMillis, (since) => {
    const other = places.get(id)
    if (other !== undefined) return Either.left(other)
    const mine: Place = { since, closed: Deferred.unsafeMake(FiberId.none), phase: "open" }
    places.set(id, mine)
    any.unsafeOpen()
    return Either.right(mine)
  })

const free = ({ any, places }: Registry, id: SessionId, mine: Place) =>
  Effect.sync(() => {
    places.delete(id)
    if (places.size === 0) any.unsafeClose()
    Deferred.unsafeDone(mine.closed, Effect.void)
  })

/** The one place of an id, until the scope closes. Fails, naming this process, while the id is live; waits for one that is closing. */
export const reserve = (
  registry: Registry,
  id: SessionId,
  self: { readonly host: string; readonly pid: number }
): Effect.Effect<Place, SessionOwned, Scope> =>
  Effect.flatMap(
    Effect.acquireRelease(claim(registry, id), (claimed) =>
      Either.isRight(claimed) ? free(registry, id, claimed.right) : Effect.void
    ),
    Either.match({
      onRight: (mine) => Effect.succeed(mine),
      onLeft: (other) =>
        other.phase === "closing"
          ? Effect.zipRight(Deferred.await(other.closed), reserve(registry, id, self))
          : Effect.fail(new SessionOwned({ sessionId: id, host: self.host, pid: self.pid, since: other.since }))
    })
  )
