/**
 * Resources that are given back together.
 */
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"

/**
 * Hands what an effect acquires to the scope as one: once the scope has begun to close, all of it is given back, however often
 * whoever closes is interrupted. With finalizers of their own, those that had not begun by then would be left out.
 */
export const asOne = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R | Scope.Scope> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const own = yield* Scope.make()
      // to the scope itself: `Effect.addFinalizer` would run with the fiber refs of this moment, not of who closes
      yield* Scope.addFinalizerExit(yield* Effect.scope, (exit) => Effect.uninterruptible(Scope.close(own, exit)))
      return yield* restore(Scope.extend(effect, own))
    })
  )
