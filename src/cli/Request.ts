/**
 * `daybook request`: the request that a log derives at a place in it.
 *
 * - It is a fold of the events before that place, and of nothing else: no ownership, no writing, also while the session runs.
 * - Where a step was about to ask its model, it is the request as it was sent; anywhere else in a turn, the one that would
 *   follow this program's repair of the log as it stood there.
 */
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import type * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as List from "effect/List"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { JournalCorrupt, type JournalError } from "../domain/Errors.ts"
import type { StoredEvent } from "../domain/Event.ts"
import type { SessionId } from "../domain/Ids.ts"
import * as Repair from "../domain/Repair.ts"
import { canonicalRequest } from "../domain/Request.ts"
import * as SessionState from "../domain/SessionState.ts"
import { Journal, type SessionRecord } from "../journal/Journal.ts"
import { UsageError } from "./Failure.ts"
import { count } from "./Line.ts"
import * as Pages from "./Pages.ts"
import * as Place from "./Place.ts"
import { reading } from "./Reading.ts"
import * as SeqOption from "./SeqOption.ts"
import * as SessionArg from "./SessionArg.ts"
import { Stdio, say } from "./Stdio.ts"

/** The log has no request at that place: nothing says yet which model is asked, and with which tools. */
export class NoRequest extends Data.TaggedError("NoRequest")<{ readonly sessionId: SessionId; readonly at: number }> {
  override get message() {
    return `session ${this.sessionId}: there is no request before seq ${this.at}: no header says yet which model is asked. Nothing was changed. Name a later seq with --at.`
  }
}

const config = {
  ...Place.options,
  at: SeqOption.make({
    name: "at",
    description: "The events before this one count. They are numbered from 0. Without it, all events count."
  }).pipe(Options.optional),
  id: SessionArg.argument
}

const description = HelpDoc.blocks([
  HelpDoc.p(
    [
      "Prints the request that the log of a session derives, as one line of canonical JSON: the config, the",
      "system text, the tools and the messages, whoever the provider is. It can be read while the session runs."
    ].join("\n")
  ),
  HelpDoc.p(
    [
      "--at SEQ counts the events before SEQ. Where SEQ is the first event of an answer (a chunk, or the whole",
      "message) or a request/retry that nothing was received for, this is the very request that was sent.",
      "Elsewhere in a turn it is the request as if the log had been repaired there, and standard error says so.",
      "Without --at it is what the next prompt's request begins with."
    ].join("\n")
  ),
  HelpDoc.p(["Examples:", "", "  daybook request ID", "  daybook request ID --at 6"].join("\n"))
])

/** `daybook request`: prints one request, or fails where the log has none at that place. */
export const command = Command.make("request", config, (own) => reading(own, print(own))).pipe(
  Command.withDescription(description)
)

// internal

const print = Effect.fnUntraced(function* (wanted: { readonly id: SessionId; readonly at: Option.Option<number> }) {
  const journal = yield* Journal
  const stdio = yield* Stdio
  const record = yield* journal.find(wanted.id)
  const at = Option.getOrElse(wanted.at, () => record.head)
  if (at > record.head)
    return yield* new UsageError({
      message: `session ${wanted.id} has ${count(record.head, "event")}: --at ${at} is past their end. Nothing was changed. Name a seq from 0 to ${record.head}.`
    })
  const state = yield* stateAt(journal, record, at)
  const [next] = yield* journal.read(wanted.id, { from: at, limit: 1 })
  const { after } = yield* Effect.orDieWith(
    Repair.closed(state, Repair.salvage(state)), // what folds can be closed
    (detail) => new Error(`repair does not fit: ${detail}`)
  )
  const request = SessionState.deriveRequest(after)
  if (request === undefined) return yield* new NoRequest({ sessionId: wanted.id, at })
  const open = state.brackets.open
  if (open !== undefined && !isSent(state, next))
    yield* say(
      `session ${wanted.id}: turn ${open.turn} is open before seq ${at}: this request is as if the log had been repaired there`
    )
  yield* stdio.out(`${canonicalRequest(request)}\n`, "json")
})

/** The state of a log before that seq. */
const stateAt = (
  journal: Context.Tag.Service<Journal>,
  { head, header }: SessionRecord,
  at: number
): Effect.Effect<SessionState.SessionState, JournalError> =>
  Stream.runFoldEffect(
    Stream.takeWhile(Pages.events(journal, header.id, { from: 0, head }), (event) => event.seq < at),
    SessionState.initial(header.seedLength),
    (state, event) =>
      Effect.mapError(
        SessionState.apply(state, event),
        (detail) => new JournalCorrupt({ file: journal.location, sessionId: header.id, detail, cause: undefined })
      )
  )

/** Whether the open step had asked, and gets its first answer next. Closing adds nothing to the request of such a step. */
const isSent = ({ brackets }: SessionState.SessionState, next: StoredEvent | undefined): boolean => {
  const step = brackets.open?.step
  if (step === undefined || step.answer !== undefined || List.isCons(step.attempt)) return false
  return next?.type === "assistant/chunk" || next?.type === "assistant/message" || next?.type === "request/retry"
}
