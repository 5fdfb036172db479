/**
 * What stands open in a log: the turn, its step, and the fate of each call of that step's answer.
 *
 * - One pure step an event, constant in the length of the log.
 * - It is also the grammar: an event that does not fit is a violation, and the state stays as it was (law 3, I08).
 */
import * as Either from "effect/Either"
import * as List from "effect/List"
import type { ApprovalDecision, StoredEvent, StoredOf, ToolOutcome } from "./Event.ts"
import { type CallId, callId } from "./Ids.ts"
import { type AssistantMessage, type ToolCallBlock, type ToolMessage, toolCalls, type UserMessage } from "./Message.ts"
import type { RunningCall } from "./Notice.ts"

/** One call of the open step's answer, and what the log knows of it. */
export interface Call {
  readonly block: ToolCallBlock
  /** Seq and time of its `tool/call`, once there is one. */
  readonly started?: { readonly seq: number; readonly time: number }
  readonly approval?: "asked" | ApprovalDecision
  readonly processes: ReadonlyArray<StoredOf<"tool/process">["data"]>
  readonly settled?: { readonly seq: number; readonly outcome: ToolOutcome }
  readonly result?: ToolMessage
}

export interface OpenStep {
  readonly turn: number
  readonly step: number
  /** The seq of its `step/start`. */
  readonly from: number
  readonly input: ReadonlyArray<UserMessage>
  /** The chunks of the current attempt, newest first; empty again once there is an answer. */
  readonly attempt: List.List<StoredOf<"assistant/chunk">>
  readonly answer?: AssistantMessage
  readonly calls: ReadonlyArray<Call>
}

export interface OpenTurn {
  readonly turn: number
  /** How many steps it has opened. */
  readonly steps: number
  /** An answer of this turn was cut by its token limit. */
  readonly cut: boolean
  readonly step?: OpenStep
}

export interface Brackets {
  /** The number of the last turn that was opened; 0 before the first. */
  readonly lastTurn: number
  readonly open?: OpenTurn
}

export const empty: Brackets = { lastTurn: 0 }

/** Whether a decision lets its call run. */
export const isAllowance = (decision: ApprovalDecision): boolean =>
  decision === "allowed-once" || decision === "allowed-always"

/** Whether a call's body cannot have run: there is no `tool/call`, or it was asked about and is not allowed. */
export const neverRan = ({ approval, started }: Call): boolean =>
  started === undefined || (approval !== undefined && (approval === "asked" || !isAllowance(approval)))

/** A call without a result. */
export const isUnanswered = (call: Call): boolean => call.result === undefined

/** The calls of the open step that still lack a result, in model order. */
export const unanswered = (brackets: Brackets): ReadonlyArray<Call> =>
  brackets.open?.step?.calls.filter(isUnanswered) ?? []

/** The chunks of the open step's current attempt, in order; none once there is an answer. */
export const attemptOf = (brackets: Brackets): ReadonlyArray<StoredOf<"assistant/chunk">> =>
  List.toArray(brackets.open?.step?.attempt ?? List.empty()).reverse()

/** The calls of the open step whose body may run. */
export const running = (brackets: Brackets): ReadonlyArray<RunningCall> =>
  unanswered(brackets).flatMap(({ block: { callId, name }, settled, started }) =>
    started === undefined || settled !== undefined ? [] : [{ callId, name, since: started.time }]
  )

type Advance = Either.Either<Brackets, string>

const withStep = (brackets: Brackets, open: OpenTurn, step: OpenStep): Advance =>
  Either.right({ ...brackets, open: { ...open, step } })

const openStep = (
  brackets: Brackets,
  at: { readonly turn: number; readonly step: number },
  change: (step: OpenStep, open: OpenTurn) => Advance
): Advance => {
  const open = brackets.open
  if (open?.step === undefined) return Either.left(`no step is open, but step ${at.step} of turn ${at.turn} is meant`)
  if (open.turn !== at.turn || open.step.step !== at.step)
    return Either.left(`step ${open.step.step} of turn ${open.turn} is open, not step ${at.step} of turn ${at.turn}`)
  return change(open.step, open)
}

const openCall = (
  brackets: Brackets,
  at: { readonly turn: number; readonly step: number; readonly callId: CallId },
  change: (call: Call, index: number, step: OpenStep) => Either.Either<Call, string>
): Advance =>
  openStep(brackets, at, (step, open) => {
    const index = step.calls.findIndex((call) => call.block.callId === at.callId)
    const call = step.calls[index]
    if (call === undefined) return Either.left(`call ${at.callId} is not in the answer of its step`)
    return Either.flatMap(change(call, index, step), (changed) =>
      withStep(brackets, open, { ...step, calls: step.calls.with(index, changed) })
    )
  })

const startTurn = (brackets: Brackets, turn: number): Advance => {
  if (brackets.open !== undefined) return Either.left(`turn ${brackets.open.turn} is still open`)
  if (turn !== brackets.lastTurn + 1) return Either.left(`turn ${turn} does not follow turn ${brackets.lastTurn}`)
  return Either.right({ lastTurn: turn, open: { turn, steps: 0, cut: false } })
}

const endTurn = (brackets: Brackets, turn: number): Advance => {
  if (brackets.open?.turn !== turn) return Either.left(`turn ${turn} is not open`)
  if (brackets.open.step !== undefined) return Either.left(`step ${brackets.open.step.step} is still open`)
  return Either.right({ lastTurn: brackets.lastTurn })
}

const startStep = (brackets: Brackets, event: StoredOf<"step/start">): Advance => {
  const { turn, step } = event.data
  const open = brackets.open
  if (open?.turn !== turn) return Either.left(`turn ${turn} is not open`)
  if (open.step !== undefined) return Either.left(`step ${open.step.step} is still open`)
  if (step !== open.steps + 1) return Either.left(`step ${step} does not follow step ${open.steps}`)
  const fresh: OpenStep = { turn, step, from: event.seq, input: [], attempt: List.empty(), calls: [] }
  return withStep(brackets, { ...open, steps: step }, fresh)
}

const answer = (brackets: Brackets, event: StoredOf<"assistant/message">): Advance =>
  openStep(brackets, event.data, (step, open) => {
    const { finish, interrupted, message } = event.data
    if (step.answer !== undefined) return Either.left("the step already has its answer")
    if ((finish === undefined) !== (interrupted === true))
      return Either.left("an answer has a finish, or was interrupted, never both")
    const blocks = toolCalls(message)
    const odd = blocks.findIndex((block, index) => block.callId !== callId(step.turn, step.step, index))
    if (odd !== -1) return Either.left(`call ${odd} of the answer is named ${blocks[odd]?.callId}`)
    if (blocks.length > 0 && finish === undefined) return Either.left("an interrupted answer has no calls")
    return Either.right({
      ...brackets,
      open: {
        ...open,
        cut: open.cut || finish === "max-tokens",
        step: {
          ...step,
          answer: message,
          attempt: List.empty(),
          calls: blocks.map((block): Call => ({ block, processes: [] }))
        }
      }
    })
  })

const settleResult = (brackets: Brackets, event: StoredOf<"tool/result">): Advance =>
  openCall(brackets, { ...event.data, callId: event.data.message.callId }, (call, index, step) => {
    if (call.result !== undefined) return Either.left(`call ${call.block.callId} already has its result`)
    if (step.calls.slice(0, index).some(isUnanswered))
      return Either.left(`call ${call.block.callId} is answered before an earlier call`)
    return Either.right({ ...call, result: event.data.message })
  })

const started = (call: Call): Either.Either<Call, string> =>
  call.started === undefined ? Either.left(`call ${call.block.callId} was not started`) : Either.right(call)

const pending = (call: Call): Either.Either<Call, string> =>
  call.result !== undefined || call.settled !== undefined
    ? Either.left(`call ${call.block.callId} has settled`)
    : started(call)

/** The state after one more event, or why the event cannot stand there. */
export const advance = (brackets: Brackets, event: StoredEvent): Advance => {
  switch (event.type) {
    case "turn/start":
      return startTurn(brackets, event.data.turn)
    case "turn/end":
      return endTurn(brackets, event.data.turn)
    case "step/start":
      return startStep(brackets, event)
    case "step/end":
      return openStep(brackets, event.data, (_, { step: _closed, ...open }) => Either.right({ ...brackets, open }))
    case "user/message": {
      const open = brackets.open
      if (open?.step === undefined) return Either.left("input joined no step")
      if (open.step.answer !== undefined) return Either.left("input came after the step's answer")
      return withStep(brackets, open, { ...open.step, input: [...open.step.input, event.data] })
    }
    case "request/header":
      return brackets.open?.step === undefined ? Either.left("a header stands outside a step") : Either.right(brackets)
    case "assistant/chunk":
      return openStep(brackets, event.data, (step, open) =>
        step.answer !== undefined
          ? Either.left("a chunk came after the answer")
          : withStep(brackets, open, { ...step, attempt: List.prepend(step.attempt, event) })
      )
    case "assistant/message":
      return answer(brackets, event)
    case "request/retry":
      return openStep(brackets, event.data, (step, open) =>
        step.answer !== undefined
          ? Either.left("a retry came after the answer")
          : withStep(brackets, open, { ...step, attempt: List.empty() })
      )
    case "tool/call":
      return openCall(brackets, event.data, (call) =>
        call.started !== undefined || call.result !== undefined
          ? Either.left(`call ${call.block.callId} was started before`)
          : Either.right({ ...call, started: { seq: event.seq, time: event.time } })
      )
    case "tool/process":
      return openCall(brackets, event.data, (call) =>
        Either.map(pending(call), () => ({ ...call, processes: [...call.processes, event.data] }))
      )
    case "tool/settled":
      return openCall(brackets, event.data, (call) =>
        Either.map(pending(call), () => ({ ...call, settled: { seq: event.seq, outcome: event.data.outcome } }))
      )
    case "tool/result":
      return settleResult(brackets, event)
    case "approval/asked":
      return openCall(brackets, event.data, (call) =>
        call.approval === "asked"
          ? Either.left(`call ${call.block.callId} was asked about before`)
          : Either.map(pending(call), () => ({ ...call, approval: "asked" }))
      )
    case "approval/decided":
      return openCall(brackets, event.data, (call) =>
        call.approval !== "asked"
          ? Either.left(`call ${call.block.callId} was not asked about`)
          : Either.right({ ...call, approval: event.data.decision })
      )
    case "context/replaced":
      return brackets.open?.step === undefined ? Either.right(brackets) : Either.left("context replaced inside a step")
    case "agent/inbox/spliced":
    case "unrecognized":
      return Either.right(brackets)
    default:
      return event satisfies never
  }
}
