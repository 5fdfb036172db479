/**
 * Law 1 and the repair of law 8 as a log shows them: each request that was sent, and the one after repair, is derived and
 * is one that a strict provider takes.
 *
 * - A request was sent where the first event of an attempt stands: a chunk, an answer, or a retry.
 * - A message is checked once, when its step asks or closes, and not again with every request that carries it. Only a
 *   replacement has what is visible looked through again. (A call's id names its step, so none comes twice.)
 */
import * as Chunk from "effect/Chunk"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { StoredEvent, StoredOf } from "./Event.ts"
import type { Message } from "./Message.ts"
import * as Repair from "./Repair.ts"
import * as RequestRules from "./RequestRules.ts"
import * as SessionState from "./SessionState.ts"
import * as Transcript from "./Transcript.ts"
import type { Say } from "./Violation.ts"

/** Filled in place by `take` and `lose`, and by nothing else. */
export interface Requests {
  /** The state of the log so far; none once the log derives nothing any more. */
  state: SessionState.SessionState | undefined
  /** What a strict provider would refuse, and no request has carried yet. */
  pending: Array<string>
  /** The ids of all visible messages and calls. */
  ids: Set<string>
  /** How many messages the open step had when it asked; none before. */
  asked: number | undefined
  /** Whether the current attempt was looked at. */
  seen: boolean
  /** The roles of the first and the last visible message of closed steps. */
  first: Message["role"] | undefined
  last: Message["role"] | undefined
}

/** Before the first event. The first `seedLength` events are inherited by a fork. */
export const make = (seedLength: number): Requests => ({
  state: SessionState.initial(seedLength),
  pending: [],
  ids: new Set(),
  asked: undefined,
  seen: false,
  first: undefined,
  last: undefined
})

/** An event is missing: no request can be derived any more. */
export const lose = (requests: Requests): void => {
  requests.state = undefined
}

/** Takes the next event in. After one that does not fit, no request is judged: that is said. */
export const take = (requests: Requests, event: StoredEvent, say: Say): void => {
  const { state } = requests
  if (state === undefined) return
  if (event.type === "assistant/chunk" || event.type === "assistant/message" || event.type === "request/retry")
    send(requests, state, say)
  const after = SessionState.apply(state, event)
  if (Either.isRight(after)) {
    advance(requests, event, after.right)
    return
  }
  say(1, `from here on no request is judged: ${after.left}`)
  lose(requests)
}

/** Closes a copy of the log as the repair does that keeps most, and looks at the request that follows. */
export const end = (requests: Requests, say: Say): void => {
  if (requests.state === undefined) return
  const closed = Repair.closed(requests.state, Repair.salvage(requests.state))
  if (Either.isLeft(closed)) {
    say(8, `its repair does not fit it: ${closed.left}`)
    return
  }
  const { after, events } = closed.right
  if (Repair.salvage(after).length > 0) say(8, "its repair, repaired again, is another one")
  const copy: Requests = { ...requests, ids: new Set(requests.ids), pending: [...requests.pending] }
  for (const event of events) advance(copy, event, after)
  tell(copy, say)
  if (copy.first === "assistant" || copy.first === "tool") refuse(say, `starts-with-user: ${copy.first}`)
}

// internal

const refuse = (say: Say, why: string): void => say(1, `a strict provider refuses the request: ${why}`)

/** Says what is wrong with messages that a request carries for the first time. */
const tell = (requests: Requests, say: Say): void => {
  for (const why of requests.pending) refuse(say, why)
  requests.pending = []
}

/** The request of an attempt, where its first event stands. */
const send = (requests: Requests, { brackets, header }: SessionState.SessionState, say: Say): void => {
  const step = brackets.open?.step
  if (step === undefined || requests.seen) return
  requests.seen = true
  const input = Transcript.inputMessages(step.input)
  if (requests.asked === undefined) check(requests, input)
  requests.asked ??= input.length
  if (header === undefined) say(1, "no header says which model the request asks")
  tell(requests, say)
  const first = requests.first ?? input[0]?.role
  const last = input.length > 0 ? "user" : requests.last
  if (first === undefined) refuse(say, "no-messages")
  else if (first !== "user") refuse(say, `starts-with-user: ${first}`)
  if (last === "assistant") refuse(say, `ends-with-input: ${last}`)
}

/** What one more event makes visible; `after` is the state with it. */
const advance = (requests: Requests, event: StoredEvent, after: SessionState.SessionState): void => {
  const isFirstHeader = requests.state?.header === undefined
  requests.state = after
  switch (event.type) {
    case "request/header":
      checkHeader(requests, event.data, isFirstHeader)
      break
    case "step/start":
      requests.asked = undefined
      requests.seen = false
      break
    case "request/retry":
      requests.seen = false
      break
    case "step/end": {
      const span = Option.getOrUndefined(Chunk.last(after.transcript.spans))
      const { messages } = span ?? { messages: [] }
      check(requests, messages.slice(requests.asked ?? 0))
      requests.first ??= messages[0]?.role
      requests.last = messages.at(-1)?.role ?? requests.last
      break
    }
    case "context/replaced":
      look(requests, after.transcript, event.data)
      break
    default:
  }
}

const wordsOf = ({ detail, rule }: RequestRules.RuleViolation): string => `${rule}: ${detail}`

const checkHeader = ({ pending }: Requests, header: StoredOf<"request/header">["data"], isFirst: boolean): void => {
  if (isFirst !== (header.reason === "initial")) pending.push(`its header says ${header.reason}`)
  pending.push(...RequestRules.ofHeader(header).map(wordsOf))
}

/** Checks messages that stand next to each other, beside all that is visible. */
const check = (requests: Requests, messages: ReadonlyArray<Message>): void => {
  requests.pending.push(...RequestRules.ofMessages(messages).map(wordsOf))
  remember(requests, messages)
}

const remember = ({ ids, pending }: Requests, messages: ReadonlyArray<Message>): void => {
  for (const message of messages) {
    if (ids.has(message.id)) pending.push(`message-ids-unique: ${message.id}`)
    ids.add(message.id)
  }
}

/** A replacement: all that is visible is looked through for ids, what is new for everything. */
const look = (
  requests: Requests,
  transcript: Transcript.Transcript,
  { from, to }: StoredOf<"context/replaced">["data"]
): void => {
  requests.ids = new Set()
  for (const span of transcript.spans)
    if (span.from === from && span.to === to) check(requests, span.messages)
    else remember(requests, span.messages)
  const messages = Transcript.messages(transcript)
  requests.first = messages[0]?.role
  requests.last = messages.at(-1)?.role
}
