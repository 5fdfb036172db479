/**
 * Messages: what a person, a program, a model or a tool said.
 *
 * - A message is plain JSON and never changes once it is in the log.
 * - The arguments of a call stay the raw text that the model wrote; the transcript decides what a request shows of them.
 */
import * as Schema from "effect/Schema"
import { Json } from "../internal/Json.ts"
import { CallId, MessageId } from "./Ids.ts"

export const TextBlock = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String })
export type TextBlock = typeof TextBlock.Type

/** Thinking that a model showed. `blob` is the provider's own (a signature, say) and goes back unchanged. */
export const ReasoningBlock = Schema.Struct({
  type: Schema.Literal("reasoning"),
  text: Schema.String,
  blob: Schema.optional(Json)
})
export type ReasoningBlock = typeof ReasoningBlock.Type

/** Something only its provider understands; it goes back unchanged, to that provider's model alone. */
export const BlobBlock = Schema.Struct({ type: Schema.Literal("blob"), blob: Json })
export type BlobBlock = typeof BlobBlock.Type

export const ToolCallBlock = Schema.Struct({
  type: Schema.Literal("tool-call"),
  callId: CallId,
  name: Schema.String,
  arguments: Schema.String,
  providerCallId: Schema.optional(Schema.String)
})
export type ToolCallBlock = typeof ToolCallBlock.Type

export const AssistantBlock = Schema.Union(TextBlock, ReasoningBlock, BlobBlock, ToolCallBlock)
export type AssistantBlock = typeof AssistantBlock.Type

/**
 * Where an input came from: `prompt` and `steer` wake an idle agent, `inject` and `context` (gathered by a tool) do not.
 * `resume` is the harness's own, and asks to go on after a turn that was cut off.
 */
export const InputSource = Schema.Struct({ kind: Schema.Literal("prompt", "steer", "inject", "context", "resume") })
export type InputSource = typeof InputSource.Type

export const UserMessage = Schema.Struct({
  id: MessageId,
  role: Schema.Literal("user"),
  source: InputSource,
  content: Schema.Array(TextBlock)
})
export type UserMessage = typeof UserMessage.Type

export const AssistantMessage = Schema.Struct({
  id: MessageId,
  role: Schema.Literal("assistant"),
  source: Schema.Struct({ provider: Schema.String, model: Schema.String }),
  content: Schema.Array(AssistantBlock)
})
export type AssistantMessage = typeof AssistantMessage.Type

export const ToolMessage = Schema.Struct({
  id: MessageId,
  role: Schema.Literal("tool"),
  callId: CallId,
  content: Schema.Array(TextBlock),
  isError: Schema.Boolean
})
export type ToolMessage = typeof ToolMessage.Type

export const Message = Schema.Union(UserMessage, AssistantMessage, ToolMessage)
export type Message = typeof Message.Type

/** Tokens, as the provider counted them. */
export const Usage = Schema.Struct({
  inputTokens: Schema.JsonNumber,
  outputTokens: Schema.JsonNumber,
  cachedInputTokens: Schema.optional(Schema.JsonNumber),
  reasoningTokens: Schema.optional(Schema.JsonNumber)
})
export type Usage = typeof Usage.Type

export const text = (value: string): TextBlock => ({ type: "text", text: value })

/** The calls of an answer, in model order. */
export const toolCalls = (message: AssistantMessage): ReadonlyArray<ToolCallBlock> =>
  message.content.filter((block) => block.type === "tool-call")

/** The text blocks of a message joined: what a person reads. */
export const textOf = (message: Message): string => {
  let joined = ""
  for (const block of message.content) if (block.type === "text") joined += block.text
  return joined
}
