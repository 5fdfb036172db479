/**
 * What `run` shows: a fold from the items of a feed to text for standard output and lines for standard error.
 *
 * - The answer goes to standard output, whole and once: as it streams, and what was not shown by then when its message is
 *   in the log. Once notices were lost, the durable runs are shown instead of the deltas.
 * - Tools and states go to standard error, a line each. Times are those of the events.
 */
import * as Predicate from "effect/Predicate"
import type { ChatChunk } from "../domain/Chunk.ts"
import type { StoredEvent, StoredOf, ToolOutcome } from "../domain/Event.ts"
import type { CallId } from "../domain/Ids.ts"
import { textOf } from "../domain/Message.ts"
import type { FeedItem, Status } from "../domain/Notice.ts"
import type { TurnEnding } from "../domain/TurnEnding.ts"
import { brief, callLine, clip, count, elapsed, flattened } from "./Line.ts"

/** A call that runs. */
export interface Running {
  readonly line: string
  /** The time of its `tool/call`. */
  readonly since: number
  readonly progress: string
}

/** The answer that streams: the one attempt at it whose text is being shown. */
interface Answer {
  /** How many characters of its text were shown. */
  readonly shown: number
  /** How many characters of its text are in the log. */
  readonly stored: number
  /** Blocks that are closed: what still comes for them is in no message. */
  readonly closed: ReadonlySet<number>
  /** Half a surrogate pair, shown together with its other half. */
  readonly half: string
  readonly endsLine: boolean
}

export interface View {
  /** Whether every delta since the subscription was seen. */
  readonly complete: boolean
  readonly answer: Answer
  /** Since when the model is asked, while nothing of its answer is shown; or from when on it will be asked again. */
  readonly asking: number | undefined
  readonly running: ReadonlyMap<CallId, Running>
}

/** Text for standard output, or a line for standard error. */
export type Piece =
  | { readonly to: "out"; readonly text: string }
  /** `about` marks a line that means nothing where the text of answers is not printed. */
  | { readonly to: "err"; readonly line: string; readonly about?: "printed text" }

/** What follows an item: the next view, and what to write. */
export type Shown = readonly [View, ReadonlyArray<Piece>]

const noAnswer: Answer = { shown: 0, stored: 0, closed: new Set(), half: "", endsLine: true }

export const empty: View = { complete: true, answer: noAnswer, asking: undefined, running: new Map() }

/** What to show of one item. */
export const show = (view: View, item: FeedItem): Shown => {
  switch (item.type) {
    case "event":
      return showEvent(view, item.event)
    case "delta":
      return view.complete ? showDelta(view, item.chunk) : [view, []]
    case "lagged":
      return [{ ...view, complete: false }, []]
    case "cancel":
      // nobody asked for it: the agent is left, and whoever leaves it says why
      if (item.cause === "disposed") return [view, []]
      return [view, [line(`turn ${item.turn} is being cancelled; waiting until it has settled`)]]
    case "parked":
      return [view, [line(`${count(item.count, "prompt")} ${item.count === 1 ? "waits" : "wait"} for the next one`)]]
    case "tool-progress":
      return [withProgress(view, item.callId, brief(item.text, 200)), []]
    // the log or the end of the run tells the same, or there is nothing to tell
    case "broken":
    case "error":
    case "ended":
    case "status":
    case "claimed":
    case "discarded":
      return [view, []]
    default:
      return item satisfies never
  }
}

/** A line for each running call, or for the model that is asked, as it is drawn over and over: at most `rows` lines of `columns` columns. */
export const liveLines = (
  view: View,
  at: { readonly now: number; readonly columns: number; readonly rows: number }
): ReadonlyArray<string> => {
  const calls = view.asking === undefined ? [...view.running.values()] : [asked(view.asking, at.now)]
  const fitting = calls.length > at.rows ? calls.slice(0, Math.max(0, at.rows - 1)) : calls
  const lines = fitting.map((call) => {
    const time = `  ${elapsed(Math.max(0, at.now - call.since))}  `
    // what it does now is worth half of the line
    const about = call.progress === "" ? call.line : `${clip(call.line, Math.floor(at.columns / 2))}  ${call.progress}`
    return clip(time + about, at.columns)
  })
  if (calls.length === fitting.length || at.rows < 1) return lines
  return [...lines, clip(`  and ${calls.length - fitting.length} more`, at.columns)]
}

/** What a cancelled turn is waiting for: the calls that still run, whether or not the log has their end. */
export const waitingFor = (view: View, status: Status): string => {
  const calls = status._tag === "Running" ? status.calls : []
  if (calls.length === 0) return "the turn's end to be stored"
  return `the turn to settle: ${calls.map(({ callId, name }) => view.running.get(callId)?.line ?? name).join("; ")}`
}

// internal

/** The model as one more call. Before its time has come it shows how long that takes. */
const asked = (since: number, now: number): Running => ({
  line: now < since ? "until the model is asked again" : "waiting for the model",
  since: now - Math.abs(now - since),
  progress: ""
})

const line = (text: string): Piece => ({ to: "err", line: `daybook: ${flattened(text)}` })

const showEvent = (view: View, event: StoredEvent): Shown => {
  switch (event.type) {
    case "step/start":
      return [{ ...view, answer: noAnswer, asking: event.time }, []]
    case "assistant/chunk":
      return event.data.chunk.type === "text" ? showStored(view, event.data.chunk.text) : [view, []]
    case "assistant/message":
      return showMessage(view, textOf(event.data.message), event.data.interrupted === true)
    case "request/retry":
      return showRetry(view, event)
    case "tool/call": {
      const { arguments: raw, callId, name } = event.data
      const call = { line: callLine(name, raw), since: event.time, progress: "" }
      return [
        { ...view, running: new Map(view.running).set(callId, call) },
        [{ to: "err", line: `call    ${call.line}` }]
      ]
    }
    case "approval/asked":
      return [withProgress(view, event.data.callId, "is asked about"), []]
    case "approval/decided":
      return [withProgress(view, event.data.callId, ""), []]
    case "tool/settled":
      return showSettled(view, event.data.callId, event.time, event.data.outcome)
    case "tool/result": {
      const { error, message } = event.data
      return showSettled(view, message.callId, event.time, { ...message, error })
    }
    case "turn/end": {
      const [next, pieces] = endLine({ ...view, asking: undefined, running: new Map() })
      return [next, [...pieces, ...showEnding(event.data.turn, event.data.reason)]]
    }
    default:
      return [view, []]
  }
}

const withProgress = (view: View, callId: CallId, progress: string): View => {
  const call = view.running.get(callId)
  return call === undefined ? view : { ...view, running: new Map(view.running).set(callId, { ...call, progress }) }
}

const showDelta = (view: View, chunk: ChatChunk): Shown => {
  const { answer } = view
  if (chunk.type === "end")
    return [{ ...view, answer: { ...answer, closed: new Set(answer.closed).add(chunk.index) } }, []]
  if (chunk.type !== "text" || chunk.text === "" || answer.closed.has(chunk.index)) return [view, []]
  const text = answer.half + chunk.text
  const last = text.charCodeAt(text.length - 1)
  const half = last >= 0xd800 && last < 0xdc00 ? text.slice(-1) : ""
  return showText({ ...view, answer: { ...answer, half } }, half === "" ? text : text.slice(0, -1))
}

const showText = (view: View, text: string): Shown => {
  if (text === "") return [view, []]
  const answer = { ...view.answer, shown: view.answer.shown + text.length, endsLine: text.endsWith("\n") }
  return [{ ...view, answer, asking: undefined }, [{ to: "out", text }]]
}

/** A durable run: what of it was not shown as deltas. */
const showStored = (view: View, text: string): Shown => {
  const stored = view.answer.stored + text.length
  const missing = stored - view.answer.shown
  const next = { ...view, answer: { ...view.answer, stored } }
  // half a pair that is held back here comes with the next delta
  if (missing <= 0 || (view.complete && missing <= view.answer.half.length)) return [next, []]
  return showText(next, text.slice(-missing))
}

/** A whole answer: what of it was not shown yet, and the end of its last line. */
const showMessage = (view: View, text: string, interrupted: boolean): Shown => {
  const [shown, rest] = showText(view, text.slice(view.answer.shown))
  const [ended, end] = endLine(shown)
  const note = interrupted ? [line("the answer was cut off; what there is of it is kept")] : []
  return [{ ...ended, answer: noAnswer, asking: undefined }, [...rest, ...end, ...note]]
}

const endLine = (view: View): Shown =>
  view.answer.endsLine
    ? [view, []]
    : [{ ...view, answer: { ...view.answer, endsLine: true } }, [{ to: "out", text: "\n" }]]

/** What was printed of an attempt that failed stays where it is: standard output cannot be taken back. */
const disowned: Piece = {
  to: "err",
  line: "daybook: what was printed of its answer does not count: the next request's answer starts from the beginning",
  about: "printed text"
}

const showRetry = (view: View, { data, time }: StoredOf<"request/retry">): Shown => {
  const [next, end] = endLine(view)
  const { code, message } = data.failure
  const when = `the next one goes out in ${elapsed(data.delayMillis)}${cutWait(data)}`
  const failed = line(`request ${data.attempt} failed (${code}: ${brief(message, 200)}); ${when}`)
  const printed = view.answer.shown === 0 ? [] : [disowned]
  return [{ ...next, answer: noAnswer, asking: time + data.delayMillis }, [...end, failed, ...printed]]
}

/** A server may ask for more than there is patience for. */
const cutWait = ({ delayMillis, failure: { details } }: StoredOf<"request/retry">["data"]): string => {
  const asked = Predicate.isRecord(details) ? details["retryAfterMillis"] : undefined
  return typeof asked === "number" && asked > delayMillis ? ` (the server asks to wait ${elapsed(asked)})` : ""
}

const showSettled = (
  view: View,
  callId: CallId,
  time: number,
  outcome: Pick<ToolOutcome, "content" | "isError" | "error">
): Shown => {
  const call = view.running.get(callId)
  if (call === undefined) return [view, []]
  const running = new Map(view.running)
  running.delete(callId)
  const output = outcome.content.map((each) => each.text).join("\n")
  const why = outcome.isError ? `: ${brief(output, 120)}` : marker(output)
  const text = `${outcome.isError ? "failed" : "ok    "}  ${call.line}  ${elapsed(Math.max(0, time - call.since))}${why}`
  return [{ ...view, running }, [{ to: "err", line: text }]]
}

/** What a tool says of how it ended: a last line in brackets. The call is fine all the same. */
const marker = (output: string): string => {
  const last = output.slice(-80).trimEnd().split("\n").at(-1) ?? ""
  return /^\[.+\]$/.test(last) ? `  ${flattened(last)}` : ""
}

const showEnding = (turn: number, ending: TurnEnding): ReadonlyArray<Piece> => {
  switch (ending.kind) {
    case "completed":
      return []
    case "max-tokens":
      return [line(`turn ${turn}: the answer was cut at its token limit`)]
    case "blocked":
      return [line(`turn ${turn} was blocked: ${brief(ending.message, 300)}`)]
    case "aborted":
      return [line(`turn ${turn} was cancelled`)]
    case "error":
      return [line(`turn ${turn} failed (${ending.error.code}): ${brief(ending.error.message, 300)}`)]
    case "interrupted":
      return [line(`turn ${turn} was interrupted`)]
    default:
      return ending satisfies never
  }
}
