/**
 * `daybook verify`: whether a log holds every law that a log can show.
 *
 * - It reads a page at a time and keeps what the fold keeps; it takes no session and changes nothing. Who stored what the
 *   journal itself is asked.
 * - Where there is no journal there is nothing to be found fine: that is an error.
 * - What cannot be read is told, and what can be read after it is judged as far as it can be.
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { JournalCorrupt, JournalError, JournalUnsupported, SessionNotFound } from "../domain/Errors.ts"
import type { SessionId } from "../domain/Ids.ts"
import { isSummary } from "../domain/SessionState.ts"
import * as Verification from "../domain/Verification.ts"
import type { Violation } from "../domain/Violation.ts"
import { canonical } from "../internal/Json.ts"
import { Journal, type SessionRecord } from "../journal/Journal.ts"
import { count, flattened } from "./Line.ts"
import * as Pages from "./Pages.ts"
import * as Place from "./Place.ts"
import { reading } from "./Reading.ts"
import * as SessionArg from "./SessionArg.ts"
import { Shutdown } from "./Shutdown.ts"
import { type OutputClosed, Stdio, say } from "./Stdio.ts"

/** How many lines a session gets at most. Its check stops there, and says so. */
export const maxLines = 1000

const description = HelpDoc.blocks([
  HelpDoc.p(
    [
      "Checks the log of a session, or of every session, against the laws that a log can show: each request",
      "that was sent is one that a strict provider takes (1), calls and results pair (2), turns and steps end",
      "(3), nothing came of a call before it was started (6), input is used once and not lost (7), and the log",
      "and its repair only go forward (8); and no owner stored anything whose time was over (9). It can be",
      "read while the session runs; nothing is changed."
    ].join("\n")
  ),
  HelpDoc.p(
    [
      "Prints one line a violation, ID seq N law L: WHAT, and exits with 1; else one line, and exits with 0.",
      "An event that cannot be read is one too, ID seq N unreadable: WHY, and a session, ID unreadable: WHY;",
      `what depends on them is not judged. The check of a session stops at ${maxLines} lines, and says so.`,
      "A turn that is open is none: it runs, or its repair is due. That there is no journal is an error."
    ].join("\n")
  ),
  HelpDoc.p(["Examples:", "", "  daybook verify", "  daybook verify ID"].join("\n"))
])

/** `daybook verify`: prints what it finds, and ends with 1 if that is anything. */
export const command = Command.make("verify", { ...Place.options, id: Args.optional(SessionArg.argument) }, (own) =>
  reading(own, Option.match(own.id, { onNone: () => verifyAll, onSome: verifyOne }), { mustExist: true })
).pipe(Command.withDescription(description))

// internal

/** What was found in the sessions that were looked at. */
interface Tally {
  readonly sessions: number
  readonly events: number
  readonly lines: number
  /** How many sessions have a line. */
  readonly broken: number
  /** The sessions whose check stopped before its end. */
  readonly stopped: ReadonlyArray<string>
}

const nothing: Tally = { sessions: 0, events: 0, lines: 0, broken: 0, stopped: [] }

/** What came of one session. */
interface Found {
  readonly id: string
  readonly events: number
  readonly lines: number
  readonly openTurn?: number
}

const counted = (tally: Tally, { events, id, lines }: Found): Tally => ({
  sessions: tally.sessions + 1,
  events: tally.events + events,
  lines: tally.lines + lines,
  broken: tally.broken + (lines === 0 ? 0 : 1),
  stopped: lines < maxLines ? tally.stopped : [...tally.stopped, id]
})

const verifyOne = Effect.fnUntraced(function* (id: SessionId) {
  const journal = yield* Journal
  const found = yield* check(journal, id)
  const open = found.openTurn === undefined ? "" : `; turn ${found.openTurn} is open`
  yield* conclude(counted(nothing, found), `${id}: ${count(found.events, "event")}, no violation${open}`)
})

const verifyAll = Effect.gen(function* () {
  const journal = yield* Journal
  const tally = yield* Stream.runFoldEffect(Pages.sessions(journal), nothing, (before, record) =>
    Effect.map(
      Either.isRight(record)
        ? listed(journal, record.right.header.id)
        : unreadable(record.left.sessionId ?? "?", record.left),
      (found) => counted(before, found)
    )
  )
  yield* conclude(tally, `${count(tally.sessions, "session")}, ${count(tally.events, "event")}, no violation`)
})

const conclude = Effect.fnUntraced(function* ({ broken, lines, sessions, stopped }: Tally, fine: string) {
  const stdio = yield* Stdio
  if (lines === 0) return yield* stdio.out(`${fine}\n`)
  const found = `${count(lines, "violation")} in ${broken} of ${count(sessions, "session")}`
  const told = stopped.length === 0 ? found : `at least ${found}; the check of ${stopped.join(", ")} stopped there`
  yield* say(`${told}. Nothing was changed.`)
  yield* Effect.flatMap(Shutdown, (shutdown) => shutdown.endWith(1))
})

/** A session that cannot be read at all: one line. */
const unreadable = Effect.fnUntraced(function* (id: string, { detail }: JournalCorrupt | JournalUnsupported) {
  const stdio = yield* Stdio
  yield* stdio.out(`${id} unreadable: ${flattened(detail)}\n`)
  return { id, events: 0, lines: 1 } satisfies Found
})

/** Checks a session: that it can be read at all, and its log. */
const check = (
  journal: Context.Tag.Service<Journal>,
  id: SessionId
): Effect.Effect<Found, JournalError | SessionNotFound | OutputClosed, Stdio> =>
  Effect.flatMap(journal.find(id), (record) => verify(journal, record)).pipe(
    Effect.catchTag("JournalUnsupported", "JournalCorrupt", (error) => unreadable(id, error))
  )

/** Checks one of the listed sessions. Where it is gone by now, it had no events: no other session goes. */
const listed = (journal: Context.Tag.Service<Journal>, id: SessionId) =>
  Effect.catchTag(check(journal, id), "SessionNotFound", () => Effect.succeed<Found>({ id, events: 0, lines: 0 }))

/** Goes through a log to its end, or to the last line that it gets. */
const verify = Effect.fnUntraced(function* (journal: Context.Tag.Service<Journal>, before: SessionRecord) {
  const stdio = yield* Stdio
  const { id, seedLength } = before.header
  const verification = Verification.make(seedLength)
  let lines = 0
  const print = (texts: ReadonlyArray<string>) => {
    const room = texts.slice(0, maxLines - lines)
    lines += room.length
    return room.length === 0 ? Effect.void : stdio.out(room.map((text) => `${id} ${text}\n`).join(""))
  }
  for (let more = true; more && lines < maxLines; ) {
    const page = yield* Pages.page(journal, id, verification.next)
    yield* print(page.events.flatMap((event) => Verification.add(verification, event)).map(lineOf))
    if (page.damage !== undefined) {
      yield* print([`seq ${verification.next} unreadable: ${flattened(page.damage.detail)}`])
      Verification.skip(verification, verification.next)
    }
    more = page.damage !== undefined || page.events.length === Pages.eventsAtOnce
  }
  const events = verification.next
  const { openTurn, summary } = Verification.standing(verification)
  if (lines < maxLines) {
    const after = yield* journal.find(id)
    const isWhole = before.head <= events && events <= after.head
    if (!isWhole) yield* print([`seq ${events} law 8: its record says that it has ${count(after.head, "event")}`])
    if (summary !== undefined && after.head === events && !isSummary(after.summary, summary))
      yield* print([`seq ${events} law 8: its record sums it up as ${canonical(after.summary)}`])
    yield* print(Verification.end(verification).map(lineOf))
    const unfenced = yield* journal.unfenced(id, maxLines - lines)
    yield* print(unfenced.map((seq) => `seq ${seq} law 9: it was stored by an owner whose time was over`))
  }
  return { id, events, lines, ...(openTurn === undefined ? {} : { openTurn }) } satisfies Found
})

const lineOf = ({ detail, law, seq }: Violation): string => `seq ${seq} law ${law}: ${flattened(detail)}`
