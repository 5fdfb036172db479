/**
 * The messages that a model sees, derived from closed steps and nothing else.
 *
 * - Each step joins once, when it closes; what came before is never looked at again.
 * - Every call has exactly one result, right after its answer, in model order (law 2): where a closed step has none, the
 *   transcript takes what the call settled with, else says "never started" or "outcome unknown" (R6).
 * - Nothing empty joins, every text is well-formed, and the arguments of a call are the text of a JSON object
 *   (providers.md), whatever the log holds.
 */
import * as Chunk from "effect/Chunk"
import * as Either from "effect/Either"
import { deepFreeze, isObjectText, wellFormed, wellFormedValue } from "../internal/Json.ts"
import { type Call, neverRan, type OpenStep } from "./Brackets.ts"
import type { ToolOutcome } from "./Event.ts"
import { MessageId } from "./Ids.ts"
import {
  type AssistantBlock,
  type AssistantMessage,
  type Message,
  type TextBlock,
  type ToolMessage,
  text,
  type UserMessage
} from "./Message.ts"
import { type Digest, emptyDigest, extendDigest, type GuardMemory } from "./Request.ts"

/** The messages of a closed step, or of a replaced range, with the borders that a replacement may name. */
export interface Span {
  readonly from: number
  readonly to: number
  readonly messages: ReadonlyArray<Message>
  /** The digest of all messages up to each of these, and up to here. */
  readonly digests: ReadonlyArray<Digest>
  readonly digest: Digest
}

export interface Transcript {
  readonly spans: Chunk.Chunk<Span>
}

export const empty: Transcript = { spans: Chunk.empty() }

/** What a model reads where a call has no result and no trace of a start. */
export const neverStarted = "Error: this tool call was never started. Retry it if it is still needed."

/** What a model reads first where a call was started and nothing tells how it came out. */
export const recordedAsStarted = "Error: this tool call was recorded as started, outcome unknown."

/** All that it reads where nobody closed the call. */
export const outcomeUnknown = `${recordedAsStarted} Check what it did before you retry it.`

/** What stands for a result that has no text: some providers refuse an empty one (O-B3). */
export const noOutput = "(no output)"

/** The id of the result of a call. */
export const resultId = (id: string): MessageId => MessageId.make(id)

const shownTexts = (content: ReadonlyArray<TextBlock>): ReadonlyArray<TextBlock> =>
  content.filter((block) => block.text.trim() !== "").map((block) => text(wellFormed(block.text)))

const shownResult = (content: ReadonlyArray<TextBlock>): ReadonlyArray<TextBlock> => {
  const shown = shownTexts(content)
  return shown.length === 0 ? [text(noOutput)] : shown
}

/** The message that answers a call with an outcome. */
export const resultMessage = (call: Call, outcome: Pick<ToolOutcome, "content" | "isError">): ToolMessage => {
  const { callId } = call.block
  return { id: resultId(callId), role: "tool", callId, content: shownResult(outcome.content), isError: outcome.isError }
}

const placeholder = (call: Call): ToolMessage =>
  resultMessage(
    call,
    call.settled?.outcome ?? {
      content: [text(neverRan(call) ? neverStarted : outcomeUnknown)],
      isError: true
    }
  )

/** What every provider takes as the name of a tool, whatever a model called it. */
const shownName = (name: string): string => name.replaceAll(/[^a-zA-Z0-9_-]/g, "_").slice(0, 64) || "unnamed"

/** Half a surrogate pair or a NUL, written as an escape. */
const escapedHalf = /\\u(?:d[89a-f]|0000)/i

/** The text of an object whose strings every provider takes, whatever a model wrote (O-O2). */
const shownArguments = (raw: string): string => {
  const whole = wellFormed(raw)
  if (!isObjectText(whole)) return "{}"
  if (!escapedHalf.test(whole)) return whole
  try {
    const value: unknown = JSON.parse(whole)
    const shown = JSON.stringify(wellFormedValue(value))
    return shown === JSON.stringify(value) ? whole : shown
  } catch {
    return "{}" // nested too deeply to be looked through
  }
}

const shownBlock = (block: AssistantBlock): ReadonlyArray<AssistantBlock> => {
  switch (block.type) {
    case "text":
      return shownTexts([block])
    case "reasoning":
      return block.text.trim() === "" && block.blob === undefined ? [] : [{ ...block, text: wellFormed(block.text) }]
    case "blob":
      return [block]
    case "tool-call":
      return [{ ...block, name: shownName(block.name), arguments: shownArguments(block.arguments) }]
    default:
      return block satisfies never
  }
}

const shownAnswer = (answer: AssistantMessage): ReadonlyArray<AssistantMessage> => {
  const content = answer.content.flatMap(shownBlock)
  return content.length === 0 ? [] : [{ ...answer, content }]
}

const shownInput = (message: UserMessage): ReadonlyArray<UserMessage> => {
  const content = shownTexts(message.content)
  return content.length === 0 ? [] : [{ ...message, content }]
}

/** The input of a step as a model sees it. */
export const inputMessages = (input: ReadonlyArray<UserMessage>): ReadonlyArray<UserMessage> =>
  input.flatMap(shownInput)

/** What a step leaves in the transcript if it closes as it stands. */
export const stepMessages = (step: OpenStep): ReadonlyArray<Message> => [
  ...inputMessages(step.input),
  ...(step.answer === undefined ? [] : shownAnswer(step.answer)),
  ...step.calls.map(({ result, ...call }) =>
    result === undefined ? placeholder(call) : { ...result, content: shownResult(result.content) }
  )
]

/** The digest of all messages. */
export const digestOf = (transcript: Transcript): Digest =>
  Chunk.isNonEmpty(transcript.spans) ? Chunk.lastNonEmpty(transcript.spans).digest : emptyDigest

const push = (
  spans: Chunk.Chunk<Span>,
  { from, messages, to }: Omit<Span, "digest" | "digests">
): Chunk.Chunk<Span> => {
  let digest = digestOf({ spans })
  const digests = messages.map((message) => (digest = extendDigest(digest, message)))
  return Chunk.append(spans, { from, to, messages: deepFreeze(messages), digests, digest })
}

/** The transcript after `step` closed at seq `to`. */
export const closeStep = (transcript: Transcript, step: OpenStep, to: number): Transcript => ({
  spans: push(transcript.spans, { from: step.from, to, messages: stepMessages(step) })
})

/**
 * The transcript with `messages` in the place of the closed steps from seq `from` to seq `to`, or why it cannot be: both
 * ends must be borders of steps that are still visible. The digest starts again at `from`, once.
 */
export const replace = (
  transcript: Transcript,
  range: { readonly from: number; readonly to: number },
  messages: ReadonlyArray<UserMessage>
): Either.Either<Transcript, string> => {
  const spans = Chunk.toReadonlyArray(transcript.spans)
  const first = spans.findIndex((span) => span.from === range.from)
  const last = spans.findIndex((span) => span.to === range.to)
  if (first === -1) return Either.left(`no visible step begins at ${range.from}`)
  if (last === -1) return Either.left(`no visible step ends at ${range.to}`)
  if (last < first) return Either.left(`the range ${range.from} to ${range.to} is reversed`)
  const shown = inputMessages(messages)
  // else what follows may begin with an answer, which no provider takes
  if (shown.length === 0) return Either.left("a replacement says nothing")
  const before = push(Chunk.fromIterable(spans.slice(0, first)), { from: range.from, to: range.to, messages: shown })
  return Either.right({ spans: spans.slice(last + 1).reduce(push, before) })
}

/** Every message, in order. The same objects each time, so that a message is known by identity. */
export const messages = (transcript: Transcript): ReadonlyArray<Message> => {
  // a loop, because it runs before every request
  const all: Array<Message> = []
  for (const span of Chunk.toReadonlyArray(transcript.spans)) for (const message of span.messages) all.push(message)
  return all
}

/** What a guard knows that has seen these messages. */
export const guardMemory = (transcript: Transcript): GuardMemory => ({
  messages: messages(transcript),
  digests: Chunk.toReadonlyArray(transcript.spans).flatMap((span) => span.digests)
})
