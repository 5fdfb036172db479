/**
 * Work that a cancel of its caller does not reach.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"

/**
 * Runs in a fiber of its own, to its end: an interrupt of the caller does not reach it, and its own time limits work even
 * where the caller is uninterruptible. A daemon, because an interrupt reaches the children of a fiber at once, even where the
 * fiber itself puts it off. An interruptible caller that is interrupted leaves it running.
 */
export const apart = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Effect.forkDaemon(Effect.interruptible(effect)), (fiber) => Effect.flatten(Fiber.await(fiber)))
