/**
 * Reading by pages: how much is read, and when. Counted, not timed.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import * as Gist from "../../src/cli/Gist.ts"
import { eventsAtOnce, sessionsAtOnce } from "../../src/cli/Pages.ts"
import { JournalCorrupt } from "../../src/domain/Errors.ts"
import { SessionId } from "../../src/domain/Ids.ts"
import * as Journal from "../../src/journal/Journal.ts"
import {
  answer,
  block,
  call,
  chunk,
  followedBy,
  header,
  input,
  inserted,
  type Log,
  logOf,
  outcome,
  result,
  said,
  stateOf,
  stepStart,
  turnStart
} from "../support/Facts.ts"
import * as Inside from "../support/Inside.ts"

const id = SessionId.make("s")

/** An open turn of that many events. */
const long = (events: number): Log => {
  const start = logOf(
    inserted("next-turn", 0, said("p", "go")),
    turnStart(1),
    stepStart(1, 1),
    input(said("q", "go", "context")),
    header()
  )
  return followedBy(
    start,
    ...Array.from({ length: events - start.length }, (_, index) => chunk(1, 1, `word ${index} `))
  )
}

const short = logOf(inserted("next-turn", 0, said("p", "go")))

const printed = (log: Log): string => log.map((event) => `${Gist.json(event)}\n`).join("")

/** The journal, and what is read of it: how much at once, and how much had been printed by then. */
const counting = (journal: Inside.Services["journal"], stdout: () => string) => {
  const begun = Effect.unsafeMakeLatch(false)
  const reads: Array<{ readonly limit: number; readonly lines: number }> = []
  const lists: Array<number> = []
  return {
    reads,
    lists,
    /** Returns once the log was read for the first time: from there on only the clock is waited for. */
    begun: begun.await,
    journal: {
      ...journal,
      read: (session: SessionId, range: { readonly from: number; readonly limit: number }) =>
        Effect.suspend(() => {
          begun.unsafeOpen()
          reads.push({ limit: range.limit, lines: stdout().split("\n").length - 1 })
          return journal.read(session, range)
        }),
      list: (page: { readonly offset: number; readonly limit: number }) =>
        Effect.suspend(() => {
          lists.push(page.limit)
          return journal.list(page)
        })
    }
  }
}

/** Runs the program on a journal whose reads are counted. */
const counted = (journal: Inside.Services["journal"], ...words: ReadonlyArray<string>) => {
  let said: () => string = () => ""
  const counts = counting(journal, () => said())
  const run = Inside.make({ journal: counts.journal }, ...words)
  said = () => run.said.stdout
  return { ...counts, ...run }
}

describe("events and show", () => {
  for (const words of [
    ["events", "s", "--json"],
    ["show", "s"],
    ["export", "s"]
  ])
    it.scoped(`${words[0]} reads a page, prints it, and reads the next: one page is in memory (W21, O-P1)`, () =>
      Effect.gen(function* () {
        const journal = yield* Inside.journalOf({ s: long(3 * eventsAtOnce + 50) })
        const { program, reads } = counted(journal, ...words)
        yield* program
        assert.strictEqual(reads.length, 4)
        for (const [page, { limit, lines }] of reads.entries()) {
          assert.isAtMost(limit, eventsAtOnce)
          if (words[0] !== "show") assert.strictEqual(lines, page * eventsAtOnce + (words[0] === "export" ? 1 : 0))
        }
      })
    )
})

describe("a log that is damaged somewhere", () => {
  for (const words of [
    ["events", "s", "--json"],
    ["events", "s", "--json", "--follow"]
  ])
    it.scoped(`${words.join(" ")} prints all that stands before it, wherever that is in a page`, () =>
      Effect.gen(function* () {
        const log = long(2 * eventsAtOnce + 50)
        const journal = yield* Inside.journalOf({ s: log })
        for (const at of [0, 1, eventsAtOnce - 1, eventsAtOnce, eventsAtOnce + 37, log.length - 1]) {
          const damage = new JournalCorrupt({ file: "memory", sessionId: id, detail: "it rots", cause: undefined })
          const rotten: Inside.Services["journal"] = {
            ...journal,
            read: (session, range) =>
              range.from <= at && at < range.from + range.limit ? Effect.fail(damage) : journal.read(session, range)
          }
          const { code, stderr, stdout } = yield* Inside.run({ journal: rotten }, ...words)
          assert.strictEqual(stdout, printed(log.slice(0, at)))
          assert.match(stderr, /^daybook: session s in memory is damaged: it rots\. [^\n]*\n$/)
          assert.strictEqual(code, 1)
        }
      })
    )
})

describe("show of a log that is damaged somewhere", () => {
  it.scoped("shows the calls that stand before it, whose results are gone", () =>
    Effect.gen(function* () {
      const at = [1, 1, 0] as const
      const log = followedBy(
        logOf(turnStart(1), stepStart(1, 1), input(said("p", "go")), header()),
        answer(1, 1, [block(...at)]),
        call(at, "bash", '{"command":"ls"}'),
        result(at, outcome("gone"))
      )
      const journal = yield* Inside.journalOf({ s: log })
      const damage = new JournalCorrupt({ file: "memory", sessionId: id, detail: "it rots", cause: undefined })
      const rotten: Inside.Services["journal"] = {
        ...journal,
        read: (session, range) => (range.from + range.limit > 6 ? Effect.fail(damage) : journal.read(session, range))
      }
      const { code, stderr, stdout } = yield* Inside.run({ journal: rotten }, "show", "s")
      assert.match(stdout, /no result yet: bash ls\n$/)
      assert.include(stderr, "it rots")
      assert.strictEqual(code, 1)
    })
  )
})

describe("daybook sessions", () => {
  it.scoped("lists 5,000 sessions from the index, a page at a time, and reads no log (O-P2)", () =>
    Effect.gen(function* () {
      const logs = Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`s${index}`, short]))
      const { lists, program, reads, said } = counted(yield* Inside.journalOf(logs), "sessions")
      yield* program
      assert.strictEqual(said.stdout.split("\n").length, 5002)
      assert.strictEqual(reads.length, 0)
      assert.isAtMost(lists.length, 5000 / sessionsAtOnce + 1)
      assert.isAtMost(Math.max(...lists), sessionsAtOnce)
    })
  )

  it.scoped("can be interrupted between two pages (O-P2)", () =>
    Effect.gen(function* () {
      const logs = Object.fromEntries(Array.from({ length: 3 * sessionsAtOnce }, (_, index) => [`s${index}`, short]))
      const journal = yield* Inside.journalOf(logs)
      let lists = 0
      const stopping = {
        ...journal,
        list: (page: { readonly offset: number; readonly limit: number }) =>
          Effect.suspend(() => (++lists === 2 ? Effect.interrupt : journal.list(page)))
      }
      const { code, stdout } = yield* Inside.run({ journal: stopping }, "sessions")
      assert.deepStrictEqual([lists, code], [2, undefined])
      assert.strictEqual(stdout.split("\n").length - 2, sessionsAtOnce)
    })
  )
})

describe("events --follow", () => {
  it.scoped("prints what is there and what comes, each event once and in order, whoever writes it", () =>
    Effect.gen(function* () {
      const whole = long(5 * eventsAtOnce)
      const cuts = [7, 8, 100 + 8, 350, whole.length]
      const journal = yield* Inside.journalOf({ s: whole.slice(0, cuts[0]) })
      const { begun, program, reads, said } = counted(journal, "events", "s", "--json", "--follow", "--from", "2")
      const fiber = yield* Effect.fork(program)
      yield* begun
      const owner = { host: "host", pid: 1, processStart: "0", bootId: "boot", token: "token", since: 0 }
      for (const [epoch, head] of cuts.slice(0, -1).entries()) {
        yield* TestClock.adjust("1 second")
        assert.strictEqual(said.stdout, printed(whole.slice(2, head)))
        const events = whole.slice(head, cuts[epoch + 1])
        const { summary } = stateOf(whole.slice(0, cuts[epoch + 1]))
        // somebody else, under an ownership of their own
        yield* Effect.orDie(
          journal.take({ id, head, epoch: epoch + 1, events, summary, owner, leaseRead: 0, leaseExpires: 0 })
        )
      }
      yield* TestClock.adjust("1 second")
      assert.strictEqual(said.stdout, printed(whole.slice(2)))
      // it looks ten times a second, and goes on at once only where a whole page was there
      assert.isAtMost(reads.length, 10 * cuts.length + 10)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(said.code, undefined)
    })
  )

  it.scoped("waits for the first event of a session; one that is not there is an error", () =>
    Effect.gen(function* () {
      const journal = yield* Inside.journalOf({})
      const nobody = yield* Inside.run({ journal }, "events", "s", "--follow")
      assert.strictEqual(nobody.code, 1)
      assert.match(nobody.stderr, /^daybook: session s: no such session\./)
      yield* Effect.orDie(
        journal.create({
          id,
          version: Journal.formatVersion,
          cwd: "/",
          created: 0,
          parent: Option.none(),
          seedLength: 0,
          depth: 0
        })
      )
      const { begun, program, said: told } = counted(journal, "events", "s", "--json", "--follow")
      const fiber = yield* Effect.fork(program)
      yield* begun
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual({ ...told }, { code: undefined, stdout: "", stderr: "" })
      yield* Inside.store(journal, "s", long(6))
      yield* TestClock.adjust("1 second")
      assert.strictEqual(told.stdout, printed(long(6)))
      yield* Fiber.interrupt(fiber)
    })
  )
})
