/**
 * A session as a person reads it: a fold from its events to text.
 *
 * - It shows what a model sees, and beside it what a model does not: how turns ended, what was cut off, what waits.
 * - Results are shown line by line as they stand, from both ends and bounded; `daybook events --json` has them whole.
 * - Its state is as large as one step and what waits, however long the log is.
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { StoredEvent, StoredOf } from "../domain/Event.ts"
import type { CallId } from "../domain/Ids.ts"
import * as Inbox from "../domain/Inbox.ts"
import { textOf, type UserMessage } from "../domain/Message.ts"
import type { TurnEnding } from "../domain/TurnEnding.ts"
import type { SessionRecord } from "../journal/Journal.ts"
import { brief, callLine, count, elapsed, flattened, isoTime, uncontrolled, verbatim } from "./Line.ts"

interface Call {
  readonly line: string
  /** The time of its `tool/call`. */
  readonly since?: number
  /** The time of its `tool/settled`. */
  readonly until?: number
}

export interface Reading {
  /** How many leading events were inherited: their splices are not this session's. */
  readonly seedLength: number
  readonly inbox: Inbox.Inbox
  readonly openTurn?: number
  /** The calls of the open step that have no result yet. */
  readonly calls: ReadonlyMap<CallId, Call>
  /** How many characters of text the open step's answer has in the log, before it is a message. */
  readonly streamed: number
}

export const start = (seedLength: number): Reading => ({
  seedLength,
  inbox: Inbox.empty,
  calls: new Map(),
  streamed: 0
})

/** How many lines of a result are shown at either end. */
export const resultLines = { first: 4, last: 8 }

/** The reading after one more event, and the text to print for it. */
export const read = (before: Reading, event: StoredEvent): readonly [Reading, string] => {
  switch (event.type) {
    case "agent/inbox/spliced":
      return [spliced(before, event), ""]
    case "turn/start":
      return [{ ...before, openTurn: event.data.turn }, `\n== turn ${event.data.turn}  ${isoTime(event.time)}\n`]
    case "turn/end": {
      const { openTurn: _closed, ...rest } = before
      return [{ ...rest, calls: new Map(), streamed: 0 }, `\n-- turn ${event.data.turn} ${ended(event.data.reason)}\n`]
    }
    case "step/start":
      return [{ ...before, calls: new Map(), streamed: 0 }, ""]
    case "step/end":
      return [{ ...before, streamed: 0 }, cutOff(before)]
    case "user/message":
      return [before, `\n${speaker(event.data)}:\n${indented(textOf(event.data))}`]
    case "assistant/chunk": {
      const { chunk } = event.data
      return [chunk.type === "text" ? { ...before, streamed: before.streamed + chunk.text.length } : before, ""]
    }
    case "request/retry":
      return [{ ...before, streamed: 0 }, `  (attempt ${event.data.attempt} failed: ${event.data.failure.code})\n`]
    case "assistant/message":
      return answered(before, event.data)
    case "tool/call": {
      const { arguments: raw, callId, name } = event.data
      const calls = new Map(before.calls).set(callId, { line: callLine(name, raw), since: event.time })
      return [{ ...before, calls }, ""]
    }
    case "tool/settled": {
      const call = before.calls.get(event.data.callId)
      if (call === undefined) return [before, ""]
      return [{ ...before, calls: new Map(before.calls).set(event.data.callId, { ...call, until: event.time }) }, ""]
    }
    case "tool/result":
      return result(before, event)
    case "context/replaced":
      return [before, `\n(events ${event.data.from} to ${event.data.to} stand as a summary in what the model sees)\n`]
    // what they tell is in other events, or is not for readers of a transcript
    case "request/header":
    case "tool/process":
    case "approval/asked":
    case "approval/decided":
    case "unrecognized":
      return [before, ""]
    default:
      return event satisfies never
  }
}

/** What stands above the transcript. */
export const heading = ({ header, head, summary }: SessionRecord): string => {
  const title = summary.title === "" ? "" : `  ${flattened(summary.title)}`
  const about = `${count(summary.turns, "turn")}, ${count(head, "event")}, begun ${isoTime(header.created)}`
  const origin = Option.match(header.parent, {
    onNone: () => "",
    onSome: (parent) =>
      header.seedLength > 0
        ? `forked from session ${parent} at seq ${header.seedLength}\n`
        : `child of session ${parent}\n`
  })
  return `session ${header.id}${title}\n${about} in ${flattened(header.cwd)}\n${origin}`
}

/** The calls that were read and whose results were not: all that is left to show where the log can be read no further. */
export const unanswered = (last: Reading): string =>
  [...last.calls.values()].map((call) => `  no result yet: ${call.line}\n`).join("")

/**
 * What stands below the transcript: a turn that is open, what waits, what was dropped unrun, and how to go on. The record's
 * owner is the live one; `place` are the options that name its place to another command.
 */
export const footing = (last: Reading, { header, owner, summary }: SessionRecord, place = ""): string => {
  const waiting = Inbox.pending(last.inbox)
  const who = Option.match(owner, {
    onNone: () => "it was interrupted: its owner is gone or silent",
    onSome: ({ host, pid }) => `it runs in process ${pid} of ${flattened(host)}`
  })
  const open = last.openTurn === undefined ? "" : `\n-- turn ${last.openTurn} is open; ${who}\n`
  const lines = waiting.map((message) => `  ${speaker(message)}: ${brief(textOf(message), 90)}\n`)
  const waits = lines.length === 0 ? "" : `\n${count(lines.length, "message")} waiting:\n${lines.join("")}`
  const dropped = summary.dropped === true ? "\nsomething that was sent was dropped unrun since the last turn\n" : ""
  const isLeft = Option.isNone(owner) && (last.openTurn !== undefined || Inbox.wakes(last.inbox))
  const next = isLeft ? `\nto go on: daybook run --session ${header.id} --continue${place}\n` : ""
  return `${open}${unanswered(last)}${waits}${dropped}${next}`
}

// internal

const speakers = {
  prompt: "you",
  steer: "you, while it worked",
  inject: "note",
  context: "note of a tool",
  resume: "daybook"
} as const

const speaker = (message: UserMessage): string => speakers[message.source.kind]

const spliced = (before: Reading, event: StoredOf<"agent/inbox/spliced">): Reading =>
  event.seq < before.seedLength
    ? before
    : { ...before, inbox: Either.getOrElse(Inbox.splice(before.inbox, event.data), () => before.inbox) }

const indented = (text: string): string =>
  text === ""
    ? ""
    : `${uncontrolled(text)
        .trimEnd()
        .replace(/^(?=.)/gm, "  ")}\n`

const cutOff = (before: Reading): string =>
  before.streamed === 0
    ? ""
    : `  (an answer was cut off after ${count(before.streamed, "character")}; the log has it, the model does not see it)\n`

const answered = (
  before: Reading,
  { interrupted, message }: StoredOf<"assistant/message">["data"]
): readonly [Reading, string] => {
  const blocks = message.content.filter((block) => block.type === "tool-call")
  const calls = new Map(blocks.map((block) => [block.callId, { line: callLine(block.name, block.arguments) }]))
  const name = flattened(`${message.source.provider}/${message.source.model}`)
  const text = textOf(message)
  const said = text === "" ? "" : `\n${name}:\n${indented(text)}`
  return [{ ...before, calls, streamed: 0 }, `${said}${interrupted === true ? "  (interrupted here)\n" : ""}`]
}

const result = (before: Reading, event: StoredOf<"tool/result">): readonly [Reading, string] => {
  const { error, message } = event.data
  const call = before.calls.get(message.callId)
  const calls = new Map(before.calls)
  calls.delete(message.callId)
  const how = message.isError ? `failed (${error?.code ?? "UNKNOWN"})` : "ok"
  const text = bounded(textOf(message))
  return [{ ...before, calls }, `\n  > ${call?.line ?? message.callId}\n  ${how}${lasting(event, call)}\n${text}`]
}

/** How long a call took. Of one that repair answered that is not known: its result has the time of what was stored last. */
const lasting = ({ data, time }: StoredOf<"tool/result">, call: Call | undefined): string => {
  if (call?.since === undefined || data.error?.code === "TOOL_NOT_STARTED") return ", not started"
  const until = data.error?.code === "TOOL_OUTCOME_UNKNOWN" ? call.until : (call.until ?? time)
  return until === undefined ? "" : `, ${elapsed(Math.max(0, until - call.since))}`
}

const bounded = (text: string): string => {
  const lines = text.trimEnd().split(/\r?\n/)
  const { first, last } = resultLines
  const kept =
    lines.length <= first + last + 1
      ? lines
      : [...lines.slice(0, first), `… ${count(lines.length - first - last, "line")} …`, ...lines.slice(-last)]
  return kept.map((each) => `${`  | ${verbatim(each, 160)}`.trimEnd()}\n`).join("")
}

const ended = (reason: TurnEnding): string => {
  switch (reason.kind) {
    case "completed":
      return "completed"
    case "max-tokens":
      return "ended: the answer was cut at its token limit"
    case "blocked":
      return `was blocked: ${brief(reason.message, 200)}`
    case "aborted":
      return "was cancelled"
    case "error":
      return `failed (${reason.error.code}): ${brief(reason.error.message, 200)}`
    case "interrupted":
      return "was interrupted: its owner was gone or silent; what was stored by then is kept"
    default:
      return reason satisfies never
  }
}
