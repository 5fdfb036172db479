/**
 * An agent: what drives one session. An inbox, a driver, at most one live turn.
 *
 * - The driver forks what the machine says, waits for it, and owns nothing else.
 * - A send returns once its message is durable (law 7). Cancel names the turn it means and cannot fail (law 5, R11).
 * - Disposal is final: once begun, no turn starts and sends fail (R12).
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as FiberRef from "effect/FiberRef"
import { globalValue } from "effect/GlobalValue"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import {
  type AgentDisposed,
  InsideTurn,
  InvalidMessage,
  type JournalError,
  type SessionBroken
} from "../domain/Errors.ts"
import { type MessageId, makeMessageId, type SessionId } from "../domain/Ids.ts"
import * as Inbox from "../domain/Inbox.ts"
import { text, type UserMessage } from "../domain/Message.ts"
import type { FeedItem, Status } from "../domain/Notice.ts"
import type { CancelCause, TurnEnding } from "../domain/TurnEnding.ts"
import { wellFormed } from "../internal/Json.ts"
import * as LiveTurn from "./LiveTurn.ts"
import type { Loop } from "./Loop.ts"
import * as Machine from "./Machine.ts"
import * as Turn from "./Turn.ts"

/** How large a message may be, in bytes of UTF-8. */
export const maxMessageBytes = 4 * 1024 * 1024

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

export interface Agent {
  readonly sessionId: SessionId
  /** Queues a prompt for a turn of its own, and wakes the agent. Returns its id once it is durable. */
  readonly followup: (input: Input) => Effect.Effect<MessageId, Machine.SendError>
  /** Gives input to the next step of the running turn; wakes an idle agent. Returns its id once it is durable. */
  readonly steer: (input: Input) => Effect.Effect<MessageId, Machine.SendError>
  /** Gives input to the next step, whenever that comes; wakes nobody. Returns its id once it is durable. */
  readonly inject: (input: Input) => Effect.Effect<MessageId, Machine.SendError>
  /** Takes a waiting message back. False if it does not wait any more. Durable on return. */
  readonly remove: (id: MessageId) => Effect.Effect<boolean, SessionBroken>
  /** The messages that wait, in the order in which turns take them. */
  readonly pending: Effect.Effect<ReadonlyArray<UserMessage>>
  /**
   * Goes on, if the agent is idle: runs what waits, else asks the model to continue a last turn that was cut off (cancelled,
   * failed, interrupted, out of tokens). False, and nothing is written, if there is nothing to go on with.
   */
  readonly resume: Effect.Effect<boolean, SessionBroken | AgentDisposed>
  /**
   * Cancels the running turn and drops what was sent and waits, unless `keepInbox`. Returns once the turn's end is
   * durable; on the turn's own fibers, once it is recorded. While idle it drops alike and arms nothing. It cannot fail.
   */
  readonly cancel: (cause: CancelCause, options?: { readonly keepInbox?: boolean }) => Effect.Effect<Cancelled>
  /** Returns when no turn runs and none will start by itself. Fails on the fibers of the turn that it would wait for. */
  readonly idle: Effect.Effect<Machine.IdleReport, InsideTurn>
  readonly status: Effect.Effect<Status>
  /** Durable events as they commit, and live notices. */
  readonly events: Stream.Stream<FeedItem, JournalError>
}

/** The turns, of any agent, that the current fiber works for. */
const enclosingTurns: FiberRef.FiberRef<ReadonlyArray<LiveTurn.LiveTurn>> = globalValue(
  "daybook/agent/Agent/enclosingTurns",
  () => FiberRef.unsafeMake<ReadonlyArray<LiveTurn.LiveTurn>>([])
)

const isInside = (live: LiveTurn.LiveTurn): Effect.Effect<boolean> =>
  Effect.map(FiberRef.get(enclosingTurns), (turns) => turns.includes(live))

/**
 * Runs the machine's turns, one after another, each on a fiber that was forked uninterruptible. A bug of the machine itself
 * breaks the session, and whoever waits is told.
 */
const drive = (machine: Machine.Machine, loop: Loop): Effect.Effect<never> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.forever(
      Effect.gen(function* () {
        yield* restore(machine.work.await)
        if (machine.phase._tag !== "Running") return
        const { live } = machine.phase
        const outer = yield* FiberRef.get(enclosingTurns)
        const turn = Turn.run(loop, live, restore, (ending) => Machine.decided(machine, live, ending))
        const fiber = yield* Effect.fork(Effect.locally(turn, enclosingTurns, [...outer, live]))
        yield* Effect.sync(() => Machine.attach(machine, live, fiber))
        const exit = yield* Fiber.await(fiber)
        yield* Effect.sync(() => Machine.finish(machine, live, exit))
      })
    )
  ).pipe(
    Effect.tapDefect((cause) =>
      Effect.zipRight(
        Effect.logError(`the agent of session ${machine.session.id} broke`, cause),
        Effect.sync(() => Machine.broke(machine, Cause.squash(cause)))
      )
    )
  )

const userMessage = Effect.fnUntraced(function* (sessionId: SessionId, kind: Machine.Kind, input: Input) {
  const content = wellFormed(typeof input === "string" ? input : input.text)
  if (content.trim() === "") return yield* new InvalidMessage({ sessionId, reason: "empty" })
  if (Buffer.byteLength(content) > maxMessageBytes) return yield* new InvalidMessage({ sessionId, reason: "too-large" })
  const id = typeof input === "string" ? yield* makeMessageId : input.id
  if (id === "" || wellFormed(id) !== id) return yield* new InvalidMessage({ sessionId, reason: "bad-id" })
  const message: UserMessage = { id, role: "user", source: kind.source, content: [text(content)] }
  return message
})

const sender = (machine: Machine.Machine, name: keyof typeof Machine.kinds) =>
  Effect.fn(`Agent.${name}`)(function* (input: Input) {
    const kind = Machine.kinds[name]
    const message = yield* userMessage(machine.session.id, kind, input)
    const head = yield* Effect.suspend(() =>
      Either.map(Machine.admit(machine, kind, message), machine.session.unsafeHead)
    )
    yield* machine.session.durable(head)
    return message.id
  })

const canceller = (machine: Machine.Machine) => {
  const { session } = machine
  return Effect.fn("Agent.cancel")(function* (
    cause: CancelCause,
    options: { readonly keepInbox?: boolean } = {}
  ): Effect.fn.Return<Cancelled> {
    const { dropped, live, meant } = Machine.cancel(machine, cause, options.keepInbox === true)
    const durably = Effect.isSuccess(session.durable(session.unsafeHead()))
    if (live === undefined) return { _tag: "Idle", dropped, durable: yield* durably }
    const { turn } = live
    if (yield* isInside(live)) return { _tag: "Recorded", turn, dropped }
    const ended = yield* Deferred.await(live.ended)
    const durable = ended.durable && (yield* durably)
    if (!meant) return { _tag: "Idle", dropped, durable }
    return { _tag: "Settled", turn, ending: ended.ending, cause: LiveTurn.causeOf(live) ?? cause, dropped, durable }
  })
}

/** Ends the running turn, waits for its end, and stops the driver. */
const dispose = (machine: Machine.Machine, driver: Fiber.Fiber<never>) =>
  Effect.gen(function* () {
    const running = Machine.dispose(machine)
    if (Option.isSome(running)) yield* Deferred.await(running.value.rest)
    yield* Fiber.interrupt(driver)
  })

/**
 * Gives the agent and its session back by `close`. On the fibers of the running turn, which cannot wait for its own end, it
 * begins that, has it done apart once the turn has ended, and dies with `InsideTurn`.
 */
const leave = (machine: Machine.Machine, close: Effect.Effect<void>): Effect.Effect<void> =>
  Effect.gen(function* () {
    const running = Machine.dispose(machine)
    if (Option.isNone(running) || !(yield* isInside(running.value.live))) return yield* close
    yield* Effect.forkDaemon(Effect.locally(close, enclosingTurns, []))
    return yield* Effect.die(new InsideTurn({ sessionId: machine.session.id, operation: "leaving the agent" }))
  })

const idle = (machine: Machine.Machine): Effect.Effect<Machine.IdleReport, InsideTurn> =>
  Effect.suspend(() => {
    const { phase, session } = machine
    if (phase._tag !== "Running") return Effect.succeed(Machine.report(machine))
    return Effect.flatMap(isInside(phase.live), (inside) =>
      inside ? Effect.fail(new InsideTurn({ sessionId: session.id, operation: "idle" })) : Deferred.await(phase.rest)
    )
  })

/** An agent, and how it is left: whoever closes its scope does so through that. */
export interface Made {
  readonly agent: Agent
  readonly leave: (close: Effect.Effect<void>) => Effect.Effect<void>
}

/** The agent of a session, until the scope closes; closing it ends the running turn and waits for its end. */
export const make = Effect.fnUntraced(function* (loop: Loop): Effect.fn.Return<Made, never, Scope.Scope> {
  const { session } = loop
  const machine = Machine.make(session, yield* Effect.makeLatch(false))
  const watch = Effect.map(session.broken, (error) => Machine.broken(machine, error))
  yield* Effect.forkScoped(Effect.interruptible(watch))
  yield* Effect.acquireRelease(Effect.forkDaemon(Effect.interruptible(drive(machine, loop))), (driver) =>
    dispose(machine, driver)
  )
  const agent: Agent = {
    sessionId: session.id,
    followup: sender(machine, "followup"),
    steer: sender(machine, "steer"),
    inject: sender(machine, "inject"),
    remove: Effect.fn("Agent.remove")(function* (id: MessageId) {
      const dropped = Machine.drop(machine, (message) => message.id === id)
      yield* session.durable(session.unsafeHead())
      return dropped.length > 0
    }),
    pending: Effect.sync(() => Inbox.pending(Machine.inbox(machine))),
    resume: Effect.flatMap(makeMessageId, (id) => Machine.resume(machine, id)),
    cancel: canceller(machine),
    idle: Effect.withSpan(idle(machine), "Agent.idle"),
    status: Effect.sync(() => Machine.status(machine)),
    events: session.feed
  }
  return { agent, leave: (close) => leave(machine, close) }
})
