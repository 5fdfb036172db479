/**
 * One step as a log shows it: its attempts, its answer, and what became of each call (laws 2, 3 and 6).
 *
 * - What depends on how the turn ends is a debt: it is due unless the turn ends in one of the ways that excuse it, and the
 *   step is its last one.
 */
import { canonical } from "../internal/Json.ts"
import type { ApprovalDecision, StoredEvent, StoredOf, ToolOutcome } from "./Event.ts"
import { type CallId, callId } from "./Ids.ts"
import { type ToolCallBlock, toolCalls } from "./Message.ts"
import { resultMessage } from "./Transcript.ts"
import type { TurnEnding } from "./TurnEnding.ts"
import type { Law, Say } from "./Violation.ts"

/** What is known of one call of the step's answer. */
interface Call {
  readonly block: ToolCallBlock
  started?: number
  settled?: { readonly seq: number; readonly outcome: ToolOutcome }
  approval?: "asked" | ApprovalDecision
  processes: number
  isAnswered: boolean
}

/** A violation, unless the turn ends in a way that excuses it. */
export interface Debt {
  readonly seq: number
  readonly law: Law
  readonly detail: string
  readonly excusedBy: ReadonlyArray<TurnEnding["kind"]>
}

/** Filled in place by `take` and `end`, and by nothing else. */
export interface Step {
  readonly turn: number
  readonly step: number
  /** The seqs of the chunks of the current attempt. */
  attempt: Array<number>
  retries: number
  answer: "none" | "whole" | "cut" | "interrupted"
  calls: ReadonlyArray<Call>
  readonly debts: Array<Debt>
}

/** A step before what stands within it. */
export const make = (turn: number, step: number): Step => ({
  turn,
  step,
  attempt: [],
  retries: 0,
  answer: "none",
  calls: [],
  debts: []
})

/** An event that may stand within a step alone. */
export type StepEvent = Exclude<
  StoredEvent,
  StoredOf<
    "turn/start" | "turn/end" | "step/start" | "step/end" | "agent/inbox/spliced" | "context/replaced" | "unrecognized"
  >
>

/** Whether an event is one that repair alone writes. */
export const isWrittenByRepair = (event: StoredEvent): boolean => {
  if (event.type === "approval/decided") return event.data.decision === "interrupted"
  const code = event.type === "tool/result" ? event.data.error?.code : undefined
  return code === "TOOL_NOT_STARTED" || code === "TOOL_OUTCOME_UNKNOWN"
}

/** Takes an event of the step in. `isTimely` says that it has the time of the event before it. */
export const take = (step: Step, event: StepEvent, isTimely: boolean, say: Say): void => {
  if ("step" in event.data && (event.data.turn !== step.turn || event.data.step !== step.step)) {
    say(3, `${event.type} belongs to step ${event.data.step} of turn ${event.data.turn}`)
    return
  }
  if (isWrittenByRepair(event)) owe(step, 3, `${event.type} is what repair alone writes`, ["interrupted"], event.seq)
  switch (event.type) {
    case "user/message":
    case "request/header":
    case "assistant/chunk":
    case "request/retry":
      ask(step, event, say)
      return
    case "assistant/message":
      answer(step, event, isTimely, say)
      return
    case "tool/result":
      withCall(step, event.data.message.callId, event, say, (call, at) => result(step, call, at, event, say))
      return
    default:
      withCall(step, event.data.callId, event, say, (call) => takeCall(call, event, say))
      return
  }
}

/** The step ends at `seq`; `isTimely` as before. */
export const end = (step: Step, seq: number, isTimely: boolean, say: Say): void => {
  for (const call of step.calls) {
    const id = call.block.callId
    if (call.approval === "asked") say(3, `the question about call ${id} is still open at the end of its step`)
    if (!call.isAnswered) owe(step, 2, `call ${id} has no result at the end of its step`, ["error"], seq)
  }
  if (step.answer === "none") owe(step, 3, "the step ends without an answer", ["aborted", "error", "interrupted"], seq)
  if ((step.answer === "none" || step.answer === "interrupted") && !isTimely)
    owe(step, 8, "the step was closed by repair, at a time of its own", endingsOfTheLoop, seq)
}

// internal

/** The endings that the loop writes. */
const endingsOfTheLoop: ReadonlyArray<TurnEnding["kind"]> = ["completed", "max-tokens", "blocked", "aborted", "error"]

const owe = (step: Step, law: Law, detail: string, excusedBy: Debt["excusedBy"], seq: number): void => {
  step.debts.push({ seq, law, detail, excusedBy })
}

const ask = (
  step: Step,
  event: StoredOf<"user/message" | "request/header" | "assistant/chunk" | "request/retry">,
  say: Say
): void => {
  if (step.answer !== "none") say(3, `${event.type} follows the answer of its step`)
  const isUnderWay = step.attempt.length > 0 || step.retries > 0
  if (isUnderWay && (event.type === "user/message" || event.type === "request/header"))
    say(3, `${event.type} follows the request of its step`)
  if (event.type === "assistant/chunk") step.attempt.push(event.seq)
  if (event.type !== "request/retry") return
  step.retries++
  step.attempt = []
  if (event.data.attempt !== step.retries) say(3, `it counts attempt ${event.data.attempt}, and is ${step.retries}`)
}

/** Whether a citation names these seqs and no others. A damaged range may be of any length: it is not written out. */
const isSame = (cited: StoredEvent["sourceEventSeqs"], due: ReadonlyArray<number>): boolean => {
  if (cited === undefined) return due.length === 0
  if ("from" in cited)
    return cited.to - cited.from + 1 === due.length && due.every((seq, index) => seq === cited.from + index)
  return cited.length === due.length && cited.every((seq, index) => seq === due[index])
}

const answer = (step: Step, event: StoredOf<"assistant/message">, isTimely: boolean, say: Say): void => {
  const { finish, interrupted, message } = event.data
  if (step.answer !== "none") {
    say(3, "the step has its answer already")
    return
  }
  if ((interrupted === true) === (finish !== undefined))
    say(3, "the answer has a finish and was interrupted, or neither")
  if (!isSame(event.sourceEventSeqs, step.attempt)) say(3, "the answer does not cite the chunks of its attempt")
  const blocks = toolCalls(message)
  for (const [index, block] of blocks.entries())
    if (block.callId !== callId(step.turn, step.step, index)) say(2, `call ${index} of the answer is ${block.callId}`)
  if (blocks.length > 0 && (interrupted === true || finish === "max-tokens")) say(3, "an answer that was cut has calls")
  if (interrupted === true)
    owe(step, 3, "the answer was interrupted, and its turn went on", ["aborted", "interrupted"], event.seq)
  if (interrupted === true && !isTimely)
    owe(step, 8, "what came of the answer was kept by repair, at a time of its own", endingsOfTheLoop, event.seq)
  step.answer = interrupted === true ? "interrupted" : finish === "max-tokens" ? "cut" : "whole"
  step.calls = blocks.map((block) => ({ block, processes: 0, isAnswered: false }))
}

const withCall = (
  step: Step,
  id: CallId,
  event: StepEvent,
  say: Say,
  use: (call: Call, index: number) => void
): void => {
  const index = step.calls.findIndex((call) => call.block.callId === id)
  const call = step.calls[index]
  if (call === undefined) say(2, `${event.type}: the answer of its step has no call ${id}`)
  else use(call, index)
}

type CallEvent = StoredOf<"tool/call" | "tool/process" | "tool/settled" | "approval/asked" | "approval/decided">

const takeCall = (call: Call, event: CallEvent, say: Say): void => {
  const id = call.block.callId
  if (call.isAnswered) say(2, `${event.type} follows the result of call ${id}`)
  if (event.type === "tool/call") {
    if (call.started !== undefined) say(6, `call ${id} is started a second time`)
    const { arguments: raw, name } = event.data
    if (name !== call.block.name || raw !== call.block.arguments)
      say(6, `what is started is not call ${id} of the answer`)
    call.started ??= event.seq
    return
  }
  if (call.started === undefined) say(6, `${event.type}: call ${id} has no tool/call before it`)
  if (call.settled !== undefined) say(2, `${event.type}: call ${id} has settled before`)
  if (event.type === "tool/process") call.processes++
  if (event.type === "tool/settled") {
    call.settled ??= { seq: event.seq, outcome: event.data.outcome }
    judgeStart(call, event.data.outcome.error?.code, say)
  }
  if (event.type === "approval/asked") {
    if (call.approval === "asked") say(3, `call ${id} is asked about while it is asked about`)
    call.approval = "asked"
  }
  if (event.type === "approval/decided") {
    if (call.approval !== "asked") say(3, `call ${id} is decided about, and nobody asked`)
    call.approval = event.data.decision
  }
}

const result = (step: Step, call: Call, index: number, event: StoredOf<"tool/result">, say: Say): void => {
  const { callId: id } = call.block
  const { error, message } = event.data
  if (call.isAnswered) {
    say(2, `call ${id} has its result already`)
    return
  }
  if (step.calls.slice(0, index).some((other) => !other.isAnswered))
    say(2, `call ${id} is answered before an earlier call of its answer`)
  call.isAnswered = true
  const due = [call.started, call.settled?.seq].filter((seq) => seq !== undefined)
  if (!isSame(event.sourceEventSeqs, due)) say(2, `the result of call ${id} does not cite what it came from`)
  judgeStart(call, error?.code, say)
  if (call.settled === undefined) return
  if (canonical(shown(call.block, call.settled.outcome)) !== canonical(shown(call.block, message)))
    say(2, `the result of call ${id} is not what it settled with`)
}

/** An outcome as a model is shown it. */
const shown = (block: ToolCallBlock, outcome: Pick<ToolOutcome, "content" | "isError">) =>
  resultMessage({ block, processes: [] }, outcome)

/** Law 6: what an outcome says of the start is what the log says of it. */
const judgeStart = (call: Call, code: string | undefined, say: Say): void => {
  const id = call.block.callId
  const isRefused =
    call.approval !== undefined && call.approval !== "allowed-once" && call.approval !== "allowed-always"
  switch (code) {
    case "TOOL_NOT_STARTED":
      if (call.settled !== undefined) say(6, `call ${id} reads as never started, and has settled`)
      if (call.started !== undefined && !isRefused) say(6, `call ${id} reads as never started, and has a tool/call`)
      return
    case "TOOL_ABORTED_BEFORE_DISPATCH":
      if (call.processes > 0) say(6, `call ${id} reads as never dispatched, and has a process`)
      break
    case "TOOL_OUTCOME_UNKNOWN":
      if (isRefused || call.settled !== undefined) say(6, `the outcome of call ${id} reads as unknown, and is known`)
      break
    default:
  }
  if (call.started === undefined) say(6, `call ${id} has a result and no tool/call before it`)
}
