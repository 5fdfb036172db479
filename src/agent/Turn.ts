/**
 * A turn: one drain of admitted input, zero or more steps.
 *
 * - It runs on a fiber that was forked uninterruptible, and opens one interruptible window around its body. Its ending is
 *   decided from that window's exit; from then on no cancel changes anything, and what follows runs to the end (R2).
 * - The end is one atomic append: what streamed so far, a result for each call, `step/end`, `turn/end` (law 3).
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import { unanswered } from "../domain/Brackets.ts"
import type { SessionBroken } from "../domain/Errors.ts"
import type { SessionEvent } from "../domain/Event.ts"
import * as Inbox from "../domain/Inbox.ts"
import * as Results from "../domain/Results.ts"
import type { SessionState } from "../domain/SessionState.ts"
import type { Failure, TurnEnding } from "../domain/TurnEnding.ts"
import { ChatError, toFailure } from "../model/ChatModel.ts"
import * as Attempt from "./Attempt.ts"
import * as LiveTurn from "./LiveTurn.ts"
import type { Loop } from "./Loop.ts"
import * as Step from "./Step.ts"
import * as SystemPrompt from "./SystemPrompt.ts"

/** Whether another step is due. */
type Next =
  | { readonly _tag: "Step"; readonly ran: Step.StepResult }
  | { readonly _tag: "End"; readonly ending: TurnEnding }

const end = (ending: TurnEnding): Next => ({ _tag: "End", ending })

const occasionOf = ({ session, tools }: Loop): SystemPrompt.Occasion => ({
  sessionId: session.id,
  created: session.header.created,
  tools: tools.specs.map(({ name }) => name)
})

/** Offers what waits to the pre-step hook, and runs a step if there is reason for one. */
const nextStep = Effect.fnUntraced(function* (
  loop: Loop,
  live: LiveTurn.LiveTurn,
  step: number,
  toolsRan: boolean
): Effect.fn.Return<Next, Step.StepError> {
  const { session } = loop
  const offered = Inbox.offer(session.unsafeState().inbox, step === 1 ? "first" : "inner")
  if (offered.length === 0 && !toolsRan) return end({ kind: "completed" })
  const system = yield* SystemPrompt.assemble(yield* loop.prompt.sections, occasionOf(loop))
  const decision = yield* loop.hooks.preStep({ sessionId: session.id, turn: live.turn, step }, offered)
  if (decision._tag === "Reject") {
    yield* Step.claim(session, live.turn, offered)
    return end({ kind: "blocked", message: decision.message })
  }
  const input = { offered, entering: decision.messages }
  const entered = yield* Step.enter(session, { turn: live.turn, step }, input, toolsRan)
  return entered ? { _tag: "Step", ran: yield* Step.run(loop, live, step, system) } : end({ kind: "completed" })
})

const nothingRan: Step.StepResult = { toolsRan: false, concluded: false }

/** The body of a turn: steps while there is reason for one, then the stopping hook, which may give another. */
const body = Effect.fnUntraced(function* (
  loop: Loop,
  live: LiveTurn.LiveTurn
): Effect.fn.Return<TurnEnding, Step.StepError> {
  const { session } = loop
  const inputWaits = () => session.unsafeState().inbox["next-step"].length > 0
  let ran = nothingRan
  for (let step = 1; ; ) {
    const next = yield* nextStep(loop, live, step, ran.toolsRan)
    if (next._tag === "End" && (next.ending.kind !== "completed" || step === 1)) return next.ending
    ran = next._tag === "Step" ? next.ran : nothingRan
    if (next._tag === "Step") step++
    if (!ran.concluded && (ran.toolsRan || inputWaits())) continue
    yield* loop.hooks.stopping({ sessionId: session.id, turn: live.turn, step: step - 1 })
    if (ran.concluded || !inputWaits()) return { kind: "completed" }
  }
})

const flatten = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message : `${error.message}: ${flatten(error.cause)}`
}

/** No cancel was recorded, so nobody asked for it: a hook that interrupts itself, for one. */
const interruptedInside: Failure = { message: "it was interrupted from inside: nobody cancelled it", code: "UNKNOWN" }

const failureOf = (cause: Cause.Cause<Step.StepError>): Failure => {
  if (Cause.isInterruptedOnly(cause)) return interruptedInside
  const error = Option.getOrElse(Cause.failureOption(cause), () => Cause.squash(cause))
  if (error instanceof ChatError) return toFailure(error)
  const code = Predicate.hasProperty(error, "code") && typeof error.code === "string" ? error.code : "UNKNOWN"
  return { message: flatten(error), code }
}

/** Whether the scheduler broke off while a call may have run: a cancel that followed must not call that "never dispatched". */
const brokeOff = (state: SessionState, exit: Exit.Exit<TurnEnding, Step.StepError>): boolean =>
  Exit.isFailure(exit) &&
  Option.isSome(Cause.dieOption(exit.cause)) &&
  unanswered(state.brackets).some((call) => call.started !== undefined && call.settled === undefined)

/**
 * How the turn ends. A cancel that was recorded before this moment wins over whatever else happened (C12, C16), but a fault
 * that leaves a call open stays one (R6, law 6).
 */
const endingOf = (
  live: LiveTurn.LiveTurn,
  state: SessionState,
  exit: Exit.Exit<TurnEnding, Step.StepError>
): TurnEnding => {
  if (LiveTurn.causeOf(live) !== undefined && !brokeOff(state, exit)) return { kind: "aborted" }
  if (Exit.isFailure(exit)) return { kind: "error", error: failureOf(exit.cause) }
  const cut = state.brackets.open?.cut === true
  return cut && exit.value.kind === "completed" ? { kind: "max-tokens" } : exit.value
}

/** What an aborted turn still owes: what streamed so far, and a result for each call (R4). A fault owes settled results only (R6). */
const owed = (live: LiveTurn.LiveTurn, state: SessionState, ending: TurnEnding): ReadonlyArray<SessionEvent> => {
  if (ending.kind !== "aborted")
    return [
      ...(live.attempt === undefined ? [] : Attempt.failed(live.attempt)),
      ...Results.answerCalls(state, Results.settledOutcome)
    ]
  if (live.attempt !== undefined) return Attempt.interrupted(live.attempt, state)
  return Results.answerCalls(state, (call) => Results.settledOutcome(call) ?? Results.abortedBeforeDispatch, {
    announce: true
  })
}

const closing =
  (live: LiveTurn.LiveTurn, ending: TurnEnding) =>
  (state: SessionState): ReadonlyArray<SessionEvent> => {
    const step = state.brackets.open?.step
    return [
      ...(step === undefined
        ? []
        : [
            ...owed(live, state, ending),
            { type: "step/end", data: { turn: step.turn, step: step.step } } satisfies SessionEvent
          ]),
      { type: "turn/end", data: { turn: live.turn, reason: ending } }
    ]
  }

const traced = <A, E>(turn: Effect.Effect<A, E>, { session }: Loop, live: LiveTurn.LiveTurn): Effect.Effect<A, E> =>
  Effect.withSpan(turn, "Agent.turn", { root: true, attributes: { sessionId: session.id, turn: live.turn } })

/**
 * Runs a turn whose `turn/start` is in the log, in a trace of its own. To be forked while uninterruptible; `restore` opens its one window.
 * `decided` records the ending, once: from then on a cancel changes nothing. The end is durable on return. Fails only
 * with `SessionBroken`: then no end is written.
 */
export const run = Effect.fnUntraced(function* (
  loop: Loop,
  live: LiveTurn.LiveTurn,
  restore: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>,
  decided: (ending: TurnEnding) => void
): Effect.fn.Return<TurnEnding, SessionBroken> {
  const { session } = loop
  const exit = yield* Effect.exit(restore(body(loop, live)))
  // a broken session decides nothing: there is no end to write
  yield* session.append(() => [])
  const ending = endingOf(live, session.unsafeState(), exit)
  decided(ending)
  yield* session.append(closing(live, ending))
  yield* session.barrier
  yield* Effect.annotateCurrentSpan("ending", ending.kind)
  return ending
}, traced)
