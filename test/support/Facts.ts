/**
 * Events in few words, for logs that a test writes out by hand.
 */
import * as Either from "effect/Either"
import type {
  ApprovalDecision,
  EventOf,
  InboxTarget,
  SessionEvent,
  Sources,
  StoredEvent,
  ToolOutcome
} from "../../src/domain/Event.ts"
import { answerId, callId, MessageId } from "../../src/domain/Ids.ts"
import { type AssistantBlock, type ToolCallBlock, text, type UserMessage } from "../../src/domain/Message.ts"
import type { GuardMemory, ToolSpec } from "../../src/domain/Request.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import type { TurnEnding } from "../../src/domain/TurnEnding.ts"

export type Log = ReadonlyArray<StoredEvent>

/** When the first event of a log by hand happens. */
export const startTime = 1_760_000_000_000

/** These events in their places after `before`, all at the time of its last event. */
export const placed = (events: ReadonlyArray<SessionEvent>, before: Log = []): Log =>
  events.map((event, index) => ({ ...event, seq: before.length + index, time: before.at(-1)?.time ?? startTime }))

/** A whole log of these events. */
export const logOf = (...events: ReadonlyArray<SessionEvent>): Log => placed(events)

/** A log and more events after it. */
export const followedBy = (log: Log, ...events: ReadonlyArray<SessionEvent>): Log => [...log, ...placed(events, log)]

/** The state of a log; throws where the log does not fold. */
export const stateOf = (events: Iterable<StoredEvent>): SessionState.SessionState =>
  Either.getOrThrowWith(SessionState.fold(events), (detail) => new Error(detail))

export const said = (id: string, words: string, kind: UserMessage["source"]["kind"] = "prompt"): UserMessage => ({
  id: MessageId.make(id),
  role: "user",
  source: { kind },
  content: [text(words)]
})

export const spec = (name: string, annotations: Partial<ToolSpec["annotations"]> = {}): ToolSpec => ({
  name,
  parameters: { type: "object" },
  annotations: { readonly: false, idempotent: false, destructive: false, ...annotations }
})

export const inserted = (
  target: InboxTarget,
  start: number,
  ...messages: ReadonlyArray<UserMessage>
): SessionEvent => ({
  type: "agent/inbox/spliced",
  data: { target, start, inserted: messages }
})
export const claimed = (target: InboxTarget, start: number, removedCount = 1): SessionEvent => ({
  type: "agent/inbox/spliced",
  data: { target, start, removedCount, inserted: [] }
})
export const dropped = (target: InboxTarget, start: number, removedCount = 1): SessionEvent => ({
  type: "agent/inbox/spliced",
  data: { target, start, removedCount, inserted: [], outcome: "canceled" }
})

export const turnStart = (turn: number): SessionEvent => ({ type: "turn/start", data: { turn } })
export const turnEnd = (turn: number, kind: "completed" | "max-tokens" | "aborted" | "interrupted"): SessionEvent => ({
  type: "turn/end",
  data: { turn, reason: { kind } }
})
export const turnFailed = (turn: number): SessionEvent => {
  const reason: TurnEnding = { kind: "error", error: { message: "it broke", code: "UNKNOWN" } }
  return { type: "turn/end", data: { turn, reason } }
}
export const stepStart = (turn: number, step: number): SessionEvent => ({ type: "step/start", data: { turn, step } })
export const stepEnd = (turn: number, step: number): SessionEvent => ({ type: "step/end", data: { turn, step } })
export const input = (message: UserMessage): SessionEvent => ({ type: "user/message", data: message })

/** A header that offers a read-only, an idempotent and a destructive tool. */
export const header = (
  reason: "initial" | "change" | "resume" = "initial",
  model = "script"
): EventOf<"request/header"> => ({
  type: "request/header",
  data: {
    reason,
    config: { provider: "scripted", model },
    system: "Do as you are told.",
    tools: [spec("look", { readonly: true }), spec("put", { idempotent: true }), spec("bash", { destructive: true })]
  }
})

export const chunk = (turn: number, step: number, words: string, index = 0): SessionEvent => ({
  type: "assistant/chunk",
  data: { turn, step, chunk: { type: "text", index, text: words } }
})

/** An answer of these blocks that cites these chunks. */
export const answer = (
  turn: number,
  step: number,
  content: ReadonlyArray<AssistantBlock>,
  more: { readonly finish?: string; readonly cites?: ReadonlyArray<number> } = {}
): EventOf<"assistant/message"> => ({
  type: "assistant/message",
  data: {
    turn,
    step,
    message: {
      id: answerId(turn, step),
      role: "assistant",
      source: { provider: "scripted", model: "script" },
      content
    },
    finish: more.finish ?? "stop"
  },
  sourceEventSeqs: more.cites ?? []
})

/** What a cancel kept of an answer. */
export const partial = (
  turn: number,
  step: number,
  content: ReadonlyArray<AssistantBlock>,
  cites: ReadonlyArray<number> = []
): EventOf<"assistant/message"> => {
  const { data, sourceEventSeqs } = answer(turn, step, content, { cites })
  const { finish: _finish, ...rest } = data
  return { type: "assistant/message", data: { ...rest, interrupted: true }, sourceEventSeqs: sourceEventSeqs ?? [] }
}

/** The call at `index` of the answer of a step. */
export const block = (
  turn: number,
  step: number,
  index: number,
  name = "bash",
  more: { readonly arguments?: string; readonly providerCallId?: string } = {}
): ToolCallBlock => ({
  type: "tool-call",
  callId: callId(turn, step, index),
  name,
  arguments: more.arguments ?? "{}",
  ...(more.providerCallId === undefined ? {} : { providerCallId: more.providerCallId })
})

type Place = readonly [turn: number, step: number, index: number]

const place = ([turn, step, index]: Place) => ({ turn, step, callId: callId(turn, step, index) })

export const call = (at: Place, name = "bash", raw = "{}"): SessionEvent => ({
  type: "tool/call",
  data: { ...place(at), name, arguments: raw }
})
export const spawned = (at: Place): SessionEvent => ({
  type: "tool/process",
  data: { ...place(at), pgid: 4711, startTime: "77", bootId: "boot" }
})
export const asked = (at: Place): SessionEvent => ({ type: "approval/asked", data: place(at) })
export const decided = (at: Place, decision: ApprovalDecision): SessionEvent => ({
  type: "approval/decided",
  data: { ...place(at), decision }
})

/** How a call came out: with this text, or with this code as an error. */
export const outcome = (words: string, code?: string): ToolOutcome => ({
  content: [text(words)],
  isError: code !== undefined,
  ...(code === undefined ? {} : { error: { name: "ToolError", code } })
})

export const settled = (at: Place, told: ToolOutcome): SessionEvent => ({
  type: "tool/settled",
  data: { ...place(at), outcome: told }
})
export const result = (at: Place, told: ToolOutcome, cites: ReadonlyArray<number> = []): EventOf<"tool/result"> => {
  const { callId: id, step, turn } = place(at)
  return {
    type: "tool/result",
    data: {
      turn,
      step,
      message: { id: MessageId.make(id), role: "tool", callId: id, content: told.content, isError: told.isError },
      ...(told.error === undefined ? {} : { error: told.error }),
      ...(told.meta === undefined ? {} : { meta: told.meta })
    },
    ...(cites.length === 0 ? {} : { sourceEventSeqs: cites })
  }
}

/** A first turn whose step asks the model, which has said nothing yet: what follows has seq 6. */
export const stepAsking = (prompt: UserMessage): Log =>
  logOf(
    inserted("next-turn", 0, prompt),
    turnStart(1),
    claimed("next-turn", 0),
    stepStart(1, 1),
    input(prompt),
    header()
  )

/** Every seq that a citation names, in order. */
export const sourceSeqs = (cited: Sources): ReadonlyArray<number> =>
  "from" in cited ? Array.from({ length: cited.to - cited.from + 1 }, (_, i) => cited.from + i) : cited

/** What a guard knows that has seen no message yet. */
export const emptyGuardMemory: GuardMemory = { messages: [], digests: [] }
