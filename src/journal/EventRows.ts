/**
 * Batches of events to rows, pages of rows to events: where a row cites another, both are looked at together.
 *
 * - A cited row is looked for in the batch or page itself, and asked of the store only where it is not there.
 * - An outline is a log without its chunks: their texts are read for the answers that refer to them, and not kept.
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
  /** Rows from a seq on, at most `limit`. */
  readonly rows: (from: number, limit: number) => Effect.Effect<ReadonlyArray<Codec.EventRow>, JournalError>
  /** The chunks among the rows of a range. */
  readonly chunks: (range: Range) => Effect.Effect<ReadonlyArray<ChunkRow>, JournalError>
}

/**
 * The rows of a batch under an epoch. Dies on an event that may not be stored, or that does not follow the one before it
 * (J06).
 */
export const encodeBatch = Effect.fnUntraced(function* (reader: Reader, batch: Append, epoch: number) {
  const rows: Array<Codec.EventRow> = []
  for (const event of batch.events) {
    const due = batch.head + rows.length
    if (event.seq !== due) return yield* Effect.dieMessage(`session ${batch.id}: seq ${event.seq} where ${due} was due`)
    const cited = References.mayShorten(event) ? yield* citedBy(reader, event.sourceEventSeqs, batch.events) : []
    const row = Codec.encodeEvent(epoch, event, cited)
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
  const cited = new Map<number, ReadonlyArray<References.Parsed>>()
  for (const parsed of page)
    if (References.isShort(parsed)) cited.set(parsed.seq, yield* citedBy(reader, parsed.sources, page))
  return yield* decodeAll(reader.place, page, cited)
})

/** The events of rows that are no chunks. Those that `isHidden` come without the texts that they refer to. */
export const decodeOutline = Effect.fnUntraced(function* (
  reader: Reader,
  rows: ReadonlyArray<Codec.EventRow>,
  isHidden: (seq: number) => boolean
) {
  const page = yield* all(rows, (row) =>
    Either.map(Codec.parseRow(reader.place, row), (parsed) =>
      isHidden(parsed.seq) && References.isShort(parsed) ? { ...parsed, data: References.blank(parsed) } : parsed
    )
  )
  const short = page.filter(References.isShort)
  const chunks = yield* chunksFor(reader, short)
  const cited = new Map<number, ReadonlyArray<References.Parsed>>()
  for (const { seq, sources, type } of short)
    cited.set(
      seq,
      type === "assistant/message"
        ? References.citedOf(sources, within(chunks, References.rangeOf(sources)))
        : yield* citedBy(reader, sources, page)
    )
  return yield* decodeAll(reader.place, page, cited)
})

// internal

/** Every value, or the first failure: one step for all, because there are many. */
const all = <A, B, E>(values: ReadonlyArray<A>, each: (value: A, index: number) => Either.Either<B, E>) =>
  Effect.suspend((): Effect.Effect<ReadonlyArray<B>, E> => {
    const done: Array<B> = []
    for (let index = 0; index < values.length; index++) {
      const value = values[index]
      if (value === undefined) continue
      const one = each(value, index)
      if (Either.isLeft(one)) return Effect.fail(one.left)
      done.push(one.right)
    }
    return Effect.succeed(done)
  })

const decodeAll = (
  place: Codec.Place,
  page: ReadonlyArray<Codec.ParsedRow>,
  cited: ReadonlyMap<number, ReadonlyArray<References.Parsed>>
) => all(page, (parsed) => Codec.decodeEvent(place, parsed, cited.get(parsed.seq)))

/** Parses rows that follow each other from a seq on. */
const parseRun = (place: Codec.Place, from: number, rows: ReadonlyArray<Codec.EventRow>) =>
  all(rows, (row, index) =>
    Either.filterOrLeft(
      Codec.parseRow(place, row),
      ({ seq }) => seq === from + index,
      () => Codec.corrupt(place, `seq ${from + index} is missing`)
    )
  )

/** What a citation names: as far as it is in `here`, which has all from its first seq on, from there; else from the store. */
const citedBy = Effect.fnUntraced(function* (
  { place, rows }: Reader,
  sources: Sources | undefined,
  here: ReadonlyArray<References.Parsed>
) {
  const { from, to } = References.rangeOf(sources)
  const border = here[0]?.seq ?? 0
  const before =
    from < border
      ? yield* Effect.flatMap(rows(from, Math.min(to + 1, border) - from), (found) => parseRun(place, from, found))
      : []
  return References.citedOf(sources, [...before, ...within(here, { from, to })])
})

/** The chunks that the answers among these refer to, in order. */
const chunksFor = ({ chunks, place }: Reader, short: ReadonlyArray<Codec.ParsedRow>) => {
  const ranges = short.flatMap(({ sources, type }) =>
    type === "assistant/message" ? [References.rangeOf(sources)] : []
  )
  const from = Math.min(...ranges.map((range) => range.from))
  const to = Math.max(...ranges.map((range) => range.to))
  if (from > to) return Effect.succeed([])
  return Effect.flatMap(chunks({ from, to }), (rows) => all(rows, (row) => Codec.parseChunk(place, row)))
}

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
