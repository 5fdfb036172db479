/**
 * How a turn ends, and who cancelled it.
 *
 * - The journal keeps an abort coarse (R1): the cause lives at run time only.
 * - `aborted` is written by the loop, `interrupted` by repair alone (law 3).
 */
import * as Schema from "effect/Schema"
import { Json } from "../internal/Json.ts"

/** A failure as the log keeps it. `details` are the other fields of a provider's failure, verbatim. */
export const Failure = Schema.Struct({
  message: Schema.String,
  code: Schema.String,
  details: Schema.optional(Json)
})
export type Failure = typeof Failure.Type

export const Completed = Schema.Struct({ kind: Schema.Literal("completed") })
export const MaxTokens = Schema.Struct({ kind: Schema.Literal("max-tokens") })
/** A hook refused the input before a step began. */
export const Blocked = Schema.Struct({ kind: Schema.Literal("blocked"), message: Schema.String })
export const Aborted = Schema.Struct({ kind: Schema.Literal("aborted") })
export const Failed = Schema.Struct({ kind: Schema.Literal("error"), error: Failure })
/** The owner died; repair closed the turn. */
export const Interrupted = Schema.Struct({ kind: Schema.Literal("interrupted") })

export const TurnEnding = Schema.Union(Completed, MaxTokens, Blocked, Aborted, Failed, Interrupted)
export type TurnEnding = typeof TurnEnding.Type

/** Whether a turn with this ending stopped before its own end: a model may be asked to go on from there. */
export const isCutOff = (kind: TurnEnding["kind"]): boolean => kind !== "completed" && kind !== "blocked"

/** Who cancelled: a person or program, the turn above, or the agent's own disposal. */
export type CancelCause = "user" | "parent" | "disposed"
