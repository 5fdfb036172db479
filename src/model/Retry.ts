/**
 * When a failed request is tried again. Pure.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import type { ChatErrorReason } from "./ChatModel.ts"

/** How often a request is tried again, at most. */
export const maxRetries = 5

const transient: ReadonlySet<ChatErrorReason> = new Set(["RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT", "CUT"])

/** Whether the same request may succeed later. */
export const isTransient = (reason: ChatErrorReason): boolean => transient.has(reason)

/** How long to wait before retry `attempt` (from 1): half a second, doubled each time, 10 s at most; none after the last. */
export const delayBefore = (attempt: number): Option.Option<Duration.Duration> =>
  attempt > maxRetries ? Option.none() : Option.some(Duration.millis(Math.min(500 * 2 ** (attempt - 1), 10_000)))
