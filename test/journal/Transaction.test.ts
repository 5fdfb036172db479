import { execFileSync } from "node:child_process"
import { join } from "node:path"
import * as Reactivity from "@effect/experimental/Reactivity"
import * as SqlClient from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import { makeCompilerSqlite } from "@effect/sql/Statement"
import { assert, describe, it } from "@effect/vitest"
import Database from "better-sqlite3"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Scheduler from "effect/Scheduler"
import * as TestClock from "effect/TestClock"
import { SessionId } from "../../src/domain/Ids.ts"
import * as SqlJournal from "../../src/journal/SqlJournal.ts"
import * as Transaction from "../../src/journal/Transaction.ts"
import { batch, chunks, failureOf, header, id, noSummary } from "../contract/journal.ts"
import { file, meddle, opened, openedBelow, smallDisk } from "./support.ts"

const all = { from: 0, limit: 1_000_000 }
const other = SessionId.make("other")

/** A journal with a session of 3 events and one of none. */
const begun = (filename: string) =>
  Effect.tap(openedBelow(filename), ({ journal }) =>
    Effect.gen(function* () {
      yield* journal.create(header())
      yield* journal.create(header({ id: other }))
      yield* journal.append([batch(0, 3)])
    })
  )

/** Another connection, closed with the scope. */
const foreign = (filename: string) =>
  Effect.acquireRelease(
    Effect.sync(() => new Database(filename)),
    (database) => Effect.sync(() => database.close())
  )

/** Time that passes by itself when it is slept through: `at` runs at its moment. The test clock takes 10 ms a sleep. */
const virtual = (at: { readonly millis: number; readonly run: () => void }) => {
  let now = 0
  const clock: Clock.Clock = {
    ...Clock.make(),
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: () => now,
    unsafeCurrentTimeNanos: () => BigInt(Math.round(now * 1e6)),
    currentTimeMillis: Effect.sync(() => now),
    currentTimeNanos: Effect.sync(() => BigInt(Math.round(now * 1e6))),
    sleep: (duration) =>
      Effect.zipRight(
        Effect.yieldNow(),
        Effect.sync(() => {
          const before = now
          now += Duration.toMillis(duration)
          if (before < at.millis && now >= at.millis) at.run()
        })
      )
  }
  return { now: () => now, through: Effect.withClock(clock) }
}

describe("a busy database", () => {
  const held = Effect.gen(function* () {
    const filename = yield* file
    const { journal } = yield* begun(filename)
    const holder = yield* foreign(filename)
    holder.exec("BEGIN IMMEDIATE")
    return { filename, journal, holder }
  })

  it.scoped("O-M5: is waited for, and written once it is let go", () =>
    Effect.gen(function* () {
      const { holder, journal } = yield* held
      const time = virtual({ millis: 9_900, run: () => holder.exec("COMMIT") })
      assert.deepStrictEqual(yield* time.through(journal.append([batch(3, 2)])), [Either.right(5)])
      assert.isBelow(time.now(), 9_930)
    })
  )

  it.scoped("is an error after ten seconds, with nothing written, and can be written later", () =>
    Effect.gen(function* () {
      const { filename, holder, journal } = yield* held
      const time = virtual({ millis: 5_000, run: () => {} })
      const error = yield* failureOf(time.through(journal.append([batch(3, 2)])))
      assert.strictEqual(error._tag, "JournalBusy")
      assert.include(error.message, filename)
      assert.closeTo(time.now(), 10_000, 30)
      assert.deepStrictEqual(yield* journal.read(id, all), chunks(0, 3))
      holder.exec("COMMIT")
      assert.deepStrictEqual(yield* journal.append([batch(3, 2)]), [Either.right(5)])
    })
  )

  it.scoped("can be read meanwhile, and given up on", () =>
    Effect.gen(function* () {
      const { holder, journal } = yield* held
      const append = yield* Effect.fork(journal.append([batch(3, 2)]))
      yield* TestClock.adjust("100 millis")
      assert.deepStrictEqual(yield* journal.read(id, all), chunks(0, 3))
      yield* Fiber.interrupt(append)
      holder.exec("COMMIT")
      yield* TestClock.adjust("100 millis")
      assert.deepStrictEqual(yield* journal.read(id, all), chunks(0, 3))
      assert.deepStrictEqual(yield* journal.append([batch(3, 2)]), [Either.right(5)])
    })
  )

  it.scoped("is waited for when a file is opened, and does not stay busy for the statements that met it so", () =>
    Effect.gen(function* () {
      const filename = yield* file
      yield* Effect.scoped(begun(filename))
      const holder = yield* foreign(filename)
      // whoever holds it like this lets nobody read
      holder.pragma("locking_mode = EXCLUSIVE")
      holder.exec("BEGIN EXCLUSIVE; UPDATE session SET title = 'held'")
      const time = virtual({
        millis: 5_000,
        run: () => {
          holder.exec("COMMIT")
          holder.close()
        }
      })
      const journal = yield* time.through(opened(filename))
      assert.closeTo(time.now(), 5_000, 30)
      assert.strictEqual((yield* journal.find(id)).summary.title, "held")
    })
  )
})

describe("a full database", () => {
  it.scoped("O-M1: keeps what was written before and nothing of what was not, and goes on once there is room", () =>
    Effect.gen(function* () {
      const { journal, transactions } = yield* begun(yield* file)
      const limit = (pages: number) =>
        transactions.read("test", (connection) => connection.execute(`PRAGMA max_page_count = ${pages}`, [], undefined))
      yield* limit(12)
      const large = batch(3, 0, { events: chunks(3, 70, "x".repeat(5_000)) })
      const group = [batch(0, 1, { id: other }), large]
      const error = yield* failureOf(journal.append(group))
      assert.strictEqual(error._tag, "JournalFull")
      assert.deepStrictEqual(yield* journal.read(id, all), chunks(0, 3))
      assert.deepStrictEqual(yield* journal.read(other, all), [])
      assert.deepStrictEqual(yield* journal.append([batch(3, 1)]), [Either.right(4)])
      yield* limit(100_000)
      const rest = batch(4, 0, { events: chunks(4, 70, "x".repeat(5_000)) })
      assert.deepStrictEqual(yield* journal.append([rest]), [Either.right(74)])
    })
  )

  it.scoped("O-M1: a full disk is told as such", (test) =>
    Effect.gen(function* () {
      const disk = yield* Effect.either(smallDisk("400k"))
      if (Either.isLeft(disk)) return test.skip("a small disk cannot be mounted here")
      const filename = join(disk.right, "daybook.db")
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { journal } = yield* begun(filename)
          const fill = (head: number): Effect.Effect<readonly [number, string]> =>
            Effect.matchEffect(journal.append([batch(head, 0, { events: chunks(head, 1, "x".repeat(20_000)) })]), {
              onFailure: (error) => Effect.succeed([head, error._tag]),
              onSuccess: () => fill(head + 1)
            })
          const [head, tag] = yield* fill(3)
          assert.strictEqual(tag, "JournalFull")
          assert.strictEqual((yield* journal.read(id, all)).length, head)
        })
      )
      assert.strictEqual(execFileSync("stat", ["-f", "-c", "%T", disk.right]).toString().trim(), "tmpfs")
    })
  )
})

describe("a write that fails", () => {
  it.scoped("in COMMIT leaves no transaction open and nothing written", () =>
    Effect.gen(function* () {
      const filename = yield* file
      const { journal } = yield* begun(filename)
      meddle(filename, (database) =>
        database.exec(`
          CREATE TABLE target (id INTEGER PRIMARY KEY);
          CREATE TABLE source (id INTEGER REFERENCES target DEFERRABLE INITIALLY DEFERRED);
          CREATE TRIGGER spoil AFTER INSERT ON session_event BEGIN INSERT INTO source VALUES (1); END`)
      )
      const error = yield* failureOf(journal.append([batch(3, 2)]))
      assert.strictEqual(error._tag === "JournalFailed" ? error.operation : error._tag, "append")
      assert.include(error.message, "FOREIGN KEY")
      assert.deepStrictEqual(yield* journal.read(id, all), chunks(0, 3))
      meddle(filename, (database) => database.exec("DROP TRIGGER spoil"))
      assert.deepStrictEqual(yield* journal.append([batch(3, 2)]), [Either.right(5)])
    })
  )

  /** A client whose connection fails before its n-th statement from `arm` on, as an error or as one that is thrown. */
  const failing = (real: Connection) => {
    let left = 0
    let failure: () => Effect.Effect<never, SqlError> = () => Effect.never
    const counted = <A>(statement: Effect.Effect<A, SqlError>) =>
      Effect.suspend(() => (--left === 0 ? failure() : statement))
    const connection: Connection = {
      ...real,
      execute: (...args) => counted(real.execute(...args)),
      executeUnprepared: (...args) => counted(Effect.suspend(() => real.executeUnprepared(...args)))
    }
    const client = SqlClient.make({
      acquirer: Effect.succeed(connection),
      compiler: makeCompilerSqlite(),
      spanAttributes: []
    })
    const arm = (n: number, how: () => Effect.Effect<never, SqlError>) =>
      Effect.sync(() => {
        left = n
        failure = how
      })
    return Effect.map(Effect.provideServiceEffect(client, Reactivity.Reactivity, Reactivity.make), (sql) => ({
      arm,
      sql
    }))
  }

  it.scoped("at any statement, in any way, leaves nothing by half, and the next one goes on", () =>
    Effect.gen(function* () {
      const { transactions } = yield* begun(yield* file)
      const { arm, sql } = yield* transactions.read("test", failing)
      const doubled = yield* Transaction.make(sql, "double")
      const journal = SqlJournal.make(doubled)
      const cause = Object.assign(new Error("the disk is gone"), { code: "SQLITE_IOERR_WRITE" })
      const ways = [
        () => Effect.fail(new SqlError({ cause, message: "Failed to execute statement" })),
        () => Effect.die(new SqlError({ cause })),
        () => Effect.die(cause)
      ]
      let head = 3
      let failures = 0
      for (const way of ways)
        for (let n = 1; n <= 8; n++) {
          yield* arm(n, way)
          const group = [batch(head, 70), batch(0, 1, { id: other, epoch: 5 })]
          const result = yield* Effect.either(journal.append(group))
          yield* arm(0, way)
          if (Either.isLeft(result)) {
            failures++
            assert.strictEqual(result.left._tag, "JournalFailed")
          } else head += 70
          assert.strictEqual((yield* journal.read(id, all)).length, head)
          assert.strictEqual((yield* journal.find(id)).head, head)
        }
      // BEGIN, UPDATE, two INSERTs, UPDATE, the two SELECTs of the verdict, COMMIT
      assert.strictEqual(failures, 3 * 8)
      assert.deepStrictEqual(yield* journal.append([batch(head, 1)]), [Either.right(head + 1)])
    })
  )

  it.scoped("because of a bug of ours dies, and is undone all the same", () =>
    Effect.gen(function* () {
      const { journal, transactions } = yield* begun(yield* file)
      const exit = yield* Effect.exit(
        transactions.write("test", (connection) =>
          Effect.zipRight(connection.execute("DELETE FROM session_event", [], undefined), Effect.dieMessage("a bug"))
        )
      )
      assert.include(String(exit), "a bug")
      assert.deepStrictEqual(yield* journal.read(id, all), chunks(0, 3))
      assert.deepStrictEqual(yield* journal.append([batch(3, 1)]), [Either.right(4)])
    })
  )
})

describe("a transaction", () => {
  it.scoped("holds the database from its beginning on", () =>
    Effect.gen(function* () {
      const filename = yield* file
      const { transactions } = yield* begun(filename)
      const rival = yield* foreign(filename)
      rival.pragma("busy_timeout = 0")
      const refusal = yield* transactions.write("test", () =>
        failureOf(Effect.try(() => rival.exec("BEGIN IMMEDIATE")))
      )
      assert.include(String(refusal.error), "locked")
      rival.exec("BEGIN IMMEDIATE; COMMIT")
    })
  )

  it.scoped("runs a statement whose preparation failed before, although the client keeps that failure", () =>
    Effect.gen(function* () {
      const filename = yield* file
      const { transactions } = yield* begun(filename)
      const select = transactions.read("test", (connection) => connection.execute("SELECT x FROM late", [], undefined))
      assert.strictEqual((yield* failureOf(select))._tag, "JournalFailed")
      meddle(filename, (database) => database.exec("CREATE TABLE late (x); INSERT INTO late VALUES (1)"))
      assert.deepStrictEqual(yield* select, [{ x: 1 }])
    })
  )
})

describe("an interrupt", () => {
  /** Interrupts its fiber at the n-th operation, and lets others run at every 24th (fewer would never get on). */
  class Interrupting extends Scheduler.MixedScheduler {
    private done = 0
    private readonly at: number
    constructor(at: number) {
      super(2048)
      this.at = at
    }
    override shouldYield(fiber: Fiber.RuntimeFiber<unknown, unknown>): number | false {
      this.done++
      if (this.done === this.at) fiber.unsafeInterruptAsFork(FiberId.none)
      return this.done % 24 === 0 ? 0 : false
    }
  }

  it.scopedLive("at any point leaves an append whole or undone, and the journal usable", () =>
    Effect.gen(function* () {
      const { journal } = yield* begun(yield* file)
      let head = 3
      let interrupted = 0
      let written = 0
      for (let n = 1; n < 160; n++) {
        const append = journal.append([batch(head, 2), batch(0, 1, { id: other, epoch: 9 })])
        const fiber = yield* Effect.fork(Effect.withScheduler(append, new Interrupting(n)))
        const beside = yield* Effect.fork(journal.read(id, all))
        const exit = yield* Fiber.await(fiber)
        yield* Fiber.await(beside)
        if (Exit.isInterrupted(exit)) interrupted++
        const length = (yield* Effect.timeoutFail(journal.read(id, all), {
          duration: "5 seconds",
          onTimeout: () => new Error(`stuck after an interrupt at ${n}`)
        })).length
        assert.include([head, head + 2], length)
        if (Exit.isSuccess(exit)) assert.strictEqual(length, head + 2)
        if (length > head) written++
        head = length
        assert.strictEqual((yield* journal.find(id)).head, head)
      }
      assert.isAbove(interrupted, 50)
      assert.isAbove(written, 50)
    })
  )

  it.scoped("never lets a read see what is not committed", () =>
    Effect.gen(function* () {
      const { journal, transactions } = yield* begun(yield* file)
      const inside = yield* Effect.makeLatch(false)
      const goOn = yield* Effect.makeLatch(false)
      // a body that waits, which no body of ours does, keeps its transaction open for the others to meet
      const writing = yield* Effect.fork(
        transactions.write("test", (connection) =>
          Effect.gen(function* () {
            yield* connection.execute("DELETE FROM session_event", [], undefined)
            yield* inside.open
            yield* goOn.await
            return yield* Effect.fail("undone")
          })
        )
      )
      yield* inside.await
      const reads = yield* Effect.fork(Effect.replicateEffect(journal.read(id, all), 2))
      const givenUp = yield* Effect.fork(journal.read(id, all))
      yield* Effect.yieldNow()
      yield* Fiber.interrupt(givenUp)
      yield* goOn.open
      assert.deepStrictEqual(yield* Fiber.join(reads), [chunks(0, 3), chunks(0, 3)])
      assert.strictEqual(yield* failureOf(Fiber.join(writing)), "undone")
      assert.deepStrictEqual(yield* journal.append([batch(3, 1, { summary: noSummary })]), [Either.right(4)])
    })
  )
})
