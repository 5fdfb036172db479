import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { callId } from "../../src/domain/Ids.ts"
import { text } from "../../src/domain/Message.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import { canonical } from "../../src/internal/Json.ts"
import * as Codec from "../../src/journal/Codec.ts"
import * as EncodedJournal from "../../src/journal/EncodedJournal.ts"
import * as Journal from "../../src/journal/Journal.ts"
import * as References from "../../src/journal/References.ts"
import { load } from "../../src/session/Sessions.ts"
import { failureOf, header, id, noSummary } from "../contract/journal.ts"
import * as Facts from "../support/Facts.ts"
import { sampleLogs } from "../support/Logs.ts"

const place: Codec.Place = { location: "here", id }

/** The row of each event, encoded with what it cites. */
const rowsOf = (log: Facts.Log): ReadonlyArray<Codec.EventRow> =>
  log.map((event) =>
    Either.getOrThrowWith(
      Codec.encodeEvent(1, event, References.citedOf(event.sourceEventSeqs, log)),
      (detail) => new Error(detail)
    )
  )

/** How many rows have a number where their event has a text or a list. */
const shortRows = (log: Facts.Log): number =>
  rowsOf(log).filter((row) => References.isShort(Either.getOrThrow(Codec.parseRow(place, row)))).length

/** All that a state says. */
const told = (state: SessionState.SessionState): string =>
  canonical({ ...state, transcript: SessionState.requestMessages(state), digest: SessionState.requestDigest(state) })

/** A journal with this log, written in batches of so many events. */
const stored = (log: Facts.Log, batchSize: number) =>
  Effect.gen(function* () {
    const journal = yield* Journal.Journal
    yield* journal.create(header())
    for (let head = 0; head < log.length; head += batchSize) {
      const events = log.slice(head, head + batchSize)
      yield* journal.append([{ id, head, epoch: 0, events, summary: noSummary }])
    }
    return journal
  })

const inMemory = Effect.provide(Journal.layerMemory)

describe("texts by reference", () => {
  const logs = sampleLogs(60, 21)

  it.effect("J15: any log, in batches of any size, is read back identical, whole and in pages of any size", () =>
    Effect.gen(function* () {
      for (const [index, log] of logs.entries())
        for (const size of [1, 2 + (index % 5), log.length]) {
          const journal = yield* inMemory(stored(log, size))
          const all = yield* journal.read(id, { from: 0, limit: log.length + 1 })
          assert.deepStrictEqual(all, log)
          assert.strictEqual(canonical(all), canonical(log))
          for (let from = 0; from < log.length; from += size)
            assert.deepStrictEqual(yield* journal.read(id, { from, limit: size }), log.slice(from, from + size))
        }
      assert.isAbove(
        logs.reduce((sum, log) => sum + shortRows(log), 0),
        200
      )
    })
  )

  it.effect("law 8 W21: every prefix loads to the state that all its events fold to, chunks passed over or not", () =>
    Effect.gen(function* () {
      for (const log of logs.slice(0, 25)) {
        const journal = yield* inMemory(stored([], 1))
        let folded = SessionState.initial()
        for (const event of log) {
          folded = Either.getOrThrow(SessionState.apply(folded, event))
          yield* journal.append([{ id, head: event.seq, epoch: 0, events: [event], summary: folded.summary }])
          assert.strictEqual(told(yield* load(journal, yield* journal.find(id))), told(folded))
        }
      }
    })
  )

  it.effect("J14: an outline is the log without its chunks, from any seq on", () =>
    Effect.gen(function* () {
      for (const log of logs.slice(0, 20)) {
        const journal = yield* inMemory(stored(log, 7))
        const rest = log.filter((event) => event.type !== "assistant/chunk")
        for (const from of [0, 1, Math.floor(log.length / 2), log.length, log.length + 5]) {
          const due = rest.filter((event) => event.seq >= from)
          assert.deepStrictEqual(yield* journal.outline(id, { from, limit: log.length + 1, hidden: [] }), due)
          assert.deepStrictEqual(yield* journal.outline(id, { from, limit: 3, hidden: [] }), due.slice(0, 3))
        }
      }
    })
  )

  it("a text, a thought, arguments and the content of an early result are written once", () => {
    const words = "words that are long enough to be found"
    const log = Facts.logOf(
      Facts.turnStart(1),
      Facts.stepStart(1, 1),
      chunk("reasoning", 0, `${words} a`),
      chunk("text", 4, `${words} b`),
      {
        type: "assistant/chunk",
        data: { ...at, chunk: { type: "tool-call", index: 5, name: "look", arguments: args } }
      },
      chunk("text", 4, `${words} d`),
      Facts.answer(
        1,
        1,
        [
          { type: "reasoning", text: `${words} a` },
          text(`${words} b${words} d`),
          { type: "tool-call", callId: callId(1, 1, 0), name: "look", arguments: args }
        ],
        { cites: [2, 3, 4, 5] }
      ),
      Facts.call([1, 1, 0], "look", "{}"),
      Facts.settled([1, 1, 0], Facts.outcome(`${words} e`)),
      { ...Facts.result([1, 1, 0], Facts.outcome(`${words} e`)), sourceEventSeqs: [7, 8] }
    )
    const rows = rowsOf(log)
    for (const once of [`${words} a`, `${words} b`, `${words} d`, `${words} e`, "a path that is long"])
      assert.strictEqual(rows.filter((row) => row.data.includes(once)).length, 1, once)
  })

  it("what differs from what it cites is stored whole, and nothing is referred to that is not cited", () => {
    const answer = (words: string, cites: ReadonlyArray<number>) => Facts.answer(1, 1, [text(words)], { cites })
    const begun = [Facts.turnStart(1), Facts.stepStart(1, 1), Facts.chunk(1, 1, "one "), Facts.chunk(1, 1, "two")]
    for (const [words, cites, short] of [
      ["one two", [2, 3], 1],
      ["one two ", [2, 3], 0],
      ["one two", [2], 0],
      ["one two", [], 0],
      ["one ", [2], 1],
      ["", [2, 3], 0]
    ] as const)
      assert.strictEqual(shortRows(Facts.logOf(...begun, answer(words, cites))), short, `${words} from ${cites}`)
  })

  it.effect("J10: a row that refers to what is not there is corrupt, and named", () =>
    Effect.gen(function* () {
      const log = Facts.logOf(
        Facts.turnStart(1),
        Facts.stepStart(1, 1),
        Facts.chunk(1, 1, "gone"),
        Facts.answer(1, 1, [text("gone")], { cites: [2] })
      )
      const rows = rowsOf(log)
      const without = (gone: number) =>
        EncodedJournal.make({ ...emptyStore, read: (_, from, limit) => Effect.succeed(cut(rows, gone, from, limit)) })
      for (const from of [0, 3]) {
        const error = yield* failureOf(without(2).read(id, { from, limit: 4 }))
        assert.strictEqual(error._tag, "JournalCorrupt")
        assert.match(error.message, /seq 2 is missing|seq 3/)
      }
    })
  )
})

const at = { turn: 1, step: 1 }
const args = '{"path":"a path that is long enough to be found"}'
const chunk = (type: "text" | "reasoning", index: number, words: string) =>
  ({ type: "assistant/chunk", data: { ...at, chunk: { type, index, text: words } } }) as const

/** The rows of a range, one of them gone. */
const cut = (rows: ReadonlyArray<Codec.EventRow>, gone: number, from: number, limit: number) =>
  rows.slice(from, from + limit).filter((row) => row.seq !== gone)

const unused = () => Effect.dieMessage("it is not asked")
const emptyStore: EncodedJournal.Store = {
  location: "here",
  create: unused,
  find: unused,
  take: unused,
  release: unused,
  append: unused,
  read: unused,
  outline: unused,
  chunks: unused,
  count: unused,
  list: unused
}
