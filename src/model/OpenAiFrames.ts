/**
 * Chunks out of what a server of chat completions streams.
 *
 * - As lenient as the wire: what is not understood is passed over, what is understood is kept. Strictness comes after
 *   assembly, in the tool pipeline.
 * - The usage is told as often as the server tells it: an answer that is cut has the last one.
 */
import * as Either from "effect/Either"
import type { ChatChunk } from "../domain/Chunk.ts"
import type { Usage } from "../domain/Message.ts"
import type { Parsed, ServerEvent } from "./EventStream.ts"
import { counted, type Fields, fields, list, said } from "./Fields.ts"
import { excerpt, type Told } from "./HttpFailure.ts"
import * as Calls from "./OpenAiCalls.ts"
import * as OpenAiFailure from "./OpenAiFailure.ts"

/** What a stream has told so far. Filled in place by `read`. */
export interface Frames {
  /** `finished`: a finish reason was seen, and only the usage is missing. `closed`: the end marker was seen. */
  stage: "open" | "finished" | "closed"
  blocks: number
  text: number | undefined
  reasoning: number | undefined
  readonly calls: Array<Calls.Call>
  /** Whether there is text other than blanks. */
  speaks: boolean
  /** The finish reason, as the server says it. */
  finish: string | undefined
}

/** The chunks that were read, and why no more will follow, if so. */
export interface Read {
  readonly chunks: ReadonlyArray<ChatChunk>
  readonly failure?: Told
}

export const make = (): Frames => ({
  stage: "open",
  blocks: 0,
  text: undefined,
  reasoning: undefined,
  calls: [],
  speaks: false,
  finish: undefined
})

/** What these events say. */
export const read = (frames: Frames, { events, problem }: Parsed): Read => {
  const chunks: Array<ChatChunk> = []
  for (const event of events) {
    if (frames.stage === "closed") break
    const one = readOne(frames, event)
    if (Either.isLeft(one)) return { chunks, failure: one.left }
    chunks.push(...one.right)
  }
  return problem === undefined || frames.stage === "closed"
    ? { chunks }
    : { chunks, failure: { reason: "MALFORMED", message: problem } }
}

/** What is left to say once the stream is over. A finish reason ends an answer, and so does the end marker (O-H11). */
export const end = (frames: Frames): Read => {
  const failure = frames.stage === "open" ? cutOff : endedBadly(frames)
  return failure === undefined ? { chunks: [] } : { chunks: [], failure }
}

// internal

const cutOff: Told = { reason: "CUT", message: "the connection ended before the answer did" }

const nothing: Told = { reason: "EMPTY_RESPONSE", message: "the answer ended without a word and without a call" }

/** Thinking alone is no answer: no later request could show it. At the token limit it is one that was cut. */
const endedBadly = ({ calls, finish = "", speaks }: Frames): Told | undefined =>
  OpenAiFailure.finishedBadly(finish) ??
  (speaks || calls.length > 0 || finishes.get(finish) === "max-tokens" ? undefined : nothing)

const unreadable = (event: ServerEvent): Told => ({
  reason: "MALFORMED",
  message: `the server sent what is no part of an answer: ${excerpt(event.data)}`
})

const readOne = (frames: Frames, event: ServerEvent): Either.Either<ReadonlyArray<ChatChunk>, Told> => {
  if (event.data.trim() === "[DONE]") {
    frames.stage = "closed"
    return Either.right([])
  }
  // an event that is no JSON could be part of an answer: to skip it would be to make up another one (O-H10)
  const value = Either.try((): unknown => JSON.parse(event.data))
  if (Either.isLeft(value)) return Either.left(event.kind === "tail" ? cutOff : unreadable(event))
  const told = OpenAiFailure.toldBy(event, value.right)
  if (told !== undefined) return Either.left(told)
  // it throws where arguments that came as an object are nested too deeply to become text
  const chunks = Either.try({ try: () => frameChunks(frames, value.right), catch: () => unreadable(event) })
  if (event.kind !== "body" || Either.isLeft(chunks)) return chunks
  // a body that is one JSON text is whole, and has to hold an answer
  if (chunks.right.length === 0) return Either.left(unreadable(event))
  frames.stage = "closed"
  return chunks
}

const frameChunks = (frames: Frames, value: unknown): ReadonlyArray<ChatChunk> => {
  const frame = fields(value)
  const choice = fields(list(frame?.["choices"])[0])
  const delta = fields(choice?.["delta"]) ?? fields(choice?.["message"])
  const usage = usageOf(fields(frame?.["usage"]))
  const spoken: ReadonlyArray<ChatChunk> = [
    ...(delta === undefined
      ? []
      : [...textChunks(frames, delta), ...Calls.read(frames.calls, list(delta["tool_calls"]), () => frames.blocks++)]),
    ...(usage === undefined ? [] : [{ type: "usage" as const, usage }])
  ]
  const finish = said(choice?.["finish_reason"])
  if (finish === undefined) return spoken
  if (frames.stage === "open") {
    frames.stage = "finished"
    frames.finish = finish
  }
  return [...spoken, { type: "finish", reason: finishes.get(finish) ?? finish }]
}

const finishes: ReadonlyMap<string, string> = new Map([
  ["length", "max-tokens"],
  ["max_tokens", "max-tokens"],
  ["tool_calls", "tool-calls"],
  ["function_call", "tool-calls"]
])

const usageOf = (usage: Fields | undefined): Usage | undefined => {
  const inputTokens = counted(usage?.["prompt_tokens"])
  const outputTokens = counted(usage?.["completion_tokens"])
  if (inputTokens === undefined && outputTokens === undefined) return undefined
  const cached =
    counted(fields(usage?.["prompt_tokens_details"])?.["cached_tokens"]) ?? counted(usage?.["prompt_cache_hit_tokens"])
  const reasoning = counted(fields(usage?.["completion_tokens_details"])?.["reasoning_tokens"])
  return {
    inputTokens: inputTokens ?? 0,
    outputTokens: outputTokens ?? 0,
    ...(cached === undefined ? {} : { cachedInputTokens: cached }),
    ...(reasoning === undefined ? {} : { reasoningTokens: reasoning })
  }
}

/** The text of a content that may come in parts. */
const spokenText = (content: unknown): string | undefined =>
  said(content) ??
  said(
    list(content)
      .map((part) => said(fields(part)?.["text"]) ?? "")
      .join("")
  )

const textChunks = (frames: Frames, delta: Fields): ReadonlyArray<ChatChunk> => {
  const reasoning = said(delta["reasoning_content"]) ?? said(delta["reasoning"])
  const chunks: Array<ChatChunk> = []
  if (reasoning !== undefined) {
    frames.reasoning ??= frames.blocks++
    chunks.push({ type: "reasoning", index: frames.reasoning, text: reasoning })
  }
  // a refusal is what the model says instead
  for (const text of [spokenText(delta["content"]), said(delta["refusal"])]) {
    if (text === undefined) continue
    frames.speaks ||= text.trim() !== ""
    frames.text ??= frames.blocks++
    chunks.push({ type: "text", index: frames.text, text })
  }
  return chunks
}
