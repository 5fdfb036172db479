/**
 * How a prompt went: a fold of the stored events that follow it.
 *
 * - The turn that took the prompt decides, and no other: its ending, and whether one of its calls was denied.
 * - A prompt that no turn took was dropped, or waits still.
 */
import * as Option from "effect/Option"
import type { StoredEvent, StoredOf } from "../domain/Event.ts"
import type { MessageId, SessionId } from "../domain/Ids.ts"
import type { TurnEnding } from "../domain/TurnEnding.ts"
import { type Signal, signalCodes } from "./Shutdown.ts"

/** What became of a prompt. `Unended`: its turn has no end in the journal. */
export type Verdict =
  | { readonly _tag: "Ended"; readonly turn: number; readonly ending: TurnEnding; readonly denied: boolean }
  | { readonly _tag: "Unended"; readonly turn: number }
  | { readonly _tag: "Waiting" }
  | { readonly _tag: "Dropped" }

/** A prompt that is looked for, and what the log has told so far. */
export interface Search {
  readonly prompt: MessageId
  readonly verdict: Verdict
  /** The turn that is open now. */
  readonly openTurn?: number
  /** Where the prompt waits, counted from 0 among the prompts for turns to come. */
  readonly place?: number
  /** A call of the turn that took the prompt was denied. */
  readonly denied: boolean
}

export const search = (prompt: MessageId): Search => ({ prompt, verdict: { _tag: "Waiting" }, denied: false })

/** What is known after one more event. */
export const advance = (before: Search, event: StoredEvent): Search => {
  switch (event.type) {
    case "agent/inbox/spliced":
      return spliced(before, event.data)
    case "turn/start":
      return { ...before, openTurn: event.data.turn }
    case "tool/result": {
      const own = before.verdict._tag === "Unended" && before.verdict.turn === event.data.turn
      return own && event.data.error?.code === "TOOL_DENIED" ? { ...before, denied: true } : before
    }
    case "turn/end": {
      const { reason: ending, turn } = event.data
      if (before.verdict._tag !== "Unended" || before.verdict.turn !== turn) return before
      return { ...before, verdict: { _tag: "Ended", turn, ending, denied: before.denied } }
    }
    default:
      return before
  }
}

/**
 * The exit code of `run`. A signal's code stands for what the signal cut short, and for nothing that ended before it. A turn
 * that has no end in the journal is an error: a signal's code says that all is stored.
 */
export const exitCode = (
  verdict: Verdict,
  { isRead, signal }: { readonly signal: Option.Option<Signal>; readonly isRead: boolean }
): number => {
  const cut = Option.match(signal, { onNone: () => 1, onSome: (received) => signalCodes[received] })
  if (verdict._tag === "Unended") return 1
  if (verdict._tag !== "Ended") return cut
  switch (verdict.ending.kind) {
    case "completed":
      if (verdict.denied) return 3
      return isRead ? 0 : cut
    case "blocked":
      return 3
    case "aborted":
    case "interrupted":
      return cut
    case "max-tokens":
    case "error":
      return 1
    default:
      return verdict.ending satisfies never
  }
}

/** What is left to say of a prompt that did not simply come to its end: what is kept, and what to do next. */
export const advice = (sessionId: SessionId, verdict: Verdict): string | undefined => {
  const next = `daybook run --session ${sessionId} PROMPT`
  switch (verdict._tag) {
    case "Waiting":
      return `session ${sessionId}: the prompt was not run. It is kept, and runs before the next one: ${next}`
    case "Dropped":
      return `session ${sessionId}: the prompt was not run, and was taken back. To send another one: ${next}`
    case "Unended":
      // what is kept depends on why the journal took no more, and was said with that
      return `session ${sessionId}: turn ${verdict.turn} has no end in the journal. Once that is mended, go on with: ${next}`
    case "Ended":
      if (verdict.ending.kind !== "completed")
        return `session ${sessionId}: what turn ${verdict.turn} did until then is kept. To go on: ${next}`
      return verdict.denied
        ? `session ${sessionId}: turn ${verdict.turn} completed, but a call was denied. \`daybook show ${sessionId}\` tells which.`
        : undefined
    default:
      return verdict satisfies never
  }
}

// internal

/** The prompt enters its list, moves within it, or leaves it: taken by the open turn, or dropped. */
const spliced = (before: Search, data: StoredOf<"agent/inbox/spliced">["data"]): Search => {
  if (data.target !== "next-turn") return before
  const { place, ...rest } = before
  const inserted = data.inserted.findIndex((message) => message.id === before.prompt)
  if (inserted !== -1) return { ...before, place: data.start + inserted }
  const removed = data.removedCount ?? 0
  if (place === undefined || place < data.start) return before
  if (place >= data.start + removed) return { ...before, place: place - removed + data.inserted.length }
  if (data.outcome === "canceled" || before.openTurn === undefined) return { ...rest, verdict: { _tag: "Dropped" } }
  return { ...rest, verdict: { _tag: "Unended", turn: before.openTurn } }
}
