/**
 * A turnstile: one step at a time.
 *
 * - A semaphore of the library loses its permit when an interrupt comes between taking it and going on. Here taking it and
 *   beginning the step is one synchronous step.
 * - Waiting is interruptible where the caller is. A step is not, but for what it restores.
 */
import * as Effect from "effect/Effect"

/** Gives an effect the interruptibility of whoever came to the turnstile. */
export type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** Runs a step once no other one runs. */
export type Turnstile = <A, E, R>(step: (restore: Restore) => Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** A turnstile that nobody has passed. */
export const make = (): Turnstile => {
  const free = Effect.unsafeMakeLatch(true)
  let taken = false
  const release = () => {
    taken = false
    free.unsafeOpen()
  }
  return <A, E, R>(step: (restore: Restore) => Effect.Effect<A, E, R>) =>
    Effect.uninterruptibleMask((restore) => {
      const attempt: Effect.Effect<A, E, R> = Effect.suspend(() => {
        if (taken) return Effect.zipRight(restore(free.await), attempt)
        taken = true
        free.unsafeClose()
        return Effect.matchCauseEffect(
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
      })
      return attempt
    })
}
