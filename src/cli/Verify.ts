/**
 * `daybook verify`: whether a log holds every law that a log can show.
 *
 * - It reads a page at a time and keeps what the fold keeps; it takes no session and changes nothing.
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
import type { JournalCorrupt, JournalError, JournalUnsupported } from "../domain/Errors.ts"
import type { StoredEvent } from "../domain/Event.ts"
import type { SessionId } from "../domain/Ids.ts"
import * as Verification from "../domain/Verification.ts"
import type { Violation } from "../domain/Violation.ts"
import { canonical } from "../internal/Json.ts"
import { Journal, type SessionRecord } from "../journal/Journal.ts"
import { count, oneLine } from "./Line.ts"
import * as Pages from "./Pages.ts"
import * as Place from "./Place.ts"
import { reading } from "./Reading.ts"
import * as SessionArg from "./SessionArg.ts"
import { Shutdown } from "./Shutdown.ts"
import { Stdio, say } from "./Stdio.ts"

/** How many lines a session gets at most. What comes after them is not looked at. */
export const maxLines = 1000

const description = HelpDoc.blocks([
  HelpDoc.p(
    [
      "Checks the log of a session, or of every session, against the laws that a log can show: each request",
      "that was sent is one that a strict provider takes (1), calls and results pair (2), turns and steps end",
      "(3), nothing came of a call before it was started (6), input is used once and not lost (7), and the log",
      "and its repair only go forward (8). It can be read while the session runs; nothing is changed."
    ].join("\n")
  ),
  HelpDoc.p(
    [
      "Prints one line a violation, ID seq N law L: WHAT, and exits with 1; else one line, and exits with 0.",
      `A session gets ${maxLines} lines at most. A turn that is open is none: it runs, or its repair is due.`
    ].join("\n")
  ),
  HelpDoc.p(["Examples:", "", "  daybook verify", "  daybook verify ID"].join("\n"))
])

export const command = Command.make("verify", { ...Place.options, id: Args.optional(SessionArg.argument) }, (own) =>
  reading(own, Option.match(own.id, { onNone: () => verifyAll, onSome: verifyOne }))
).pipe(Command.withDescription(description))

// internal

/** What was found in the sessions that were looked at. */
interface Tally {
  readonly sessions: number
  readonly events: number
  readonly lines: number
  /** How many sessions have a line. */
  readonly broken: number
}

const nothing: Tally = { sessions: 0, events: 0, lines: 0, broken: 0 }

/** What came of one session. */
interface Found {
  readonly events: number
  readonly lines: number
  readonly openTurn?: number | undefined
}

const counted = (tally: Tally, { events, lines }: Found): Tally => ({
  sessions: tally.sessions + 1,
  events: tally.events + events,
  lines: tally.lines + lines,
  broken: tally.broken + (lines === 0 ? 0 : 1)
})

const verifyOne = Effect.fnUntraced(function* (id: SessionId) {
  const journal = yield* Journal
  const found = yield* verify(journal, yield* journal.find(id))
  const open = found.openTurn === undefined ? "" : `; turn ${found.openTurn} is open`
  yield* conclude(counted(nothing, found), `${id}: ${count(found.events, "event")}, no violation${open}`)
})

const verifyAll = Effect.gen(function* () {
  const journal = yield* Journal
  const tally = yield* Stream.runFoldEffect(Pages.sessions(journal), nothing, (before, record) =>
    Effect.map(Either.isRight(record) ? checked(journal, record.right) : refused(record.left), (found) =>
      counted(before, found)
    )
  )
  yield* conclude(tally, `${count(tally.sessions, "session")}, ${count(tally.events, "event")}, no violation`)
})

const conclude = Effect.fnUntraced(function* ({ broken, lines, sessions }: Tally, fine: string) {
  const stdio = yield* Stdio
  if (lines === 0) return yield* stdio.out(`${fine}\n`)
  yield* say(`${count(lines, "violation")} in ${broken} of ${count(sessions, "session")}. Nothing was changed.`)
  yield* Effect.flatMap(Shutdown, (shutdown) => shutdown.endWith(1))
})

/** A session that cannot be read at all: one line. */
const refused = Effect.fnUntraced(function* (error: JournalCorrupt | JournalUnsupported) {
  const stdio = yield* Stdio
  yield* stdio.out(`${error.sessionId ?? "?"} unreadable: ${oneLine(error.detail)}\n`)
  return { events: 0, lines: 1 } satisfies Found
})

/** One of the listed sessions: its log may be of another version. */
const checked = (journal: Context.Tag.Service<Journal>, { header }: SessionRecord) =>
  Effect.flatMap(journal.find(header.id), (record) => verify(journal, record)).pipe(
    Effect.catchTag("JournalUnsupported", "JournalCorrupt", refused),
    // it was listed, and is gone: only a session without events goes
    Effect.catchTag("SessionNotFound", () => Effect.succeed<Found>({ events: 0, lines: 0 }))
  )

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
    const page = yield* readPage(journal, id, verification.next)
    yield* print(page.events.flatMap((event) => Verification.add(verification, event)).map(lineOf))
    if (page.damage !== undefined) {
      yield* print([`seq ${verification.next} unreadable: ${oneLine(page.damage.detail)}`])
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
    if (summary !== undefined && after.head === events && canonical(summary) !== canonical(after.summary))
      yield* print([`seq ${events} law 8: its record sums it up as ${canonical(after.summary)}`])
    yield* print(Verification.end(verification).map(lineOf))
  }
  return { events, lines, openTurn } satisfies Found
})

const lineOf = ({ detail, law, seq }: Violation): string => `seq ${seq} law ${law}: ${oneLine(detail)}`

interface Page {
  readonly events: ReadonlyArray<StoredEvent>
  /** Why the event after them cannot be read. */
  readonly damage?: JournalCorrupt | JournalUnsupported
}

const isDamage = (error: JournalError): error is JournalCorrupt | JournalUnsupported =>
  error._tag === "JournalCorrupt" || error._tag === "JournalUnsupported"

/** A page of a log; where part of it cannot be read, event by event up to that. */
const readPage = (
  journal: Context.Tag.Service<Journal>,
  id: SessionId,
  from: number
): Effect.Effect<Page, JournalError> =>
  Effect.map(journal.read(id, { from, limit: Pages.eventsAtOnce }), (events): Page => ({ events })).pipe(
    Effect.catchIf(isDamage, () => readSingly(journal, id, from))
  )

const readSingly = Effect.fnUntraced(function* (journal: Context.Tag.Service<Journal>, id: SessionId, from: number) {
  const events: Array<StoredEvent> = []
  while (events.length < Pages.eventsAtOnce) {
    const read = yield* Effect.either(journal.read(id, { from: from + events.length, limit: 1 }))
    if (Either.isLeft(read)) {
      if (isDamage(read.left)) return { events, damage: read.left } satisfies Page
      return yield* read.left
    }
    if (read.right.length === 0) break
    events.push(...read.right)
  }
  return { events } satisfies Page
})
