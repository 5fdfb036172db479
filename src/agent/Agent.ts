/**
 * An agent: what drives one session. An inbox, a driver, at most one live turn.
 *
 * - One state machine; every transition is one synchronous step, so deciding to be idle and seeing nothing to do are one
 *   (R10). The driver only forks what the machine says and waits for it.
 * - A send returns once its message is durable (law 7). Cancel names the turn it means and cannot fail (law 5, R11).
 * - Disposal is final: once begun, no turn starts and sends fail (R12).
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as FiberRef from "effect/FiberRef"
import { globalValue } from "effect/GlobalValue"
import * as HashSet from "effect/HashSet"
import * as Option from "effect/Option"
import type { Scope } from "effect/Scope"
import type * as Stream from "effect/Stream"
import { AgentDisposed, InsideTurn, InvalidMessage, type JournalError, type SessionBroken } from "../domain/Errors.ts"
import type { InboxTarget, SessionEvent } from "../domain/Event.ts"
import { isReserved, type MessageId, makeMessageId, type SessionId } from "../domain/Ids.ts"
import * as Inbox from "../domain/Inbox.ts"
import { type InputSource, text, type UserMessage } from "../domain/Message.ts"
import type { FeedItem, Status } from "../domain/Notice.ts"
import type { CancelCause, TurnEnding } from "../domain/TurnEnding.ts"
import { wellFormed } from "../internal/Json.ts"
import * as LiveTurn from "./LiveTurn.ts"
import type { Loop } from "./Loop.ts"
import * as Turn from "./Turn.ts"

/** How large a message may be, in bytes of UTF-8. */
export const maxMessageBytes = 4 * 1024 * 1024

/** What a send fails with. Nothing was stored. */
export type SendError = SessionBroken | AgentDisposed | InvalidMessage

/** A message to send: its text, and an id of the sender's own if it wants to know the message again. */
export type Input = string | { readonly id: MessageId; readonly text: string }

/** What a cancel did. `dropped` are the waiting messages that it removed from the inbox. */
export type Cancelled =
  /** No turn was there to cancel. */
  | { readonly _tag: "Idle"; readonly dropped: ReadonlyArray<MessageId>; readonly durable: boolean }
  /** The turn has ended; `cause` is the first one given. */
  | {
      readonly _tag: "Settled"
      readonly turn: number
      readonly ending: TurnEnding
      readonly cause: CancelCause
      readonly dropped: ReadonlyArray<MessageId>
      readonly durable: boolean
    }
  /** Called on the turn's own fibers: recorded, and the turn goes down around the caller. */
  | { readonly _tag: "Recorded"; readonly turn: number; readonly dropped: ReadonlyArray<MessageId> }

/** An agent at rest: how its last turn went, and how many prompts wait for the next waking send. */
export interface IdleReport {
  readonly last: Option.Option<LiveTurn.Ended>
  readonly parked: number
}

export interface Agent {
  readonly sessionId: SessionId
  /** Queues a prompt for a turn of its own, and wakes the agent. Returns its id once it is durable. */
  readonly followup: (input: Input) => Effect.Effect<MessageId, SendError>
  /** Gives input to the next step of the running turn; wakes an idle agent. Returns its id once it is durable. */
  readonly steer: (input: Input) => Effect.Effect<MessageId, SendError>
  /** Gives input to the next step, whenever that comes; wakes nobody. Returns its id once it is durable. */
  readonly inject: (input: Input) => Effect.Effect<MessageId, SendError>
  /** Takes a waiting message back. False if it does not wait any more. Durable on return. */
  readonly remove: (id: MessageId) => Effect.Effect<boolean, SessionBroken>
  /** The messages that wait, in the order in which turns take them. */
  readonly pending: Effect.Effect<ReadonlyArray<UserMessage>>
  /** Runs prompts that wait, if the agent is idle. False if there is nothing to run. */
  readonly resume: Effect.Effect<boolean, SessionBroken | AgentDisposed>
  /**
   * Cancels the running turn and drops what waits, unless `keepInbox`. Returns once the turn's end is durable; on the turn's
   * own fibers, once it is recorded. While idle it drops what waits and arms nothing. It cannot fail.
   */
  readonly cancel: (cause: CancelCause, options?: { readonly keepInbox?: boolean }) => Effect.Effect<Cancelled>
  /** Returns when no turn runs and none will start by itself. Fails on the fibers of the turn that it would wait for. */
  readonly idle: Effect.Effect<IdleReport, InsideTurn>
  readonly status: Effect.Effect<Status>
  /** Durable events as they commit, and live notices. */
  readonly events: Stream.Stream<FeedItem, JournalError>
}

/** The turns, of any agent, that the current fiber works for. */
const enclosingTurns: FiberRef.FiberRef<ReadonlyArray<LiveTurn.LiveTurn>> = globalValue(
  "daybook/agent/Agent/enclosingTurns",
  () => FiberRef.unsafeMake<ReadonlyArray<LiveTurn.LiveTurn>>([])
)

type Phase =
  | { readonly _tag: "Idle" }
  | {
      readonly _tag: "Running"
      readonly live: LiveTurn.LiveTurn
      /** What follows this turn: the next prompt if one waits, nothing until a waking send, or never anything. */
      readonly next: "go-on" | "park" | "stop"
      /** Completed when the agent comes to rest. */
      readonly rest: Deferred.Deferred<IdleReport>
    }
  | { readonly _tag: "Broken"; readonly error: SessionBroken }
  | { readonly _tag: "Disposed" }

const kinds = {
  followup: { target: "next-turn", source: { kind: "prompt" }, wakes: true },
  steer: { target: "next-step", source: { kind: "steer" }, wakes: true },
  inject: { target: "next-step", source: { kind: "inject" }, wakes: false }
} as const satisfies Record<string, { target: InboxTarget; source: InputSource; wakes: boolean }>

/** The agent of a session, until the scope closes; closing it ends the running turn and waits for its end. */
export const make = Effect.fnUntraced(function* (loop: Loop): Effect.fn.Return<Agent, never, Scope> {
  const { session } = loop
  const sessionId = session.id
  const work = yield* Effect.makeLatch(false)
  let phase: Phase = { _tag: "Idle" }
  let last: Option.Option<LiveTurn.Ended> = Option.none()

  const inbox = () => session.unsafeState().inbox
  const report = (): IdleReport => ({ last, parked: inbox()["next-turn"].length })

  const status = (): Status => {
    switch (phase._tag) {
      case "Idle":
        return { _tag: "Idle", parked: inbox()["next-turn"].length }
      case "Running":
        return { _tag: "Running", turn: phase.live.turn, cancelled: phase.live.cause !== undefined }
      case "Broken":
        return { _tag: "Broken" }
      case "Disposed":
        return { _tag: "Disposed" }
      default:
        return phase satisfies never
    }
  }

  const become = (next: Phase) => {
    const before = phase
    phase = next
    session.unsafeNotify({ type: "status", status: status() })
    if (next._tag !== "Running") work.unsafeClose()
    if (before._tag === "Running" && next._tag !== "Running") Deferred.unsafeDone(before.rest, Effect.succeed(report()))
  }

  /** What follows the running turn, unless the agent is being disposed. */
  const follow = (next: "go-on" | "park") => {
    if (phase._tag === "Running" && phase.next !== "stop") phase = { ...phase, next }
  }

  /** Appends these events and the start of the next turn, and makes that turn the live one. */
  const start = (
    events: ReadonlyArray<SessionEvent>,
    rest: Deferred.Deferred<IdleReport>
  ): Either.Either<void, SessionBroken> => {
    const turn = session.unsafeState().brackets.lastTurn + 1
    return Either.map(session.unsafeAppend([...events, { type: "turn/start", data: { turn } }]), () => {
      become({ _tag: "Running", live: LiveTurn.make(turn), next: "go-on", rest })
      work.unsafeOpen()
    })
  }

  const startFromIdle = (events: ReadonlyArray<SessionEvent>) =>
    start(events, Deferred.unsafeMake<IdleReport>(FiberId.none))

  const admit = (kind: (typeof kinds)[keyof typeof kinds], message: UserMessage): Either.Either<void, SendError> => {
    if (phase._tag === "Broken") return Either.left(phase.error)
    if (phase._tag === "Disposed" || (phase._tag === "Running" && phase.next === "stop"))
      return Either.left(new AgentDisposed({ sessionId }))
    if (isReserved(message.id) || HashSet.has(session.unsafeState().accepted, message.id))
      return Either.left(new InvalidMessage({ sessionId, reason: "used-id" }))
    const events = [Inbox.inserted(inbox(), kind.target, [message])]
    if (kind.wakes && phase._tag === "Idle") return startFromIdle(events)
    if (kind.wakes) follow("go-on")
    return Either.map(session.unsafeAppend(events), () => undefined)
  }

  const send = (name: keyof typeof kinds) =>
    Effect.fn(`Agent.${name}`)(function* (input: Input) {
      const kind = kinds[name]
      const content = wellFormed(typeof input === "string" ? input : input.text)
      if (content.trim() === "") return yield* new InvalidMessage({ sessionId, reason: "empty" })
      if (Buffer.byteLength(content) > maxMessageBytes)
        return yield* new InvalidMessage({ sessionId, reason: "too-large" })
      const id = typeof input === "string" ? yield* makeMessageId : input.id
      const message: UserMessage = { id, role: "user", source: kind.source, content: [text(content)] }
      yield* Effect.suspend(() => admit(kind, message))
      yield* session.barrier
      return id
    })

  /** Drops what waits. In a broken session nothing is dropped: what waits is what is stored. */
  const drop = (ids: ReadonlySet<MessageId>): ReadonlyArray<MessageId> => {
    const dropped = Inbox.pending(inbox())
      .map((message) => message.id)
      .filter((id) => ids.has(id))
    if (dropped.length === 0 || Either.isLeft(session.unsafeAppend(Inbox.removed(inbox(), ids, "canceled")))) return []
    session.unsafeNotify({ type: "discarded", ids: dropped })
    return dropped
  }

  const dropAll = () => drop(new Set(Inbox.pending(inbox()).map((message) => message.id)))

  const durably = Effect.isSuccess(session.barrier)

  const isInside = (live: LiveTurn.LiveTurn) =>
    Effect.map(FiberRef.get(enclosingTurns), (turns) => turns.includes(live))

  const cancel = Effect.fn("Agent.cancel")(function* (
    cause: CancelCause,
    options: { readonly keepInbox?: boolean } = {}
  ): Effect.fn.Return<Cancelled> {
    const live = phase._tag === "Running" ? phase.live : undefined
    // the turn is named, and interrupted before anything else happens (R11)
    const meant = live !== undefined && live.ending === undefined
    if (live !== undefined && LiveTurn.cancel(live, cause))
      session.unsafeNotify({ type: "cancel", turn: live.turn, cause })
    const dropped = options.keepInbox === true || phase._tag === "Disposed" ? [] : dropAll()
    follow("park")
    if (live === undefined) return { _tag: "Idle", dropped, durable: yield* durably }
    if (yield* isInside(live)) return { _tag: "Recorded", turn: live.turn, dropped }
    const ended = yield* Deferred.await(live.ended)
    const durable = ended.durable && (yield* durably)
    if (!meant) return { _tag: "Idle", dropped, durable }
    return { _tag: "Settled", turn: live.turn, ending: ended.ending, cause: live.cause ?? cause, dropped, durable }
  })

  /** What follows a turn that is over, its fiber gone. */
  const finish = (live: LiveTurn.LiveTurn, exit: Exit.Exit<TurnEnding, SessionBroken>) => {
    const cause = live.cause === undefined ? {} : { cause: live.cause }
    if (Exit.isFailure(exit)) {
      const error = session.unsafeBreak(Cause.squash(exit.cause))
      const ending: TurnEnding = live.ending ?? { kind: "error", error: { message: error.message, code: "UNKNOWN" } }
      last = Option.some({ turn: live.turn, ending, ...cause, durable: false })
      become({ _tag: "Broken", error })
    } else {
      const ended = { turn: live.turn, ending: exit.value, ...cause, durable: true }
      last = Option.some(ended)
      session.unsafeNotify({ type: "ended", ...ended })
      rest()
    }
    Deferred.unsafeDone(live.ended, Effect.succeed(Option.getOrThrow(last)))
  }

  /** The next turn if one is due, else rest. */
  const rest = () => {
    if (phase._tag !== "Running") return
    if (phase.next === "stop") return become({ _tag: "Disposed" })
    if (phase.next === "go-on" && Inbox.wakes(inbox())) {
      Either.match(start([], phase.rest), {
        onLeft: (error) => become({ _tag: "Broken", error }),
        onRight: () => undefined
      })
      return
    }
    become({ _tag: "Idle" })
    const parked = inbox()["next-turn"].length
    if (parked > 0) session.unsafeNotify({ type: "parked", count: parked })
  }

  const decided = (live: LiveTurn.LiveTurn) => (ending: TurnEnding) => {
    if (ending.kind !== "error") return
    session.unsafeNotify({ type: "error", turn: live.turn, failure: ending.error })
    follow("park")
  }

  const drive = Effect.uninterruptibleMask((restore) =>
    Effect.forever(
      Effect.gen(function* () {
        yield* restore(work.await)
        if (phase._tag !== "Running") return
        const { live } = phase
        const outer = yield* FiberRef.get(enclosingTurns)
        const turn = Turn.run(loop, live, restore, decided(live))
        const fiber = yield* Effect.fork(Effect.locally(turn, enclosingTurns, [...outer, live]))
        yield* Effect.sync(() => LiveTurn.attach(live, fiber))
        const exit = yield* Fiber.await(fiber)
        yield* Effect.sync(() => finish(live, exit))
      })
    )
  )

  /** A failed write interrupts whatever runs; the turn's own end then finds the session broken. */
  const watch = Effect.flatMap(session.broken, (error) =>
    Effect.sync(() => {
      if (phase._tag === "Running") phase.live.fiber?.unsafeInterruptAsFork(FiberId.none)
      else if (phase._tag === "Idle") become({ _tag: "Broken", error })
    })
  )

  const dispose = Effect.gen(function* () {
    if (phase._tag === "Idle") become({ _tag: "Disposed" })
    if (phase._tag !== "Running") return
    const { live, rest } = phase
    phase = { ...phase, next: "stop" }
    if (LiveTurn.cancel(live, "disposed")) session.unsafeNotify({ type: "cancel", turn: live.turn, cause: "disposed" })
    if (yield* isInside(live)) return yield* Effect.die(new InsideTurn({ sessionId, operation: "leaving the agent" }))
    yield* Deferred.await(rest)
  })

  yield* Effect.forkScoped(Effect.interruptible(drive))
  yield* Effect.forkScoped(Effect.interruptible(watch))
  yield* Effect.addFinalizer(() => dispose)

  return {
    sessionId,
    followup: send("followup"),
    steer: send("steer"),
    inject: send("inject"),
    remove: Effect.fn("Agent.remove")(function* (id: MessageId) {
      if (phase._tag === "Broken") return yield* phase.error
      const dropped = yield* Effect.sync(() => drop(new Set([id])))
      yield* session.barrier
      return dropped.length > 0
    }),
    pending: Effect.sync(() => Inbox.pending(inbox())),
    resume: Effect.suspend((): Effect.Effect<boolean, SessionBroken | AgentDisposed> => {
      if (phase._tag === "Broken") return Effect.fail(phase.error)
      if (phase._tag === "Disposed") return Effect.fail(new AgentDisposed({ sessionId }))
      if (phase._tag !== "Idle" || !Inbox.wakes(inbox())) return Effect.succeed(false)
      return Effect.as(startFromIdle([]), true)
    }),
    cancel,
    idle: Effect.suspend(() => {
      if (phase._tag !== "Running") return Effect.succeed(report())
      const { live, rest } = phase
      return Effect.flatMap(isInside(live), (inside) =>
        inside ? Effect.fail(new InsideTurn({ sessionId, operation: "idle" })) : Deferred.await(rest)
      )
    }),
    status: Effect.sync(status),
    events: session.feed
  }
})
