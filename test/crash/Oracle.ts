/**
 * The oracle: what a log that its owners died over must still say, compared with what they wrote outside.
 *
 * - It takes each event and each line once, in any portions: a look costs what is new.
 * - It is filled in place by `judge`, and by nothing else.
 */
import { createHash } from "node:crypto"
import type { StoredEvent, StoredOf } from "../../src/domain/Event.ts"
import { MessageId } from "../../src/domain/Ids.ts"
import * as Inbox from "../../src/domain/Inbox.ts"
import { text } from "../../src/domain/Message.ts"
import * as Repair from "../../src/domain/Repair.ts"
import * as RequestRules from "../../src/domain/RequestRules.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import * as Verification from "../../src/domain/Verification.ts"
import { canonical } from "../../src/internal/Json.ts"
import type { Line } from "./Outside.ts"

/** What lies on the disk at a moment: what is new of the log and of the lines, and the record as it is. */
export interface Look {
  readonly epoch: number
  readonly head: number
  readonly summary: SessionState.Summary
  readonly events: ReadonlyArray<StoredEvent>
  readonly lines: ReadonlyArray<Line>
}

/** How the calls of a log came out. */
export interface Fates {
  /** With what their body came to. */
  real: number
  unknown: number
  neverStarted: number
  denied: number
  /** Cut or left out by a cancel. */
  cancelled: number
}

export interface Oracle {
  readonly verification: Verification.Verification
  /** How many lines it has taken in. */
  lines: number
  epoch: number
  /** The digest of every event so far: they are read again in the end. */
  digest: string
  /** The call that is announced under each id, */
  readonly announced: Map<string, { readonly name: string; readonly tag: string | undefined }>
  /** those that have a process, */
  readonly processes: Set<string>
  /** those whose body began, by a mark that it left, */
  readonly marked: Map<string, Line>
  /** and those of which the log says that no body began. */
  readonly neverRan: Set<string>
  /** The messages of which a sender knows that they were accepted, and which were neither used nor canceled yet. */
  readonly due: Set<string>
  readonly inserted: Map<string, number>
  readonly entered: Map<string, number>
  readonly canceled: Set<string>
  readonly fates: Fates
}

export const make = (): Oracle => ({
  verification: Verification.make(),
  lines: 0,
  epoch: 0,
  digest: "",
  announced: new Map(),
  processes: new Set(),
  marked: new Map(),
  neverRan: new Set(),
  due: new Set(),
  inserted: new Map(),
  entered: new Map(),
  canceled: new Set(),
  fates: { real: 0, unknown: 0, neverStarted: 0, denied: 0, cancelled: 0 }
})

/** Where the next look is to begin. */
export const seen = ({ lines, verification }: Oracle): { readonly seq: number; readonly line: number } => ({
  seq: verification.next,
  line: lines
})

/** The state of the log so far; none once it does not fold. */
export const stateOf = ({ verification }: Oracle): SessionState.SessionState | undefined => verification.requests.state

/**
 * Takes a look in: everything that is wrong with it, one line each. `policy` is the one by which whoever took the session
 * since the last look has repaired it: the owners before are dead. Without one, that is not looked at.
 */
export const judge = (oracle: Oracle, look: Look, policy?: Repair.Policy): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const say = (problem: string) => {
    problems.push(problem)
  }
  if (look.epoch > oracle.epoch && policy !== undefined) checkRepair(oracle, look, policy, say)
  if (look.epoch === oracle.epoch && policy !== undefined && look.events.length > 0)
    say(`law 9: ${look.events.length} events of no owner`)
  for (const event of look.events) takeEvent(oracle, event, say)
  for (const line of look.lines) takeLine(oracle, line, say)
  for (const event of look.events) if (isReal(event)) checkReal(oracle, event, say)
  compare(oracle, look, say)
  return problems
}

/** The digest of a log. */
export const digestOf = (events: Iterable<StoredEvent>): string => {
  let digest = ""
  for (const event of events) digest = extended(digest, event)
  return digest
}

// internal

type Say = (problem: string) => void

/** An owner begins with the closing events that the log alone decides, all of them, whatever it found of processes (law 8). */
const checkRepair = (oracle: Oracle, { events }: Look, policy: Repair.Policy, say: Say): void => {
  const state = stateOf(oracle)
  if (state === undefined) return
  const closing = policy(state)
  const due = closing.map((event, index): StoredEvent => ({ ...event, seq: state.head + index, time: state.time }))
  const stored = events.slice(0, due.length)
  if (canonical(stored.map(withoutFindings)) !== canonical(due.map(withoutFindings)))
    say(`law 8: it was repaired by ${canonical(stored)}, due was ${canonical(due)}`)
}

/** What a reaper found is told in the text of an unknown outcome, and nowhere else. */
const withoutFindings = (event: StoredEvent): StoredEvent =>
  event.type === "tool/result" && event.data.error?.code === "TOOL_OUTCOME_UNKNOWN"
    ? { ...event, data: { ...event.data, message: { ...event.data.message, content: [] } } }
    : event

const extended = (digest: string, event: StoredEvent): string =>
  createHash("sha256").update(digest).update(canonical(event)).digest("base64")

const count = (counts: Map<string, number>, id: string): number => {
  const next = (counts.get(id) ?? 0) + 1
  counts.set(id, next)
  return next
}

const takeEvent = (oracle: Oracle, event: StoredEvent, say: Say): void => {
  oracle.digest = extended(oracle.digest, event)
  // before the fold moves on: what a splice removes is what waits
  const waiting = stateOf(oracle)?.inbox
  for (const { detail, law, seq } of Verification.add(oracle.verification, event))
    say(`law ${law}: seq ${seq}: ${detail}`)
  switch (event.type) {
    case "tool/call":
      oracle.announced.set(event.data.callId, { name: event.data.name, tag: tagOf(event) })
      return
    case "tool/process":
      oracle.processes.add(event.data.callId)
      return
    case "tool/result":
      takeResult(oracle, event, say)
      return
    case "agent/inbox/spliced":
      takeSplice(oracle, event, waiting, say)
      return
    case "user/message":
      if (count(oracle.entered, event.data.id) > 1) say(`law 7: message ${event.data.id} entered twice`)
      return
    default:
  }
}

/** The tag that a life gave to a call. */
const tagOf = ({ data }: StoredOf<"tool/call">): string | undefined => {
  const args: { readonly tag?: string } = JSON.parse(data.arguments)
  return args.tag
}

/** A result that a body came to, as the log tells it. */
const isReal = (event: StoredEvent): event is StoredOf<"tool/result"> =>
  event.type === "tool/result" && event.data.error === undefined

/** Every body leaves a mark before anything else. */
const checkReal = (oracle: Oracle, { data }: StoredOf<"tool/result">, say: Say): void => {
  const { callId } = data.message
  oracle.fates.real++
  if (!oracle.marked.has(callId)) say(`law 10: ${callId} has a result and left no mark`)
}

const takeResult = (oracle: Oracle, { data }: StoredOf<"tool/result">, say: Say): void => {
  const { callId } = data.message
  const code = data.error?.code
  if (code === undefined) return
  if (code === "TOOL_OUTCOME_UNKNOWN") oracle.fates.unknown++
  else if (code === "TOOL_NOT_STARTED") oracle.fates.neverStarted++
  else if (code === "TOOL_DENIED") oracle.fates.denied++
  else oracle.fates.cancelled++
  if (code === "TOOL_NOT_STARTED" || code === "TOOL_ABORTED_BEFORE_DISPATCH" || code === "TOOL_DENIED") {
    oracle.neverRan.add(callId)
    if (oracle.marked.has(callId)) say(`law 6: ${callId} left a mark and is told as ${code}`)
  }
}

const takeSplice = (
  oracle: Oracle,
  { data }: StoredOf<"agent/inbox/spliced">,
  before: Inbox.Inbox | undefined,
  say: Say
): void => {
  for (const { id } of data.inserted) if (count(oracle.inserted, id) > 1) say(`law 7: message ${id} was put in twice`)
  if (data.outcome !== "canceled" || before === undefined) return
  for (const { id } of before[data.target].slice(data.start, data.start + (data.removedCount ?? 0)))
    oracle.canceled.add(id)
}

/** The tools whose mark a process of their own leaves. */
const spawning: ReadonlyArray<string> = ["command", "hold"]

const takeLine = (oracle: Oracle, line: Line, say: Say): void => {
  oracle.lines++
  const [first = "", tag = ""] = line.args
  if (line.word === "sent") {
    oracle.due.add(first)
    if (!oracle.inserted.has(first)) say(`law 7: message ${first} was accepted and is not in the log`)
  }
  if (line.word !== "mark") return
  const before = oracle.marked.get(first)
  if (before !== undefined) say(`law 7: ${first} ran twice, in lives ${before.life} and ${line.life}`)
  oracle.marked.set(first, line)
  // a turn that was lost had calls of the same ids: the tag tells them apart
  const call = oracle.announced.get(first)
  if (call?.tag !== tag) say(`law 6: ${first} left the mark ${tag} and is not in the log`)
  else if (spawning.includes(call.name) && !oracle.processes.has(first))
    say(`law 6: the process of ${first} left a mark and is not in the log`)
  if (oracle.neverRan.has(first)) say(`law 6: ${first} left a mark and is told as never started`)
}

/** What a look shows as a whole. */
const compare = (oracle: Oracle, look: Look, say: Say): void => {
  if (look.epoch < oracle.epoch) say(`law 9: the epoch went from ${oracle.epoch} to ${look.epoch}`)
  oracle.epoch = look.epoch
  const state = stateOf(oracle)
  for (const { detail, law, seq } of Verification.end(oracle.verification)) say(`law ${law}: seq ${seq}: ${detail}`)
  if (state === undefined) return
  if (look.head !== state.head) say(`law 8: there are ${state.head} events, the record says ${look.head}`)
  const summary = canonical(state.summary)
  if (canonical(look.summary) !== summary) say(`law 8: the record says ${canonical(look.summary)}, the log ${summary}`)
  for (const id of oracle.due) {
    if (oracle.entered.has(id) || oracle.canceled.has(id)) oracle.due.delete(id)
    else if (!Inbox.isPending(state.inbox, MessageId.make(id)))
      say(`law 7: message ${id} is neither used, canceled nor waiting`)
  }
  for (const problem of nextRequest(state)) say(`law 1: ${problem}`)
}

/** What a strict provider refuses of the request that the next prompt makes once the log is repaired. */
const nextRequest = (state: SessionState.SessionState): ReadonlyArray<string> => {
  const closed = Repair.closed(state)
  if (closed._tag === "Left") return [`its repair does not fit: ${closed.left}`]
  const request = SessionState.deriveRequest(closed.right.after)
  if (request === undefined) return []
  const prompt = {
    id: MessageId.make("the-next"),
    role: "user",
    source: { kind: "prompt" },
    content: [text("on")]
  } as const
  return RequestRules.violations({ ...request, messages: [...request.messages, prompt] }).map(
    ({ detail, rule }) => `a strict provider refuses the next request: ${rule}: ${detail}`
  )
}
