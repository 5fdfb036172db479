/**
 * What stands before and after a tool: the points at which a program judges calls and their results.
 *
 * - `before` runs once a call's arguments are known to be right, and before its approval; `after` sees every outcome of a
 *   call that `before` judged: results, failures and denials alike (F02).
 * - Layers add hooks to those below. At either point those below come first, and each sees what the ones before it left: of
 *   several judgements the strictest counts, and the first denial is the last word.
 * - A hook that fails or dies fails closed: the call becomes an error result `HOOK_FAILED`, and no later one is asked.
 * - A cancel cuts `before`. It does not cut `after`: by then the side effect has happened, and its result is kept.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { ToolOutcome } from "../domain/Event.ts"
import type { TextBlock } from "../domain/Message.ts"
import { Judgement, stricter } from "./Approvals.ts"
import type { PendingCall } from "./ToolCall.ts"

/** A hook broke. Its message is what the model reads. */
export class ToolHookError extends Schema.TaggedError<ToolHookError>()("ToolHookError", {
  message: Schema.String,
  cause: Schema.optional(Schema.Defect)
}) {}

/**
 * What a hook says of an outcome: keep it, show other content in its place (a failure stays one), or make it an error that
 * carries the feedback; what the body left for the next step is dropped then (F17).
 */
export type After = Data.TaggedEnum<{
  Accept: object
  Replace: { readonly content: ReadonlyArray<TextBlock> }
  Block: { readonly feedback: string }
}>
export const After = Data.taggedEnum<After>()

/** What judges a call before it runs, and its outcome afterwards. */
export interface ToolHookPoints {
  /** Lets a call go on to its approval, refuses it, or has a person asked, whatever the approval says. */
  readonly before: (call: PendingCall) => Effect.Effect<Judgement, ToolHookError>
  readonly after: (call: PendingCall, outcome: ToolOutcome) => Effect.Effect<After, ToolHookError>
}

/** The hooks in the order in which they are asked; a point that is left out says nothing. */
export interface ToolHookChain {
  readonly chain: ReadonlyArray<Partial<ToolHookPoints>>
}

/** The hooks around a tool; without a layer every call goes on and every outcome is accepted. */
export class ToolHooks extends Context.Reference<ToolHooks>()("daybook/tool/ToolHooks", {
  defaultValue: (): ToolHookChain => ({ chain: [] })
}) {}

/** The hooks below, and then these. */
export const layer = (hooks: Partial<ToolHookPoints>): Layer.Layer<ToolHooks> =>
  Layer.effect(
    ToolHooks,
    Effect.map(ToolHooks, ({ chain }) => ({ chain: [...chain, hooks] }))
  )

/** What all of them say of a call. */
export const judge = ({ chain }: ToolHookChain, call: PendingCall): Effect.Effect<Judgement, ToolHookError> =>
  Effect.reduce(chain, Judgement.Allow(), (judged: Judgement, { before }) =>
    before === undefined || judged._tag === "Deny"
      ? Effect.succeed(judged)
      : Effect.map(before(call), (next) => stricter(judged, next))
  )
