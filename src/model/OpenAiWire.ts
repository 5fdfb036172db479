/**
 * A request as chat completions take it: from a provider-neutral request to the bytes of a body.
 *
 * - Pure and canonical: requests with the same canonical text have the same body, byte for byte (law 1).
 * - Nothing empty is sent; neighbours of one role are one message; a result follows its call (providers.md).
 * - Call ids are ours and legal on every wire; what a provider called a call is not sent (O-D1).
 */
import { type AssistantMessage, type Message, textOf, toolCalls } from "../domain/Message.ts"
import type { ChatRequest } from "../domain/Request.ts"
import { noOutput } from "../domain/Transcript.ts"
import { canonical } from "../internal/Json.ts"

/** What differs between servers that speak chat completions. */
export interface Profile {
  /** The provider's name in a route, and in the source of its answers. */
  readonly provider: string
  /** Without a slash at its end; `/chat/completions` follows it. */
  readonly baseUrl: string
  /**
   * Every answer goes back with a `reasoning_content`: the provider's own thinking, or an empty text where there is none
   * or where it is another provider's. DeepSeek refuses, in its thinking mode, a history with tools that lacks one (O-C6).
   */
  readonly replaysReasoning: boolean
  /** The field that bounds an answer. */
  readonly maxTokensField: "max_tokens" | "max_completion_tokens"
}

/** The body of a request, as it is sent. */
export const body = (request: ChatRequest, profile: Profile): string => {
  const { maxTokens, model, reasoningEffort, stop, temperature } = request.config
  const system: ReadonlyArray<WireMessage> =
    request.system.trim() === "" ? [] : [{ role: "system", content: request.system }]
  // `canonical` leaves out what is undefined
  return canonical({
    model,
    messages: [...system, ...merged(request.messages.flatMap((message) => wireMessage(message, profile)))],
    tools: request.tools.length === 0 ? undefined : request.tools.map(wireTool),
    [profile.maxTokensField]: maxTokens,
    temperature,
    stop: stop === undefined || stop.length === 0 ? undefined : stop,
    reasoning_effort: reasoningEffort,
    stream: true,
    stream_options: { include_usage: true }
  })
}

// internal

interface WireCall {
  readonly id: string
  readonly type: "function"
  readonly function: { readonly name: string; readonly arguments: string }
}

interface WireAnswer {
  readonly role: "assistant"
  /** Null where there are calls alone. */
  readonly content: string | null
  readonly reasoning_content?: string | undefined
  readonly tool_calls?: ReadonlyArray<WireCall> | undefined
}

type WireMessage =
  | WireAnswer
  | { readonly role: "system" | "user"; readonly content: string }
  | { readonly role: "tool"; readonly tool_call_id: string; readonly content: string }

const wireTool = ({ description, name, parameters }: ChatRequest["tools"][number]) => ({
  type: "function",
  function: { name, description, parameters }
})

const isBlank = (text: string): boolean => text.trim() === ""

const reasoningOf = (message: AssistantMessage): string =>
  message.content.map((block) => (block.type === "reasoning" ? block.text : "")).join("")

const wireAnswer = (message: AssistantMessage, profile: Profile): ReadonlyArray<WireAnswer> => {
  const text = textOf(message)
  const calls = toolCalls(message)
  // thinking alone is nothing that a server takes (O-B2)
  if (isBlank(text) && calls.length === 0) return []
  const isOwn = message.source.provider === profile.provider
  return [
    {
      role: "assistant",
      content: isBlank(text) ? null : text,
      reasoning_content: profile.replaysReasoning ? (isOwn ? reasoningOf(message) : "") : undefined,
      tool_calls: calls.length === 0 ? undefined : calls.map(wireCall)
    }
  ]
}

const wireCall = (call: ReturnType<typeof toolCalls>[number]): WireCall => ({
  id: call.callId,
  type: "function",
  function: { name: call.name, arguments: call.arguments }
})

const wireMessage = (message: Message, profile: Profile): ReadonlyArray<WireMessage> => {
  const text = textOf(message)
  switch (message.role) {
    case "user":
      return isBlank(text) ? [] : [{ role: "user", content: text }]
    case "tool":
      // it cannot be left out: its call would be unanswered (O-B3)
      return [{ role: "tool", tool_call_id: message.callId, content: isBlank(text) ? noOutput : text }]
    case "assistant":
      return wireAnswer(message, profile)
    default:
      return message satisfies never
  }
}

const paragraphs = (...texts: ReadonlyArray<string | null>): string =>
  texts.filter((text) => text !== null).join("\n\n")

const joinedAnswers = (first: WireAnswer, second: WireAnswer): WireAnswer => ({
  ...second,
  content: paragraphs(first.content, second.content),
  reasoning_content:
    first.reasoning_content === undefined
      ? undefined
      : [first.reasoning_content, second.reasoning_content ?? ""].filter((text) => text !== "").join("\n\n")
})

/** Neighbours of one role as one message. Results stay apart, and so does what follows an answer with calls. */
const merged = (messages: ReadonlyArray<WireMessage>): ReadonlyArray<WireMessage> => {
  const out: Array<WireMessage> = []
  for (const message of messages) {
    const last = out[out.length - 1]
    if (last?.role === "user" && message.role === "user")
      out[out.length - 1] = { role: "user", content: paragraphs(last.content, message.content) }
    else if (last?.role === "assistant" && last.tool_calls === undefined && message.role === "assistant")
      out[out.length - 1] = joinedAnswers(last, message)
    else out.push(message)
  }
  return out
}
