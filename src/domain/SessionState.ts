/**
 * The state of a session: every fold of its log side by side.
 *
 * - One pure step an event; the state is a function of the log and of nothing else.
 * - An event that cannot stand where it stands is a violation that names its seq, and changes nothing.
 */
import * as Either from "effect/Either"
import * as HashSet from "effect/HashSet"
import { canonical } from "../internal/Json.ts"
import * as Brackets from "./Brackets.ts"
import * as ConsumedWork from "./ConsumedWork.ts"
import type { Range, StoredEvent, StoredOf } from "./Event.ts"
import type { MessageId } from "./Ids.ts"
import * as Inbox from "./Inbox.ts"
import { type Message, textOf } from "./Message.ts"
import { type ChatRequest, type Digest, extendDigest } from "./Request.ts"
import * as Transcript from "./Transcript.ts"
import type { TurnEnding } from "./TurnEnding.ts"

/** What is stored beside a log, with each append: what `sessions` lists, and what a load may pass over. */
export interface Summary {
  /** The first line of the first input, at most 80 characters; empty before there is one. */
  readonly title: string
  readonly turns: number
  /** The kind of the last turn's ending; absent while no turn has ended. */
  readonly ending?: TurnEnding["kind"]
  /** A turn stands open: it runs, or its owner died. */
  readonly open: boolean
  /** What stands replaced, in order: no request shows it, and a load does not read its texts. Absent where nothing is. */
  readonly hidden?: ReadonlyArray<Range>
  /** How many messages wait; absent where a build summed up that did not know. */
  readonly waiting?: number
  /** Work was dropped unrun since the last turn that did any (K04); absent alike. */
  readonly dropped?: boolean
}

export interface SessionState {
  /** The seq that the next event gets. */
  readonly head: number
  /** The time of the last event, in Unix milliseconds; 0 before the first. */
  readonly time: number
  /** How many leading events were inherited by a fork: their splices are not this session's (B22). */
  readonly seedLength: number
  readonly brackets: Brackets.Brackets
  readonly transcript: Transcript.Transcript
  readonly inbox: Inbox.Inbox
  /** The ids of all input that ever waited or entered: none is accepted twice (law 7). */
  readonly accepted: HashSet.HashSet<MessageId>
  readonly header: StoredOf<"request/header"> | undefined
  /** The tools all calls of which a person allowed in this session. */
  readonly allowedTools: HashSet.HashSet<string>
  readonly consumed: ConsumedWork.ConsumedWork
  readonly summary: Summary
}

/** The summary of a log without events. */
export const emptySummary: Summary = { title: "", turns: 0, open: false, waiting: 0, dropped: false }

/** Whether a stored summary is this one of its log. What the build that wrote it did not know is not judged. */
export const isSummary = (stored: Summary, { dropped, waiting, ...known }: Summary): boolean =>
  canonical(stored) ===
  canonical({
    ...known,
    ...(stored.waiting === undefined ? {} : { waiting }),
    ...(stored.dropped === undefined ? {} : { dropped })
  })

/** The state of a log before its first event. */
export const initial = (seedLength = 0): SessionState => ({
  head: 0,
  time: 0,
  seedLength,
  brackets: Brackets.empty,
  transcript: Transcript.empty,
  inbox: Inbox.empty,
  accepted: HashSet.empty(),
  header: undefined,
  allowedTools: HashSet.empty(),
  consumed: ConsumedWork.empty,
  summary: emptySummary
})

const summarize = (
  summary: Summary,
  event: StoredEvent,
  { consumed, inbox }: Pick<SessionState, "consumed" | "inbox">
): Summary => {
  switch (event.type) {
    case "agent/inbox/spliced": {
      const waiting = inbox["next-turn"].length + inbox["next-step"].length
      return { ...summary, waiting, dropped: consumed.droppedUnrun }
    }
    case "turn/start":
      return { ...summary, turns: event.data.turn, open: true }
    case "turn/end":
      return { ...summary, ending: event.data.reason.kind, open: false, dropped: consumed.droppedUnrun }
    case "context/replaced": {
      const { from, to } = event.data
      const outside = (summary.hidden ?? []).filter((range) => range.to < from || range.from > to)
      return { ...summary, hidden: [...outside, { from, to }].sort((a, b) => a.from - b.from) }
    }
    case "user/message":
      return summary.title === "" ? { ...summary, title: titleOf(event.data) } : summary
    default:
      return summary
  }
}

const titleOf = (message: Message): string => {
  const line = textOf(message).trimStart().split("\n", 1)[0] ?? ""
  return Array.from(line).slice(0, 80).join("")
}

const transcriptAfter = (state: SessionState, event: StoredEvent): Either.Either<Transcript.Transcript, string> => {
  if (event.type === "context/replaced") return Transcript.replace(state.transcript, event.data, event.data.messages)
  const step = state.brackets.open?.step
  if (event.type === "step/end" && step !== undefined)
    return Either.right(Transcript.closeStep(state.transcript, step, event.seq))
  return Either.right(state.transcript)
}

const inboxAfter = (state: SessionState, event: StoredEvent): Either.Either<Inbox.Inbox, string> =>
  event.type === "agent/inbox/spliced" && event.seq >= state.seedLength
    ? Inbox.splice(state.inbox, event.data)
    : Either.right(state.inbox)

const acceptedAfter = (state: SessionState, event: StoredEvent): HashSet.HashSet<MessageId> => {
  if (event.type === "user/message") return HashSet.add(state.accepted, event.data.id)
  if (event.type !== "agent/inbox/spliced" || event.data.inserted.length === 0) return state.accepted
  return HashSet.mutate(state.accepted, (ids) => {
    for (const message of event.data.inserted) HashSet.add(ids, message.id)
  })
}

const allowedAfter = (state: SessionState, event: StoredEvent): HashSet.HashSet<string> => {
  if (event.type !== "approval/decided" || event.data.decision !== "allowed-always") return state.allowedTools
  const { callId } = event.data
  const call = state.brackets.open?.step?.calls.find(({ block }) => block.callId === callId)
  return call === undefined ? state.allowedTools : HashSet.add(state.allowedTools, call.block.name)
}

/** The state after one more event, or why that event cannot stand there. */
export const apply = (state: SessionState, event: StoredEvent): Either.Either<SessionState, string> => {
  if (event.seq !== state.head) return Either.left(`seq ${event.seq} stands where ${state.head} was due`)
  if (event.time < state.time) return Either.left(`time goes back at seq ${event.seq}`)
  const brackets = Brackets.advance(state.brackets, event)
  if (Either.isLeft(brackets)) return Either.left(`seq ${event.seq}: ${brackets.left}`)
  const transcript = transcriptAfter(state, event)
  if (Either.isLeft(transcript)) return Either.left(`seq ${event.seq}: ${transcript.left}`)
  const inbox = inboxAfter(state, event)
  if (Either.isLeft(inbox)) return Either.left(`seq ${event.seq}: ${inbox.left}`)
  const consumed = event.seq < state.seedLength ? state.consumed : ConsumedWork.apply(state.consumed, event)
  // written out: a spread costs as much as all the folds
  return Either.right({
    head: event.seq + 1,
    time: event.time,
    seedLength: state.seedLength,
    brackets: brackets.right,
    transcript: transcript.right,
    inbox: inbox.right,
    accepted: acceptedAfter(state, event),
    header: event.type === "request/header" ? event : state.header,
    allowedTools: allowedAfter(state, event),
    consumed,
    summary: summarize(state.summary, event, { consumed, inbox: inbox.right })
  })
}

/** The state as it is before seq `to`, where all that stands in between are chunks of the open step; or why they cannot be. */
export const passChunks = (state: SessionState, to: number): Either.Either<SessionState, string> => {
  if (to === state.head) return Either.right(state)
  const step = state.brackets.open?.step
  return to > state.head && step !== undefined && step.answer === undefined
    ? Either.right({ ...state, head: to })
    : Either.left(`seq ${state.head} is missing, or a chunk that stands in no open answer`)
}

/** The state after all these events, or the first violation. */
export const fold = (
  events: Iterable<StoredEvent>,
  from: SessionState = initial()
): Either.Either<SessionState, string> => {
  let state = from
  for (const event of events) {
    const next = apply(state, event)
    if (Either.isLeft(next)) return next
    state = next.right
  }
  return Either.right(state)
}

const openInput = (state: SessionState): ReadonlyArray<Message> =>
  state.brackets.open?.step === undefined ? [] : Transcript.inputMessages(state.brackets.open.step.input)

/** The messages of a request made now: all closed steps, and the input of the open one. */
export const requestMessages = (state: SessionState): ReadonlyArray<Message> =>
  Transcript.messages(state.transcript).concat(openInput(state))

/** The digest of `requestMessages`, at the cost of the open step's input alone. */
export const requestDigest = (state: SessionState): Digest =>
  openInput(state).reduce(extendDigest, Transcript.digestOf(state.transcript))

/** The request that the log derives here; absent before the first header. */
export const deriveRequest = (state: SessionState): ChatRequest | undefined => {
  if (state.header === undefined) return undefined
  const { config, system, tools } = state.header.data
  return { config, system, tools, messages: requestMessages(state) }
}
