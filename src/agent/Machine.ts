/**
 * The state machine of one agent: idle, running a turn, broken, or disposed.
 *
 * - Every transition is one synchronous step: what is appended, the phase, and what others are told change together (R10).
 * - What follows a turn is decided when it is over, from what waits then and from the last thing that was asked: a waking
 *   send says go on, a cancel or an error says park, disposal says stop for ever.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import type * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as HashSet from "effect/HashSet"
import * as Option from "effect/Option"
import { running } from "../domain/Brackets.ts"
import { AgentDisposed, InvalidMessage, type SessionBroken } from "../domain/Errors.ts"
import type { InboxTarget, SessionEvent } from "../domain/Event.ts"
import { isReserved, type MessageId } from "../domain/Ids.ts"
import * as Inbox from "../domain/Inbox.ts"
import { type InputSource, text, type UserMessage } from "../domain/Message.ts"
import type { Status } from "../domain/Notice.ts"
import type { SessionState } from "../domain/SessionState.ts"
import { type CancelCause, isCutOff, type TurnEnding } from "../domain/TurnEnding.ts"
import type { Session } from "../session/Session.ts"
import * as LiveTurn from "./LiveTurn.ts"

/** An agent at rest: how its last turn went, and how many prompts wait for the next waking send. */
export interface IdleReport {
  readonly last: Option.Option<LiveTurn.Ended>
  readonly parked: number
}

/** What a send fails with. Nothing was stored. */
export type SendError = SessionBroken | AgentDisposed | InvalidMessage

export interface Running {
  readonly _tag: "Running"
  readonly live: LiveTurn.LiveTurn
  /** What follows this turn: the next prompt if one waits, nothing until a waking send, or never anything. */
  readonly next: "go-on" | "park" | "stop"
  /** Completed when the agent comes to rest. */
  readonly rest: Deferred.Deferred<IdleReport>
}

export type Phase =
  | { readonly _tag: "Idle" }
  | Running
  | { readonly _tag: "Broken"; readonly error: SessionBroken }
  | { readonly _tag: "Disposed" }

/** The machine. Only the functions of this file write to it. */
export interface Machine {
  readonly session: Session
  /** Open while there is a turn for the driver to run. */
  readonly work: Effect.Latch
  phase: Phase
  last: Option.Option<LiveTurn.Ended>
}

export const make = (session: Session, work: Effect.Latch): Machine => ({
  session,
  work,
  phase: { _tag: "Idle" },
  last: Option.none()
})

/** The three ways to send: where the message waits, and whether it wakes an idle agent. */
export const kinds = {
  followup: { target: "next-turn", source: { kind: "prompt" }, wakes: true },
  steer: { target: "next-step", source: { kind: "steer" }, wakes: true },
  inject: { target: "next-step", source: { kind: "inject" }, wakes: false }
} as const satisfies Record<string, { target: InboxTarget; source: InputSource; wakes: boolean }>
export type Kind = (typeof kinds)[keyof typeof kinds]

export const inbox = (machine: Machine): Inbox.Inbox => machine.session.unsafeState().inbox

export const report = (machine: Machine): IdleReport => ({
  last: machine.last,
  parked: inbox(machine)["next-turn"].length
})

export const status = (machine: Machine): Status => {
  const { phase } = machine
  switch (phase._tag) {
    case "Idle":
      return { _tag: "Idle", parked: inbox(machine)["next-turn"].length }
    case "Running":
      return {
        _tag: "Running",
        turn: phase.live.turn,
        cancelled: LiveTurn.causeOf(phase.live) !== undefined,
        calls: running(machine.session.unsafeState().brackets)
      }
    case "Broken":
      return { _tag: "Broken" }
    case "Disposed":
      return { _tag: "Disposed" }
    default:
      return phase satisfies never
  }
}

const become = (machine: Machine, next: Phase): void => {
  const before = machine.phase
  machine.phase = next
  machine.session.unsafeNotify({ type: "status", status: status(machine) })
  if (next._tag === "Running") machine.work.unsafeOpen()
  else machine.work.unsafeClose()
  if (before._tag === "Running" && next._tag !== "Running")
    Deferred.unsafeDone(before.rest, Exit.succeed(report(machine)))
}

/** Says what follows the running turn. Disposal cannot be taken back. */
const follow = (machine: Machine, next: Running["next"]): void => {
  const { phase } = machine
  if (phase._tag === "Running" && phase.next !== "stop") machine.phase = { ...phase, next }
}

/** Appends these events and the start of the next turn, which is the live one from then on. */
const startTurn = (
  machine: Machine,
  events: ReadonlyArray<SessionEvent>,
  rest: Deferred.Deferred<IdleReport>
): Either.Either<void, SessionBroken> => {
  const turn = machine.session.unsafeState().brackets.lastTurn + 1
  const started = machine.session.unsafeAppend([...events, { type: "turn/start", data: { turn } }])
  return Either.map(started, () => become(machine, { _tag: "Running", live: LiveTurn.make(turn), next: "go-on", rest }))
}

/** Whether the disposal has begun. */
const isLeaving = (phase: Phase): boolean =>
  phase._tag === "Disposed" || (phase._tag === "Running" && phase.next === "stop")

const wake = (machine: Machine, events: ReadonlyArray<SessionEvent>) =>
  startTurn(machine, events, Deferred.unsafeMake<IdleReport>(FiberId.none))

/** Takes a message in, and starts a turn if it wakes an idle agent. */
export const admit = (machine: Machine, kind: Kind, message: UserMessage): Either.Either<void, SendError> => {
  const { phase, session } = machine
  const sessionId = session.id
  if (phase._tag === "Broken") return Either.left(phase.error)
  if (isLeaving(phase)) return Either.left(new AgentDisposed({ sessionId }))
  if (isReserved(message.id) || HashSet.has(session.unsafeState().accepted, message.id))
    return Either.left(new InvalidMessage({ sessionId, reason: "used-id" }))
  const events = [Inbox.inserted(inbox(machine), kind.target, [message])]
  if (kind.wakes && phase._tag === "Idle") return wake(machine, events)
  if (kind.wakes) follow(machine, "go-on")
  return Either.map(session.unsafeAppend(events), () => undefined)
}

/** How the last turn ended that did anything; in a fork without such a turn of its own, how its parent's last one did. */
const lastEnding = ({ consumed, seedLength, summary }: SessionState): TurnEnding["kind"] | undefined =>
  consumed.end?.data.reason.kind ?? (seedLength > 0 ? summary.ending : undefined)

/** What the model is told that is asked to go on after a turn that was cut off. */
export const resumeText =
  "Your last turn was cut off before it was complete. Go on from what this conversation shows: what has its result is done. Check the state of things before you repeat anything whose outcome is not told."

/**
 * Starts a turn, if the agent is idle: for what waits, else for this id, by which the model is asked to go on where the
 * last turn was cut off. False, and nothing is written, if there is nothing to run.
 */
export const resume = (machine: Machine, id: MessageId): Either.Either<boolean, SessionBroken | AgentDisposed> => {
  const { phase, session } = machine
  if (phase._tag === "Broken") return Either.left(phase.error)
  if (isLeaving(phase)) return Either.left(new AgentDisposed({ sessionId: session.id }))
  if (phase._tag === "Running") return Either.right(false)
  const waits = Inbox.wakes(inbox(machine))
  const ending = lastEnding(session.unsafeState())
  if (!waits && (ending === undefined || !isCutOff(ending))) return Either.right(false)
  const asking: UserMessage = { id, role: "user", source: { kind: "resume" }, content: [text(resumeText)] }
  return Either.map(wake(machine, waits ? [] : [Inbox.inserted(inbox(machine), "next-turn", [asking])]), () => true)
}

/** Drops those of these messages that wait. In a broken session none is: what waits is what is stored. */
export const drop = (machine: Machine, isMeant: (message: UserMessage) => boolean): ReadonlyArray<MessageId> => {
  const { phase, session } = machine
  const meant = Inbox.pending(inbox(machine)).filter(isMeant)
  const ids = meant.map((message) => message.id)
  if (ids.length === 0 || phase._tag === "Disposed") return []
  const events = Inbox.removed(inbox(machine), new Set(ids), "canceled")
  if (Either.isLeft(session.unsafeAppend(events))) return []
  session.unsafeNotify({ type: "discarded", ids })
  return ids
}

const cancelLive = (machine: Machine, live: LiveTurn.LiveTurn, cause: CancelCause): void => {
  if (!LiveTurn.cancel(live, cause)) return
  machine.session.unsafeNotify({ type: "cancel", turn: live.turn, cause })
  machine.session.unsafeNotify({ type: "status", status: status(machine) })
}

/** What a cancel met, and the messages that it dropped. */
export interface Cancelling {
  /** The turn to wait for. */
  readonly live: LiveTurn.LiveTurn | undefined
  /** Whether that turn could still be cancelled: its ending was not decided (R2). */
  readonly meant: boolean
  readonly dropped: ReadonlyArray<MessageId>
}

/** Whether somebody sent it. What a tool left for the next step belongs to its result, and no cancel takes that back. */
const isSent = ({ source }: UserMessage): boolean => source.kind !== "context"

/** Interrupts the running turn before anything else, drops what was sent and waits, and lets nothing follow by itself (R11). */
export const cancel = (machine: Machine, cause: CancelCause, keepInbox: boolean): Cancelling => {
  const live = machine.phase._tag === "Running" ? machine.phase.live : undefined
  const meant = live !== undefined && live.stage._tag !== "Decided"
  if (live !== undefined) cancelLive(machine, live, cause)
  const dropped = keepInbox ? [] : drop(machine, isSent)
  follow(machine, "park")
  return { live, meant, dropped }
}

/** Begins the disposal: no turn starts any more. The running turn, if there is one, goes down. */
export const dispose = (machine: Machine): Option.Option<Running> => {
  const { phase } = machine
  machine.session.unsafeLeave()
  if (phase._tag === "Idle") become(machine, { _tag: "Disposed" })
  if (phase._tag !== "Running") return Option.none()
  follow(machine, "stop")
  cancelLive(machine, phase.live, "disposed")
  return Option.some(phase)
}

/** The moment from which a cancel changes nothing about the turn. After an error prompts are parked (R9). */
export const decided = (machine: Machine, live: LiveTurn.LiveTurn, ending: TurnEnding): void => {
  LiveTurn.decide(live, ending)
  if (ending.kind !== "error") return
  machine.session.unsafeNotify({ type: "error", turn: live.turn, failure: ending.error })
  follow(machine, "park")
}

/** The next turn if one is due, else rest. */
const settle = (machine: Machine): void => {
  const { phase, session } = machine
  if (phase._tag !== "Running") return
  if (phase.next === "go-on" && Inbox.wakes(inbox(machine))) {
    const started = startTurn(machine, [], phase.rest)
    if (Either.isLeft(started)) become(machine, { _tag: "Broken", error: started.left })
    return
  }
  become(machine, { _tag: phase.next === "stop" ? "Disposed" : "Idle" })
  const parked = inbox(machine)["next-turn"].length
  if (parked > 0) session.unsafeNotify({ type: "parked", count: parked })
}

const endedAs = (live: LiveTurn.LiveTurn, ending: TurnEnding, durable: boolean): LiveTurn.Ended => {
  const cause = LiveTurn.causeOf(live)
  return { turn: live.turn, ending, ...(cause === undefined ? {} : { cause }), durable }
}

/** A turn is over and its fiber gone: whoever waits for it is answered, and what follows begins. */
export const finish = (machine: Machine, live: LiveTurn.LiveTurn, exit: Exit.Exit<TurnEnding, SessionBroken>): void => {
  if (Exit.isFailure(exit)) {
    broke(machine, Cause.squash(exit.cause))
    return
  }
  const ended = endedAs(live, exit.value, true)
  const { durable: _durable, ...told } = ended
  machine.last = Option.some(ended)
  machine.session.unsafeNotify({ type: "ended", ...told })
  settle(machine)
  Deferred.unsafeDone(live.ended, Exit.succeed(ended))
}

/** The turn cannot come to its end: the session is broken, and whoever waits for the turn is answered. */
export const broke = (machine: Machine, cause: unknown): void => {
  const error = machine.session.unsafeBreak(cause)
  const { phase } = machine
  if (phase._tag !== "Running") {
    become(machine, { _tag: "Broken", error })
    return
  }
  const { live } = phase
  const failed: TurnEnding = { kind: "error", error: { message: error.message, code: "UNKNOWN" } }
  const ended = endedAs(live, live.stage._tag === "Decided" ? live.stage.ending : failed, false)
  machine.last = Option.some(ended)
  become(machine, { _tag: "Broken", error })
  Deferred.unsafeDone(live.ended, Exit.succeed(ended))
}

/** Gives the turn its fiber. What happened before that interrupts it now: a cancel, or a failed write. */
export const attach = (
  { session }: Machine,
  live: LiveTurn.LiveTurn,
  fiber: Fiber.RuntimeFiber<unknown, unknown>
): void => {
  LiveTurn.attach(live, fiber)
  if (Either.isLeft(session.unsafeAppend([]))) fiber.unsafeInterruptAsFork(FiberId.none)
}

/** A write failed: whatever runs is interrupted, and its end then finds the session broken. */
export const broken = (machine: Machine, error: SessionBroken): void => {
  const { phase } = machine
  if (phase._tag === "Running") LiveTurn.interrupt(phase.live)
  else if (phase._tag === "Idle") become(machine, { _tag: "Broken", error })
}
