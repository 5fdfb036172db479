/**
 * Batches of events to rows, pages of rows to events: where a row cites another, both are looked at together.
 *
 * - A cited row is looked for in the batch or page itself, and asked of the store only where it is not there.
 * - An outline is a log without its chunks: their texts are read for the answers that refer to them, a bounded number of
 *   rows at a time, and not kept.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { JournalError } from "../domain/Errors.ts"
import type { Range, Sources } from "../domain/Event.ts"
import * as Codec from "./Codec.ts"
import * as References from "./References.ts"
import type { Append } from "./SessionRecord.ts"

/** A chunk as a store gives it for the text alone. */
export type ChunkRow = Pick<Codec.EventRow, "seq" | "data">

/** What is read of one session. Rows come in order. */
export interface Reader {
  readonly place: Codec.Place
  /** All rows of a range. */
  readonly rows: (range: Range) => Effect.Effect<ReadonlyArray<Codec.EventRow>, JournalError>
  /** The chunks among them. */
  readonly chunks: (range: Range) => Effect.Effect<ReadonlyArray<ChunkRow>, JournalError>
}

/**
 * The rows of a batch under an epoch. Dies on an event that may not be stored, or that does not follow the one before it
 * (J06). What an event cites and cannot be read is not referred to.
 */
export const encodeBatch = Effect.fnUntraced(function* (
  reader: Reader,
  batch: Pick<Append, "id" | "head" | "events">,
  epoch: number,
  encode: typeof Codec.encodeEvent = Codec.encodeEvent
) {
  const rows: Array<Codec.EventRow> = []
  for (const event of batch.events) {
    const due = batch.head + rows.length
    if (event.seq !== due) return yield* Effect.dieMessage(`session ${batch.id}: seq ${event.seq} where ${due} was due`)
    const cited = References.mayShorten(event)
      ? yield* Effect.orElseSucceed(citedBy(reader, event.sourceEventSeqs, batch.events), () => [])
      : []
    const row = encode(epoch, event, cited)
    if (Either.isLeft(row)) return yield* Effect.dieMessage(`session ${batch.id}: ${row.left}`)
    rows.push(row.right)
  }
  return rows
})

/** The events of rows from seq `from` on. */
export const decodePage = Effect.fnUntraced(function* (
  reader: Reader,
  from: number,
  rows: ReadonlyArray<Codec.EventRow>
) {
  const page = yield* parseRun(reader.place, from, rows)
  const whole = [...page]
  for (const [index, parsed] of page.entries())
    if (References.isShort(parsed)) whole[index] = yield* restored(reader, parsed, page)
  return yield* decodeAll(reader.place, whole)
})

/** The events of rows that are no chunks. Those that `isHidden` come without the texts that they refer to. */
export const decodeOutline = Effect.fnUntraced(function* (
  reader: Reader,
  rows: ReadonlyArray<Codec.EventRow>,
  isHidden: (seq: number) => boolean
) {
  const page = yield* Either.all(rows.map((row) => Codec.parseRow(reader.place, row)))
  const whole = page.map((parsed) =>
    References.isShort(parsed) && isHidden(parsed.seq) ? { ...parsed, data: References.blank(parsed) } : parsed
  )
  const answers: Array<Answer> = []
  for (const [index, parsed] of whole.entries()) {
    if (!References.isShort(parsed)) continue
    if (parsed.type === "assistant/message") answers.push({ index, parsed, range: References.rangeOf(parsed.sources) })
    else whole[index] = yield* restored(reader, parsed, page)
  }
  for (const group of grouped(answers)) {
    const chunks = yield* chunksOf(reader, group)
    for (const { index, parsed, range } of group.answers) {
      const cited = References.citedOf(parsed.sources, within(chunks, range))
      whole[index] = yield* Codec.restoreRow(reader.place, parsed, cited)
    }
  }
  return yield* decodeAll(reader.place, whole)
})

// internal

const decodeAll = (place: Codec.Place, whole: ReadonlyArray<Codec.ParsedRow>) =>
  Either.all(whole.map((parsed) => Codec.decodeEvent(place, parsed)))

const restored = Effect.fnUntraced(function* (
  reader: Reader,
  parsed: Codec.ParsedRow,
  here: ReadonlyArray<References.Parsed>
) {
  return yield* Codec.restoreRow(reader.place, parsed, yield* citedBy(reader, References.referredTo(parsed), here))
})

/** Parses rows that follow each other from a seq on. */
const parseRun = (place: Codec.Place, from: number, rows: ReadonlyArray<Codec.EventRow>) =>
  Either.all(
    rows.map((row, index) =>
      Either.filterOrLeft(
        Codec.parseRow(place, row),
        ({ seq }) => seq === from + index,
        () => Codec.corrupt(place, `seq ${from + index} is missing`)
      )
    )
  )

/** What these sources name: from the first seq of `here` on it is there; what comes before that is in the store. */
const citedBy = Effect.fnUntraced(function* (
  { place, rows }: Reader,
  sources: Sources | undefined,
  here: ReadonlyArray<References.Parsed>
) {
  const { from, to } = References.rangeOf(sources)
  const border = here[0]?.seq ?? 0
  const before = from < border ? yield* parseRun(place, from, yield* rows({ from, to: Math.min(to, border - 1) })) : []
  return References.citedOf(sources, [...before, ...within(here, { from, to })])
})

/** A short answer of a page: its place there, and where its chunks are. */
interface Answer {
  readonly index: number
  readonly parsed: Codec.ParsedRow
  readonly range: Range
}

/** Answers whose chunks are read together. */
interface Group {
  readonly answers: Array<Answer>
  readonly from: number
  to: number
}

/** How many rows are read together, and how far apart answers may be for that. */
const maxGroup = 4096
const maxGap = 64

/** Answers in groups: neighbours, and one of its own where an answer alone is larger than a group. */
const grouped = (answers: ReadonlyArray<Answer>): ReadonlyArray<Group> => {
  const groups: Array<Group> = []
  for (const answer of answers) {
    const { from, to } = answer.range
    const last = groups.at(-1)
    if (last !== undefined && from >= last.to && from - last.to <= maxGap && to - last.from < maxGroup) {
      last.answers.push(answer)
      last.to = to
    } else groups.push({ answers: [answer], from, to })
  }
  return groups
}

const chunksOf = ({ chunks, place }: Reader, { from, to }: Group) =>
  Effect.flatMap(chunks({ from, to }), (rows) => Either.all(rows.map((row) => Codec.parseChunk(place, row))))

/** Those of a range. `parsed` is in order. */
const within = <A extends References.Parsed>(parsed: ReadonlyArray<A>, { from, to }: Range) =>
  parsed.slice(firstAt(parsed, from), firstAt(parsed, to + 1))

/** The index of the first one whose seq is not below. */
const firstAt = (parsed: ReadonlyArray<References.Parsed>, seq: number): number => {
  let low = 0
  let high = parsed.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((parsed[middle]?.seq ?? seq) < seq) low = middle + 1
    else high = middle
  }
  return low
}
