/**
 * Failures as a person sees them: one line, and an exit code.
 *
 * - Usage is 2: the command line names something that is not there or cannot be what it is named for. Whatever else fails
 *   is 1, a session that somebody else owns 4.
 * - A defect is a line too; its stack trace shows with `--log-level debug` alone.
 */
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import {
  JournalBusy,
  JournalFailed,
  JournalFull,
  JournalUnsupported,
  SessionElsewhere,
  SessionOwned
} from "../domain/Errors.ts"
import type { SessionId } from "../domain/Ids.ts"
import { NoBoundary } from "../session/Fork.ts"
import { InvalidSetting } from "../settings/SettingsError.ts"
import { withoutStyle } from "./Help.ts"
import { flattened } from "./Line.ts"
import { Shutdown, untilOverdue } from "./Shutdown.ts"
import { OutputClosed, type Stdio, say } from "./Stdio.ts"

/** The command line cannot be followed. Nothing was changed. */
export class UsageError extends Data.TaggedError("UsageError")<{ readonly message: string }> {}

/** The journal let nothing be done to a session, and does not name it itself. */
export class SessionUntouched extends Data.TaggedError("SessionUntouched")<{
  /** None where there was to be a new one. */
  readonly sessionId: SessionId | undefined
  /** What was not done. */
  readonly what: string
  readonly cause: Refusal
}> {
  override get message() {
    const subject = this.sessionId === undefined ? "" : `session ${this.sessionId}: `
    return `${subject}${this.what}. ${this.cause.message}`
  }
}

/** Why a journal lets nothing be done. */
type Refusal = JournalFull | JournalBusy | JournalFailed

const isRefusal = (error: unknown): error is Refusal =>
  error instanceof JournalFull || error instanceof JournalBusy || error instanceof JournalFailed

/** The error of something that only begins with a session: it says what was not done, where the journal let nothing be done. */
export const notDone =
  (sessionId: SessionId | undefined, what: string) =>
  <E>(error: E): Exclude<E, Refusal> | SessionUntouched =>
    isRefusal(error)
      ? new SessionUntouched({ sessionId, what, cause: error })
      : // what is none of these three has another type
        (error as Exclude<E, Refusal>)

/** Says of an effect that only begins something with a session what was not done, where the journal lets nothing be done. */
export const untouched =
  (sessionId: SessionId, what: string) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.mapError(effect, notDone(sessionId, what))

/** What is said of a failure, and the exit code. A line is missing where nobody is left to read it. */
export interface Explained {
  readonly line?: string
  readonly code: number
}

/** A cause as a person sees it; none if all that happened is an interruption. */
export const explain = (cause: Cause.Cause<unknown>): Option.Option<Explained> => {
  if (Cause.isInterruptedOnly(cause)) return Option.none()
  const failure = Cause.failureOption(cause)
  if (Option.isSome(failure)) return Option.some(explainFailure(failure.value))
  const defect = messageOf(Cause.squash(cause))
  return Option.some({
    line: `unexpected error: ${defect} What was stored before is kept. This is a bug; --log-level debug shows where.`,
    code: 1
  })
}

/** Runs a part of the program to its end, whatever that is; a failure is said, and becomes the exit code. */
export const supervised = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<Option.Option<A>, never, R | Stdio | Shutdown> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(
      Effect.exit(restore(effect)),
      (exit): Effect.Effect<Option.Option<A>, never, Stdio | Shutdown> =>
        exit._tag === "Success" ? Effect.succeedSome(exit.value) : Effect.as(report(exit.cause), Option.none())
    )
  )

/** Shows a cause to those who asked for it with `--log-level debug`. */
export const logCause = (cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  Effect.logDebug("the cause of what failed", cause)

/** One line of text out of a document of `@effect/cli`. */
export const plain = (doc: HelpDoc.HelpDoc): string => flattened(withoutStyle(HelpDoc.toAnsiText(doc)))

// internal

const report = (cause: Cause.Cause<unknown>): Effect.Effect<void, never, Stdio | Shutdown> =>
  Option.match(explain(cause), {
    onNone: () => Effect.void,
    onSome: ({ code, line }) =>
      Effect.gen(function* () {
        yield* logCause(cause)
        if (line !== undefined) yield* untilOverdue(say(line))
        yield* (yield* Shutdown).endWith(code)
      })
  })

const explainFailure = (failure: unknown): Explained => {
  if (ValidationError.isValidationError(failure)) return { line: `${sentence(plain(failure.error))} ${more}`, code: 2 }
  if (failure instanceof OutputClosed) return explainClosed(failure)
  const line = messageOf(failure)
  if (failure instanceof UsageError || failure instanceof SessionElsewhere || failure instanceof NoBoundary)
    return { line, code: 2 }
  if (failure instanceof InvalidSetting) return { line, code: 2 }
  if (failure instanceof SessionOwned) return { line, code: 4 }
  // the file that was named is none of ours: a slip of the command line like a folder that does not exist
  if (failure instanceof JournalUnsupported && failure.direction === "foreign") return { line, code: 2 }
  return { line, code: 1 }
}

const explainClosed = ({ cause, isReaderGone }: OutputClosed): Explained =>
  isReaderGone
    ? { code: 0 }
    : { line: `the output could not be written: ${messageOf(cause)} What is stored is kept.`, code: 1 }

const more = "Nothing was changed. See daybook --help."

const messageOf = (error: unknown): string => sentence(error instanceof Error ? error.message : String(error))

const sentence = (text: string): string => {
  const line = flattened(text)
  return /[.!?]$/.test(line) ? line : `${line}.`
}
