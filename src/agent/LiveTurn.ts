/**
 * A live turn: the one thing that a cancel can name.
 *
 * - The first cause wins, and none counts once the ending is decided (R2).
 */
import * as Deferred from "effect/Deferred"
import type * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import type { CancelCause, TurnEnding } from "../domain/TurnEnding.ts"
import type { Attempt } from "./Attempt.ts"

/** How a turn went. `durable` is false where a failed write kept its end out of the journal. */
export interface Ended {
  readonly turn: number
  readonly ending: TurnEnding
  readonly cause?: CancelCause
  readonly durable: boolean
}

export interface LiveTurn {
  readonly turn: number
  /** Completed once the turn's end is durable and its fiber is gone. */
  readonly ended: Deferred.Deferred<Ended>
  fiber: Fiber.RuntimeFiber<unknown, unknown> | undefined
  cause: CancelCause | undefined
  /** Set at the moment from which a cancel changes nothing. */
  ending: TurnEnding | undefined
  /** The attempt under way, while a model answers. */
  attempt: Attempt | undefined
}

export const make = (turn: number): LiveTurn => ({
  turn,
  ended: Deferred.unsafeMake(FiberId.none),
  fiber: undefined,
  cause: undefined,
  ending: undefined,
  attempt: undefined
})

/** Gives the turn its fiber. A cancel that came earlier interrupts it now. */
export const attach = (live: LiveTurn, fiber: Fiber.RuntimeFiber<unknown, unknown>): void => {
  live.fiber = fiber
  if (live.cause !== undefined) fiber.unsafeInterruptAsFork(FiberId.none)
}

/** Records the cause and interrupts the turn: false, and nothing happens, where a cause is known or the ending is decided. */
export const cancel = (live: LiveTurn, cause: CancelCause): boolean => {
  if (live.cause !== undefined || live.ending !== undefined) return false
  live.cause = cause
  live.fiber?.unsafeInterruptAsFork(FiberId.none)
  return true
}
