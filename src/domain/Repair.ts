/**
 * Repair: the events that close a log whose owner died (R13).
 *
 * - It only completes: pure, the fewest events, in model order, none where nothing stands open (law 8).
 * - A call that settled keeps its real result; one without a `tool/call` never started (law 6); of any other the outcome
 *   is unknown, and the text tells whether this very tool may simply be retried.
 */
import * as Either from "effect/Either"
import type * as Brackets from "./Brackets.ts"
import type { SessionEvent, StoredEvent, StoredOf, ToolOutcome } from "./Event.ts"
import * as Results from "./Results.ts"
import { fold, type SessionState } from "./SessionState.ts"
import { neverStarted } from "./Transcript.ts"

/** A process group that the log shows as started by a call without a result. */
export type LeftOver = StoredOf<"tool/process">["data"]

/** What became of it: it was `ended` now, was `gone` before, is `running` still, or is `unknown`, as nobody could look. */
export type Found = "ended" | "gone" | "running" | "unknown"

/** What a reaper found of the processes that a dead owner left. */
export type ReapReport = ReadonlyArray<{ readonly process: LeftOver; readonly found: Found }>

const unknownText = (name: string, state: SessionState): string => {
  const happened = "Error: this tool call was cut off before its result was stored; its outcome is unknown."
  const annotations = state.header?.data.tools.find((spec) => spec.name === name)?.annotations
  if (annotations?.readonly === true) return `${happened} ${name} is read-only: retry it if it is still needed.`
  if (annotations?.idempotent === true) return `${happened} ${name} is idempotent: retry it if it is still needed.`
  return `${happened} ${name} may have changed something: check the outside world first, or ask. Do not retry it blindly.`
}

/** A call that has no `tool/call`, or whose approval was never given, did not run its body. */
const neverRan = (call: Brackets.Call): boolean =>
  call.started === undefined ||
  (call.approval !== undefined && call.approval !== "allowed-once" && call.approval !== "allowed-always")

const outcomeOf =
  (state: SessionState) =>
  (call: Brackets.Call): ToolOutcome =>
    Results.settledOutcome(call) ??
    (neverRan(call)
      ? Results.failure("TOOL_NOT_STARTED", neverStarted)
      : Results.failure("TOOL_OUTCOME_UNKNOWN", unknownText(call.block.name, state)))

const openQuestions = (step: Brackets.OpenStep): ReadonlyArray<SessionEvent> =>
  step.calls
    .filter((call) => call.approval === "asked")
    .map((call) => ({
      type: "approval/decided",
      data: { turn: step.turn, step: step.step, callId: call.block.callId, decision: "interrupted" }
    }))

/** The closing events of this log, in order; none where it balances. `closed` puts them in their places. */
export const closers = (state: SessionState): ReadonlyArray<SessionEvent> => {
  const open = state.brackets.open
  if (open === undefined) return []
  const end: SessionEvent = { type: "turn/end", data: { turn: open.turn, reason: { kind: "interrupted" } } }
  const step = open.step
  if (step === undefined) return [end]
  return [
    ...openQuestions(step),
    ...Results.answerCalls(state, outcomeOf(state)),
    { type: "step/end", data: { turn: step.turn, step: step.step } },
    end
  ]
}

/** Closing events in their places, at the time of the last real event, and the state after them; or why they do not fit. */
export const closed = (
  state: SessionState,
  closing: ReadonlyArray<SessionEvent> = closers(state)
): Either.Either<{ readonly events: ReadonlyArray<StoredEvent>; readonly after: SessionState }, string> => {
  const events = closing.map((event, index): StoredEvent => ({ ...event, seq: state.head + index, time: state.time }))
  return Either.map(fold(events, state), (after) => ({ events, after }))
}
