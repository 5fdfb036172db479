import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { Range, SessionEvent } from "../../src/domain/Event.ts"
import { callId } from "../../src/domain/Ids.ts"
import { text } from "../../src/domain/Message.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import { canonical } from "../../src/internal/Json.ts"
import * as Codec from "../../src/journal/Codec.ts"
import * as EncodedJournal from "../../src/journal/EncodedJournal.ts"
import * as Journal from "../../src/journal/Journal.ts"
import * as References from "../../src/journal/References.ts"
import { load } from "../../src/session/Load.ts"
import { failureOf, header, id } from "../contract/journal.ts"
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

/** A journal of one session without events. */
const empty = Effect.tap(Journal.Journal, (journal) => journal.create(header())).pipe(
  Effect.provide(Journal.layerMemory)
)

describe("texts by reference", () => {
  const logs = sampleLogs(60, 21)

  it("generated logs have many rows that leave something out", () => {
    assert.isAbove(
      logs.reduce((sum, log) => sum + shortRows(log), 0),
      200
    )
  })

  it.effect("law 8 W21: every prefix loads to the state that all its events fold to, chunks passed over or not", () =>
    Effect.gen(function* () {
      for (const log of logs.slice(0, 25)) {
        const journal = yield* empty
        let folded = SessionState.initial()
        for (const event of log) {
          folded = Either.getOrThrow(SessionState.apply(folded, event))
          yield* journal.append([
            { id, head: event.seq, epoch: 0, events: [event], summary: folded.summary, leaseExpires: 0 }
          ])
          assert.strictEqual(told(yield* load(journal, yield* journal.find(id))), told(folded))
        }
      }
    })
  )

  it.effect("law 1: a record that hides what its log does not replace is refused, not believed", () =>
    Effect.gen(function* () {
      const log = logs.find((each) => Facts.stateOf(each).summary.hidden === undefined) ?? []
      assert.isAbove(log.length, 0)
      const journal = yield* empty
      const summary = { ...Facts.stateOf(log).summary, hidden: [{ from: 0, to: log.length - 1 }] }
      yield* journal.append([{ id, head: 0, epoch: 0, events: log, summary, leaseExpires: 0 }])
      const error = yield* failureOf(load(journal, yield* journal.find(id)))
      assert.strictEqual(error._tag, "JournalCorrupt")
      assert.include(error.message, "hides events that the log does not replace")
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
        EncodedJournal.make({ ...emptyStore, read: (_, page) => Effect.succeed(cut(rows, gone, page)) })
      for (const [from, says] of [
        [0, "seq 2 is missing"],
        [3, "seq 3 (assistant/message) is malformed"]
      ] as const) {
        const error = yield* failureOf(without(2).read(id, { from, limit: 4 }))
        assert.strictEqual(error._tag, "JournalCorrupt")
        assert.include(error.message, says)
      }
    })
  )
})

describe("a load", () => {
  it.effect("O-P1 W21: reads the texts that a model still sees, and of what was ever streamed nothing else", () =>
    Effect.gen(function* () {
      let log: Facts.Log = []
      const push = (event: SessionEvent) => {
        log = Facts.followedBy(log, event)
      }
      for (let turn = 1; turn <= 30; turn++) {
        push(Facts.turnStart(turn))
        push(Facts.stepStart(turn, 1))
        push(Facts.input(Facts.said(`p${turn}`, "go")))
        for (let run = 0; run < 20; run++) push(Facts.chunk(turn, 1, "a run of text "))
        const cites = Array.from({ length: 20 }, (_, index) => log.length - 20 + index)
        push(Facts.answer(turn, 1, [text("a run of text ".repeat(20))], { cites }))
        push(Facts.stepEnd(turn, 1))
        push(Facts.turnEnd(turn, "completed"))
      }
      const to = log.length - 28
      push({ type: "context/replaced", data: { from: 1, to, messages: [Facts.said("so-far", "29 turns")] } })
      const rows = rowsOf(log)
      let read = 0
      const counted = (some: ReadonlyArray<Codec.EventRow>) => {
        read += some.filter((row) => row.type === "assistant/chunk").length
        return Effect.succeed(some)
      }
      const isChunk = (row: Codec.EventRow) => row.type === "assistant/chunk"
      const within = ({ from, to }: Range) => rows.slice(from, to + 1)
      const journal = {
        ...(yield* empty),
        ...EncodedJournal.make({
          ...emptyStore,
          read: (_, { from, limit }) => counted(rows.slice(from, from + limit)),
          outline: (_, { from, limit }) =>
            counted(rows.filter((row) => row.seq >= from && !isChunk(row)).slice(0, limit)),
          chunks: (_, range) => counted(within(range).filter(isChunk)),
          count: (_, range) => Effect.succeed(within(range).length)
        })
      }
      const record = yield* (yield* empty).find(id)
      const folded = Facts.stateOf(log)
      const loaded = yield* load(journal, { ...record, head: log.length, summary: folded.summary })
      assert.strictEqual(told(loaded), told(folded))
      assert.strictEqual(read, 20, "the chunks of the one answer that is still seen")
    })
  )
})

describe("an outline", () => {
  it.effect("J10: tells of an event that is missing", () =>
    Effect.gen(function* () {
      const rows = rowsOf(Facts.logOf(Facts.turnStart(1), Facts.stepStart(1, 1), Facts.stepEnd(1, 1)))
      const holding = (count: number) =>
        EncodedJournal.make({ ...emptyStore, outline: () => Effect.succeed(rows), count: () => Effect.succeed(count) })
      const range = { from: 0, limit: 9, hidden: [] }
      assert.strictEqual((yield* holding(3).outline(id, range)).length, 3)
      const error = yield* failureOf(holding(2).outline(id, range))
      assert.strictEqual(error._tag, "JournalCorrupt")
    })
  )
})

const at = { turn: 1, step: 1 }
const args = '{"path":"a path that is long enough to be found"}'
const chunk = (type: "text" | "reasoning", index: number, words: string) =>
  ({ type: "assistant/chunk", data: { ...at, chunk: { type, index, text: words } } }) as const

/** The rows of a range, one of them gone. */
const cut = (
  rows: ReadonlyArray<Codec.EventRow>,
  gone: number,
  { from, limit }: { readonly from: number; readonly limit: number }
) => rows.slice(from, from + limit).filter((row) => row.seq !== gone)

const unused = () => Effect.dieMessage("it is not asked")
const emptyStore: EncodedJournal.Store = {
  location: "here",
  create: unused,
  find: unused,
  take: unused,
  renew: unused,
  release: unused,
  append: unused,
  read: unused,
  outline: unused,
  chunks: unused,
  count: unused,
  unfenced: unused,
  list: unused
}
