/**
 * Ownership: whether the recorded owner of a session stands in the way of another one (law 9).
 *
 * - An owner is stale once its process has ended, which a process of the same boot sees at once, or once its lease has.
 * - Being stale takes nothing away: whoever takes the session does so by the journal's conditional statement, and until then
 *   a stale owner still writes.
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { globalValue } from "effect/GlobalValue"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import type { Scope } from "effect/Scope"
import * as Host from "../internal/Host.ts"
import type { Owner, SessionRecord } from "../journal/Journal.ts"

/** An owner of this process, whatever it owns. */
export type Self = Omit<Owner, "since">

/** A new owner of this process, until the scope closes. */
export const self: Effect.Effect<Self, never, FileSystem.FileSystem | Scope> = Effect.gen(function* () {
  const token = (yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)).toString(36)
  const owner: Self = { ...(yield* Host.identity), token }
  yield* Effect.acquireRelease(
    Effect.sync(() => living.add(token)),
    () => Effect.sync(() => living.delete(token))
  )
  return owner
})

/** How the recorded owner of a session stands to whoever else wants it. */
export type Standing =
  | { readonly _tag: "None" }
  /** Whoever else wants to write waits for it. */
  | { readonly _tag: "Live"; readonly owner: Owner }
  /** Its lease is over. It may stand still, be out of sight, or own what this journal is a copy of. */
  | { readonly _tag: "Silent" }
  /** Its process has ended: whatever that left running is nobody's. */
  | { readonly _tag: "Ended" }

/** How the recorded owner stands now. */
export const standing = (record: SessionRecord): Effect.Effect<Standing, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    if (Option.isNone(record.owner)) return { _tag: "None" }
    const owner = record.owner.value
    if (yield* hasEnded(owner)) return { _tag: "Ended" }
    const now = yield* Clock.currentTimeMillis
    return record.leaseExpires <= now ? { _tag: "Silent" } : { _tag: "Live", owner }
  })

/** The owner that a session has now. None if there is none, or a stale one. */
export const liveOwner = (record: SessionRecord): Effect.Effect<Option.Option<Owner>, never, FileSystem.FileSystem> =>
  Effect.map(standing(record), (stands) => (stands._tag === "Live" ? Option.some(stands.owner) : Option.none()))

// internal

/** The tokens of this process that may own something: of any other one of its own, the owner was left behind. */
const living = globalValue("daybook/session/Ownership/living", () => new Set<string>())

const hasEnded = (owner: Owner): Effect.Effect<boolean, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    if (yield* Host.hasEnded(owner)) return true
    const { bootId, pid, processStart } = yield* Host.identity
    const isOurs = owner.pid === pid && owner.processStart === processStart && owner.bootId === bootId
    return isOurs && Host.isTold(owner) && !living.has(owner.token)
  })
