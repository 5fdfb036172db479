/**
 * Forks: a child that begins with what its parent's log holds up to a closed turn.
 *
 * - Reading is all that it needs of the parent, which may run meanwhile; from then on the two logs grow independently.
 * - The child has the parent's events as they are, those of a newer version too. What waited in the parent waits there alone:
 *   the child's inbox is empty (B22).
 */
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { JournalCorrupt, type JournalError, SessionExists, type SessionNotFound } from "../domain/Errors.ts"
import type { StoredEvent } from "../domain/Event.ts"
import { Seq, SessionId } from "../domain/Ids.ts"
import * as SessionState from "../domain/SessionState.ts"
import { formatVersion, Journal, type SessionHeader, type SessionRecord } from "../journal/Journal.ts"

/** The log cannot be cut there: a turn is open, none has ended yet, or the log ends earlier. Nothing was changed. */
export class NoBoundary extends Schema.TaggedError<NoBoundary>()("NoBoundary", {
  sessionId: SessionId,
  /** Where it was to be cut, if somebody said so. */
  at: Schema.optional(Seq),
  why: Schema.String,
  /** The nearest places on either side where it can be; none where no turn has ended yet. */
  nearest: Schema.Array(Seq)
}) {
  override get message() {
    const { at, nearest, sessionId, why } = this
    const where = at === undefined ? "" : ` at seq ${at}`
    const places = `The nearest ${nearest.length === 1 ? "place is" : "places are"} seq ${nearest.join(" and seq ")}.`
    return `session ${sessionId} cannot be forked${where}: ${why}. Nothing was changed.${nearest.length === 0 ? "" : ` ${places}`}`
  }
}

/** What to fork, and what the child is called. */
export interface ForkOptions {
  readonly parent: SessionId
  readonly child: SessionId
  /** The events before this seq are the child's; without it, all up to the last place where a turn has ended and none is open. */
  readonly at?: number
}

/** A child as it is stored, and the head that its parent had. */
export interface Forked {
  readonly header: SessionHeader
  readonly parentHead: number
}

/**
 * Stores a child of a session, owned by nobody, durable on return. Fails, and changes nothing, with `SessionNotFound` for an
 * unknown parent, with `SessionExists` for an id that is taken, and with `NoBoundary` for a place where no fork may cut.
 */
export const fork = Effect.fn("Fork.fork")(function* ({
  at,
  child,
  parent
}: ForkOptions): Effect.fn.Return<Forked, SessionNotFound | SessionExists | NoBoundary | JournalError, Journal> {
  const journal = yield* Journal
  const record = yield* journal.find(parent)
  // before the place is judged (I11)
  if (yield* isTaken(journal, child)) return yield* new SessionExists({ sessionId: child })
  const log = yield* read(journal, record)
  const places = placesIn(log)
  const seedLength = at ?? places.at(-1)
  if (seedLength === undefined || !places.includes(seedLength)) return yield* noBoundary(parent, log, places, at)
  const events = log.slice(0, seedLength)
  const { summary } = yield* Either.mapLeft(SessionState.fold(events, SessionState.initial(seedLength)), (detail) =>
    corrupt(journal, record, detail)
  )
  const header: SessionHeader = {
    ...record.header,
    id: child,
    version: formatVersion,
    created: yield* Clock.currentTimeMillis,
    parent: Option.some(parent),
    seedLength
  }
  if (!(yield* journal.create(header, { events, summary }))) return yield* new SessionExists({ sessionId: child })
  return { header, parentHead: record.head }
})

// internal

type JournalService = Context.Tag.Service<Journal>

/** How many events are read at once. */
const pageSize = 2000

/** Whether the id is that of a session that is known to stay. What cannot be read is found out when the child is stored. */
const isTaken = (journal: JournalService, id: SessionId): Effect.Effect<boolean> =>
  Effect.map(journal.find(id), ({ head, owner }) => head > 0 || Option.isSome(owner)).pipe(
    Effect.orElseSucceed(() => false)
  )

const corrupt = ({ location }: JournalService, { header }: SessionRecord, detail: string) =>
  new JournalCorrupt({ file: location, sessionId: header.id, detail, cause: undefined })

/** The log as its record tells of it: what is appended meanwhile does not count. */
const read = Effect.fnUntraced(function* (journal: JournalService, record: SessionRecord) {
  const { head, header } = record
  const log: Array<StoredEvent> = []
  while (log.length < head) {
    const limit = Math.min(pageSize, head - log.length)
    const page = yield* journal.read(header.id, { from: log.length, limit })
    if (page.length === 0) return yield* corrupt(journal, record, `seq ${log.length} is missing`)
    for (const event of page) log.push(event)
  }
  return log
})

/** The seqs before which a turn has ended, and none is open. */
const placesIn = (log: ReadonlyArray<StoredEvent>): ReadonlyArray<number> => {
  const places: Array<number> = []
  let isClosed = false
  for (const { seq, type } of log) {
    isClosed = type === "turn/end" || (isClosed && type !== "turn/start")
    if (isClosed) places.push(seq + 1)
  }
  return places
}

/** Why a log cannot be cut there, and where it can. */
const noBoundary = (
  id: SessionId,
  log: ReadonlyArray<StoredEvent>,
  places: ReadonlyArray<number>,
  at: number | undefined
): NoBoundary => {
  if (at === undefined || places.length === 0)
    return new NoBoundary({ sessionId: id, at, why: "no turn of it has ended yet", nearest: [] })
  const open = log.findLast((event) => event.seq < at && event.type === "turn/start")
  const inside = open?.type === "turn/start" ? `turn ${open.data.turn} is open there` : "no turn has ended before it"
  const why = at > log.length ? `it has ${log.length} events` : inside
  const nearest = [places.findLast((place) => place < at), places.find((place) => place > at)]
  return new NoBoundary({ sessionId: id, at, why, nearest: nearest.filter((place) => place !== undefined) })
}
