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

/** How far a turn has come, as a cancel sees it. */
export type Stage =
  /** In the log, and without a fiber yet. */
  | { readonly _tag: "Opened" }
  | { readonly _tag: "Running"; readonly fiber: Fiber.RuntimeFiber<unknown, unknown> }
  /** Its fiber is interrupted, or will be once it is there. */
  | { readonly _tag: "Cancelled"; readonly cause: CancelCause }
  /** From here on a cancel changes nothing. */
  | { readonly _tag: "Decided"; readonly ending: TurnEnding; readonly cause: CancelCause | undefined }

/** Only the functions of this file write its stage; the step writes its attempt. */
export interface LiveTurn {
  readonly turn: number
  /** Completed once the turn's end is durable and its fiber is gone. */
  readonly ended: Deferred.Deferred<Ended>
  stage: Stage
  /** The attempt under way, while a model answers. */
  attempt: Attempt | undefined
}

export const make = (turn: number): LiveTurn => ({
  turn,
  ended: Deferred.unsafeMake(FiberId.none),
  stage: { _tag: "Opened" },
  attempt: undefined
})

/** Who cancelled it, if somebody did in time. */
export const causeOf = ({ stage }: LiveTurn): CancelCause | undefined =>
  stage._tag === "Cancelled" || stage._tag === "Decided" ? stage.cause : undefined

/** Gives the turn its fiber. A cancel that came earlier interrupts it now. */
export const attach = (live: LiveTurn, fiber: Fiber.RuntimeFiber<unknown, unknown>): void => {
  if (live.stage._tag === "Opened") live.stage = { _tag: "Running", fiber }
  else if (live.stage._tag === "Cancelled") fiber.unsafeInterruptAsFork(FiberId.none)
}

/** Interrupts a turn that runs. One that has no fiber yet, or is cancelled already, needs none. */
export const interrupt = ({ stage }: LiveTurn): void => {
  if (stage._tag === "Running") stage.fiber.unsafeInterruptAsFork(FiberId.none)
}

/** Records the cause, then interrupts the turn: false, and nothing happens, where a cause is known or the ending is decided. */
export const cancel = (live: LiveTurn, cause: CancelCause): boolean => {
  const { stage } = live
  if (stage._tag === "Cancelled" || stage._tag === "Decided") return false
  live.stage = { _tag: "Cancelled", cause }
  if (stage._tag === "Running") stage.fiber.unsafeInterruptAsFork(FiberId.none)
  return true
}

/** Takes the turn's cancel authority away: it ends like this. */
export const decide = (live: LiveTurn, ending: TurnEnding): void => {
  live.stage = { _tag: "Decided", ending, cause: causeOf(live) }
}
