/**
 * Repair: the events that close a log whose owner died (R13).
 *
 * - It only completes: pure, in model order, none where nothing stands open, all at the time of the last real event (law 8).
 * - A call that settled keeps its real result; one without a `tool/call` never started (law 6); of any other the outcome
 *   is unknown, and the text tells what was found of its processes, and whether this very tool may simply be retried.
 * - Two policies: `closers` adds the fewest events; `salvage` also keeps what came of an answer, as a cancel would have (W08).
 */
import * as Either from "effect/Either"
import * as Answer from "./Answer.ts"
import * as Brackets from "./Brackets.ts"
import type { SessionEvent, StoredEvent, StoredOf, ToolOutcome } from "./Event.ts"
import { textOf } from "./Message.ts"
import * as Results from "./Results.ts"
import { fold, type SessionState } from "./SessionState.ts"
import { neverStarted, recordedAsStarted } from "./Transcript.ts"

/** A process group that the log shows as started by a call without a result. */
export type LeftOver = StoredOf<"tool/process">["data"]

/** What became of it: it was `ended` now, was `gone` before, is `running` still, or is `unknown`, as nobody could look. */
export type Found = "ended" | "gone" | "running" | "unknown"

/** What a reaper found of the processes that a dead owner left. */
export type ReapReport = ReadonlyArray<{ readonly process: LeftOver; readonly found: Found }>

/** The closing events of a log, in order; none where it balances. A function of the log and the report alone. */
export type Policy = (state: SessionState, report?: ReapReport) => ReadonlyArray<SessionEvent>

/** What was found, in plain words. */
const foundText: Record<Found, (pid: number) => string> = {
  ended: (pid) => `Its process ${pid} still ran and was ended.`,
  gone: (pid) => `Its process ${pid} had ended.`,
  running: (pid) => `Its process ${pid} still runs.`,
  unknown: (pid) => `Nobody could see whether its process ${pid} still runs.`
}

/** What closing events tell of the processes of their turn, a sentence each. */
export const fates = (closing: ReadonlyArray<StoredEvent>): ReadonlyArray<string> =>
  closing.flatMap((event) =>
    event.type === "tool/result" && event.data.error?.code === "TOOL_OUTCOME_UNKNOWN"
      ? (textOf(event.data.message).match(/(?:Its|Nobody could see whether its) process \d+ [^.]*\./g) ?? [])
      : []
  )

/** Whether this very tool may be retried, as the last header says of it. */
const retryText = (name: string, { header }: SessionState): string => {
  const annotations = header?.data.tools.find((spec) => spec.name === name)?.annotations
  if (annotations?.readonly === true) return `${name} is read-only: retry it if it is still needed.`
  if (annotations?.idempotent === true) return `${name} is idempotent: retry it if it is still needed.`
  return `${name} may have changed something: check the outside world first, or ask. Do not retry it blindly.`
}

const unknownText = ({ block }: Brackets.Call, state: SessionState, report: ReapReport): string => {
  const found = report.filter(({ process }) => process.callId === block.callId)
  const told = found.map(({ found, process }) => foundText[found](process.pgid))
  return [recordedAsStarted, ...told, retryText(block.name, state)].join(" ")
}

const outcomeOf =
  (state: SessionState, report: ReapReport) =>
  (call: Brackets.Call): ToolOutcome =>
    Results.settledOutcome(call) ??
    (Brackets.neverRan(call)
      ? Results.failure("TOOL_NOT_STARTED", neverStarted)
      : Results.failure("TOOL_OUTCOME_UNKNOWN", unknownText(call, state, report)))

const openQuestions = (step: Brackets.OpenStep): ReadonlyArray<SessionEvent> =>
  step.calls
    .filter((call) => call.approval === "asked")
    .map((call) => ({
      type: "approval/decided",
      data: { turn: step.turn, step: step.step, callId: call.block.callId, decision: "interrupted" }
    }))

/** Closes with the fewest events: open questions, a result for each call, the step, the turn. */
export const closers: Policy = (state, report = []) => {
  const open = state.brackets.open
  if (open === undefined) return []
  const end: SessionEvent = { type: "turn/end", data: { turn: open.turn, reason: { kind: "interrupted" } } }
  const step = open.step
  if (step === undefined) return [end]
  return [
    ...openQuestions(step),
    ...Results.answerCalls(state, outcomeOf(state, report)),
    { type: "step/end", data: { turn: step.turn, step: step.step } },
    end
  ]
}

/** What came of an answer that its owner did not finish. The chunks of attempts that the log shows as failed do not count. */
const cutAnswer = ({ brackets, header }: SessionState): ReadonlyArray<SessionEvent> => {
  const step = brackets.open?.step
  if (step === undefined || header === undefined) return []
  const { model, provider } = header.data.config
  const chunks = Brackets.attemptOf(brackets)
  return Answer.interrupted(
    Answer.assemble(chunks.map((event) => event.data.chunk)),
    { turn: step.turn, step: step.step, provider, model },
    chunks.map((event) => event.seq)
  )
}

/** The same, after the text and reasoning so far of an answer that was cut off. */
export const salvage: Policy = (state, report) => [...cutAnswer(state), ...closers(state, report)]

/** Closing events in their places, at the time of the last real event, and the state after them; or why they do not fit. */
export const closed = (
  state: SessionState,
  closing: ReadonlyArray<SessionEvent> = closers(state)
): Either.Either<{ readonly events: ReadonlyArray<StoredEvent>; readonly after: SessionState }, string> => {
  const events = closing.map((event, index): StoredEvent => ({ ...event, seq: state.head + index, time: state.time }))
  return Either.map(fold(events, state), (after) => ({ events, after }))
}
