import { execFileSync } from "node:child_process"
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync
} from "node:fs"
import { basename, dirname, join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import Database from "better-sqlite3"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { JournalError } from "../../src/domain/Errors.ts"
import { latest } from "../../src/journal/Migrations.ts"
import { batch, chunks, failureOf, header, id, noSummary, owner } from "../contract/journal.ts"
import { contents, file, folder, meddle, opened, openedBelow, openedReadonly, program, spawned } from "./support.ts"

const all = { from: 0, limit: 1_000_000 }

/** A journal of 50 events, closed. */
const written = Effect.tap(file, (filename) =>
  Effect.scoped(
    Effect.gen(function* () {
      const journal = yield* opened(filename)
      yield* journal.create(header())
      yield* journal.append([batch(0, 50)])
    })
  )
)

/** What an error says in one word: its direction where it has one. */
const kindOf = (error: JournalError): string => (error._tag === "JournalUnsupported" ? error.direction : error._tag)

/** Opening fails like this, for writing and for reading, and every byte of the folder is as before. */
const refused = (filename: string, kind: string) =>
  Effect.gen(function* () {
    const path = dirname(filename)
    const before = contents(path)
    for (const open of [opened, openedReadonly]) {
      const error = yield* failureOf(Effect.scoped(open(filename)))
      assert.strictEqual(kindOf(error), kind)
      assert.include(error.message, filename)
      assert.deepStrictEqual(contents(path), before)
    }
  })

describe("a file that is opened", () => {
  it.scoped("commits to disk, whether it is new or opened again", () =>
    Effect.gen(function* () {
      const filename = yield* file
      const expected = {
        journal_mode: "wal",
        synchronous: 2,
        busy_timeout: 0,
        journal_size_limit: 8_388_608,
        application_id: 0x4479626b,
        user_version: latest
      }
      for (const _ of ["new", "again", "and again"])
        yield* Effect.scoped(
          Effect.gen(function* () {
            const { transactions } = yield* openedBelow(filename)
            const pragma = (name: string) =>
              transactions.read("test", (connection) => connection.executeValues(`PRAGMA ${name}`, []))
            for (const [name, value] of Object.entries(expected)) assert.deepStrictEqual(yield* pragma(name), [[value]])
          })
        )
      assert.deepStrictEqual(Object.keys(contents(dirname(filename))), [basename(filename)])
    })
  )

  it.scoped("may be empty, or an empty SQLite database", () =>
    Effect.gen(function* () {
      for (const journalMode of ["none", "delete", "wal"]) {
        const filename = yield* file
        if (journalMode === "none") writeFileSync(filename, "")
        else
          meddle(filename, (database) => {
            database.pragma(`journal_mode = ${journalMode}`)
            database.exec("VACUUM")
          })
        const journal = yield* opened(filename)
        assert.isTrue(yield* journal.create(header()))
      }
    })
  )

  it.scoped("is the one that a link leads to", () =>
    Effect.gen(function* () {
      const filename = yield* written
      const link = join(yield* folder, "link.db")
      symlinkSync(filename, link)
      const writer = yield* opened(filename)
      yield* writer.append([batch(50, 1)])
      const journal = yield* opened(link)
      assert.strictEqual((yield* journal.read(id, all)).length, 51)
      assert.deepStrictEqual(Object.keys(contents(dirname(link))), ["link.db"])
    })
  )

  it.scoped("O-M4: keeps its log short, also beside somebody who reads all the time", () =>
    Effect.gen(function* () {
      const filename = yield* file
      const journal = yield* opened(filename)
      yield* journal.create(header())
      const reader = yield* openedReadonly(filename)
      for (let head = 0; head < 200; head++) {
        yield* journal.append([batch(head, 0, { events: chunks(head, 1, "x".repeat(100_000)) })])
        assert.lengthOf(yield* reader.read(id, { from: head, limit: 10 }), 1)
      }
      assert.isBelow(readFileSync(`${filename}-wal`).length, 9_000_000)
    })
  )
})

describe("a file of ours", () => {
  it.scoped("N07: can be read by its owner alone, and so can what lies beside it", () =>
    Effect.gen(function* () {
      const filename = yield* file
      const journal = yield* opened(filename)
      yield* journal.create(header())
      for (const each of [filename, `${filename}-wal`, `${filename}-shm`])
        assert.strictEqual(statSync(each).mode & 0o777, 0o600, each)
    })
  )

  it.scoped("law 7: that is removed or replaced while it is open acknowledges nothing more", () =>
    Effect.gen(function* () {
      for (const [gone, back] of [
        ["", false],
        ["", true],
        ["-wal", false]
      ] as const) {
        const filename = yield* file
        const journal = yield* opened(filename)
        yield* journal.create(header())
        yield* journal.append([batch(0, 3)])
        rmSync(`${filename}${gone}`)
        if (back) writeFileSync(filename, "")
        const error = yield* failureOf(journal.append([batch(3, 1)]))
        assert.strictEqual(error._tag, "JournalCorrupt")
        assert.include(error.message, "removed or replaced while it was open")
      }
    })
  )

  it.scoped("law 9: is read where nobody may write: in a folder that is closed to writing", () =>
    Effect.gen(function* () {
      const filename = yield* written
      const path = dirname(filename)
      chmodSync(filename, 0o444)
      chmodSync(path, 0o555)
      const before = contents(path)
      // root may write everywhere: be somebody else meanwhile
      const isRoot = process.getuid?.() === 0
      yield* Effect.acquireRelease(
        Effect.sync(() => (isRoot ? process.seteuid?.(65_534) : undefined)),
        () =>
          Effect.sync(() => {
            if (isRoot) process.seteuid?.(0)
            chmodSync(path, 0o755)
          })
      )
      const journal = yield* openedReadonly(filename)
      assert.deepStrictEqual(yield* journal.read(id, { from: 0, limit: 100 }), chunks(0, 50))
      assert.deepStrictEqual(contents(path), before)
    })
  )
})

describe("a file that is not ours stays byte for byte as it was", () => {
  it.scoped("a text", () =>
    Effect.gen(function* () {
      for (const text of ["x", "SQLite format 3", "no database\n".repeat(1000)]) {
        const filename = yield* file
        writeFileSync(filename, text)
        yield* refused(filename, "foreign")
      }
    })
  )

  it.scoped("another program's SQLite database, in either mode", () =>
    Effect.gen(function* () {
      for (const journalMode of ["wal", "delete"])
        for (const mark of ["CREATE TABLE t(x)", "PRAGMA application_id = 7", "PRAGMA user_version = 7"]) {
          const filename = yield* file
          meddle(filename, (database) => {
            database.pragma(`journal_mode = ${journalMode}`)
            database.exec(mark)
          })
          yield* refused(filename, "foreign")
        }
    })
  )

  it.scoped("another program's SQLite database that is open, or that its program left behind when it was killed", () =>
    Effect.gen(function* () {
      const filename = yield* file
      const left = join(yield* folder, "left.db")
      const database = yield* Effect.acquireRelease(
        Effect.sync(() => new Database(filename)),
        (open) => Effect.sync(() => open.close())
      )
      database.pragma("journal_mode = WAL")
      // all of it is in the log alone
      database.exec("CREATE TABLE t(x); INSERT INTO t VALUES (1)")
      copyFileSync(filename, left)
      copyFileSync(`${filename}-wal`, `${left}-wal`)
      yield* refused(filename, "foreign")
      yield* refused(left, "foreign")
      const before = contents(dirname(left))
      const link = join(yield* folder, "link.db")
      symlinkSync(left, link)
      assert.strictEqual(kindOf(yield* failureOf(opened(link))), "foreign")
      assert.deepStrictEqual(contents(dirname(left)), before)
      assert.strictEqual(database.prepare("SELECT count(*) FROM t").pluck().get(), 1)
    })
  )

  it.scoped("O-N3: a journal of a newer or an older version", () =>
    Effect.gen(function* () {
      for (const [version, kind] of [
        [latest + 1, "newer"],
        [99, "newer"],
        [0, "older"],
        [-1, "older"]
      ] as const) {
        const filename = yield* written
        meddle(filename, (database) => database.pragma(`user_version = ${version}`))
        yield* refused(filename, kind)
      }
    })
  )

  it.scoped.each([1, 2])(
    "a journal of version %i is read once it was opened for writing, with all that was in it",
    (v) =>
      Effect.gen(function* () {
        const filename = yield* written
        meddle(filename, (database) => {
          database.exec("DROP INDEX session_owner")
          for (const column of ["owner_since", "waiting", "dropped"])
            database.exec(`ALTER TABLE session DROP COLUMN ${column}`)
          if (v === 1) database.exec("ALTER TABLE session DROP COLUMN hidden; DROP INDEX session_outline")
          database.pragma(`user_version = ${v}`)
        })
        assert.strictEqual(kindOf(yield* failureOf(openedReadonly(filename))), "older")
        yield* Effect.scoped(
          Effect.gen(function* () {
            const journal = yield* opened(filename)
            assert.strictEqual((yield* journal.find(id)).head, 50)
            assert.deepStrictEqual(yield* journal.read(id, { from: 0, limit: 100 }), chunks(0, 50))
          })
        )
        assert.strictEqual((yield* (yield* openedReadonly(filename)).find(id)).head, 50)
      })
  )

  it.scoped("a journal whose end is missing", () =>
    Effect.gen(function* () {
      for (const length of [50, 107, 108, 4096, 6000, 8192, 16_384, 20_479]) {
        const filename = yield* written
        truncateSync(filename, length)
        yield* refused(filename, "JournalCorrupt")
      }
    })
  )

  it.scoped("what is no file", () =>
    Effect.gen(function* () {
      const path = yield* folder
      mkdirSync(join(path, "inside"))
      yield* refused(join(path, "inside"), "JournalFailed")
      execFileSync("mkfifo", [join(path, "pipe")])
      yield* refused(join(path, "pipe"), "JournalFailed")
      writeFileSync(join(path, "plain"), "")
      const below = yield* failureOf(opened(join(path, "plain", "daybook.db")))
      assert.strictEqual(below._tag, "JournalFailed")
      yield* refused(join(path, "name that ends with space "), "JournalFailed")
    })
  )

  it.scoped("a folder that is missing is not made", () =>
    Effect.gen(function* () {
      const path = yield* folder
      const error = yield* failureOf(opened(join(path, "no", "daybook.db")))
      assert.strictEqual(error._tag, "JournalFailed")
      assert.include(error.message, "folder")
      assert.deepStrictEqual(contents(path), {})
    })
  )
})

describe("a file that is damaged inside", () => {
  it.scoped("opens, and what it cannot read is corrupt", () =>
    Effect.gen(function* () {
      const filename = yield* written
      const bytes = readFileSync(filename)
      bytes.fill(0xee, 4096)
      writeFileSync(filename, bytes)
      const journal = yield* opened(filename)
      assert.strictEqual((yield* failureOf(journal.read(id, all)))._tag, "JournalCorrupt")
      assert.strictEqual((yield* failureOf(journal.append([batch(50, 1)])))._tag, "JournalCorrupt")
    })
  )
})

describe("reading alone", () => {
  it.scoped("creates nothing where there is nothing: the journal is empty, and every write fails", () =>
    Effect.gen(function* () {
      const path = yield* folder
      writeFileSync(join(path, "empty.db"), "")
      const before = contents(path)
      for (const name of ["none.db", "no/folder/none.db", "empty.db"]) {
        const journal = yield* openedReadonly(join(path, name))
        assert.deepStrictEqual(yield* journal.list({ offset: 0, limit: 9 }), [])
        assert.deepStrictEqual(yield* journal.read(id, all), [])
        assert.strictEqual((yield* failureOf(journal.find(id)))._tag, "SessionNotFound")
        const writes: ReadonlyArray<Effect.Effect<unknown, { readonly _tag: string }>> = [
          journal.create(header()),
          journal.append([batch(0, 1)]),
          journal.take({ ...batch(0, 0), owner, leaseRead: 0, leaseExpires: 1 }),
          journal.release(id, 0)
        ]
        for (const write of writes) assert.strictEqual((yield* failureOf(write))._tag, "JournalFailed")
      }
      assert.deepStrictEqual(contents(path), before)
    })
  )

  it.scoped("sees what a live writer has committed, and writes nothing", () =>
    Effect.gen(function* () {
      const filename = yield* written
      const reader = yield* openedReadonly(filename)
      const writer = yield* opened(filename)
      const late = yield* openedReadonly(filename)
      yield* writer.append([batch(50, 2, { summary: { ...noSummary, title: "t" } })])
      for (const journal of [reader, late]) {
        assert.deepStrictEqual(yield* journal.read(id, all), chunks(0, 52))
        assert.strictEqual((yield* failureOf(journal.append([batch(52, 1)])))._tag, "JournalFailed")
      }
      assert.deepStrictEqual(yield* writer.append([batch(52, 1)]), [Either.right(53)])
    })
  )

  it.scopedLive("J20: sees everything that a killed writer had committed, from its first commit on", () =>
    Effect.gen(function* () {
      const child = yield* program("child.ts")
      const filename = yield* file
      const running = yield* spawned(child, "append", filename, "s1", "100000")
      yield* running.printed(1)
      yield* running.kill
      yield* running.ended
      const acknowledged = Number(running.lines().at(-1))
      const journal = yield* openedReadonly(filename)
      assert.isAtLeast((yield* journal.read(id, all)).length, acknowledged)
    })
  )
})
