/**
 * Resources that are given back together.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"

/**
 * Hands what an effect acquires to the scope as one: once the scope has begun to close, all of it is given back, however often
 * whoever closes is interrupted. With finalizers of their own, those that had not begun by then would be left out. Where the
 * effect does not come to its end, what it had acquired is given back at once. `leave` may do something about the closing.
 */
export const asOne = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  leave: (close: Effect.Effect<void>, acquired: A) => Effect.Effect<void> = (close) => close
): Effect.Effect<A, E, R | Scope.Scope> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const own = yield* Scope.make()
      const exit = yield* Effect.exit(restore(Scope.extend(effect, own)))
      if (Exit.isFailure(exit)) {
        yield* Scope.close(own, exit)
        return yield* exit
      }
      // to the scope itself: `Effect.addFinalizer` would run with the fiber refs of this moment, not of who closes
      yield* Scope.addFinalizerExit(yield* Effect.scope, (end) =>
        Effect.uninterruptible(leave(Scope.close(own, end), exit.value))
      )
      return exit.value
    })
  )
