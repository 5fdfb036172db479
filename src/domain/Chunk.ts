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

/** A run that is still open: its first delta, and the text of all. It is filled in place by this file and by nothing else. */
interface OpenRun {
  first: Spoken
  text: string
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
  /** The last usage that was told: some servers repeat it with every delta, and it is kept once. */
  usage: typeof UsageDelta.Type | undefined
}

export const emptyRuns = (): RunBuffer => ({ open: undefined, usage: undefined })

const utf8 = (text: string): number => Buffer.byteLength(text)

const saysSomething = (identity: string | undefined): boolean => identity !== undefined && identity !== ""

/** A delta that has a text, which others of its block are joined to. */
type Spoken = Extract<RunChunk, { readonly index: number }> & { readonly type: "text" | "reasoning" | "tool-call" }

const isSpoken = (chunk: RunChunk): chunk is Spoken => chunk.type !== "blob" && chunk.type !== "usage"

const textOf = (chunk: Spoken): string => (chunk.type === "tool-call" ? chunk.arguments : chunk.text)

const withText = (chunk: Spoken, text: string): Spoken =>
  chunk.type === "tool-call" ? { ...chunk, arguments: text } : { ...chunk, text }

/** The run's first delta with what a later one says of the identity of their call. */
const identified = (first: Spoken, delta: Spoken): Spoken => {
  if (first.type !== "tool-call" || delta.type !== "tool-call") return first
  const id = saysSomething(first.id) ? first.id : (delta.id ?? first.id)
  const name = saysSomething(first.name) ? first.name : (delta.name ?? first.name)
  if (id === first.id && name === first.name) return first
  return { ...first, ...(id === undefined ? {} : { id }), ...(name === undefined ? {} : { name }) }
}

/** Takes a delta in; the runs that are complete now, in order. */
export const pushDelta = (runs: RunBuffer, delta: RunChunk): ReadonlyArray<RunChunk> => {
  if (delta.type === "usage") {
    runs.usage = delta
    return []
  }
  if (!isSpoken(delta)) return [...endRun(runs), delta]
  const { open } = runs
  const text = textOf(delta)
  if (open === undefined || open.first.type !== delta.type || open.first.index !== delta.index) {
    const ended = endRun(runs)
    runs.open = { first: delta, text, bytes: utf8(text) }
    return runs.open.bytes >= maxRunBytes ? [...ended, ...cutRun(runs)] : ended
  }
  open.first = identified(open.first, delta)
  open.text += text
  open.bytes += utf8(text)
  return open.bytes >= maxRunBytes ? cutRun(runs) : []
}

/** Ends the open run, if there is one. */
export const endRun = (runs: RunBuffer): ReadonlyArray<RunChunk> => {
  const { open } = runs
  runs.open = undefined
  return open === undefined ? [] : [withText(open.first, open.text)]
}

/** Ends everything: the open run, then the usage. */
export const endRuns = (runs: RunBuffer): ReadonlyArray<RunChunk> => {
  const ended = endRun(runs)
  const { usage } = runs
  runs.usage = undefined
  return usage === undefined ? ended : [...ended, usage]
}

const isHalfAPair = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff

/** Ends the open run of a block that goes on: half a surrogate pair at its end waits for the other half. */
export const cutRun = (runs: RunBuffer): ReadonlyArray<RunChunk> => {
  const { open } = runs
  if (open === undefined || !isHalfAPair(open.text.charCodeAt(open.text.length - 1))) return endRun(runs)
  const { first, text } = open
  const rest = text.slice(0, -1)
  const next: Spoken = first.type === "tool-call" ? { type: first.type, index: first.index, arguments: "" } : first
  runs.open = { first: next, text: text.slice(-1), bytes: 0 }
  const saysNothing =
    rest === "" && (first.type !== "tool-call" || (first.id === undefined && first.name === undefined))
  return saysNothing ? [] : [withText(first, rest)]
}
