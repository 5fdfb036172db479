/**
 * What the reading commands share: they read the journal of their place, create nothing and take no session.
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import type { Journal, SessionRecord } from "../journal/Journal.ts"
import * as Ownership from "../session/Ownership.ts"
import { Composition } from "./Composition.ts"
import * as Place from "./Place.ts"
import { root } from "./Root.ts"

/** Runs an effect on the journal that these options mean. Without a file that is an empty one, unless there must be one. */
export const reading = Effect.fnUntraced(function* <A, E, R>(
  own: Place.Given,
  effect: Effect.Effect<A, E, R | Journal>,
  options: { readonly mustExist?: boolean } = {}
) {
  const place = yield* Place.resolve(own, yield* root)
  yield* Place.check(place, "read")
  if (options.mustExist === true) yield* Place.mustExist(place)
  const composition = yield* Composition
  return yield* Effect.provide(effect, composition.reading(place))
})

/** A record whose owner is the one that lives: one that died owns nothing any more. */
export const asItStands = (record: SessionRecord): Effect.Effect<SessionRecord, never, FileSystem.FileSystem> =>
  Effect.map(Ownership.liveOwner(record), (owner) => ({ ...record, owner }))
