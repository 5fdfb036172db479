/**
 * Whether a failed request is sent again, and when: the section `retry`, and pure functions over it.
 *
 * - The attempts of a step are counted together, whatever each of them failed with: its last failure decides.
 * - A server that asks to wait is never asked again before that, up to a cap.
 */
import * as Schema from "effect/Schema"
import * as Settings from "../settings/Settings.ts"
import type { ChatErrorReason } from "./ChatModel.ts"

/** No setting makes more retries than that, and none a longer wait. */
const maxTimes = 1000
const maxWaitMillis = 24 * 60 * 60 * 1000

const times = (most: number) =>
  Schema.optionalWith(Schema.Int.pipe(Schema.between(0, maxTimes)), { default: () => most })

const millis = (usual: number) =>
  Schema.optionalWith(Schema.Int.pipe(Schema.between(0, maxWaitMillis)), { default: () => usual })

const reasons = {
  AUTHENTICATION: times(0),
  QUOTA: times(0),
  RATE_LIMIT: times(5),
  OVERFLOW: times(0),
  CONTENT_FILTER: times(0),
  INVALID_REQUEST: times(0),
  SERVER: times(5),
  TRANSPORT: times(5),
  TIMEOUT: times(5),
  CUT: times(5),
  EMPTY_RESPONSE: times(5),
  MALFORMED: times(0),
  UNSUPPORTED: times(0),
  UNKNOWN: times(0)
} satisfies Record<ChatErrorReason, unknown>

const Times = Schema.Struct(reasons)
const usualTimes = Schema.decodeSync(Times)({})

/** How failed requests are sent again. Read at each failure. */
export const Policy = Settings.section(
  "retry",
  Schema.Struct({
    /** How often a step is asked again, at most, after a failure of this kind. */
    times: Schema.optionalWith(Times, { default: () => usualTimes }),
    /** The wait before the first retry; it doubles from one to the next. */
    firstMillis: millis(500),
    /** Where it stops doubling. */
    maxMillis: millis(10_000),
    /** Which part of a wait chance may add to it or take from it, so that agents that failed together do not ask together. */
    jitter: Schema.optionalWith(Schema.JsonNumber.pipe(Schema.between(0, 1)), { default: () => 0.1 }),
    /**
     * How long a server may have a request wait. By default so long that five waits end within an hour and a half: whoever
     * comes back by then finds an answer, or why there is none.
     */
    maxAskedMillis: millis(15 * 60 * 1000)
  })
)
export type Policy = typeof Policy.schema.Type

/** How often a step is asked again after this. */
export const timesAfter = (policy: Policy, reason: ChatErrorReason): number => policy.times[reason]

/** How often a step is asked again after anything at all: what binds a hook that wants a retry. */
export const mostTimes = (policy: Policy): number => Math.max(...Object.values(policy.times))

/** What a wait depends on. */
export interface Failed {
  /** How many attempts have failed. */
  readonly attempts: number
  /** How long the server asks to wait, in milliseconds. */
  readonly asked: number | undefined
  /** From 0 to 1: where in its range the wait lies. */
  readonly chance: number
}

/** How long to wait until the next attempt, in whole milliseconds. */
export const delayMillis = (policy: Policy, { asked = 0, attempts, chance }: Failed): number => {
  const usual = Math.min(policy.firstMillis * 2 ** (attempts - 1), policy.maxMillis)
  const shaken = usual * (1 + policy.jitter * (2 * chance - 1))
  // whatever an adapter calls a number: what is none is not longer
  return Math.ceil(asked > shaken ? Math.max(shaken, Math.min(asked, policy.maxAskedMillis)) : shaken)
}
