/**
 * The contract of the journal: what every implementation keeps, clause by clause of the port.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { knownTypes, type Range, type SessionEvent, type StoredEvent } from "../../src/domain/Event.ts"
import { SessionId } from "../../src/domain/Ids.ts"
import { text } from "../../src/domain/Message.ts"
import { emptySummary, type Summary } from "../../src/domain/SessionState.ts"
import { canonical } from "../../src/internal/Json.ts"
import * as Journal from "../../src/journal/Journal.ts"
import * as Facts from "../support/Facts.ts"
import { sampleLogs } from "../support/Logs.ts"

export const id = SessionId.make("s1")
export const otherId = SessionId.make("s2")

export const header = (more: Partial<Journal.SessionHeader> = {}): Journal.SessionHeader => ({
  id,
  version: Journal.formatVersion,
  cwd: "/work",
  created: 1_700_000_000_000,
  parent: Option.none(),
  seedLength: 0,
  depth: 0,
  ...more
})

/** A record in which nothing is an `Option`: an equality of those says nothing about a none. */
const plain = (record: Journal.SessionRecord) => ({
  ...record,
  header: { ...record.header, parent: Option.getOrNull(record.header.parent) },
  owner: Option.getOrNull(record.owner)
})

export const noSummary: Summary = { title: "", turns: 0, open: false }

export const owner: Journal.Owner = {
  host: "here",
  pid: 7,
  processStart: "100",
  bootId: "boot",
  token: "abc",
  since: 1_700_000_000_000
}

/** Events of a kind, from a seq on. */
export const chunks = (from: number, count: number, words = "hello "): ReadonlyArray<StoredEvent> =>
  Array.from({ length: count }, (_, index) => ({
    ...Facts.chunk(1, 1, `${words}${from + index}`),
    seq: from + index,
    time: Facts.startTime + from + index
  }))

/** A batch of `count` events from `head` on. */
export const batch = (head: number, count: number, more: Partial<Journal.Append> = {}): Journal.Append => ({
  id,
  head,
  epoch: 0,
  events: chunks(head, count),
  summary: noSummary,
  leaseExpires: 0,
  ...more
})

const all = { from: 0, limit: 1_000_000 }

/** The tag of each verdict, or the new head. */
const verdicts = Effect.map((results: ReadonlyArray<Either.Either<number, { readonly _tag: string }>>) =>
  results.map(Either.match({ onLeft: (error) => error._tag, onRight: (head) => head }))
)

const appendAll = (...batches: ReadonlyArray<Journal.Append>) =>
  Effect.flatMap(Journal.Journal, (journal) => verdicts(journal.append(batches)))

/** A session with `count` events at epoch 0. */
const begun = (sessionId: SessionId, count: number) =>
  Effect.gen(function* () {
    const journal = yield* Journal.Journal
    assert.isTrue(yield* journal.create(header({ id: sessionId })))
    assert.deepStrictEqual(yield* appendAll(batch(0, count, { id: sessionId })), [count])
    return journal
  })

const logOf = (sessionId: SessionId) => Effect.flatMap(Journal.Journal, (journal) => journal.read(sessionId, all))

/** How an effect failed. Not `Effect.flip`: vitest takes minutes over a failure whose text is a log. */
export const failureOf = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<E, never, R> =>
  Effect.matchEffect(effect, { onFailure: Effect.succeed, onSuccess: () => Effect.dieMessage("it did not fail") })

/** How an effect died; fails the test if it did not. */
const defectOf = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.exit(effect), (exit) => {
    const defect = Exit.isFailure(exit) ? Cause.dieOption(exit.cause) : Option.none()
    return String(Option.getOrElse(defect, () => assert.fail("it did not die")))
  })

/** One event of every type that there is. */
const oneOfEach = (): ReadonlyArray<StoredEvent> => {
  const at = [1, 1, 0] as const
  const look: SessionEvent = {
    type: "request/retry",
    data: { turn: 1, step: 1, attempt: 1, delayMillis: 0.5, failure, usage: { inputTokens: 1, outputTokens: 0 } }
  }
  return Facts.logOf(
    Facts.inserted("next-turn", 0, Facts.said("m1", "go")),
    Facts.dropped("next-turn", 0),
    Facts.turnStart(1),
    Facts.stepStart(1, 1),
    Facts.input(Facts.said("m2", "go")),
    Facts.header(),
    look,
    Facts.chunk(1, 1, "hm"),
    Facts.answer(1, 1, [{ type: "reasoning", text: "", blob: { b: [1, null], a: "z" } }], { cites: [7] }),
    Facts.asked(at),
    Facts.decided(at, "allowed-once"),
    Facts.call(at, "look", '{"id":'),
    Facts.spawned(at),
    Facts.settled(at, { ...Facts.outcome("seen"), meta: { a: 1 } }),
    { ...Facts.result(at, Facts.outcome("no", "UNKNOWN")), sourceEventSeqs: { from: 11, to: 13 } },
    Facts.stepEnd(1, 1),
    Facts.turnFailed(1),
    { type: "context/replaced", data: { from: 3, to: 15, messages: [Facts.said("m3", "so far")] }, ignorable: true }
  )
}

const failure = { message: "no", code: "429", details: { x: [] } }

/** A test that is given the journal. */
type Test = (title: string, run: () => Effect.Effect<void, unknown, Journal.Journal>) => void

const records = (test: Test) => {
  test("J05: a session without events is found and not listed", () =>
    Effect.gen(function* () {
      const journal = yield* Journal.Journal
      const parent = Option.some(otherId)
      const given = header({ cwd: "/wörk dir", parent, seedLength: 3, depth: 2 })
      assert.isTrue(yield* journal.create(given))
      assert.deepStrictEqual(
        plain(yield* journal.find(id)),
        plain({
          header: given,
          head: 0,
          epoch: 0,
          owner: Option.none(),
          leaseExpires: 0,
          summary: emptySummary
        })
      )
      assert.deepStrictEqual(yield* journal.list({ offset: 0, limit: 10 }), [])
      assert.deepStrictEqual(yield* journal.read(id, all), [])
      yield* appendAll(batch(0, 1))
      const [listed] = yield* journal.list({ offset: 0, limit: 10 })
      assert.deepStrictEqual(listed === undefined ? undefined : Either.getOrThrow(listed).header, given)
    }))

  test("a taken id is not created again, and nothing of it changes", () =>
    Effect.gen(function* () {
      const journal = yield* begun(id, 2)
      const before = yield* journal.find(id)
      assert.isFalse(yield* journal.create(header({ cwd: "/elsewhere", created: 5 })))
      assert.deepStrictEqual(yield* journal.find(id), before)
    }))

  test("an unknown session is not found, and reads as empty", () =>
    Effect.gen(function* () {
      const journal = yield* Journal.Journal
      assert.strictEqual((yield* failureOf(journal.find(id)))._tag, "SessionNotFound")
      assert.deepStrictEqual(yield* journal.read(id, all), [])
    }))

  test("J10: a session of another version is listed, and finding it names the direction", () =>
    Effect.gen(function* () {
      const journal = yield* Journal.Journal
      yield* journal.create(header({ version: Journal.formatVersion + 1 }))
      yield* journal.create(header({ id: otherId, version: 0 }))
      const newer = yield* failureOf(journal.find(id))
      const older = yield* failureOf(journal.find(otherId))
      assert.strictEqual(newer._tag === "JournalUnsupported" ? newer.direction : newer._tag, "newer")
      assert.strictEqual(older._tag === "JournalUnsupported" ? older.direction : older._tag, "older")
      yield* appendAll(batch(0, 1))
      assert.strictEqual((yield* journal.list({ offset: 0, limit: 10 })).length, 1)
    }))

  test("lists the last created first, in pages, with the summary that was appended", () =>
    Effect.gen(function* () {
      const journal = yield* Journal.Journal
      const created = [5, 9, 5, 7]
      for (const [index, time] of created.entries()) {
        const sessionId = SessionId.make(`p${index}`)
        yield* journal.create(header({ id: sessionId, created: time }))
        yield* appendAll(batch(0, 1, { id: sessionId }))
      }
      const summary: Summary = { title: "fix “it”", turns: 3, ending: "max-tokens", open: true }
      yield* appendAll(batch(1, 1, { id: SessionId.make("p3"), summary }))
      const page = (offset: number, limit: number) =>
        Effect.map(journal.list({ offset, limit }), (found) =>
          found.map((record) => String(Either.getOrThrow(record).header.id))
        )
      assert.deepStrictEqual(yield* page(0, 9), ["p1", "p3", "p2", "p0"])
      assert.deepStrictEqual(yield* page(1, 2), ["p3", "p2"])
      assert.deepStrictEqual(yield* page(4, 2), [])
      assert.deepStrictEqual(yield* page(0, 0), [])
      assert.deepStrictEqual(
        Arr.getRights(yield* journal.list({ offset: 1, limit: 1 })).map((record) => record.summary),
        [summary]
      )
      assert.include(yield* defectOf(page(-1, 2)), "-1")
      assert.include(yield* defectOf(page(0, 1.5)), "1.5")
    }))
}

const reading = (test: Test) => {
  test("gives back an event of every type as it was appended", () =>
    Effect.gen(function* () {
      const journal = yield* Journal.Journal
      const log = oneOfEach()
      assert.deepStrictEqual(new Set(log.map((event) => event.type)), new Set<string>(knownTypes))
      yield* journal.create(header())
      assert.deepStrictEqual(yield* appendAll({ ...batch(0, 0), events: log }), [log.length])
      assert.deepStrictEqual(yield* logOf(id), log)
    }))

  test("J14: a read gives exactly the events from its seq on, at most so many", () =>
    Effect.gen(function* () {
      const journal = yield* begun(id, 7)
      yield* begun(otherId, 9)
      const log = chunks(0, 7)
      for (const [from, limit] of [
        [0, 7],
        [0, 3],
        [3, 2],
        [5, 9],
        [6, 1],
        [7, 5],
        [99, 5],
        [2, 0]
      ] as const)
        assert.deepStrictEqual(yield* journal.read(id, { from, limit }), log.slice(from, from + limit))
    }))

  test("J14: a negative or fractional seq or limit is refused", () =>
    Effect.gen(function* () {
      const journal = yield* begun(id, 2)
      for (const from of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY])
        assert.include(yield* defectOf(journal.read(id, { from, limit: 1 })), `${from}`)
      for (const limit of [-1, 0.5]) assert.include(yield* defectOf(journal.read(id, { from: 0, limit })), `${limit}`)
    }))

  test("I02: what is stored and what was read do not follow a later change", () =>
    Effect.gen(function* () {
      const journal = yield* Journal.Journal
      yield* journal.create(header())
      const data = { turn: 1 }
      const event: StoredEvent = { seq: 0, time: 1, type: "turn/start", data }
      yield* appendAll({ ...batch(0, 0), events: [event] })
      data.turn = 2
      const view = yield* logOf(id)
      const expected: ReadonlyArray<StoredEvent> = [{ ...event, data: { turn: 1 } }]
      assert.deepStrictEqual(view, expected)
      yield* appendAll(batch(1, 1))
      assert.strictEqual(view.length, 1)
      Object.assign(view[0]?.data ?? {}, { turn: 3 })
      assert.deepStrictEqual((yield* logOf(id))[0], expected[0])
    }))

  test("keeps every character, and fields that this version does not know", () =>
    Effect.gen(function* () {
      const journal = yield* Journal.Journal
      yield* journal.create(header())
      const words = "a\0b \ud800 \udc00 😀 \u2028 \"'` \\ \r\n \u0007 %s ? $1 :x é"
      const future = { type: "turn/start", data: { turn: 1, later: { deep: [1, words] } } } as const
      const log = Facts.logOf(future, Facts.chunk(1, 1, words), Facts.input(Facts.said("m", words)))
      assert.deepStrictEqual(yield* appendAll({ ...batch(0, 0), events: log }), [3])
      assert.deepStrictEqual(yield* logOf(id), log)
    }))

  test("writes a batch of any size as one", () =>
    Effect.gen(function* () {
      const journal = yield* Journal.Journal
      yield* journal.create(header())
      for (const [head, count] of [
        [0, 1],
        [1, 63],
        [64, 64],
        [128, 65],
        [193, 1000]
      ] as const)
        assert.deepStrictEqual(yield* appendAll(batch(head, count)), [head + count])
      assert.deepStrictEqual(yield* logOf(id), chunks(0, 1193))
    }))
}

const appending = (test: Test) => {
  test("moves head and summary with the events, and keeps the epoch", () =>
    Effect.gen(function* () {
      const journal = yield* begun(id, 2)
      const summary: Summary = { title: "t", turns: 1, ending: "completed", open: false }
      assert.deepStrictEqual(yield* appendAll(batch(2, 3, { summary })), [5])
      const record = yield* journal.find(id)
      assert.deepStrictEqual([record.head, record.epoch, record.summary], [5, 0, summary])
      assert.deepStrictEqual(yield* appendAll(batch(5, 0)), [5])
      assert.deepStrictEqual((yield* journal.find(id)).summary, noSummary)
      assert.deepStrictEqual(yield* appendAll(), [])
    }))

  test("J06: a batch that does not begin at the stored head is refused, and nothing of it is written", () =>
    Effect.gen(function* () {
      const journal = yield* begun(id, 3)
      const before = yield* journal.find(id)
      const summary: Summary = { title: "no", turns: 9, open: true }
      for (const head of [0, 2, 4, 7]) {
        const events = chunks(head, 2, "other ")
        assert.deepStrictEqual(yield* appendAll(batch(head, 0, { events, summary })), ["SeqConflict"])
      }
      assert.deepStrictEqual(yield* appendAll(batch(2, 0, { summary })), ["SeqConflict"])
      assert.deepStrictEqual(yield* appendAll(batch(0, 1, { id: otherId })), ["SeqConflict"])
      assert.deepStrictEqual(yield* journal.find(id), before)
      assert.deepStrictEqual(yield* logOf(id), chunks(0, 3))
    }))

  test("J06: a gap within a batch dies, and nothing of any batch is written", () =>
    Effect.gen(function* () {
      yield* begun(id, 3)
      yield* begun(otherId, 1)
      const gap = [...chunks(1, 1), ...chunks(3, 1)]
      for (const events of [gap, chunks(2, 1), chunks(0, 1)]) {
        const append = appendAll(batch(3, 1), batch(1, 0, { id: otherId, events }))
        assert.include(yield* defectOf(append), "was due")
      }
      assert.deepStrictEqual(yield* logOf(id), chunks(0, 3))
      assert.deepStrictEqual(yield* logOf(otherId), chunks(0, 1))
    }))

  test("W24: what this version may not append dies, and nothing of any batch is written", () =>
    Effect.gen(function* () {
      yield* begun(id, 1)
      yield* begun(otherId, 1)
      const refused: ReadonlyArray<{ readonly type: string; readonly data: object; readonly ignorable?: true }> = [
        { type: "later/kind", data: {} },
        { type: "later/kind", data: {}, ignorable: true },
        { type: "unrecognized", data: { type: "later/kind", data: {} }, ignorable: true },
        { type: "turn/start", data: { turn: 0 } },
        { type: "turn/start", data: {} }
      ]
      for (const event of refused) {
        // what a careless caller could hand in
        const events = [{ ...event, seq: 1, time: 1 } as StoredEvent]
        assert.include(yield* defectOf(appendAll(batch(1, 1, { id: otherId }), batch(1, 0, { events }))), event.type)
      }
      assert.deepStrictEqual(yield* logOf(id), chunks(0, 1))
      assert.deepStrictEqual(yield* logOf(otherId), chunks(0, 1))
    }))

  test("W23: each batch of a group is judged alone: whole or not at all", () =>
    Effect.gen(function* () {
      const ids = ["a", "b", "c", "d", "e"].map((text) => SessionId.make(text))
      const [a = id, b = id, c = id, d = id, e = id] = ids
      for (const sessionId of ids) yield* begun(sessionId, 2)
      const results = yield* appendAll(
        batch(2, 3, { id: a }),
        batch(1, 3, { id: b }),
        batch(2, 3, { id: c, epoch: 4 }),
        batch(2, 70, { id: d }),
        batch(2, 2, { id: SessionId.make("nobody") }),
        batch(2, 1, { id: e }),
        batch(3, 1, { id: e }),
        batch(3, 0, { id: e, events: chunks(3, 1, "again ") })
      )
      assert.deepStrictEqual(results, [5, "SeqConflict", "SessionFenced", 72, "SeqConflict", 3, 4, "SeqConflict"])
      const lengths = yield* Effect.forEach(ids, (sessionId) => Effect.map(logOf(sessionId), (log) => log.length))
      assert.deepStrictEqual(lengths, [5, 2, 2, 72, 4])
    }))

  test("of two that append at one head, one is written", () =>
    Effect.gen(function* () {
      yield* begun(id, 1)
      const writers = ["x", "y", "z"].map((words) => appendAll(batch(1, 0, { events: chunks(1, 2, words) })))
      const results = (yield* Effect.all(writers, { concurrency: "unbounded" })).flat()
      assert.deepStrictEqual([...results].sort(), [3, "SeqConflict", "SeqConflict"])
      assert.strictEqual((yield* logOf(id)).length, 3)
    }))
}

const repeating = (test: Test) => {
  test("a write whose answer was lost may be tried again, also after later ones", () =>
    Effect.gen(function* () {
      const journal = yield* begun(id, 2)
      const lost = batch(2, 3)
      assert.deepStrictEqual(yield* appendAll(lost), [5])
      assert.deepStrictEqual(yield* appendAll(lost), [5])
      const summary: Summary = { title: "later", turns: 2, open: true }
      yield* appendAll(batch(5, 2, { summary }))
      assert.deepStrictEqual(yield* appendAll(lost), [5])
      assert.deepStrictEqual(yield* logOf(id), chunks(0, 7))
      const record = yield* journal.find(id)
      assert.deepStrictEqual([record.head, record.summary], [7, summary])
    }))

  test("the same seqs with other bytes are a conflict", () =>
    Effect.gen(function* () {
      yield* begun(id, 3)
      const [event] = chunks(2, 1)
      assert.isDefined(event)
      const others: ReadonlyArray<StoredEvent> = [
        { ...event, time: event.time + 1 },
        { ...event, ignorable: true },
        { ...event, sourceEventSeqs: [0] },
        { ...event, type: "turn/start", data: { turn: 1 } }
      ]
      for (const other of others)
        assert.deepStrictEqual(yield* appendAll(batch(2, 0, { events: [other] })), ["SeqConflict"])
      assert.deepStrictEqual(yield* appendAll(batch(2, 2)), ["SeqConflict"])
      assert.deepStrictEqual(yield* logOf(id), chunks(0, 3))
    }))

  test("the same events under an epoch that is over are fenced off", () =>
    Effect.gen(function* () {
      const journal = yield* begun(id, 3)
      yield* journal.take({ ...batch(3, 0), owner, leaseRead: 0, leaseExpires: 9 })
      assert.deepStrictEqual(yield* appendAll(batch(0, 3)), ["SessionFenced"])
      assert.deepStrictEqual(yield* appendAll(batch(0, 3, { epoch: 1 })), ["SeqConflict"])
    }))
}

/** Sessions that begin with a log of their own. */
const beginning = (test: Test) => {
  const hidden = [{ from: 0, to: 1 }]
  const summary: Summary = { title: "t", turns: 1, ending: "aborted", open: false, hidden, waiting: 2, dropped: true }
  const log: Journal.Log = { events: chunks(0, 3), summary }

  test("a session and its first events are stored as one, owned by nobody, at epoch 0", () =>
    Effect.gen(function* () {
      const journal = yield* Journal.Journal
      const given = header({ parent: Option.some(otherId), seedLength: 3 })
      assert.isTrue(yield* journal.create(given, log))
      assert.deepStrictEqual(
        plain(yield* journal.find(id)),
        plain({ header: given, head: 3, epoch: 0, owner: Option.none(), leaseExpires: 0, summary: log.summary })
      )
      assert.deepStrictEqual(yield* logOf(id), log.events)
      assert.strictEqual((yield* journal.list({ offset: 0, limit: 10 })).length, 1)
      assert.deepStrictEqual(yield* appendAll(batch(3, 1)), [4])
    }))

  test("J15: any log is read back identical, texts by reference too", () =>
    Effect.gen(function* () {
      const journal = yield* Journal.Journal
      for (const [index, events] of sampleLogs(10, 4).entries()) {
        const sessionId = SessionId.make(`log-${index}`)
        const { summary } = Facts.stateOf(events)
        assert.isTrue(yield* journal.create(header({ id: sessionId }), { events, summary }))
        assert.deepStrictEqual(yield* logOf(sessionId), events)
      }
    }))

  test("J11: an id that is taken stays as it is, and nothing is adopted; only an empty one without an owner gives way", () =>
    Effect.gen(function* () {
      const journal = yield* begun(id, 2)
      const before = yield* journal.find(id)
      assert.isFalse(yield* journal.create(header({ cwd: "/elsewhere" }), log))
      assert.deepStrictEqual([yield* journal.find(id), yield* logOf(id)], [before, chunks(0, 2)])
      // somebody is about to fill it
      assert.isTrue(yield* journal.create(header({ id: otherId })))
      yield* journal.take({ ...batch(0, 0, { id: otherId }), owner, leaseRead: 0, leaseExpires: 1 })
      assert.isFalse(yield* journal.create(header({ id: otherId }), log))
      assert.strictEqual((yield* journal.find(otherId)).head, 0)
      // whoever was to fill this one died
      const third = SessionId.make("s3")
      assert.isTrue(yield* journal.create(header({ id: third })))
      assert.isFalse(yield* journal.create(header({ id: third, cwd: "/elsewhere" })))
      assert.isTrue(yield* journal.create(header({ id: third, cwd: "/elsewhere" }), log))
      const record = yield* journal.find(third)
      assert.deepStrictEqual([record.header.cwd, record.head, record.epoch], ["/elsewhere", 3, 0])
    }))

  test("an event that does not follow dies, and nothing is created", () =>
    Effect.gen(function* () {
      const journal = yield* Journal.Journal
      assert.include(
        yield* defectOf(journal.create(header(), { ...log, events: chunks(1, 2) })),
        "seq 1 where 0 was due"
      )
      assert.strictEqual((yield* failureOf(journal.find(id)))._tag, "SessionNotFound")
    }))

  test("J10: an ignorable event of a newer version is kept as it is, but by an append it is refused", () =>
    Effect.gen(function* () {
      const journal = yield* Journal.Journal
      const data = { type: "later/kind", data: { b: [1, null], a: "é" } }
      const newer: StoredEvent = {
        type: "unrecognized",
        data,
        ignorable: true,
        sourceEventSeqs: [0],
        seq: 3,
        time: later
      }
      const events = [...log.events, newer]
      assert.isTrue(yield* journal.create(header(), { ...log, events }))
      assert.deepStrictEqual(yield* logOf(id), events)
      assert.include(yield* defectOf(appendAll(batch(4, 0, { events: [{ ...newer, seq: 4 }] }))), "may be appended")
      // what is not ignorable is none that a load gave
      const { ignorable: _mark, ...required } = newer
      const odd = { ...log, events: [...log.events, required] }
      assert.include(yield* defectOf(journal.create(header({ id: otherId }), odd)), "may be appended")
    }))
}

const later = Facts.startTime + 10

const owning = (test: Test) => {
  test("taking raises the epoch and stores closers, owner and summary as one; the former owner is fenced off", () =>
    Effect.gen(function* () {
      const journal = yield* begun(id, 2)
      const summary: Summary = { title: "t", turns: 1, ending: "interrupted", open: false }
      assert.strictEqual(yield* journal.take({ ...batch(2, 2), summary, owner, leaseRead: 0, leaseExpires: 1234 }), 1)
      assert.deepStrictEqual(
        plain(yield* journal.find(id)),
        plain({ header: header(), head: 4, epoch: 1, owner: Option.some(owner), leaseExpires: 1234, summary })
      )
      assert.deepStrictEqual(yield* logOf(id), chunks(0, 4))
      assert.deepStrictEqual(yield* appendAll(batch(4, 1), batch(4, 1, { epoch: 2 })), [
        "SessionFenced",
        "SessionFenced"
      ])
      assert.deepStrictEqual(yield* appendAll(batch(4, 1, { epoch: 1 })), [5])
      assert.deepStrictEqual(yield* journal.unfenced(id, 10), [])
      // the closers stand under the new epoch: tried again, they count as written
      assert.deepStrictEqual(yield* appendAll(batch(2, 2, { epoch: 1 })), [4])
    }))

  test("a take at a head, epoch or lease that moved is refused, and nothing changes", () =>
    Effect.gen(function* () {
      const journal = yield* begun(id, 3)
      const before = yield* journal.find(id)
      for (const take of [
        batch(2, 0),
        batch(2, 2),
        batch(4, 1),
        batch(3, 1, { epoch: 1 }),
        batch(3, 0, { id: otherId }),
        { ...batch(3, 1), leaseRead: 1 }
      ]) {
        const error = yield* failureOf(journal.take({ leaseRead: 0, ...take, owner, leaseExpires: 1 }))
        assert.strictEqual(error._tag, "SeqConflict")
      }
      assert.deepStrictEqual(yield* journal.find(id), before)
      assert.deepStrictEqual(yield* logOf(id), chunks(0, 3))
    }))

  test("of several takes at once one succeeds", () =>
    Effect.gen(function* () {
      const journal = yield* begun(id, 1)
      const take = (token: string) =>
        Effect.either(journal.take({ ...batch(1, 1), owner: { ...owner, token }, leaseRead: 0, leaseExpires: 1 }))
      const results = yield* Effect.all(["x", "y", "z"].map(take), { concurrency: "unbounded" })
      assert.strictEqual(results.filter(Either.isRight).length, 1)
      const record = yield* journal.find(id)
      assert.deepStrictEqual([record.epoch, record.head], [1, 2])
    }))

  test("law 9: the leases of one token are renewed together, each append renews its own, and a take sees it", () =>
    Effect.gen(function* () {
      const journal = yield* begun(id, 1)
      yield* begun(otherId, 1)
      const third = SessionId.make("s3")
      yield* begun(third, 1)
      const leases = Effect.forEach([id, otherId, third], (each) =>
        Effect.map(journal.find(each), ({ leaseExpires }) => leaseExpires)
      )
      yield* journal.take({ ...batch(1, 0), owner, leaseRead: 0, leaseExpires: 10 })
      yield* journal.take({ ...batch(1, 0, { id: otherId }), owner, leaseRead: 0, leaseExpires: 20 })
      const stranger = { ...owner, token: "other" }
      yield* journal.take({ ...batch(1, 0, { id: third }), owner: stranger, leaseRead: 0, leaseExpires: 30 })
      assert.deepStrictEqual(yield* leases, [10, 20, 30])
      assert.sameDeepMembers(
        [...(yield* journal.renew("abc", 40))],
        [
          { id, epoch: 1 },
          { id: otherId, epoch: 1 }
        ]
      )
      assert.deepStrictEqual(yield* leases, [40, 40, 30])
      assert.deepStrictEqual(yield* journal.renew("nobody", 50), [])
      assert.deepStrictEqual(yield* appendAll(batch(1, 1, { epoch: 1, leaseExpires: 60 })), [2])
      assert.deepStrictEqual(yield* appendAll(batch(1, 1, { epoch: 0, id: otherId, leaseExpires: 70 })), [
        "SessionFenced"
      ])
      assert.deepStrictEqual(yield* leases, [60, 40, 30])
      const late = journal.take({ ...batch(2, 0, { epoch: 1 }), owner: stranger, leaseRead: 40, leaseExpires: 80 })
      assert.strictEqual((yield* failureOf(late))._tag, "SeqConflict")
      yield* journal.release(id, 1)
      assert.sameDeepMembers([...(yield* journal.renew("abc", 90))], [{ id: otherId, epoch: 1 }])
      assert.deepStrictEqual(yield* leases, [0, 90, 30])
    }))

  test("releasing gives up the ownership of that epoch and nothing else", () =>
    Effect.gen(function* () {
      const journal = yield* begun(id, 1)
      yield* journal.take({ ...batch(1, 0), owner, leaseRead: 0, leaseExpires: 1234 })
      const taken = yield* journal.find(id)
      yield* journal.release(id, 0)
      yield* journal.release(id, 2)
      yield* journal.release(otherId, 1)
      assert.deepStrictEqual(yield* journal.find(id), taken)
      yield* journal.release(id, 1)
      assert.deepStrictEqual(plain(yield* journal.find(id)), plain({ ...taken, owner: Option.none(), leaseExpires: 0 }))
      yield* journal.release(id, 1)
      assert.strictEqual(yield* journal.take({ ...batch(1, 0, { epoch: 1 }), owner, leaseRead: 0, leaseExpires: 5 }), 2)
    }))

  test("J05: releasing a session without events removes it, if the epoch is still its own", () =>
    Effect.gen(function* () {
      const journal = yield* Journal.Journal
      yield* journal.create(header())
      yield* journal.take({ ...batch(0, 0), owner, leaseRead: 0, leaseExpires: 1 })
      yield* journal.release(id, 0)
      assert.strictEqual((yield* journal.find(id)).epoch, 1)
      yield* journal.release(id, 1)
      assert.strictEqual((yield* failureOf(journal.find(id)))._tag, "SessionNotFound")
      assert.isTrue(yield* journal.create(header()))
    }))
}

/** Stores a log as the session `name`, in batches of so many events. */
export const stored = (name: string, log: Facts.Log, batchSize: number) =>
  Effect.gen(function* () {
    const journal = yield* Journal.Journal
    const sessionId = SessionId.make(name)
    yield* journal.create(header({ id: sessionId }))
    for (let head = 0; head < log.length; head += batchSize) {
      const events = log.slice(head, head + batchSize)
      yield* appendAll({ id: sessionId, head, epoch: 0, events, summary: noSummary, leaseExpires: 0 })
    }
    return sessionId
  })

const outlining = (test: Test) => {
  const logs = sampleLogs(24, 21)

  test("J15: any log, in batches of any size, is read back identical, whole and in pages of any size", () =>
    Effect.gen(function* () {
      const journal = yield* Journal.Journal
      for (const [index, log] of logs.entries()) {
        const size = index < 4 ? 1 : index < 20 ? 2 + (index % 7) : log.length
        const sessionId = yield* stored(`log-${index}`, log, size)
        const all = yield* journal.read(sessionId, { from: 0, limit: log.length + 1 })
        assert.deepStrictEqual(all, log)
        assert.strictEqual(canonical(all), canonical(log))
        for (let from = 0; from < log.length; from += size)
          assert.deepStrictEqual(yield* journal.read(sessionId, { from, limit: size }), log.slice(from, from + size))
      }
    }))

  test("J14: an outline is the log without its chunks, from any seq on, and a negative or broken seq dies", () =>
    Effect.gen(function* () {
      const journal = yield* Journal.Journal
      for (const [index, log] of logs.entries()) {
        const sessionId = yield* stored(`log-${index}`, log, log.length)
        const rest = log.filter((event) => event.type !== "assistant/chunk")
        for (const from of [0, 1, Math.floor(log.length / 2), log.length, log.length + 5])
          for (const limit of [log.length + 1, 3, 0]) {
            const outline = yield* journal.outline(sessionId, { from, limit, hidden: [] })
            assert.deepStrictEqual(outline, rest.filter((event) => event.seq >= from).slice(0, limit))
          }
        for (const from of [-1, 0.5, Number.NaN])
          assert.include(yield* defectOf(journal.outline(sessionId, { from, limit: 1, hidden: [] })), "outline from")
      }
    }))

  test("J14: chunks alone have an empty outline, and what follows them its own seq", () =>
    Effect.gen(function* () {
      const journal = yield* begun(id, 3)
      assert.deepStrictEqual(yield* journal.outline(id, { from: 0, limit: 10, hidden: [] }), [])
      const marked = { ...Facts.turnStart(1), seq: 3, time: Facts.startTime + 3 }
      yield* appendAll(batch(3, 0, { events: [marked] }))
      assert.deepStrictEqual(yield* journal.outline(id, { from: 0, limit: 10, hidden: [] }), [marked])
    }))

  test("W21: answers and results of a hidden range come without what they share with others, the rest whole", () =>
    Effect.gen(function* () {
      const journal = yield* Journal.Journal
      const at = [1, 1, 0] as const
      const log = Facts.logOf(
        Facts.turnStart(1),
        Facts.stepStart(1, 1),
        Facts.chunk(1, 1, "shared text"),
        Facts.answer(1, 1, [text("shared text"), Facts.block(...at)], { cites: [2] }),
        Facts.call(at),
        Facts.settled(at, Facts.outcome("shared output")),
        { ...Facts.result(at, Facts.outcome("shared output")), sourceEventSeqs: [4, 5] }
      )
      const sessionId = yield* stored("log", log, 3)
      const outline = (hidden: ReadonlyArray<Range>) => journal.outline(sessionId, { from: 0, limit: 10, hidden })
      const rest = log.filter((event) => event.type !== "assistant/chunk")
      assert.deepStrictEqual(yield* outline([]), rest)
      assert.deepStrictEqual(yield* outline([{ from: 7, to: 9 }]), rest)
      const shown = yield* outline([{ from: 0, to: 6 }])
      assert.deepStrictEqual(
        shown.map((event) => [event.seq, event.type, event.sourceEventSeqs]),
        rest.map((event) => [event.seq, event.type, event.sourceEventSeqs])
      )
      const texts = (type: StoredEvent["type"]) => JSON.stringify(shown.filter((event) => event.type === type))
      assert.notInclude(texts("assistant/message"), "shared")
      assert.include(texts("assistant/message"), "t1s1c0", "its calls are there")
      assert.notInclude(texts("tool/result"), "shared")
      assert.include(texts("tool/settled"), "shared output")
    }))
}

/** Runs the contract on an implementation; the layer is built anew for each test. */
export const suite = <E>(name: string, layer: Layer.Layer<Journal.Journal, E>) => {
  const test: Test = (title, run) => it.effect(title, () => Effect.provide(run(), layer))
  describe(name, () => {
    describe("records", () => records(test))
    describe("reading", () => reading(test))
    describe("appending", () => appending(test))
    describe("appending again", () => repeating(test))
    describe("beginning with a log", () => beginning(test))
    describe("owning", () => owning(test))
    describe("texts by reference, and outlines", () => outlining(test))
  })
}
