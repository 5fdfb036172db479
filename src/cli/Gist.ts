/**
 * Events as `daybook events` prints them, one a line.
 *
 * - As JSON: all that is stored, in canonical form; an event of a newer version in its own form.
 * - For people: where it stands, when, its type, and the gist of it.
 */
import type { StoredEvent } from "../domain/Event.ts"
import { type Message, textOf } from "../domain/Message.ts"
import type { TurnEnding } from "../domain/TurnEnding.ts"
import { canonical } from "../internal/Json.ts"
import { brief, callLine, count, elapsed, isoTime } from "./Line.ts"

/**
 * The event as one JSON object: equal events are equal lines, whether they were just committed or read from a journal. Its
 * own keys stand in a fixed order, those within are sorted.
 */
export const json = (event: StoredEvent): string => {
  const { ignorable, seq, sourceEventSeqs, time } = event
  const { data, type } = event.type === "unrecognized" ? event.data : event
  const cited = sourceEventSeqs === undefined ? "" : `,"sourceEventSeqs":${canonical(sourceEventSeqs)}`
  const mark = ignorable === undefined ? "" : `,"ignorable":${ignorable}`
  return `{"seq":${seq},"time":${time},"type":${JSON.stringify(type)},"data":${canonical(data)}${cited}${mark}}`
}

/** The event as a line for people. */
export const line = (event: StoredEvent): string => {
  const type = event.type === "unrecognized" ? brief(event.data.type, 40) : event.type
  return `${String(event.seq).padStart(6)}  ${isoTime(event.time)}  ${type.padEnd(20)}  ${gist(event)}`.trimEnd()
}

/** How a turn ended, in a few words. */
export const ending = (reason: TurnEnding): string => {
  switch (reason.kind) {
    case "error":
      return `error ${reason.error.code}: ${brief(reason.error.message, 100)}`
    case "blocked":
      return `blocked: ${brief(reason.message, 100)}`
    case "completed":
    case "max-tokens":
    case "aborted":
    case "interrupted":
      return reason.kind
    default:
      return reason satisfies never
  }
}

// internal

const quoted = (text: string): string => `"${brief(text, 70)}"`

const said = (message: Message): string => quoted(textOf(message))

const gist = (event: StoredEvent): string => {
  switch (event.type) {
    case "agent/inbox/spliced":
      return spliceGist(event.data)
    case "turn/start":
      return `turn ${event.data.turn}`
    case "turn/end":
      return `turn ${event.data.turn} ${ending(event.data.reason)}`
    case "step/start":
    case "step/end":
      return `turn ${event.data.turn} step ${event.data.step}`
    case "user/message":
      return `${event.data.source.kind} ${said(event.data)}`
    case "request/header": {
      const { config, reason, tools } = event.data
      return `${reason}: ${brief(`${config.provider}/${config.model}`, 60)}, ${count(tools.length, "tool")}`
    }
    case "assistant/chunk":
      return chunkGist(event.data.chunk)
    case "assistant/message":
      return answerGist(event.data)
    case "tool/call":
      return `${event.data.callId} ${callLine(event.data.name, event.data.arguments)}`
    case "tool/process":
      return `${event.data.callId} process group ${event.data.pgid}`
    case "tool/settled":
      return `${event.data.callId} ${outcomeGist(event.data.outcome)}`
    case "tool/result": {
      const { error, message } = event.data
      return `${message.callId} ${outcomeGist({ ...message, error })}`
    }
    case "request/retry": {
      const { attempt, delayMillis, failure } = event.data
      return `attempt ${attempt} failed (${failure.code}); next in ${elapsed(delayMillis)}`
    }
    case "approval/asked":
      return event.data.callId
    case "approval/decided":
      return `${event.data.callId} ${event.data.decision}`
    case "context/replaced":
      return `${event.data.from} to ${event.data.to} by ${count(event.data.messages.length, "message")}`
    case "unrecognized":
      return "of a newer version"
    default:
      return event satisfies never
  }
}

type DataOf<T extends StoredEvent["type"]> = Extract<StoredEvent, { readonly type: T }>["data"]

const spliceGist = (data: DataOf<"agent/inbox/spliced">): string => {
  const verb = data.outcome === "canceled" ? "dropped" : "took"
  const removed = data.removedCount === undefined ? [] : [`${verb} ${count(data.removedCount, "message")}`]
  const inserted = data.inserted.map((message) => `${message.source.kind} ${said(message)}`)
  return `${data.target}: ${[...removed, ...inserted].join(", ")}`
}

const chunkGist = (chunk: DataOf<"assistant/chunk">["chunk"]): string => {
  switch (chunk.type) {
    case "text":
    case "reasoning":
      return `${chunk.type} ${quoted(chunk.text)}`
    case "tool-call":
      return `tool-call ${brief(chunk.name ?? "", 40)} ${brief(chunk.arguments, 70)}`
    case "usage":
      return `usage ${chunk.usage.inputTokens} in, ${chunk.usage.outputTokens} out`
    case "blob":
      return "blob"
    default:
      return chunk satisfies never
  }
}

const answerGist = (data: DataOf<"assistant/message">): string => {
  const calls = data.message.content.filter((block) => block.type === "tool-call").length
  const text = textOf(data.message)
  const parts = [...(text === "" ? [] : [quoted(text)]), ...(calls === 0 ? [] : [count(calls, "call")])]
  const end = data.interrupted === true ? "interrupted" : (data.finish ?? "")
  return `${end}${parts.length === 0 ? "" : `: ${parts.join(", ")}`}`
}

const outcomeGist = (outcome: Pick<DataOf<"tool/settled">["outcome"], "content" | "isError" | "error">): string => {
  const text = outcome.content.map((block) => block.text).join(" ")
  return `${outcome.isError ? `failed ${outcome.error?.code ?? ""}`.trimEnd() : "ok"} ${quoted(text)}`
}
