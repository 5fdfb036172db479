/**
 * An inquiry: the question about one call as the log keeps it, a pair of asked and decided around whoever answers (W22).
 *
 * - The pair is closed however the asking ends: by an answer, for want of one, by a cancel. What allows a call is durable
 *   before its body may begin (R3).
 * - A call that is asked about is outside of its group's slots: it holds no other call up (W14), and waits for a slot once it
 *   is allowed.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HashSet from "effect/HashSet"
import { isAllowance } from "../domain/Brackets.ts"
import type { SessionBroken } from "../domain/Errors.ts"
import type { ApprovalDecision } from "../domain/Event.ts"
import type { ToolCallBlock } from "../domain/Message.ts"
import type { Session } from "../session/Session.ts"
import type { Answer } from "./Approver.ts"

/** How a question was decided, and why, for the model to read where that is no allowance. */
export interface Decided {
  readonly decision: ApprovalDecision
  readonly reason: string
}

/** Asks about one call. */
export interface Inquiry {
  /** Whether every call of this tool was allowed in this session. */
  readonly isAllowed: Effect.Effect<boolean>
  /** Logs the question, and how it was decided. An allowance is durable on return, and the call has a slot again. */
  readonly ask: (answer: Effect.Effect<Decided>) => Effect.Effect<Decided, SessionBroken>
}

/** A call's place among those that run together. */
export interface Slot {
  /** Gives it up: another call may start. */
  readonly leave: Effect.Effect<void>
  /** Takes one, once there is one. */
  readonly enter: Effect.Effect<void>
}

/** The inquiry of a call of the open step. */
export const make = (
  session: Session,
  at: { readonly turn: number; readonly step: number },
  { callId, name }: ToolCallBlock,
  slot: Slot
): Inquiry => ({
  isAllowed: Effect.sync(() => HashSet.has(session.unsafeState().allowedTools, name)),
  ask: (answer) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const data = { ...at, callId }
        yield* session.append(() => [{ type: "approval/asked", data }])
        // whoever takes the session over should know that it was waited for
        yield* Effect.zipRight(session.hurry, slot.leave)
        const exit = yield* Effect.exit(restore(answer))
        const decision = Exit.isSuccess(exit) ? exit.value.decision : "canceled"
        yield* session.append(() => [{ type: "approval/decided", data: { ...data, decision } }])
        if (isAllowance(decision)) yield* restore(Effect.zipRight(session.barrier, slot.enter))
        return yield* exit
      })
    )
})

/** What an answer decides. One that is none of them allows nothing (F05). */
export const decidedBy = (answer: Answer): Decided => {
  switch (answer._tag) {
    case "AllowOnce":
      return { decision: "allowed-once", reason: "" }
    case "AllowAlways":
      return { decision: "allowed-always", reason: "" }
    case "Reject": {
      const reason = answer.reason === undefined ? "" : `: ${answer.reason}`
      return { decision: "rejected", reason: `this call needed approval, and was rejected${reason}` }
    }
    default:
      answer satisfies never
      return unavailable("the answer was none that is known")
  }
}

/** Nobody answered. */
export const unavailable = (why: string): Decided => ({
  decision: "unavailable",
  reason: `this call needs approval, and nobody could give it: ${why}`
})
