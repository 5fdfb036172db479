/**
 * What the commands share that write to a journal and ask no model.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { SessionId } from "../domain/Ids.ts"
import type { Journal } from "../journal/Journal.ts"
import type { Sessions } from "../session/Sessions.ts"
import { Composition } from "./Composition.ts"
import * as Failure from "./Failure.ts"
import * as Place from "./Place.ts"
import { root } from "./Root.ts"

/**
 * Runs an effect on the sessions of the place that these options mean. There must be a journal: none is created. Where that
 * cannot be opened, what was not done with the session is said.
 */
export const writing = Effect.fnUntraced(function* <A, E, R>(
  own: Place.Given & { readonly id: SessionId },
  effect: Effect.Effect<A, E, R | Journal | Sessions>,
  notDone: string
) {
  const place = yield* Place.resolve(own, yield* root)
  yield* Place.check(place, "write")
  yield* Place.mustExist(place)
  const composition = yield* Composition
  return yield* Effect.provide(effect, Layer.mapError(composition.sessions(place), Failure.notDone(own.id, notDone)))
})
