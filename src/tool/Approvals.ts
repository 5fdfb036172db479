/**
 * Approvals: whether a call that is right and that no hook refused may run.
 *
 * - A call is never run undecided: an approval that fails denies it, and the reason says so.
 * - A cancel interrupts whoever decides.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type { PendingCall } from "./ToolCall.ts"

/** The decision on a call. The model reads the reason of a denial. */
export type Decision = Data.TaggedEnum<{ Allowed: object; Denied: { readonly reason: string } }>
export const Decision = Data.taggedEnum<Decision>()

/** Who decides. */
export interface ApprovalPolicy {
  readonly decide: (call: PendingCall) => Effect.Effect<Decision>
}

/** The approval of calls; without a layer every call is allowed, and nothing is logged. */
export class Approvals extends Context.Reference<Approvals>()("daybook/tool/Approvals", {
  defaultValue: (): ApprovalPolicy => ({ decide: () => Effect.succeed(Decision.Allowed()) })
}) {}
