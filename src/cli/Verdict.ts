/**
 * How a run went: a fold of the stored events that follow its beginning.
 *
 * - The turn that took the prompt decides, and no other: its ending, and whether one of its calls was denied. Where none was
 *   given, the turn that was opened last does.
 * - A prompt that no turn took was dropped, or waits still.
 */
import * as Option from "effect/Option"
import {
  JournalBusy,
  JournalCorrupt,
  JournalFailed,
  JournalFull,
  type SessionBroken,
  SessionFenced
} from "../domain/Errors.ts"
import type { StoredEvent, StoredOf } from "../domain/Event.ts"
import type { MessageId, SessionId } from "../domain/Ids.ts"
import { isCutOff, type TurnEnding } from "../domain/TurnEnding.ts"
import { type Signal, signalCodes } from "./Shutdown.ts"

/**
 * What became of a prompt, or of going on without one. `Unended`: its turn has no end in the journal; `Unopened`: none was
 * opened; `Nothing`: there was nothing to go on with; `Unaccepted`: the prompt is not in the journal; `Stopped`: nothing more
 * was stored, which is what left it so.
 */
export type Verdict =
  | {
      readonly _tag: "Ended"
      readonly turn: number
      readonly ending: TurnEnding
      readonly denied: Denied
    }
  | Unfinished
  | { readonly _tag: "Nothing" }
  | {
      readonly _tag: "Stopped"
      readonly at: Unfinished | { readonly _tag: "Unaccepted" }
      readonly error: SessionBroken
    }

type Unfinished =
  | { readonly _tag: "Unended"; readonly turn: number }
  | { readonly _tag: "Waiting" }
  | { readonly _tag: "Dropped" }
  | { readonly _tag: "Unopened" }

/** Whether calls of a turn were denied: one of them because nobody could be asked, or all of them by a decision. */
export type Denied = false | "refused" | "unasked"

/** A prompt that is looked for, and what the log has told so far. */
export interface Search {
  /** None where any turn counts. */
  readonly prompt: MessageId | undefined
  readonly verdict: Verdict
  /** The turn that is open now. */
  readonly openTurn?: number
  /** Where the prompt waits, counted from 0 among the prompts for turns to come. */
  readonly place?: number
  /** Of the turn that took the prompt. */
  readonly denied: Denied
}

/** Looks for the turn that takes this prompt; without one, for the last that is opened. */
export const search = (prompt?: MessageId): Search => ({
  prompt,
  verdict: { _tag: prompt === undefined ? "Unopened" : "Waiting" },
  denied: false
})

/** What is known after one more event. */
export const advance = (before: Search, event: StoredEvent): Search => {
  switch (event.type) {
    case "agent/inbox/spliced":
      return spliced(before, event.data)
    case "turn/start": {
      const { turn } = event.data
      if (before.prompt !== undefined) return { ...before, openTurn: turn }
      return { ...before, openTurn: turn, verdict: { _tag: "Unended", turn }, denied: false }
    }
    case "tool/result": {
      const own = before.verdict._tag === "Unended" && before.verdict.turn === event.data.turn
      return own && event.data.error?.code === "TOOL_DENIED"
        ? { ...before, denied: before.denied === false ? "refused" : before.denied }
        : before
    }
    case "approval/decided": {
      const own = before.verdict._tag === "Unended" && before.verdict.turn === event.data.turn
      return own && event.data.decision === "unavailable" ? { ...before, denied: "unasked" } : before
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

/** What became of it where nothing more could be stored. What has ended by then has ended, unless the next owner closed it. */
export const stopped = ({ place, prompt, verdict }: Search, error: SessionBroken): Verdict => {
  if (verdict._tag === "Nothing" || verdict._tag === "Stopped") return verdict
  if (verdict._tag === "Ended")
    return verdict.ending.kind === "interrupted"
      ? { _tag: "Stopped", at: { _tag: "Unended", turn: verdict.turn }, error }
      : verdict
  const isMissing = verdict._tag === "Waiting" && prompt !== undefined && place === undefined
  return { _tag: "Stopped", at: isMissing ? { _tag: "Unaccepted" } : verdict, error }
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
  if (verdict._tag === "Unended" || verdict._tag === "Stopped") return 1
  if (verdict._tag === "Nothing") return 0
  if (verdict._tag !== "Ended") return cut
  switch (verdict.ending.kind) {
    case "completed":
      if (verdict.denied !== false) return 3
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

/**
 * What is left to say of a run that did not simply come to its end: what is kept, and what to do next. `place` are the
 * options that name its place to another command.
 */
export const advice = (sessionId: SessionId, verdict: Verdict, place = ""): string | undefined => {
  const next = `daybook run --session ${sessionId} PROMPT${place}`
  const on = `daybook run --session ${sessionId} --continue${place}`
  switch (verdict._tag) {
    case "Waiting":
      return `session ${sessionId}: the prompt was not run. It is kept, and runs before the next one. To run it now: ${on}`
    case "Dropped":
      return `session ${sessionId}: the prompt was not run, and was taken back. To send another one: ${next}`
    case "Unended":
      // what is kept depends on why the journal took no more, and was said with that
      return `session ${sessionId}: turn ${verdict.turn} has no end in the journal. Once that is mended, go on with: ${on}`
    case "Unopened":
      return `session ${sessionId}: no turn was opened; what is stored is kept. To try again: ${on}`
    case "Nothing":
      return `session ${sessionId}: there is nothing to continue: no prompt waits, and its last turn was not cut off. To send a prompt: ${next}`
    case "Stopped": {
      const show = `daybook show ${sessionId}${place}`
      const goesOn = verdict.at._tag === "Unaccepted" ? "" : ` To go on: ${on}`
      return `session ${sessionId}: ${stoppedAt(verdict.at)}: ${whyStopped(verdict.error, { goesOn, show })}`
    }
    case "Ended":
      if (verdict.ending.kind !== "completed")
        return `session ${sessionId}: what turn ${verdict.turn} did until then is kept. To go on: ${isCutOff(verdict.ending.kind) ? on : next}`
      if (verdict.denied === false) return undefined
      return verdict.denied === "unasked"
        ? `session ${sessionId}: turn ${verdict.turn} completed, but calls that need approval were denied: nobody could be asked. On a terminal you are; --yes allows them, and so do rules: daybook settings set approvals.rules`
        : `session ${sessionId}: turn ${verdict.turn} completed, but a call was denied. \`daybook show ${sessionId}${place}\` tells which.`
    default:
      return verdict satisfies never
  }
}

// internal

const stoppedAt = (at: Extract<Verdict, { readonly _tag: "Stopped" }>["at"]): string => {
  switch (at._tag) {
    case "Unaccepted":
      return "the prompt was not accepted"
    case "Waiting":
      return "the prompt was not run, and is kept"
    case "Dropped":
      return "the prompt was not run, and was taken back"
    case "Unopened":
      return "no turn was opened"
    case "Unended":
      return `turn ${at.turn} was cut off`
    default:
      return at satisfies never
  }
}

/** Why nothing more was stored, what is kept, and what to do next. */
const whyStopped = (
  { cause }: SessionBroken,
  { goesOn, show }: { readonly goesOn: string; readonly show: string }
): string => {
  if (cause instanceof SessionFenced)
    return `another process took the session over. What was stored before is kept. To see how it stands: ${show}`
  const why = cause instanceof Error ? cause.message : String(cause)
  if (cause instanceof JournalCorrupt) return why
  // what the journal says of itself ends with what is kept, and what to mend
  const kept = isOfJournal(cause) ? "" : " What was stored before is kept."
  return `${why.replace(/\.?$/, ".")}${kept}${goesOn}`
}

const isOfJournal = (cause: unknown): boolean =>
  cause instanceof JournalFull || cause instanceof JournalBusy || cause instanceof JournalFailed

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
