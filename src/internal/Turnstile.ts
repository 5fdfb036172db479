/**
 * A turnstile: one step at a time, in the order in which they came.
 *
 * - A semaphore of the library loses its permit when an interrupt comes between taking it and going on. Here taking it and
 *   beginning the step is one synchronous step, and whoever leaves hands it over: nobody comes between.
 * - Waiting is interruptible where the caller is. A step is not, but for what it restores.
 */
import * as Effect from "effect/Effect"

/** Gives an effect the interruptibility of whoever came to the turnstile. */
export type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** Runs a step once no other one runs. */
export type Turnstile = <A, E, R>(step: (restore: Restore) => Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** A turnstile that nobody has passed. */
export const make = (): Turnstile => {
  const waiting: Array<Effect.Latch> = []
  let taken = false
  const release = () => {
    const next = waiting.shift()
    if (next === undefined) taken = false
    else next.unsafeOpen()
  }
  /** Gives up a place; one that was handed over meanwhile goes to the next. */
  const leave = (mine: Effect.Latch) => {
    const at = waiting.indexOf(mine)
    if (at === -1) release()
    else waiting.splice(at, 1)
  }
  return <A, E, R>(step: (restore: Restore) => Effect.Effect<A, E, R>) =>
    Effect.uninterruptibleMask((restore) => {
      const pass: Effect.Effect<A, E, R> = Effect.matchCauseEffect(
        Effect.suspend(() => step(restore)),
        {
          onFailure: (cause) => {
            release()
            return Effect.failCause(cause)
          },
          onSuccess: (value) => {
            release()
            return Effect.succeed(value)
          }
        }
      )
      return Effect.suspend(() => {
        if (!taken) {
          taken = true
          return pass
        }
        const mine = Effect.unsafeMakeLatch(false)
        waiting.push(mine)
        return Effect.matchCauseEffect(restore(mine.await), {
          onFailure: (cause) => {
            leave(mine)
            return Effect.failCause(cause)
          },
          onSuccess: () => pass
        })
      })
    })
}
