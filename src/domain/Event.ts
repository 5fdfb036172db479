/**
 * Events: everything that a log can say.
 *
 * - A fact is a struct with a literal `type`; `SessionEvent` is one before it has a place, `StoredEvent` one in the log.
 * - Whether an event is a message is decided by its type.
 * - Append refuses an unknown type. A load keeps one that is marked ignorable, as `Unrecognized`, and refuses any other.
 */
import * as Either from "effect/Either"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { Json, snapshot } from "../internal/Json.ts"
import { RunChunk } from "./Chunk.ts"
import { CallId, Ordinal, Seq } from "./Ids.ts"
import { AssistantMessage, TextBlock, ToolMessage, Usage, UserMessage } from "./Message.ts"
import { ModelConfig, ToolSpec } from "./Request.ts"
import { Failure, TurnEnding } from "./TurnEnding.ts"

/** All seqs from one to another. */
export const Range = Schema.Struct({ from: Seq, to: Seq })
export type Range = typeof Range.Type

/** The events that an event was made from: a list of seqs, or a range. */
export const Sources = Schema.Union(Schema.Array(Seq), Range)
export type Sources = typeof Sources.Type

const event = <T extends string, F extends Schema.Struct.Fields>(type: T, data: F) =>
  Schema.Struct({
    type: Schema.Literal(type),
    data: Schema.Struct(data),
    sourceEventSeqs: Schema.optional(Sources),
    ignorable: Schema.optional(Schema.Literal(true))
  })

const turn = { turn: Ordinal }
const step = { turn: Ordinal, step: Ordinal }
const call = { turn: Ordinal, step: Ordinal, callId: CallId }

/** Which list of the inbox: prompts open turns, next-step input joins the next step. */
export const InboxTarget = Schema.Literal("next-turn", "next-step")
export type InboxTarget = typeof InboxTarget.Type

/** From `start` of a list, `removedCount` messages go and `inserted` come. `canceled` tells a drop from a claim. */
export const InboxSpliced = event("agent/inbox/spliced", {
  target: InboxTarget,
  start: Schema.Int.pipe(Schema.nonNegative()),
  removedCount: Schema.optional(Schema.Int.pipe(Schema.positive())),
  inserted: Schema.Array(UserMessage),
  outcome: Schema.optional(Schema.Literal("canceled"))
})
export const TurnStarted = event("turn/start", turn)
export const TurnEnded = event("turn/end", { ...turn, reason: TurnEnding })
export const StepStarted = event("step/start", step)
export const StepEnded = event("step/end", step)
/** Input that a step took. Always within a step. */
export const UserMessageAdded = event("user/message", UserMessage.fields)
/** What goes with every request from here on, besides the messages. */
export const RequestHeaderSet = event("request/header", {
  reason: Schema.Literal("initial", "change", "resume"),
  config: ModelConfig,
  system: Schema.String,
  tools: Schema.Array(ToolSpec)
})
export const AssistantChunkReceived = event("assistant/chunk", { ...step, chunk: RunChunk })
/** An answer. `finish` is absent exactly when it was interrupted. Cites the chunks it was made from. */
export const AssistantAnswered = event("assistant/message", {
  ...step,
  message: AssistantMessage,
  interrupted: Schema.optional(Schema.Literal(true)),
  usage: Schema.optional(Usage),
  finish: Schema.optional(Schema.String)
})
/** A call is about to run. No tool body runs before this is durable (law 6). */
export const ToolCalled = event("tool/call", { ...call, name: Schema.String, arguments: Schema.String })
/**
 * A process group that a call is about to start: an inert guard waits until this is durable. `mark` is what every process of
 * the call bears in its environment, those that leave the group included; `bootId` is where pids mean what they mean here.
 */
export const ToolProcessSpawned = event("tool/process", {
  ...call,
  pgid: Schema.Int,
  startTime: Schema.String,
  bootId: Schema.String,
  mark: Schema.optional(Schema.String)
})

/** How a call came out, before it is a message. `context` is text that the tool leaves for the next step. */
export const ToolOutcome = Schema.Struct({
  content: Schema.Array(TextBlock),
  isError: Schema.Boolean,
  error: Schema.optional(Schema.Struct({ name: Schema.String, code: Schema.String })),
  meta: Schema.optional(Schema.Record({ key: Schema.String, value: Json })),
  context: Schema.optional(Schema.Array(UserMessage))
})
export type ToolOutcome = typeof ToolOutcome.Type

/** A call settled before its place in model order had come (R7). */
export const ToolSettled = event("tool/settled", { ...call, outcome: ToolOutcome })
/** The one result of a call, in model order. Cites its `tool/call`, and its `tool/settled` where there is one. */
export const ToolResultAdded = event("tool/result", {
  ...step,
  message: ToolMessage,
  error: ToolOutcome.fields.error,
  meta: ToolOutcome.fields.meta
})
/**
 * An attempt failed and another follows after `delayMillis`: what came of it stands in the chunks before this, since the one
 * before it, and counts for nothing. `usage` is what it cost all the same, as far as the provider told.
 */
export const RequestRetried = event("request/retry", {
  ...step,
  attempt: Ordinal,
  delayMillis: Schema.JsonNumber,
  failure: Failure,
  usage: Schema.optional(Usage)
})
export const ApprovalAsked = event("approval/asked", call)
export const ApprovalDecision = Schema.Literal(
  "allowed-once",
  "allowed-always",
  "rejected",
  "unavailable",
  "canceled",
  "interrupted"
)
export type ApprovalDecision = typeof ApprovalDecision.Type
export const ApprovalDecided = event("approval/decided", { ...call, decision: ApprovalDecision })
/** `messages` stand for the closed steps from seq `from` to seq `to`; the range stays in the log. */
export const ContextReplaced = event("context/replaced", { from: Seq, to: Seq, messages: Schema.Array(UserMessage) })
/** An ignorable event of a newer version, kept as it is. It comes from a load and is never appended. */
export const Unrecognized = event("unrecognized", { type: Schema.String, data: Schema.Unknown })

export const SessionEvent = Schema.Union(
  InboxSpliced,
  TurnStarted,
  TurnEnded,
  StepStarted,
  StepEnded,
  UserMessageAdded,
  RequestHeaderSet,
  AssistantChunkReceived,
  AssistantAnswered,
  ToolCalled,
  ToolProcessSpawned,
  ToolSettled,
  ToolResultAdded,
  RequestRetried,
  ApprovalAsked,
  ApprovalDecided,
  ContextReplaced,
  Unrecognized
)
export type SessionEvent = typeof SessionEvent.Type

/** Whether a value is an event that this build may append: a known type with data that its schema takes. */
export const isAppendable = (value: unknown): value is SessionEvent =>
  isPlaced(value) ||
  (Predicate.hasProperty(value, "type") && typeof value.type === "string" && isOfType.get(value.type)?.(value) === true)

/** One check for each type, which costs half of what the union's does. */
const isOfType: ReadonlyMap<string, (value: unknown) => boolean> = new Map(
  SessionEvent.members.flatMap((member) => {
    const type = member.fields.type.literals[0]
    return type === "unrecognized"
      ? []
      : [[type, Schema.is(Schema.asSchema<Schema.Schema.AnyNoContext>(member))] as const]
  })
)

/** Every type that this build knows and may append. */
export const knownTypes: ReadonlySet<string> = new Set(isOfType.keys())

/** An event in its place: `seq` orders, `time` (Unix milliseconds) never goes back. */
export type StoredEvent = SessionEvent & { readonly seq: number; readonly time: number }

/** Those that `place` made: frozen through and through, and found to be appendable. They are not looked at again. */
const placed = new WeakSet()

const isPlaced = (value: unknown): value is StoredEvent =>
  typeof value === "object" && value !== null && placed.has(value)

/** A frozen copy of an event in its place, each text of it well-formed; or why it may not be appended (I01, I02). */
export const place = (event: SessionEvent, seq: number, time: number): Either.Either<StoredEvent, string> => {
  const frozen = snapshot(event)
  if (Either.isLeft(frozen)) return Either.left(`not JSON without loss: ${frozen.left}`)
  const copy: unknown = frozen.right
  if (!isAppendable(copy))
    return Either.left(`no event that this version may append, or data that does not fit it: ${event.type}`)
  const stored: StoredEvent = Object.freeze({ ...copy, seq, time })
  placed.add(stored)
  return Either.right(stored)
}

/** The event of one type, before and after it has a place. */
export type EventOf<T extends SessionEvent["type"]> = Extract<SessionEvent, { readonly type: T }>
export type StoredOf<T extends SessionEvent["type"]> = Extract<StoredEvent, { readonly type: T }>

/** The shortest citation of these seqs: a range where they have no gap, else the list. */
export const sources = (seqs: ReadonlyArray<number>): Sources => {
  const first = seqs[0]
  const last = seqs[seqs.length - 1]
  if (first === undefined || last === undefined || seqs.length < 3 || last - first !== seqs.length - 1) return seqs
  return { from: first, to: last }
}
