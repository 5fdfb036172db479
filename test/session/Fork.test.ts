import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import type { StoredEvent } from "../../src/domain/Event.ts"
import { SessionId } from "../../src/domain/Ids.ts"
import { text, textOf } from "../../src/domain/Message.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import * as Verification from "../../src/domain/Verification.ts"
import * as Journal from "../../src/journal/Journal.ts"
import { say } from "../../src/model/ScriptedModel.ts"
import * as Fork from "../../src/session/Fork.ts"
import { failureOf, header } from "../contract/journal.ts"
import {
  answer,
  claimed,
  dropped,
  followedBy,
  input,
  inserted,
  type Log,
  logOf,
  header as requestHeader,
  said,
  stateOf,
  stepEnd,
  stepStart,
  turnEnd,
  turnStart
} from "../support/Facts.ts"
import { sampleLogs } from "../support/Logs.ts"
import { at, door, inputs } from "../support/Watching.ts"
import * as World from "../support/World.ts"

const parent = SessionId.make("parent")
const child = SessionId.make("child")

const turn = (number: number, id: string): Log =>
  logOf(
    inserted("next-turn", 0, said(id, id)),
    turnStart(number),
    claimed("next-turn", 0),
    stepStart(number, 1),
    input(said(id, id)),
    ...(number === 1 ? [requestHeader()] : []),
    answer(number, 1, [text("done")]),
    stepEnd(number, 1),
    turnEnd(number, "completed")
  )

/** The end of a turn whose step asked and was cut off. */
const placedEnd: Log = followedBy(turn(1, "a").slice(0, 6), stepEnd(1, 1), turnEnd(1, "interrupted")).slice(6)

/** Two turns with something dropped between them, then a prompt that waits, and a turn that is open. */
const log = followedBy(
  followedBy(turn(1, "a"), inserted("next-step", 0, said("x", "x", "inject")), dropped("next-step", 0)),
  ...turn(2, "b"),
  inserted("next-turn", 0, said("c", "c"), said("d", "d")),
  turnStart(3),
  claimed("next-turn", 0),
  stepStart(3, 1)
)
const places = [9, 10, 11, 12, 19, 20]

const create = (journal: Journal.Journal["Type"], events: Log, id: SessionId = parent) =>
  Effect.map(
    journal.create(header({ id, cwd: "/wörk", depth: 2 }), { events, summary: stateOf(events).summary }),
    (made) => assert.isTrue(made)
  )

const logOfSession = (journal: Journal.Journal["Type"], id: SessionId) => journal.read(id, { from: 0, limit: 100_000 })

/** Runs on a new journal in memory. */
const onJournal = <A, E>(test: (journal: Journal.Journal["Type"]) => Effect.Effect<A, E, Journal.Journal>) =>
  Effect.provide(Effect.flatMap(Journal.Journal, test), Journal.layerMemory)

const violationsOf = (events: Log, { seedLength }: Journal.SessionHeader) => {
  assert.isTrue(Either.isRight(SessionState.fold(events, SessionState.initial(seedLength))))
  return Verification.verify(events, seedLength)
}

describe("Fork", () => {
  it.effect(
    "I09 K08: without a place the child has every event of a closed log, its parent's name, and nothing that waits",
    () =>
      onJournal((journal) =>
        Effect.gen(function* () {
          for (const [index, events] of sampleLogs(30, 21).entries()) {
            const [from, to] = [SessionId.make(`p${index}`), SessionId.make(`c${index}`)]
            yield* create(journal, events, from)
            yield* TestClock.setTime(index)
            const forked = yield* Fork.fork({ parent: from, child: to })
            const record = yield* journal.find(to)
            assert.deepStrictEqual(record.header, forked.header)
            assert.deepStrictEqual(Option.getOrNull(record.header.parent), from)
            assert.deepInclude(record.header, {
              cwd: "/wörk",
              depth: 2,
              created: index,
              version: Journal.formatVersion,
              seedLength: events.length
            })
            assert.strictEqual(forked.parentHead, events.length)
            assert.deepStrictEqual(yield* logOfSession(journal, to), events)
            assert.deepStrictEqual([record.head, record.epoch, Option.isNone(record.owner)], [events.length, 0, true])
            assert.deepInclude(record.summary, { turns: stateOf(events).summary.turns, waiting: 0, dropped: false })
            assert.deepStrictEqual(violationsOf(events, record.header), [])
          }
        })
      )
  )

  it.effect("cuts at every place where no turn is open, and names the nearest ones at any other", () =>
    onJournal((journal) =>
      Effect.gen(function* () {
        yield* create(journal, log)
        for (let place = 0; place <= log.length + 1; place++) {
          const as = SessionId.make(`c${place}`)
          const forked = yield* Effect.either(Fork.fork({ parent, child: as, at: place }))
          if (places.includes(place)) {
            assert.isTrue(Either.isRight(forked), `seq ${place}`)
            const events = yield* logOfSession(journal, as)
            assert.deepStrictEqual(events, log.slice(0, place))
            assert.deepStrictEqual(violationsOf(events, (yield* journal.find(as)).header), [])
          } else {
            const error = Either.getLeft(forked).pipe(Option.getOrThrow)
            if (!(error instanceof Fork.NoBoundary)) return assert.fail(error._tag)
            const nearest = [places.findLast((each) => each < place), places.find((each) => each > place)]
            assert.deepStrictEqual(
              error.nearest,
              nearest.filter((each) => each !== undefined)
            )
            assert.strictEqual((yield* failureOf(journal.find(as)))._tag, "SessionNotFound")
          }
        }
      })
    )
  )

  it.effect("says why it does not cut there, what was kept, and where it can", () =>
    onJournal((journal) =>
      Effect.gen(function* () {
        yield* create(journal, log)
        const why = (place: number) => Effect.map(failureOf(Fork.fork({ parent, child, at: place })), String)
        const head = "session parent cannot be forked at seq"
        assert.include(
          yield* why(4),
          `${head} 4: turn 1 is open there. Nothing was changed. The nearest place is seq 9.`
        )
        assert.include(
          yield* why(log.length),
          `${head} ${log.length}: turn 3 is open there. Nothing was changed. The nearest place is seq 20.`
        )
        assert.include(yield* why(99), `${head} 99: it has ${log.length} events.`)
        for (const place of [0, 1]) assert.include(yield* why(place), "no turn has ended before it")
        yield* create(journal, logOf(turnStart(1)), SessionId.make("young"))
        const young = (at: {}) =>
          Effect.map(failureOf(Fork.fork({ parent: SessionId.make("young"), child, ...at })), String)
        const says = "no turn of it has ended yet. Nothing was changed."
        assert.isTrue((yield* young({})).endsWith(`session young cannot be forked: ${says}`))
        assert.isTrue((yield* young({ at: 7 })).endsWith(`session young cannot be forked at seq 7: ${says}`))
      })
    )
  )

  it.effect("without a place an open turn is left out, and the parent stays as it is, also while it runs", () =>
    onJournal((journal) =>
      Effect.gen(function* () {
        yield* create(journal, log)
        const before = yield* journal.find(parent)
        const { header: made, parentHead } = yield* Fork.fork({ parent, child })
        assert.deepStrictEqual([made.seedLength, parentHead], [20, log.length])
        assert.deepStrictEqual(yield* logOfSession(journal, child), log.slice(0, 20))
        assert.deepStrictEqual([yield* journal.find(parent), yield* logOfSession(journal, parent)], [before, log])
      })
    )
  )

  it.effect("I11: a taken id wins over a bad place, and an unknown parent over both", () =>
    onJournal((journal) =>
      Effect.gen(function* () {
        yield* create(journal, log)
        yield* create(journal, turn(1, "z"), child)
        const tagOf = (options: Fork.ForkOptions) => Effect.map(failureOf(Fork.fork(options)), ({ _tag }) => _tag)
        assert.strictEqual(yield* tagOf({ parent, child, at: 4 }), "SessionExists")
        assert.strictEqual(yield* tagOf({ parent, child: parent }), "SessionExists")
        assert.strictEqual(yield* tagOf({ parent, child: SessionId.make("new"), at: 4 }), "NoBoundary")
        assert.strictEqual(yield* tagOf({ parent: SessionId.make("nobody"), child, at: 4 }), "SessionNotFound")
        assert.deepStrictEqual(yield* logOfSession(journal, child), turn(1, "z"))
        // one without events that nobody owns gives way
        assert.isTrue(yield* journal.create(header({ id: SessionId.make("unused") })))
        yield* Fork.fork({ parent, child: SessionId.make("unused") })
      })
    )
  )

  it.effect("J10: an ignorable event of a newer version is the child's too, as it is", () =>
    onJournal((journal) =>
      Effect.gen(function* () {
        const data = { type: "later/kind", data: { x: [1, "é"] } }
        const newer: StoredEvent = { type: "unrecognized", data, ignorable: true, seq: 9, time: log[8]?.time ?? 0 }
        yield* create(journal, [...log.slice(0, 9), newer])
        yield* Fork.fork({ parent, child })
        assert.deepStrictEqual(yield* logOfSession(journal, child), [...log.slice(0, 9), newer])
      })
    )
  )

  it.effect("G15: a log that lacks an event, or that no fold takes, is told to be damaged, and no child is made", () =>
    onJournal((journal) =>
      Effect.gen(function* () {
        const odd = followedBy(turn(1, "a"), stepEnd(1, 1))
        yield* journal.create(header({ id: parent }), { events: odd, summary: stateOf(turn(1, "a")).summary })
        const missing = { ...journal, read: () => Effect.succeed([]) }
        for (const broken of [journal, missing]) {
          const forked = Effect.provideService(Fork.fork({ parent, child }), Journal.Journal, broken)
          assert.strictEqual((yield* failureOf(forked))._tag, "JournalCorrupt")
        }
        assert.strictEqual((yield* failureOf(journal.find(child)))._tag, "SessionNotFound")
      })
    )
  )

  it.scoped(
    "I12 B22: a child of a cancelled turn sees its half answer, and nothing waits in it; both go on by themselves",
    () =>
      Effect.gen(function* () {
        const journal = yield* Effect.provide(Journal.Journal, Journal.layerMemory)
        const layer = Layer.succeed(Journal.Journal, journal)
        const half = yield* door
        const one = yield* World.make({ journal: layer, id: parent, scripts: [at(half.pass), say("one")] })
        const agent = yield* one.open()
        yield* agent.followup("go")
        yield* half.entered
        yield* agent.cancel("user")
        yield* agent.inject("for the parent")
        // it is live, and need not be left
        yield* Effect.provideService(Fork.fork({ parent, child }), Journal.Journal, journal)
        const seed = yield* one.log
        const two = yield* World.make({ journal: layer, id: child, scripts: [say("two")] })
        const other = yield* two.open({ create: "never" })
        assert.deepStrictEqual([yield* other.pending, yield* two.log], [[], seed])
        yield* Effect.zipRight(other.followup("again"), other.idle)
        const [request] = yield* two.requests
        assert.deepStrictEqual(request?.messages.map(textOf), ["go", "well", "again"])
        assert.deepStrictEqual(yield* one.log, seed)
        yield* Effect.zipRight(agent.followup("and here"), agent.idle)
        const [ours, theirs] = [yield* one.log, yield* two.log]
        assert.deepStrictEqual(ours.slice(0, seed.length), theirs.slice(0, seed.length))
        assert.deepStrictEqual(yield* inputs(one), ["go", "for the parent", "and here"])
        assert.deepStrictEqual(yield* inputs(two), ["go", "again"])
        assert.deepStrictEqual(violationsOf(theirs, (yield* journal.find(child)).header), [])
      })
  )

  it.scoped("K08: a child whose parent was cut off may be resumed; its own turns decide once it has one", () =>
    Effect.gen(function* () {
      const journal = yield* Effect.provide(Journal.Journal, Journal.layerMemory)
      yield* create(journal, [...turn(1, "a").slice(0, 6), ...placedEnd])
      yield* Effect.provideService(Fork.fork({ parent, child }), Journal.Journal, journal)
      const world = yield* World.make({
        journal: Layer.succeed(Journal.Journal, journal),
        id: child,
        scripts: [say("on")]
      })
      const agent = yield* world.open({ create: "never" })
      assert.isTrue(yield* agent.resume)
      yield* agent.idle
      assert.isFalse(yield* agent.resume)
      assert.strictEqual((yield* world.requests).length, 1)
    })
  )
})
