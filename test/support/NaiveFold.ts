/**
 * A second derivation of everything that a log decides, written from DESIGN.md and the Decisions and not from `src`: it
 * scans the whole list for each question. What both get right together is right for two reasons.
 *
 * - `naiveRequest`: the request that a request made at the end of a log carries (law 1).
 * - `naiveLaws`: whatever a whole log shows against the laws, one line each.
 */
import type { StoredEvent, StoredOf } from "../../src/domain/Event.ts"
import { MessageId } from "../../src/domain/Ids.ts"
import type { AssistantBlock, Message, TextBlock, ToolMessage, UserMessage } from "../../src/domain/Message.ts"
import type { ChatRequest } from "../../src/domain/Request.ts"
import { neverStarted, noOutput, outcomeUnknown } from "../../src/domain/Transcript.ts"

type Log = ReadonlyArray<StoredEvent>
type Type = StoredEvent["type"]

const ofType = <T extends Type>(events: Log, type: T): ReadonlyArray<StoredOf<T>> =>
  events.filter((event): event is StoredOf<T> => event.type === type)

const findLast = <T extends Type>(events: Log, type: T): StoredOf<T> | undefined => ofType(events, type).at(-1)

// texts

const isBlank = (text: string): boolean => !/\S/.test(text)

/** UTF-8 has no half surrogate pairs; NUL goes the same way. */
const clean = (text: string): string => Buffer.from(text, "utf8").toString("utf8").split("\0").join("\uFFFD")

const cleanDeep = (value: unknown): unknown => {
  if (typeof value === "string") return clean(value)
  if (Array.isArray(value)) return value.map(cleanDeep)
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [clean(key), cleanDeep(item)]))
}

const visibleTexts = (content: ReadonlyArray<TextBlock>): ReadonlyArray<TextBlock> =>
  content.filter((block) => !isBlank(block.text)).map((block) => ({ type: "text", text: clean(block.text) }))

const resultTexts = (content: ReadonlyArray<TextBlock>): ReadonlyArray<TextBlock> => {
  const visible = visibleTexts(content)
  return visible.length > 0 ? visible : [{ type: "text", text: noOutput }]
}

const parse = (raw: string): unknown => {
  try {
    return JSON.parse(raw)
  } catch {
    return undefined
  }
}

/** The text of a JSON object: the model's own where it is one; half pairs and NULs that it wrote as escapes are replaced. */
const objectText = (raw: string): string => {
  const value = parse(clean(raw))
  if (typeof value !== "object" || value === null || Array.isArray(value)) return "{}"
  const cleaned = JSON.stringify(cleanDeep(value))
  return cleaned === JSON.stringify(value) ? clean(raw) : cleaned
}

const legalName = (name: string): string => {
  let legal = ""
  for (let i = 0; i < name.length && i < 64; i++) legal += /[a-zA-Z0-9_-]/.test(name.charAt(i)) ? name.charAt(i) : "_"
  return legal === "" ? "unnamed" : legal
}

// the request

/** What a model still sees as one piece: a closed step, or the messages that stand for a range. */
export interface VisibleSpan {
  readonly from: number
  readonly to: number
}

/** The visible pieces in order. A piece is hidden where a later replacement covers it. */
export const visibleSpans = (events: Log): ReadonlyArray<VisibleSpan> => {
  const steps = ofType(events, "step/end").map((end) => {
    let from = end.seq
    while (from > 0 && events[from]?.type !== "step/start") from--
    return { from, to: end.seq, born: end.seq }
  })
  const replaced = ofType(events, "context/replaced").map(({ data, seq }) => ({
    from: data.from,
    to: data.to,
    born: seq
  }))
  const covered = (span: { from: number; to: number; born: number }) =>
    replaced.some((by) => by.born > span.born && by.from <= span.from && span.to <= by.to)
  return [...steps, ...replaced].filter((span) => !covered(span)).sort((a, b) => a.from - b.from)
}

const shownInput = (inputs: ReadonlyArray<UserMessage>): ReadonlyArray<UserMessage> =>
  inputs
    .map((input) => ({ ...input, content: visibleTexts(input.content) }))
    .filter((input) => input.content.length > 0)

const shownBlock = (block: AssistantBlock): ReadonlyArray<AssistantBlock> => {
  if (block.type === "blob") return [block]
  if (block.type === "tool-call")
    return [{ ...block, name: legalName(block.name), arguments: objectText(block.arguments) }]
  if (isBlank(block.text) && !(block.type === "reasoning" && block.blob !== undefined)) return []
  return [{ ...block, text: clean(block.text) }]
}

const isAllowed = (decision: string): boolean => decision === "allowed-once" || decision === "allowed-always"

/** R6: its result, else what it settled with, else what is known of its start. */
const shownResult = (step: Log, callId: StoredOf<"tool/call">["data"]["callId"]): ToolMessage => {
  const result = ofType(step, "tool/result").find((event) => event.data.message.callId === callId)
  if (result !== undefined) return { ...result.data.message, content: resultTexts(result.data.message.content) }
  const settled = ofType(step, "tool/settled").find((event) => event.data.callId === callId)
  const decided = ofType(step, "approval/decided").findLast((event) => event.data.callId === callId)
  const refused = decided !== undefined && !isAllowed(decided.data.decision)
  const started = !refused && ofType(step, "tool/call").some((event) => event.data.callId === callId)
  const said = settled?.data.outcome.content ?? [
    { type: "text", text: started ? outcomeUnknown : neverStarted } satisfies TextBlock
  ]
  return {
    id: MessageId.make(callId),
    role: "tool",
    callId,
    content: resultTexts(said),
    isError: settled?.data.outcome.isError ?? true
  }
}

const shownStep = (step: Log): ReadonlyArray<Message> => {
  const inputs = shownInput(ofType(step, "user/message").map((event) => event.data))
  const answer = findLast(step, "assistant/message")?.data.message
  if (answer === undefined) return inputs
  const content = answer.content.flatMap(shownBlock)
  const results = answer.content.flatMap((block) =>
    block.type === "tool-call" ? [shownResult(step, block.callId)] : []
  )
  return content.length === 0 ? inputs : [...inputs, { ...answer, content }, ...results]
}

const shownSpan = (
  events: Log,
  replaced: ReadonlyArray<StoredOf<"context/replaced">>,
  span: VisibleSpan
): ReadonlyArray<Message> => {
  const replacement = replaced.findLast(({ data }) => data.from === span.from && data.to === span.to)
  return replacement === undefined
    ? shownStep(events.slice(span.from, span.to + 1))
    : shownInput(replacement.data.messages)
}

/** The input of the step that is open at the end of the log. */
const openInput = (events: Log): ReadonlyArray<Message> => {
  const start = findLast(events, "step/start")?.seq ?? -1
  const end = findLast(events, "step/end")?.seq ?? -1
  return start <= end ? [] : shownInput(ofType(events.slice(start), "user/message").map((event) => event.data))
}

/** What a request made at the end of this log carries; undefined where no header says how to ask. */
export const naiveRequest = (events: Log): ChatRequest | undefined => {
  const header = findLast(events, "request/header")?.data
  if (header === undefined) return undefined
  const replaced = ofType(events, "context/replaced")
  return {
    config: header.config,
    system: header.system,
    tools: header.tools,
    messages: [...visibleSpans(events).flatMap((span) => shownSpan(events, replaced, span)), ...openInput(events)]
  }
}

// the laws

/** A piece of the log between two of its events, both included. */
interface Piece {
  readonly name: string
  readonly events: Log
}

type Say = (problem: string) => void

const at = (event: StoredEvent) => `seq ${event.seq} (${event.type})`

const citedBy = (event: StoredEvent | undefined): ReadonlyArray<number> => {
  const cited = event?.sourceEventSeqs
  if (cited === undefined) return []
  if (!("from" in cited)) return cited
  const seqs: Array<number> = []
  for (let seq = cited.from; seq <= cited.to; seq++) seqs.push(seq)
  return seqs
}

const sameList = (a: ReadonlyArray<unknown>, b: ReadonlyArray<unknown>): boolean =>
  a.length === b.length && a.every((item, index) => item === b[index])

const repeatedIn = (ids: ReadonlyArray<string>): ReadonlyArray<string> =>
  ids.filter((id, index) => ids.indexOf(id) !== index)

/** Seqs from 0 without gaps, times that never go back. */
const orderOf = (events: Log, say: Say): void => {
  for (const [index, event] of events.entries()) {
    if (event.seq !== index) say(`${at(event)} stands at place ${index}`)
    if (event.time < (events[index - 1]?.time ?? 0)) say(`${at(event)} is earlier than the event before it`)
  }
}

/** The pieces that open with `start` and end with the next `end`, numbered 1..n; what is not closed ends with the log. */
const pieces = (
  events: Log,
  name: "turn" | "step",
  numberOf: (event: StoredOf<"step/start" | "step/end" | "turn/start" | "turn/end">) => number | undefined,
  say: Say
): ReadonlyArray<Piece> => {
  const found: Array<Piece> = []
  let open: number | undefined
  for (const [index, event] of events.entries()) {
    if (event.type === `${name}/start`) {
      if (open !== undefined) say(`${at(event)} opens a ${name} inside another`)
      open = index
      const number = numberOf(event as StoredOf<"turn/start" | "step/start">)
      if (number !== found.length + 1) say(`${at(event)} opens ${name} ${number} where ${found.length + 1} is due`)
    }
    if (event.type === `${name}/end`) {
      const number = numberOf(event as StoredOf<"turn/end" | "step/end">)
      if (open === undefined) say(`${at(event)} ends a ${name} that is not open`)
      else if (number !== found.length + 1) say(`${at(event)} ends ${name} ${number} inside ${found.length + 1}`)
      found.push({ name: `${name} ${number}`, events: events.slice(open ?? index, index + 1) })
      open = undefined
    }
  }
  if (open !== undefined) {
    say(`${name} ${found.length + 1} never ends`)
    found.push({ name: `${name} ${found.length + 1}`, events: events.slice(open) })
  }
  return found
}

/** Nothing that belongs to a turn, or to a step of a turn, stands outside it. */
const bounds = (piece: { readonly turns: ReadonlyArray<Piece>; readonly events: Log }, say: Say): void => {
  const inTurn = new Set(piece.turns.flatMap((turn) => turn.events))
  for (const event of piece.events) {
    if (event.type === "agent/inbox/spliced") {
      const claims = event.data.removedCount !== undefined && event.data.outcome === undefined
      if (claims && !inTurn.has(event)) say(`${at(event)} claims outside any turn`)
    } else if (event.type !== "context/replaced" && event.type !== "unrecognized" && !inTurn.has(event))
      say(`${at(event)} stands outside any turn`)
  }
}

const stepBound: ReadonlySet<Type> = new Set<Type>([
  "user/message",
  "request/header",
  "assistant/chunk",
  "assistant/message",
  "tool/call",
  "tool/process",
  "tool/settled",
  "tool/result",
  "request/retry",
  "approval/asked",
  "approval/decided"
])

interface Step {
  readonly turn: number
  readonly step: number
  readonly isLast: boolean
  readonly ending: string
  readonly events: Log
  /** The whole log. */
  readonly log: Log
}

/** Input, header and chunks come before the one answer; the answer cites the chunks of its own attempt, and only those. */
const answerOf = (step: Step, say: Say): void => {
  const { events, log } = step
  const answers = ofType(events, "assistant/message")
  if (answers.length > 1) say("it has several answers")
  const answer = answers[0]
  const before: ReadonlySet<Type> = new Set<Type>([
    "user/message",
    "request/header",
    "assistant/chunk",
    "request/retry"
  ])
  for (const event of events)
    if (answer !== undefined && event.seq > answer.seq && before.has(event.type)) say(`${at(event)} follows the answer`)
  for (const event of [...ofType(events, "assistant/chunk"), ...answers])
    if (!log.some(({ seq, type }) => type === "request/header" && seq < event.seq))
      say(`${at(event)} has no header before it`)
  const retries = ofType(events, "request/retry")
  for (const [index, retry] of retries.entries())
    if (retry.data.attempt !== index + 1) say(`${at(retry)} counts ${retry.data.attempt} where ${index + 1} is due`)
  if (answer === undefined) {
    if (!step.isLast || !["aborted", "error", "interrupted"].includes(step.ending)) say("it has no answer")
    return
  }
  const since = retries.at(-1)?.seq ?? -1
  const chunks = ofType(events, "assistant/chunk").filter((chunk) => chunk.seq > since)
  const seqs = chunks.map((chunk) => chunk.seq)
  if (!sameList(citedBy(answer), seqs)) say(`${at(answer)} cites ${citedBy(answer)}, its chunks are ${seqs}`)
  const { finish, interrupted, message } = answer.data
  if ((interrupted === true) === (finish !== undefined))
    say(`${at(answer)} is both finished and interrupted, or neither`)
  const calls = message.content.filter((block) => block.type === "tool-call")
  if (interrupted === true) {
    if (!step.isLast || !["aborted", "interrupted"].includes(step.ending))
      say(`${at(answer)} was cut and the turn went on`)
    if (calls.length > 0) say(`${at(answer)} was cut and has calls`)
  }
  if (finish === "max-tokens" && calls.length > 0) say(`${at(answer)} was cut at its limit and has calls`)
}

/** What is known of one call: at most one of each event, in order, and one result unless its turn failed. */
const callOf = (step: Step, call: Extract<AssistantBlock, { type: "tool-call" }>, index: number, say: Say): void => {
  const { events } = step
  const id = call.callId
  if (id !== `t${step.turn}s${step.step}c${index}`) say(`call ${index} is named ${id}`)
  const started = ofType(events, "tool/call").filter((event) => event.data.callId === id)
  const settled = ofType(events, "tool/settled").filter((event) => event.data.callId === id)
  const results = ofType(events, "tool/result").filter((event) => event.data.message.callId === id)
  const asked = ofType(events, "approval/asked").filter((event) => event.data.callId === id)
  const decided = ofType(events, "approval/decided").filter((event) => event.data.callId === id)
  const processes = ofType(events, "tool/process").filter((event) => event.data.callId === id)
  const [start] = started
  const [result] = results
  if (started.length > 1) say(`call ${id} is started ${started.length} times`)
  if (settled.length > 1) say(`call ${id} settles ${settled.length} times`)
  if (results.length > 1) say(`call ${id} has ${results.length} results`)
  if (results.length === 0 && (step.ending !== "error" || !step.isLast)) say(`call ${id} has no result`)
  if (start !== undefined && (start.data.name !== call.name || start.data.arguments !== call.arguments))
    say(`${at(start)} is not the call of the answer`)
  if (asked.length !== decided.length)
    say(`call ${id} was asked about ${asked.length} times, decided ${decided.length}`)
  for (const [place, question] of asked.entries())
    if ((decided[place]?.seq ?? 0) < question.seq) say(`${at(question)} is decided before it is asked`)
  for (const event of [...settled, ...processes, ...asked])
    if (start === undefined || event.seq < start.seq) say(`${at(event)} comes before its call was started`)
  for (const event of [...started, ...settled, ...processes])
    if (result !== undefined && event.seq > result.seq) say(`${at(event)} comes after its result`)
  if (decided.some((event) => event.data.decision === "interrupted") && step.ending !== "interrupted")
    say(`call ${id}: only repair decides "interrupted"`)
  if (result !== undefined)
    resultOf(step, result, { start, settled: settled[0], decision: decided.at(-1)?.data.decision }, say)
}

/** A result cites what it came from; what repair writes is written by repair alone, and is true. */
const resultOf = (
  step: Step,
  result: StoredOf<"tool/result">,
  known: {
    readonly start: StoredOf<"tool/call"> | undefined
    readonly settled: StoredOf<"tool/settled"> | undefined
    readonly decision: string | undefined
  },
  say: Say
): void => {
  const { decision, settled, start } = known
  const code = result.data.error?.code
  const due = [start, settled].flatMap((event) => (event === undefined ? [] : [event.seq]))
  if (!sameList(citedBy(result), due)) say(`${at(result)} cites ${citedBy(result)} and comes from ${due}`)
  if (start === undefined && code !== "TOOL_NOT_STARTED") say(`${at(result)} has no tool/call before it`)
  if (code === "TOOL_NOT_STARTED" || code === "TOOL_OUTCOME_UNKNOWN") {
    const neverRan = start === undefined || (decision !== undefined && !isAllowed(decision))
    if (step.ending !== "interrupted" || !step.isLast) say(`${at(result)}: only repair writes ${code}`)
    if (settled !== undefined) say(`${at(result)} says ${code}, but the call had settled`)
    if (neverRan !== (code === "TOOL_NOT_STARTED")) say(`${at(result)} says ${code}, which is not what happened`)
  }
  if (settled === undefined) return
  const { content, isError } = settled.data.outcome
  const told = JSON.stringify(resultTexts(content))
  if (told !== JSON.stringify(resultTexts(result.data.message.content)) || isError !== result.data.message.isError)
    say(`${at(result)} is not what the call settled with`)
}

const stepLaws = (step: Step, say: Say): void => {
  answerOf(step, say)
  const answer = ofType(step.events, "assistant/message")[0]
  const calls = answer?.data.message.content.filter((block) => block.type === "tool-call") ?? []
  for (const [index, call] of calls.entries()) callOf(step, call, index, say)
  const ids: ReadonlyArray<string> = calls.map((call) => call.callId)
  const answered: ReadonlyArray<string> = ofType(step.events, "tool/result").map((event) => event.data.message.callId)
  if (!sameList(answered, ids.slice(0, answered.length))) say(`results stand in the order ${answered}`)
  for (const event of step.events) {
    const { data } = event
    if ("step" in data && (data.turn !== step.turn || data.step !== step.step)) say(`${at(event)} belongs elsewhere`)
    const callId = event.type === "tool/result" ? event.data.message.callId : "callId" in data ? data.callId : undefined
    if (callId !== undefined && !ids.includes(callId)) say(`${at(event)} answers no call of its step`)
    if (event.type === "context/replaced") say(`${at(event)} stands inside a step`)
  }
}

const turnLaws = (turn: Piece, number: number, log: Log, say: Say): void => {
  const end = turn.events.at(-1)
  const ending = end?.type === "turn/end" ? end.data.reason.kind : "open"
  const steps = pieces(
    turn.events,
    "step",
    (event) => ("step" in event.data ? event.data.step : undefined),
    (problem) => say(`${turn.name}: ${problem}`)
  )
  const inStep = new Set(steps.flatMap((step) => step.events))
  for (const event of turn.events)
    if (stepBound.has(event.type) && !inStep.has(event)) say(`${turn.name}: ${at(event)} stands outside any step`)
  for (const [index, { events, name }] of steps.entries()) {
    const step = { turn: number, step: index + 1, isLast: index === steps.length - 1, ending, events, log }
    stepLaws(step, (problem) => say(`${turn.name}, ${name}: ${problem}`))
  }
  const cut = ofType(turn.events, "assistant/message").some((event) => event.data.finish === "max-tokens")
  if (ending === "completed" && cut) say(`${turn.name}: its answer was cut at its limit, and it says completed`)
  if (ending === "max-tokens" && !cut) say(`${turn.name}: no answer was cut at its limit, and it says max-tokens`)
  const last = turn.events.at(-2)
  if (ending === "interrupted" && last !== undefined && end?.time !== last.time)
    say(`${turn.name}: repair invented a time`)
}

/** The inbox of this log by replaying its splices; every message waits once, is taken once, and enters a step once. */
const inboxOf = (events: Log, seedLength: number, say: Say): void => {
  const lists: Record<string, Array<UserMessage>> = { "next-turn": [], "next-step": [] }
  const inserted = new Set<string>()
  const claimed = new Map<string, number>()
  const entered = ofType(events, "user/message").map((event) => event.data.id)
  for (const id of repeatedIn(entered)) say(`message ${id} was consumed twice`)
  for (const event of events) {
    if (event.type === "user/message" && event.seq >= seedLength) {
      const { id } = event.data
      if (inserted.has(id) && !claimed.has(id)) say(`${at(event)}: message ${id} entered and was not claimed`)
      if (Object.values(lists).some((list) => list.some((message) => message.id === id)))
        say(`${at(event)}: message ${id} entered and still waits`)
    }
    if (event.type !== "agent/inbox/spliced" || event.seq < seedLength) continue
    const { data } = event
    const list = lists[data.target] ?? []
    const count = data.removedCount ?? 0
    if (data.start + count > list.length) say(`${at(event)} does not fit`)
    const removed = list.splice(data.start, count, ...data.inserted)
    for (const { id } of data.inserted) {
      if (claimed.has(id)) say(`${at(event)} inserts message ${id}, which was claimed before`)
      inserted.add(id)
    }
    for (const { id } of data.outcome === "canceled" ? [] : removed) {
      if (claimed.has(id)) say(`${at(event)} claims message ${id} a second time`)
      claimed.set(id, event.seq)
    }
    const waiting = Object.values(lists).flatMap((waits) => waits.map((message) => message.id))
    for (const id of repeatedIn(waiting)) say(`${at(event)}: message ${id} waits twice`)
  }
}

/** A replacement names borders of pieces that were visible until then, and says something. */
const replacementsOf = (events: Log, say: Say): void => {
  for (const event of ofType(events, "context/replaced")) {
    const visible = visibleSpans(events.slice(0, event.seq))
    const first = visible.findIndex((span) => span.from === event.data.from)
    const last = visible.findIndex((span) => span.to === event.data.to)
    if (first === -1 || last < first) say(`${at(event)} replaces what is not there`)
    if (shownInput(event.data.messages).length === 0) say(`${at(event)} says nothing`)
  }
}

/** The first header says "initial", no other does. */
const headersOf = (events: Log, say: Say): void => {
  for (const [index, header] of ofType(events, "request/header").entries())
    if ((index === 0) !== (header.data.reason === "initial")) say(`${at(header)} says ${header.data.reason}`)
}

/**
 * What this log shows against the laws; empty for one that any owner may leave, each turn closed. The first `seedLength`
 * events are inherited: their splices are not this session's.
 */
export const naiveLaws = (events: Log, seedLength = 0): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const say = (problem: string) => {
    problems.push(problem)
  }
  orderOf(events, say)
  const turns = pieces(events, "turn", (event) => event.data.turn, say)
  bounds({ turns, events }, say)
  for (const [index, turn] of turns.entries()) turnLaws(turn, index + 1, events, say)
  inboxOf(events, seedLength, say)
  replacementsOf(events, say)
  headersOf(events, say)
  return problems
}
