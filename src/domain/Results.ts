/**
 * Answering calls: the events that give calls of the open step their results.
 *
 * - Model order, each call once; a call is never answered before an earlier one (law 2, R7).
 * - A result cites its `tool/call`, and its `tool/settled` where there is one; the context that a tool gathered is queued
 *   right after its result (E15).
 */
import * as Either from "effect/Either"
import * as Brackets from "./Brackets.ts"
import type { SessionEvent, ToolOutcome } from "./Event.ts"
import * as Inbox from "./Inbox.ts"
import { text } from "./Message.ts"
import type { SessionState } from "./SessionState.ts"
import { resultMessage } from "./Transcript.ts"

/** The codes of error results, as stored (R5). */
export type ResultCode =
  | "TOOL_ABORTED_BEFORE_DISPATCH"
  | "TOOL_ABORTED"
  | "TOOL_NOT_STARTED"
  | "TOOL_OUTCOME_UNKNOWN"
  | "UNKNOWN_TOOL"
  | "INVALID_ARGS"
  | "INVALID_TOOL_OUTPUT"
  | "TOOL_TIMEOUT"
  | "TOOL_DENIED"
  | "HOOK_FAILED"
  | "UNKNOWN"

/** An error result: `message` is what the model reads. */
export const failure = (code: ResultCode, message: string, name = "ToolError"): ToolOutcome => ({
  content: [text(message)],
  isError: true,
  error: { name, code }
})

/** The result of a call that never ran because its turn was cancelled (R4). */
export const abortedBeforeDispatch: ToolOutcome = failure(
  "TOOL_ABORTED_BEFORE_DISPATCH",
  "Error: tool call aborted before dispatch",
  "AbortError"
)

/** What the call settled with, if it did. */
export const settledOutcome = (call: Brackets.Call): ToolOutcome | undefined => call.settled?.outcome

/**
 * Results for the unanswered calls of the open step, in model order, up to the first for which `outcomeOf` knows nothing.
 * With `announce`, a call without a `tool/call` gets it right before its result (E11).
 */
export const answerCalls = (
  state: SessionState,
  outcomeOf: (call: Brackets.Call) => ToolOutcome | undefined,
  options: { readonly announce: boolean } = { announce: false }
): ReadonlyArray<SessionEvent> => {
  const step = state.brackets.open?.step
  if (step === undefined) return []
  const at = { turn: step.turn, step: step.step }
  const events: Array<SessionEvent> = []
  let inbox = state.inbox
  for (const call of step.calls.filter(Brackets.isUnanswered)) {
    const outcome = outcomeOf(call)
    if (outcome === undefined) break
    let started = call.started?.seq
    if (started === undefined && options.announce) {
      started = state.head + events.length
      const { arguments: raw, callId, name } = call.block
      events.push({ type: "tool/call", data: { ...at, callId, name, arguments: raw } })
    }
    events.push(resultEvent(call, { ...at, started }, outcome))
    if (outcome.context !== undefined && outcome.context.length > 0) {
      const queued = Inbox.inserted(inbox, "next-step", outcome.context)
      events.push(queued)
      if (queued.type === "agent/inbox/spliced") inbox = Either.getOrElse(Inbox.splice(inbox, queued.data), () => inbox)
    }
  }
  return events
}

const resultEvent = (
  call: Brackets.Call,
  at: { readonly turn: number; readonly step: number; readonly started: number | undefined },
  outcome: ToolOutcome
): SessionEvent => {
  const cited = [at.started, call.settled?.seq].filter((seq) => seq !== undefined)
  return {
    type: "tool/result",
    data: {
      turn: at.turn,
      step: at.step,
      message: resultMessage(call, outcome),
      ...(outcome.error === undefined ? {} : { error: outcome.error }),
      ...(outcome.meta === undefined ? {} : { meta: outcome.meta })
    },
    ...(cited.length === 0 ? {} : { sourceEventSeqs: cited })
  }
}
