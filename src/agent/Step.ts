/**
 * A step: one model request and the tool calls of its answer.
 *
 * - Entering is one atomic append: the claim, `step/start` and the input (R8).
 * - The request is derived from the log, and sent only once everything before it is durable and the guard has let it pass
 *   (law 1, R3).
 * - Whatever interrupts or fails a step leaves it open: the turn closes it.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as HashSet from "effect/HashSet"
import * as Schema from "effect/Schema"
import type { SessionBroken } from "../domain/Errors.ts"
import type { SessionEvent } from "../domain/Event.ts"
import { isReserved, type MessageId } from "../domain/Ids.ts"
import * as Inbox from "../domain/Inbox.ts"
import { toolCalls, type UserMessage } from "../domain/Message.ts"
import * as Request from "../domain/Request.ts"
import * as SessionState from "../domain/SessionState.ts"
import { inputMessages } from "../domain/Transcript.ts"
import { canonical, deepFreeze } from "../internal/Json.ts"
import { quiet } from "../internal/Spans.ts"
import type * as Session from "../session/Session.ts"
import * as Scheduler from "../tool/Scheduler.ts"
import * as Attempts from "./Attempts.ts"
import { HookFailed, type Place } from "./Hooks.ts"
import * as LiveTurn from "./LiveTurn.ts"
import type { Loop } from "./Loop.ts"
import type { PromptConflict } from "./SystemPrompt.ts"

/** Nothing says which provider and model to ask. */
export class NoRoute extends Schema.TaggedError<NoRoute>()("NoRoute", { missing: Schema.String }) {
  override get message() {
    return `no ${this.missing} is set: neither the agent's options nor the request hook name one`
  }
}

/** Why a step did not come to its end. */
export type StepError = Attempts.AttemptsError | NoRoute | PromptConflict

/** How a step went: whether its answer called tools, whether one of them asked to conclude the turn. */
export interface StepResult {
  readonly toolsRan: boolean
  readonly concluded: boolean
}

const ids = (messages: ReadonlyArray<UserMessage>): ReadonlySet<MessageId> =>
  new Set(messages.map((message) => message.id))

/**
 * Takes what was offered and still waits out of the inbox, and appends what follows from that, as one; nothing at all where
 * that is undefined. Whoever watches is told what was claimed once it is in the log.
 */
export const claim = (
  session: Session.Session,
  turn: number,
  offered: ReadonlyArray<UserMessage>,
  more: (state: SessionState.SessionState) => ReadonlyArray<SessionEvent> | undefined = () => []
): Effect.Effect<void, SessionBroken> =>
  Effect.suspend(() => {
    const state = session.unsafeState()
    const following = more(state)
    if (following === undefined) return Effect.void
    const ids = offered.flatMap(({ id }) => (Inbox.isPending(state.inbox, id) ? [id] : []))
    return Either.map(session.unsafeAppend([...Inbox.removed(state.inbox, new Set(ids)), ...following]), () => {
      if (ids.length > 0) session.unsafeNotify({ type: "claimed", turn, ids })
    })
  })

/** What enters of a batch: not what is blank, nor an offered message that was removed meanwhile. */
const stillWanted = (
  state: SessionState.SessionState,
  offered: ReadonlyArray<UserMessage>,
  entering: ReadonlyArray<UserMessage>
): ReadonlyArray<UserMessage> => {
  const gone = new Set(offered.filter((message) => !Inbox.isPending(state.inbox, message.id)).map(({ id }) => id))
  return entering.filter((message) => !gone.has(message.id) && inputMessages([message]).length > 0)
}

/** A message of the batch that has entered before, or stands in it twice: no request may carry it again. */
const repeated = (
  state: SessionState.SessionState,
  offered: ReadonlyArray<UserMessage>,
  entering: ReadonlyArray<UserMessage>
): UserMessage | undefined => {
  const fresh = ids(offered)
  return entering.find(
    ({ id }, index) =>
      (isReserved(id) && !fresh.has(id)) ||
      (HashSet.has(state.accepted, id) && !fresh.has(id)) ||
      entering.findIndex((other) => other.id === id) !== index
  )
}

/** What a step takes in: what it was offered, and what of that, or else, a hook lets enter. */
export interface Input {
  readonly offered: ReadonlyArray<UserMessage>
  readonly entering: ReadonlyArray<UserMessage>
}

/**
 * Claims what was offered, and opens the step with what enters. Which of that is still wanted is seen in the same moment:
 * where nothing is, and `toolsRan` gives no other reason for a step, the claim stands alone and this is false (A05). Fails,
 * and claims nothing, where a message would enter twice.
 */
export const enter = (
  session: Session.Session,
  at: { readonly turn: number; readonly step: number },
  { entering, offered }: Input,
  toolsRan: boolean
): Effect.Effect<boolean, HookFailed | SessionBroken> => {
  let again: UserMessage | undefined
  let opens = false
  const opening = (state: SessionState.SessionState): ReadonlyArray<SessionEvent> | undefined => {
    const wanted = stillWanted(state, offered, entering)
    again = repeated(state, offered, wanted)
    if (again !== undefined) return undefined
    opens = wanted.length > 0 || toolsRan
    if (!opens) return []
    const messages = wanted.map((data): SessionEvent => ({ type: "user/message", data }))
    return [{ type: "step/start", data: at }, ...messages]
  }
  return Effect.flatMap(claim(session, at.turn, offered, opening), () => {
    if (again === undefined) return Effect.succeed(opens)
    const detail = `it entered the message ${again.id} a second time`
    return Effect.fail(new HookFailed({ sessionId: session.id, hook: "pre-step", detail }))
  })
}

/**
 * The config to start from: what this agent's last request had, else its options (P07). What these leave open of a restored
 * session is as its log has it, as long as they name no other provider or model (H09).
 */
const baseConfig = ({ config: options = {}, session }: Loop): Partial<Request.ModelConfig> => {
  const config = Request.fieldsSet(options)
  const header = session.unsafeState().header
  if (header === undefined) return config
  const logged = header.data.config
  if (header.seq >= session.loadedHead) return logged
  const isRouteKept = (["provider", "model"] as const).every((key) => (config[key] ?? logged[key]) === logged[key])
  return isRouteKept ? { ...logged, ...config } : config
}

const route = (wanted: Partial<Request.ModelConfig>): Effect.Effect<Request.ModelConfig, NoRoute> => {
  const config = Request.fieldsSet(wanted)
  const { model, provider } = config
  if (provider === undefined || provider === "") return Effect.fail(new NoRoute({ missing: "provider" }))
  if (model === undefined || model === "") return Effect.fail(new NoRoute({ missing: "model" }))
  return Effect.succeed({ ...config, provider, model })
}

type Header = Omit<Extract<SessionEvent, { readonly type: "request/header" }>["data"], "reason">

/** The header event that is due: the first, the first of this owner, or one that differs from the last (H06). */
const headerEvents = (
  state: SessionState.SessionState,
  loadedHead: number,
  next: Header
): ReadonlyArray<SessionEvent> => {
  const due = (reason: "initial" | "change" | "resume"): ReadonlyArray<SessionEvent> => [
    { type: "request/header", data: { reason, ...next } }
  ]
  if (state.header === undefined) return due("initial")
  if (state.header.seq < loadedHead) return due("resume")
  const { reason: _reason, ...last } = state.header.data
  return canonical(last) === canonical(next) ? [] : due("change")
}

/** The request that the log derives, frozen with all that it holds (H04). */
const derive = Effect.fnUntraced(function* ({ session }: Loop) {
  const request = SessionState.deriveRequest(session.unsafeState())
  if (request === undefined) return yield* Effect.dieMessage("a request was made before its header")
  // closed steps are frozen already: what is not is the input of this one
  for (const message of request.messages) if (!Object.isFrozen(message)) deepFreeze(message)
  Object.freeze(request.messages)
  return Object.freeze(request)
})

const traced = <A, E>(effect: Effect.Effect<A, E>, loop: Loop, live: LiveTurn.LiveTurn, step: number) =>
  quiet("Agent.step", { sessionId: loop.session.id, turn: live.turn, step })(effect)

/** Runs the step that was entered. On return it is closed; on failure or interruption it is left as far as it came. */
export const run = Effect.fnUntraced(function* (
  loop: Loop,
  live: LiveTurn.LiveTurn,
  step: number,
  system: string
): Effect.fn.Return<StepResult, StepError> {
  const { session } = loop
  const at = { turn: live.turn, step }
  const place: Place = { sessionId: session.id, ...at }
  const config = yield* Effect.flatMap(loop.hooks.request(place, baseConfig(loop)), route)
  const header: Header = { config, system, tools: loop.tools.specs }
  yield* session.append((state) => headerEvents(state, session.loadedHead, header))
  const request = yield* derive(loop)
  yield* Attempts.run(loop, live, place, request)
  const answer = session.unsafeState().brackets.open?.step?.answer
  const toolsRan = answer !== undefined && toolCalls(answer).length > 0
  const concluded = toolsRan ? yield* Scheduler.run(loop, at, () => LiveTurn.causeOf(live) !== undefined) : false
  yield* session.append(() => [{ type: "step/end", data: at }])
  return { toolsRan, concluded }
}, traced)
