/**
 * What can be done to an agent, from outside or from inside, and whether it was answered as promised.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import type { Agent, Cancelled } from "../../src/agent/Agent.ts"
import type { StoredEvent } from "../../src/domain/Event.ts"
import type { MessageId } from "../../src/domain/Ids.ts"
import * as Inbox from "../../src/domain/Inbox.ts"
import * as Repair from "../../src/domain/Repair.ts"
import * as RequestRules from "../../src/domain/RequestRules.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import type { CancelCause } from "../../src/domain/TurnEnding.ts"
import { said } from "./Facts.ts"
import type { World } from "./World.ts"

/** Something that is done to an agent, or to the scope that it lives in. */
export type Act = (agent: Agent, scope: Scope.CloseableScope) => Effect.Effect<unknown, unknown>

export const cancelling: Act = (agent) => agent.cancel("user")
export const keeping: Act = (agent) => agent.cancel("parent", { keepInbox: true })
export const following: Act = (agent) => agent.followup("one more")
export const steering: Act = (agent) => agent.steer("another thing")
export const injecting: Act = (agent) => agent.inject("by the way")
export const removing: Act = (agent) =>
  Effect.flatMap(agent.pending, ([first]) => (first === undefined ? Effect.void : agent.remove(first.id)))
export const disposing: Act = (_, scope) => Scope.close(scope, Exit.void)

/** An agent that keeps how it was answered. */
export interface Watched {
  readonly agent: Agent
  /** Does something to it. */
  readonly perform: (act: Act) => Effect.Effect<void>
  /** Returns once every act has come to its end. */
  readonly settled: Effect.Effect<void>
  /** What is wrong with the whole, given the log at its end. The laws on the log itself are checked by its world. */
  readonly judge: (log: ReadonlyArray<StoredEvent>) => ReadonlyArray<string>
}

/** Watches the agent of a world. `alive` tells how many bodies and streams of a turn are entered and not left. */
export const watch = (
  of: { readonly agent: Agent; readonly scope: Scope.CloseableScope; readonly world: World },
  alive: (turn: number) => number
): Watched => {
  const { scope, world } = of
  const told: Told = { problems: [], accepted: [], dropped: [], settled: [] }
  let open = 0
  const allDone = Effect.unsafeMakeLatch(true)

  const sending =
    (how: "followup" | "steer" | "inject"): Agent["followup"] =>
    (input) =>
      Effect.suspend(() => {
        const late = world.unsafeLeftAt() !== undefined
        return of.agent[how](input).pipe(
          Effect.tap((id) => {
            told.accepted.push(id)
            if (late) told.problems.push("a send was accepted after the disposal began")
            return Effect.void
          }),
          Effect.tapError((error) => {
            if (error._tag !== "AgentDisposed" || world.unsafeLeftAt() === undefined)
              told.problems.push(`a send failed: ${error.message}`)
            return Effect.void
          })
        )
      })

  const cancelled = (answer: Cancelled): void => {
    told.dropped.push(...answer.dropped)
    if (answer._tag === "Recorded") return
    if (!answer.durable) told.problems.push("a cancel was not durable")
    if (answer._tag === "Idle") return
    told.settled.push(answer)
    if (alive(answer.turn) > 0) told.problems.push(`turn ${answer.turn} was told to be over, and something of it lives`)
  }

  const agent: Agent = {
    ...of.agent,
    followup: sending("followup"),
    steer: sending("steer"),
    inject: sending("inject"),
    remove: (id) =>
      Effect.tap(of.agent.remove(id), (removed) => {
        if (removed) told.dropped.push(id)
        return Effect.void
      }),
    cancel: (cause, options) =>
      Effect.tap(of.agent.cancel(cause, options), (answer) => Effect.sync(() => cancelled(answer)))
  }

  const performing = (by: number) =>
    Effect.sync(() => {
      open += by
      if (open === 0) allDone.unsafeOpen()
      else allDone.unsafeClose()
    })

  return {
    agent,
    perform: (act) =>
      Effect.acquireUseRelease(
        performing(1),
        () => Effect.exit(act(agent, scope)),
        () => performing(-1)
      ),
    settled: allDone.await,
    judge: (log) => [...told.problems, ...judged(told, world, log)]
  }
}

// internal

interface Told {
  readonly problems: Array<string>
  /** What was accepted, and what whoever dropped it was told of, of all messages. An act that was cut is told nothing. */
  readonly accepted: Array<MessageId>
  readonly dropped: Array<MessageId>
  /** What cancels were told of turns. */
  readonly settled: Array<Extract<Cancelled, { readonly _tag: "Settled" }>>
}

const judged = (told: Told, world: World, log: ReadonlyArray<StoredEvent>): ReadonlyArray<string> => {
  const folded = SessionState.fold(log)
  if (Either.isLeft(folded)) return [folded.left]
  const state = folded.right
  return [
    ...(Repair.closers(state).length > 0 ? ["a turn stands open"] : []),
    ...nextRequest(state),
    ...endings(told, world, log),
    ...messages(told, world, state, log)
  ]
}

/** The next prompt's request is one that a strict provider accepts (law 1). */
const nextRequest = (state: SessionState.SessionState): ReadonlyArray<string> => {
  const request = SessionState.deriveRequest(state)
  if (request === undefined) return []
  return RequestRules.violations({ ...request, messages: [...request.messages, said("next", "next")] }).map(
    ({ at, rule }) => `the next request: ${rule} at ${at}`
  )
}

/** A turn is aborted exactly where a cancel came in time, by the first cause (law 5, R2); none starts in a disposal (R12). */
const endings = ({ settled }: Told, world: World, log: ReadonlyArray<StoredEvent>): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const causes = new Map<number, CancelCause>()
  for (const notice of world.notices) {
    if (notice.type !== "cancel") continue
    if (causes.has(notice.turn)) problems.push(`turn ${notice.turn} was told to be cancelled twice`)
    causes.set(notice.turn, notice.cause)
  }
  const kinds = new Map<number, string>()
  for (const event of log) {
    if (event.type === "turn/start" && event.seq >= (world.unsafeLeftAt() ?? Number.POSITIVE_INFINITY))
      problems.push(`turn ${event.data.turn} started after the disposal began`)
    if (event.type !== "turn/end") continue
    const { reason, turn } = event.data
    kinds.set(turn, reason.kind)
    const ended = world.notices.filter((notice) => notice.type === "ended" && notice.turn === turn)
    if (ended.length !== 1) problems.push(`the end of turn ${turn} was told ${ended.length} times`)
    if ((reason.kind === "aborted") !== causes.has(turn)) problems.push(`turn ${turn} ended as ${reason.kind}`)
  }
  for (const { cause, ending, turn } of settled)
    if (ending.kind !== kinds.get(turn) || cause !== causes.get(turn))
      problems.push(`a cancel was told that turn ${turn} ended as ${ending.kind} because of ${cause}`)
  return problems
}

/** Every message that was accepted is in one place, and only what was told to be dropped is (law 7, O-L1). */
const messages = (
  told: Told,
  world: World,
  state: SessionState.SessionState,
  log: ReadonlyArray<StoredEvent>
): ReadonlyArray<string> => {
  const dropped = world.notices.flatMap((notice) => (notice.type === "discarded" ? notice.ids : []))
  const waiting = Inbox.pending(state.inbox).map(({ id }) => id)
  const entered = log.flatMap((event) => (event.type === "user/message" ? [event.data.id] : []))
  const count = (ids: ReadonlyArray<MessageId>, id: MessageId) => ids.filter((other) => other === id).length
  const problems = told.accepted.flatMap((id) => {
    const places = [count(waiting, id), count(entered, id), count(dropped, id)]
    return places.reduce((sum, n) => sum + n) === 1
      ? []
      : [`message ${id} waits ${places[0]} times, entered ${places[1]} times, was dropped ${places[2]} times`]
  })
  let canceled = 0
  for (const event of log)
    if (event.type === "agent/inbox/spliced" && event.data.outcome === "canceled")
      canceled += event.data.removedCount ?? 0
  if (told.dropped.some((id) => !dropped.includes(id))) problems.push("somebody was told of a drop that was none")
  if (canceled !== dropped.length) problems.push(`${canceled} messages were dropped, ${dropped.length} told to be`)
  return problems
}
