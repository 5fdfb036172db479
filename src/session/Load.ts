/**
 * Loading a stored log: from its events to the state that they fold to.
 *
 * - Chunks are passed over, but for those of an answer that was never finished: whoever closes the log needs them.
 * - What the log replaced is folded without its texts, which no request shows.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Predicate from "effect/Predicate"
import { JournalCorrupt, type JournalError } from "../domain/Errors.ts"
import type { Range, StoredEvent } from "../domain/Event.ts"
import * as SessionState from "../domain/SessionState.ts"
import type * as Journal from "../journal/Journal.ts"

type JournalService = Context.Tag.Service<Journal.Journal>

/** How many events are read at once. */
const pageSize = 2000

/** Folds all that is stored from a state on, a page at a time. Fails with why it does not follow from that state. */
export const foldStored = Effect.fnUntraced(function* <E>(
  from: SessionState.SessionState,
  read: (from: number, limit: number) => Effect.Effect<ReadonlyArray<StoredEvent>, E>
): Effect.fn.Return<SessionState.SessionState, E | string> {
  let state = from
  for (;;) {
    const events = yield* read(state.head, pageSize)
    state = yield* SessionState.fold(events, state)
    if (events.length < pageSize) return state
  }
})

/**
 * The state of a stored log, as far as it goes now: it may have grown since its record was read. Fails where its events,
 * without the chunks, are not a log that this program can have written, or not the one that the record tells of.
 */
export const load = Effect.fnUntraced(function* (
  journal: JournalService,
  record: Journal.SessionRecord
): Effect.fn.Return<SessionState.SessionState, JournalError> {
  const { begun, state } = yield* outlined(journal, record)
  const { open } = state.brackets
  const isAnswering = open?.step !== undefined && open.step.answer === undefined
  const read = (from: number, limit: number) => journal.read(record.header.id, { from, limit })
  const loaded = yield* Effect.mapError(foldStored(isAnswering ? begun : state, read), (error) =>
    Predicate.isString(error) ? corrupt(journal, record, error) : error
  )
  const { hidden } = loaded.summary
  // else texts were left out that a request shows
  if (!(record.summary.hidden ?? []).every((range) => isIn(range, hidden ?? [])))
    return yield* corrupt(journal, record, "its record hides events that the log does not replace")
  return loaded
})

// internal

const isIn = (range: Range, ranges: ReadonlyArray<Range>): boolean =>
  ranges.some(({ from, to }) => from <= range.from && range.to <= to)

const corrupt = ({ location }: JournalService, { header }: Journal.SessionRecord, detail: string) =>
  new JournalCorrupt({ file: location, sessionId: header.id, detail, cause: undefined })

/** The state after all events that are no chunks, and the one before the last step began. */
const outlined = Effect.fnUntraced(function* (journal: JournalService, record: Journal.SessionRecord) {
  const hidden = record.summary.hidden ?? []
  let state = SessionState.initial(record.header.seedLength)
  let begun = state
  for (;;) {
    const events = yield* journal.outline(record.header.id, { from: state.head, limit: pageSize, hidden })
    for (const event of events) {
      const before = yield* sound(journal, record, SessionState.passChunks(state, event.seq))
      state = yield* sound(journal, record, SessionState.apply(before, event))
      if (event.type === "step/start") begun = before
    }
    if (events.length < pageSize) return { state, begun }
  }
})

const sound = <A>(journal: JournalService, record: Journal.SessionRecord, folded: Either.Either<A, string>) =>
  Either.mapLeft(folded, (detail) => corrupt(journal, record, detail))
