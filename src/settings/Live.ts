/**
 * A section as it is, and as it becomes.
 *
 * - Its values form a chain: each knows the one that comes after it. Whoever watches holds a place in that chain and nothing
 *   else, so watchers see every change once, in order, and none can hold up or harm another one, or outlive its own stream.
 * - A value that is refused changes nothing: the last good one stays.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FiberId from "effect/FiberId"
import type * as Option from "effect/Option"
import type { Json } from "../internal/Json.ts"
import * as Section from "./Section.ts"
import type { Stored } from "./Store.ts"

/** A value, and the one that comes after it; none once nothing more comes. */
export interface Link<A> {
  readonly resolved: Section.Resolved<A>
  readonly next: Deferred.Deferred<Option.Option<Link<A>>>
}

export interface Live<A> {
  /** Takes over what is stored now. Tells why it was not taken over, the first time that it is seen. */
  readonly unsafeSee: (stored: Stored) => string | undefined
  readonly unsafeLast: () => Link<A>
  /** From here on nothing comes after the last one for those who watch. */
  readonly unsafeEnd: () => void
}

/** A section over what the composition says of it. Throws where the schema refuses that: the program is wrong. */
export const make = <A, I>(section: Section.Section<A, I>, composition: Json | undefined): Live<A> => {
  let seen: Stored | undefined
  let isEnded = false
  const linkOf = (resolved: Section.Resolved<A>): Link<A> => {
    const next = Deferred.unsafeMake<Option.Option<Link<A>>>(FiberId.none)
    if (isEnded) Deferred.unsafeDone(next, Effect.succeedNone)
    return { resolved, next }
  }
  let last = linkOf(
    Either.getOrThrowWith(
      Section.resolve(section, [composition]),
      ({ detail }) => new Error(`the composition of this program is wrong: ${detail}`)
    )
  )
  const take = (resolved: Section.Resolved<A>): void => {
    if (Section.isSame(resolved, last.resolved)) return
    const link = linkOf(resolved)
    Deferred.unsafeDone(last.next, Effect.succeedSome(link))
    last = link
  }
  return {
    unsafeSee: (stored) => {
      if (stored === seen) return undefined
      seen = stored
      if (Either.isLeft(stored)) return stored.left.what
      const resolved = Section.resolve(section, [composition, stored.right.values[section.name]])
      if (Either.isLeft(resolved)) return resolved.left.detail
      take(resolved.right)
      return undefined
    },
    unsafeLast: () => last,
    unsafeEnd: () => {
      isEnded = true
      Deferred.unsafeDone(last.next, Effect.succeedNone)
    }
  }
}
