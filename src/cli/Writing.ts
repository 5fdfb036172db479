/**
 * What the commands share that write to a journal and ask no model.
 */
import * as Effect from "effect/Effect"
import type { Journal } from "../journal/Journal.ts"
import type { Sessions } from "../session/Sessions.ts"
import { Composition } from "./Composition.ts"
import * as Place from "./Place.ts"
import { root } from "./Root.ts"

/** Runs an effect on the sessions of the place that these options mean. There must be a journal: none is created. */
export const writing = Effect.fnUntraced(function* <A, E, R>(
  own: Place.Given,
  effect: Effect.Effect<A, E, R | Journal | Sessions>
) {
  const place = yield* Place.resolve(own, yield* root)
  yield* Place.check(place, "write")
  yield* Place.mustExist(place)
  const composition = yield* Composition
  return yield* Effect.provide(effect, composition.sessions(place))
})
