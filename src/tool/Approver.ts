/**
 * The approver: whoever answers a question about a call.
 *
 * - A question ends with its asker: a cancel interrupts it, and an answer that comes later is nobody's.
 * - It never hangs for want of a person: without one it fails at once, and the call is denied.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { PendingCall } from "./ToolCall.ts"

/** What a person is asked: whether this call may run. */
export interface Question {
  readonly call: PendingCall
  /** Why it is asked about, where somebody said so. */
  readonly reason?: string
}

/** The answer: this once, every call of this tool in this session, or not. The model reads the reason of a rejection. */
export type Answer = Data.TaggedEnum<{
  AllowOnce: object
  AllowAlways: object
  Reject: { readonly reason?: string }
}>
export const Answer = Data.taggedEnum<Answer>()

/** Nobody could be asked. The model reads the message. */
export class ApproverUnavailable extends Schema.TaggedError<ApproverUnavailable>()("ApproverUnavailable", {
  message: Schema.String
}) {}

/** Answers questions; several may be asked at once, and how they are put one after the other is its matter. */
export interface Answerer {
  readonly ask: (question: Question) => Effect.Effect<Answer, ApproverUnavailable>
}

/** Who is asked; without a layer nobody is there. */
export class Approver extends Context.Reference<Approver>()("daybook/tool/Approver", {
  defaultValue: (): Answerer => ({
    ask: () => Effect.fail(new ApproverUnavailable({ message: "nobody is there to be asked" }))
  })
}) {}

/** Rejects everything, and asks nobody. */
export const layerReject: Layer.Layer<Approver> = Layer.succeed(Approver, {
  ask: () => Effect.succeed(Answer.Reject({ reason: "in this session nothing that needs approval is allowed" }))
})
