/**
 * Stream chunks: what a model sends while it answers, and what the journal keeps of it.
 *
 * - `ChatChunk` is one delta as it arrives; `RunChunk` is a run of one block's deltas joined, the journal's form.
 * - Joining runs and then assembling gives the same answer as assembling every delta.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { Json, snapshot } from "../internal/Json.ts"
import { Usage } from "./Message.ts"

/** The provider's number of a block; blocks are ordered by first appearance. */
const index = Schema.Int

export const TextDelta = Schema.Struct({ type: Schema.Literal("text"), index, text: Schema.String })
export const ReasoningDelta = Schema.Struct({ type: Schema.Literal("reasoning"), index, text: Schema.String })
/** Part of a tool call. `id` and `name` may come late or never; an empty one says nothing. */
export const ToolCallDelta = Schema.Struct({
  type: Schema.Literal("tool-call"),
  index,
  id: Schema.optional(Schema.String),
  name: Schema.optional(Schema.String),
  arguments: Schema.String
})
/** The provider's own state of a block, replayed unchanged. */
export const BlobDelta = Schema.Struct({ type: Schema.Literal("blob"), index, blob: Json })
export const UsageDelta = Schema.Struct({ type: Schema.Literal("usage"), usage: Usage })

/** What the journal keeps: `assistant/chunk` holds one of these, deltas of one block joined. */
export const RunChunk = Schema.Union(TextDelta, ReasoningDelta, ToolCallDelta, BlobDelta, UsageDelta)
export type RunChunk = typeof RunChunk.Type

/** Closes a block; what comes for it afterwards is ignored. */
export interface BlockEnd {
  readonly type: "end"
  readonly index: number
}

/** Ends a stream. `stop`, `tool-calls` and `max-tokens` are known; any other word is kept and means a normal end. */
export interface Finish {
  readonly type: "finish"
  readonly reason: string
}

export type ChatChunk = RunChunk | BlockEnd | Finish

const isUsage = Schema.is(Usage)

/** Whether a value is a chunk at all. By hand, because it is asked of every delta. */
export const isChunk = (value: ChatChunk): boolean => {
  if ("index" in value && !Number.isInteger(value.index)) return false
  switch (value.type) {
    case "text":
    case "reasoning":
      return typeof value.text === "string"
    case "tool-call":
      return [value.arguments, value.id ?? "", value.name ?? ""].every((part) => typeof part === "string")
    case "blob":
      return Either.isRight(snapshot(value.blob))
    case "usage":
      return isUsage(value.usage)
    case "end":
      return true
    case "finish":
      return typeof value.reason === "string"
    default:
      // what the types rule out is what a faulty adapter sends
      return false
  }
}

/** A run that is still open: deltas of one block, joined. It is filled in place by `RunBuffer` and by nothing else. */
interface OpenRun {
  chunk: RunChunk
  bytes: number
}

/** How many bytes of text end a run. */
export const maxRunBytes = 4096

/**
 * Joins deltas into runs: a run ends when it is full, when another block speaks, and when its owner says so.
 * The runs joined again are the deltas joined; a surrogate pair is not split between two runs of a block, unless something
 * else speaks between its halves.
 */
export interface RunBuffer {
  open: OpenRun | undefined
}

export const emptyRuns = (): RunBuffer => ({ open: undefined })

const utf8 = (text: string): number => Buffer.byteLength(text)

const saysSomething = (identity: string | undefined): boolean => identity !== undefined && identity !== ""

const join = (run: RunChunk, delta: RunChunk): RunChunk | undefined => {
  if (run.type === "text" || run.type === "reasoning")
    return delta.type === run.type && delta.index === run.index ? { ...run, text: run.text + delta.text } : undefined
  if (run.type !== "tool-call" || delta.type !== "tool-call" || delta.index !== run.index) return undefined
  const joined = { ...run, arguments: run.arguments + delta.arguments }
  if (!saysSomething(run.id) && delta.id !== undefined) joined.id = delta.id
  if (!saysSomething(run.name) && delta.name !== undefined) joined.name = delta.name
  return joined
}

const bytesOf = (chunk: RunChunk): number => {
  switch (chunk.type) {
    case "text":
    case "reasoning":
      return utf8(chunk.text)
    case "tool-call":
      return utf8(chunk.arguments)
    case "blob":
    case "usage":
      return 0
    default:
      return chunk satisfies never
  }
}

/** Takes a delta in; the runs that are complete now, in order. */
export const pushDelta = (runs: RunBuffer, delta: RunChunk): ReadonlyArray<RunChunk> => {
  const joined = runs.open === undefined ? undefined : join(runs.open.chunk, delta)
  if (joined !== undefined && runs.open !== undefined) {
    runs.open = { chunk: joined, bytes: runs.open.bytes + bytesOf(delta) }
    return runs.open.bytes >= maxRunBytes ? cutRun(runs) : []
  }
  const ended = endRun(runs)
  runs.open = { chunk: delta, bytes: bytesOf(delta) }
  if (delta.type === "blob" || delta.type === "usage") return [...ended, ...endRun(runs)]
  return runs.open.bytes >= maxRunBytes ? [...ended, ...cutRun(runs)] : ended
}

/** Ends the open run, if there is one. */
export const endRun = (runs: RunBuffer): ReadonlyArray<RunChunk> => {
  const open = runs.open
  runs.open = undefined
  return open === undefined ? [] : [open.chunk]
}

const endsInHalfAPair = (text: string): boolean => /[\uD800-\uDBFF]$/.test(text)

/** Ends the open run of a block that goes on: half a surrogate pair at its end waits for the other half. */
export const cutRun = (runs: RunBuffer): ReadonlyArray<RunChunk> => {
  const ended = endRun(runs)
  const chunk = ended[0]
  if (chunk === undefined || chunk.type === "blob" || chunk.type === "usage") return ended
  const whole = chunk.type === "tool-call" ? chunk.arguments : chunk.text
  if (!endsInHalfAPair(whole)) return ended
  const half = whole.slice(-1)
  const rest = whole.slice(0, -1)
  if (chunk.type === "tool-call") {
    runs.open = { chunk: { type: chunk.type, index: chunk.index, arguments: half }, bytes: 0 }
    const isEmpty = rest === "" && chunk.id === undefined && chunk.name === undefined
    return isEmpty ? [] : [{ ...chunk, arguments: rest }]
  }
  runs.open = { chunk: { ...chunk, text: half }, bytes: 0 }
  return rest === "" ? [] : [{ ...chunk, text: rest }]
}
