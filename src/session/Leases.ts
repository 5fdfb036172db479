/**
 * Leases: the sign of life of this process for all that it owns.
 *
 * - One statement renews them all, every few seconds, while there are any. An owner whose lease ended still writes as long
 *   as nobody took its session: a process that stood still for a while loses nothing by that alone.
 * - Whoever finds that its session was taken breaks it: nothing more is tried there (law 9).
 * - What is owned and not live was left behind, by a release that failed or a take whose answer was lost: it is given back.
 */

import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Scope } from "effect/Scope"
import { SessionFenced } from "../domain/Errors.ts"
import type { Journal } from "../journal/Journal.ts"
import type { Registry } from "./Registry.ts"
import { leaseMillis } from "./Session.ts"

/** How often leases are renewed. */
export const renewMillis = 5_000

/** Renews all that a token owns until the scope closes. */
export const renewing = (
  journal: Context.Tag.Service<Journal>,
  token: string,
  { any, places }: Registry
): Effect.Effect<void, never, Scope> => {
  const beat = Effect.gen(function* () {
    const before = [...places].flatMap(([id, { holding }]) => (holding === undefined ? [] : [{ id, ...holding }]))
    const renewed = yield* journal.renew(token, (yield* Clock.currentTimeMillis) + leaseMillis)
    const epochs = new Map(renewed.map(({ epoch, id }) => [id, epoch]))
    for (const { epoch, id, unsafeLose } of before)
      if (epochs.get(id) !== epoch) unsafeLose(new SessionFenced({ sessionId: id, epoch }))
    yield* Effect.forEach(epochs, ([id, epoch]) => (places.has(id) ? Effect.void : journal.release(id, epoch)), {
      discard: true
    })
  })
  // what is not renewed now is renewed next time, or by the next append; who loses a session by it is told that
  const tried = Effect.catchAll(beat, (error) => Effect.logDebug("leases were not renewed", error))
  return Effect.asVoid(
    Effect.forkScoped(Effect.forever(Effect.all([any.await, Effect.sleep(renewMillis), tried], { discard: true })))
  )
}
