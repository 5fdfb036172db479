/**
 * What stands before and after a tool: the points at which a program judges calls and their results.
 *
 * - `before` runs once a call's arguments are known to be right, and before its approval; `after` sees every outcome of a
 *   call that `before` judged: results, failures and denials alike (F02).
 * - A hook that fails or dies fails closed: the call becomes an error result `HOOK_FAILED`.
 * - A cancel cuts `before`. It does not cut `after`: by then the side effect has happened, and its result is kept.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { ToolOutcome } from "../domain/Event.ts"
import type { TextBlock } from "../domain/Message.ts"
import type { PendingCall } from "./ToolCall.ts"

/** A hook broke. Its message is what the model reads. */
export class ToolHookError extends Schema.TaggedError<ToolHookError>()("ToolHookError", {
  message: Schema.String,
  cause: Schema.optional(Schema.Defect)
}) {}

/** What a hook says of a call: let it go on, or refuse it with a reason that the model reads. */
export type Before = Data.TaggedEnum<{ Allow: object; Deny: { readonly reason: string } }>
export const Before = Data.taggedEnum<Before>()

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
  readonly before: (call: PendingCall) => Effect.Effect<Before, ToolHookError>
  readonly after: (call: PendingCall, outcome: ToolOutcome) => Effect.Effect<After, ToolHookError>
}

const allow = Effect.succeed(Before.Allow())
const accept = Effect.succeed(After.Accept())

const none: ToolHookPoints = { before: () => allow, after: () => accept }

/** The hooks around a tool; without a layer every call is allowed and every outcome accepted. */
export class ToolHooks extends Context.Reference<ToolHooks>()("daybook/tool/ToolHooks", {
  defaultValue: (): ToolHookPoints => none
}) {}

/** These hooks, and nothing at the point that is left out. */
export const layer = (hooks: Partial<ToolHookPoints>): Layer.Layer<ToolHooks> =>
  Layer.succeed(ToolHooks, { ...none, ...hooks })
