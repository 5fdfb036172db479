/**
 * Laws 2, 3 and 6 as a log shows them: turns and steps that pair, calls that are answered once and in order, and starts
 * that are told before anything comes of them.
 *
 * - It is written from the laws, not from `Brackets`, and goes on after a violation with what the event says.
 * - `interrupted` is written by repair alone: with the time of the event before it, and with its other closing events
 *   right before it, at that same time (law 8).
 */
import type { StoredEvent } from "./Event.ts"
import type { TurnEnding } from "./TurnEnding.ts"
import * as VerifiedStep from "./VerifiedStep.ts"
import type { Say } from "./Violation.ts"

interface OpenTurn {
  readonly turn: number
  steps: number
  step: VerifiedStep.Step | undefined
  /** What the last step owes, unless the ending excuses it. */
  debts: ReadonlyArray<VerifiedStep.Debt>
  /** An answer was cut by its token limit. */
  isCut: boolean
  /** The time of the closing events of a repair, once there is one. */
  repair: number | undefined
}

/** Filled in place by `take` and `lose`, and by nothing else. */
export interface Turns {
  last: number
  open: OpenTurn | undefined
  /** An event is missing: nothing is judged up to the next border of a turn. */
  isLost: boolean
}

/** Before the first event. */
export const make = (): Turns => ({ last: 0, open: undefined, isLost: false })

/** An event is missing: what is open is not known any more. */
export const lose = (turns: Turns): void => {
  turns.isLost = true
}

/** Takes the next event in; `time` is that of the event before it. */
export const take = (turns: Turns, event: StoredEvent, time: number, say: Say): void => {
  if (turns.isLost) {
    resume(turns, event)
    return
  }
  if (event.type === "unrecognized") return
  if (turns.open !== undefined) watchRepair(turns.open, event, time, say)
  switch (event.type) {
    case "turn/start":
      startTurn(turns, event.data.turn, say)
      return
    case "turn/end":
      endTurn(turns, event.data, event.time === time, say)
      return
    case "step/start":
      startStep(turns.open, event.data, say)
      return
    case "step/end":
      endStep(turns.open, event, event.time === time, say)
      return
    case "agent/inbox/spliced":
      return
    case "context/replaced":
      if (turns.open?.step !== undefined) say(3, "context is replaced inside a step")
      return
    default: {
      const step = turns.open?.step
      if (step === undefined) say(3, `${event.type} stands outside any step`)
      else VerifiedStep.take(step, event, event.time === time, say)
    }
  }
}

// internal

/** Where a turn begins or ends, it is known again what is open. */
const resume = (turns: Turns, event: StoredEvent): void => {
  if (event.type !== "turn/start" && event.type !== "turn/end") return
  turns.isLost = false
  turns.last = event.data.turn
  turns.open = event.type === "turn/start" ? opened(event.data.turn) : undefined
}

const opened = (turn: number): OpenTurn => ({
  turn,
  steps: 0,
  step: undefined,
  debts: [],
  isCut: false,
  repair: undefined
})

const startTurn = (turns: Turns, turn: number, say: Say): void => {
  if (turns.open !== undefined) say(3, `turn ${turn} starts while turn ${turns.open.turn} is open`)
  if (turn !== turns.last + 1) say(3, `turn ${turn} starts where turn ${turns.last + 1} is due`)
  turns.last = turn
  turns.open = opened(turn)
}

const endTurn = (
  turns: Turns,
  { reason, turn }: { readonly turn: number; readonly reason: TurnEnding },
  isTimely: boolean,
  say: Say
): void => {
  const { open } = turns
  turns.open = undefined
  if (open === undefined) {
    say(3, `turn ${turn} ends and is not open`)
    return
  }
  if (open.turn !== turn) say(3, `turn ${turn} ends where turn ${open.turn} is open`)
  if (open.step !== undefined) say(3, `turn ${turn} ends while its step ${open.step.step} is open`)
  for (const debt of open.debts)
    if (!debt.excusedBy.includes(reason.kind)) say(debt.law, `${debt.detail}; its turn ended ${reason.kind}`, debt.seq)
  if (reason.kind === "interrupted" && !isTimely)
    say(3, "an interrupted turn ends at a time of its own: no repair wrote it")
  if (reason.kind === "completed" && open.isCut)
    say(3, "the turn completed, and an answer of it was cut at its token limit")
  if (reason.kind === "max-tokens" && !open.isCut) say(3, "no answer of the turn was cut at its token limit")
}

type At = { readonly turn: number; readonly step: number }

const startStep = (open: OpenTurn | undefined, { step, turn }: At, say: Say): void => {
  if (open === undefined) {
    say(3, `step ${step} of turn ${turn} starts outside any turn`)
    return
  }
  if (open.turn !== turn) say(3, `step ${step} of turn ${turn} starts in turn ${open.turn}`)
  if (open.step !== undefined) say(3, `step ${step} starts while step ${open.step.step} is open`)
  if (step !== open.steps + 1) say(3, `step ${step} starts where step ${open.steps + 1} is due`)
  for (const debt of open.debts) say(debt.law, `${debt.detail}; its turn went on`, debt.seq)
  open.debts = []
  open.steps = step
  open.step = VerifiedStep.make(turn, step)
}

const endStep = (
  open: OpenTurn | undefined,
  { data, seq }: { readonly data: At; readonly seq: number },
  isTimely: boolean,
  say: Say
): void => {
  const step = open?.step
  if (open === undefined || step === undefined) {
    say(3, `step ${data.step} ends and is not open`)
    return
  }
  if (step.turn !== data.turn || step.step !== data.step)
    say(3, `step ${data.step} ends where step ${step.step} is open`)
  VerifiedStep.end(step, seq, isTimely, say)
  open.step = undefined
  open.debts = step.debts
  open.isCut ||= step.answer === "cut"
}

/** The closing events of a repair stand next to each other, at the time of the last real event. */
const watchRepair = (open: OpenTurn, event: StoredEvent, time: number, say: Say): void => {
  if (open.repair === undefined) {
    if (!VerifiedStep.isWrittenByRepair(event)) return
    open.repair = time
  }
  if (event.time !== open.repair) say(8, `${event.type} closes the log at a time of its own`)
  const isClosing =
    event.type === "approval/decided" ||
    event.type === "tool/result" ||
    event.type === "step/end" ||
    event.type === "turn/end" ||
    (event.type === "agent/inbox/spliced" && event.data.removedCount === undefined)
  if (!isClosing) say(3, `${event.type} stands among the closing events of a repair`)
}
