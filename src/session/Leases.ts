/**
 * Leases: the sign of life of this process for all that it owns.
 *
 * - One statement renews them all, every few seconds, while there are any. An owner whose lease ended still writes as long
 *   as nobody took its session: a process that stood still for a while loses nothing by that alone.
 * - Whoever finds that its session was taken breaks it: nothing more is tried there (law 9).
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Scope } from "effect/Scope"
import { type JournalError, SessionFenced } from "../domain/Errors.ts"
import type { SessionId } from "../domain/Ids.ts"
import type { Held } from "../journal/Journal.ts"
import { leaseMillis } from "./Session.ts"

/** How often leases are renewed. */
export const renewMillis = 5_000

/** A session that is owned. */
export interface Lease extends Held {
  /** It was lost to somebody else. */
  readonly unsafeLose: (cause: SessionFenced) => void
}

export interface Leases {
  readonly held: Map<SessionId, Lease>
  /** Open while something is held. */
  readonly any: Effect.Latch
}

/** Leases that are renewed until the scope closes. */
export const make = (
  renew: (until: number) => Effect.Effect<ReadonlyArray<Held>, JournalError>
): Effect.Effect<Leases, never, Scope> =>
  Effect.gen(function* () {
    const leases: Leases = { held: new Map(), any: yield* Effect.makeLatch(false) }
    const beat = Effect.gen(function* () {
      const before = [...leases.held.values()]
      const renewed = yield* renew((yield* Clock.currentTimeMillis) + leaseMillis)
      const kept = new Map(renewed.map(({ epoch, id }) => [id, epoch]))
      for (const { epoch, id, unsafeLose } of before)
        if (kept.get(id) !== epoch) unsafeLose(new SessionFenced({ sessionId: id, epoch }))
    })
    // what is not renewed now is renewed next time, or by the next append
    const tried = Effect.catchAll(beat, (error) => Effect.logWarning(`leases were not renewed: ${error.message}`))
    yield* Effect.forkScoped(
      Effect.forever(Effect.all([leases.any.await, Effect.sleep(renewMillis), tried], { discard: true }))
    )
    return leases
  })

/** Keeps a lease until the scope closes. */
export const hold = ({ any, held }: Leases, lease: Lease): Effect.Effect<void, never, Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      held.set(lease.id, lease)
      any.unsafeOpen()
    }),
    () =>
      Effect.sync(() => {
        held.delete(lease.id)
        if (held.size === 0) any.unsafeClose()
      })
  )
