/**
 * Chunks out of what a server of chat completions streams.
 *
 * - As lenient as the wire: what is not understood is passed over, what is understood is kept. Strictness comes after
 *   assembly, in the tool pipeline.
 * - A delta of a call belongs to one call: by index and id, else by what it lacks and by its position (O-H1 to O-H6).
 * - The usage is told as often as the server tells it: an answer that is cut has the last one.
 */
import * as Either from "effect/Either"
import type { ChatChunk } from "../domain/Chunk.ts"
import type { Usage } from "../domain/Message.ts"
import { isObjectText } from "../internal/Json.ts"
import type { Parsed, ServerEvent } from "./EventStream.ts"
import { counted, type Fields, fields, list, said } from "./Fields.ts"
import { excerpt, type Told } from "./HttpFailure.ts"
import * as OpenAiFailure from "./OpenAiFailure.ts"

/** What a stream has told so far. Filled in place by `read`. */
export interface Frames {
  /** `finished`: a finish reason was seen, and only the usage is missing. `closed`: the end marker was seen. */
  stage: "open" | "finished" | "closed"
  blocks: number
  text: number | undefined
  reasoning: number | undefined
  readonly calls: Array<Call>
  /** Why what was finished is no answer. */
  failure: Told | undefined
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
  failure: undefined
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
  const failure = frames.stage === "open" ? cutOff : frames.failure
  return failure === undefined ? { chunks: [] } : { chunks: [], failure }
}

// internal

const cutOff: Told = { reason: "CUT", message: "the connection ended before the answer did" }

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
    ...(delta === undefined ? [] : [...textChunks(frames, delta), ...callChunks(frames, delta)]),
    ...(usage === undefined ? [] : [{ type: "usage" as const, usage }])
  ]
  const finish = said(choice?.["finish_reason"])
  if (finish === undefined) return spoken
  if (frames.stage === "open") {
    frames.stage = "finished"
    frames.failure = OpenAiFailure.finishedBadly(finish)
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
    frames.text ??= frames.blocks++
    chunks.push({ type: "text", index: frames.text, text })
  }
  return chunks
}

/** A call as far as the stream has told of it. */
interface Call {
  readonly block: number
  index: number | undefined
  id: string | undefined
  name: string | undefined
  /** The arguments so far, and whether the last of them could be their end. */
  raw: string
  mayBeWhole: boolean
}

interface Delta {
  readonly index: number | undefined
  readonly id: string | undefined
  readonly name: string | undefined
  readonly arguments: string
}

const deltaOf = (item: Fields): Delta => {
  const named = fields(item["function"])
  const raw = named?.["arguments"]
  return {
    index: typeof item["index"] === "number" ? item["index"] : undefined,
    // empty and null both mean that nothing is said (O-H1, O-H2)
    id: said(item["id"]),
    name: said(named?.["name"]),
    arguments: typeof raw === "string" ? raw : fields(raw) === undefined ? "" : JSON.stringify(raw)
  }
}

/** Whether a delta without an id begins a call of its own rather than repeat the name of this one. */
const beginsAnother = (call: Call, { name }: Delta): boolean =>
  name !== undefined && call.name !== undefined && (name !== call.name || (call.mayBeWhole && isObjectText(call.raw)))

/** The last call of an index; without one, the call in that place whose index was never told. */
const at = (calls: ReadonlyArray<Call>, index: number): Call | undefined =>
  calls.findLast((call) => call.index === index) ?? (calls[index]?.index === undefined ? calls[index] : undefined)

/** The call that a delta goes on with; none where it begins one. `others` are those of the deltas beside it. */
const known = (
  calls: ReadonlyArray<Call>,
  delta: Delta,
  others: { readonly position: number; readonly count: number; readonly taken: ReadonlySet<Call> }
): Call | undefined => {
  const { id, index } = delta
  if (id !== undefined) {
    const same = calls.findLast(
      (call) => call.id === id && (index === undefined || call.index === undefined || call.index === index)
    )
    if (same !== undefined) return same
    // the id may come after the first delta; a new one on a used index is a new call (O-H4)
    const last = index === undefined ? calls.at(-1) : at(calls, index)
    return last === undefined || last.id !== undefined || beginsAnother(last, delta) ? undefined : last
  }
  if (index !== undefined) {
    const call = at(calls, index)
    return call === undefined || beginsAnother(call, delta) ? undefined : call
  }
  // neither: by position, several beside each other as they stand, a single one at the end (O-H6)
  const call = others.count > 1 ? calls[calls.length - others.count + others.position] : calls.at(-1)
  if (delta.name !== undefined && call !== undefined && (others.taken.has(call) || beginsAnother(call, delta)))
    return undefined
  return call
}

const callChunks = (frames: Frames, delta: Fields): ReadonlyArray<ChatChunk> => {
  const items = list(delta["tool_calls"])
    .map(fields)
    .filter((item) => item !== undefined)
  const taken = new Set<Call>()
  return items.map((item, position) => {
    const one = deltaOf(item)
    let call = known(frames.calls, one, { position, count: items.length, taken })
    if (call === undefined) {
      call = { block: frames.blocks++, index: one.index, id: undefined, name: undefined, raw: "", mayBeWhole: false }
      frames.calls.push(call)
    }
    taken.add(call)
    call.index ??= one.index
    call.id ??= one.id
    call.name ??= one.name
    call.raw += one.arguments
    if (one.arguments !== "") call.mayBeWhole = one.arguments.endsWith("}")
    return {
      type: "tool-call",
      index: call.block,
      ...(one.id === undefined ? {} : { id: one.id }),
      ...(one.name === undefined ? {} : { name: one.name }),
      arguments: one.arguments
    }
  })
}
