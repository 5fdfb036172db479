import { assert, describe, it } from "@effect/vitest"
import Database from "better-sqlite3"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { SessionId } from "../../src/domain/Ids.ts"
import { latest } from "../../src/journal/Migrations.ts"
import { batch, chunks, failureOf, header, id, noSummary, owner, suite } from "../contract/journal.ts"
import { file, layerTemporary, meddle, opened, openedBelow, program, spawned } from "./support.ts"

suite("the journal in SQLite", layerTemporary)

const all = { from: 0, limit: 1_000_000 }

/** A file with one session of `count` events, closed. */
const written = (count: number) =>
  Effect.gen(function* () {
    const filename = yield* file
    yield* Effect.scoped(
      Effect.gen(function* () {
        const journal = yield* opened(filename)
        yield* journal.create(header())
        yield* journal.append([batch(0, count)])
      })
    )
    return filename
  })

describe("stored rows", () => {
  it.scoped("are what was appended when another opens the file", () =>
    Effect.gen(function* () {
      const journal = yield* opened(yield* written(100))
      assert.deepStrictEqual(yield* journal.read(id, all), chunks(0, 100))
      assert.deepStrictEqual((yield* journal.find(id)).header, header())
    })
  )

  it.scoped("are compact JSON beside version, epoch and time", () =>
    Effect.gen(function* () {
      const filename = yield* written(1)
      assert.deepStrictEqual(
        meddle(filename, (database) => database.prepare("SELECT * FROM session_event").all()),
        [
          {
            session: "s1",
            seq: 0,
            v: 1,
            epoch: 0,
            time: 1_760_000_000_000,
            type: "assistant/chunk",
            data: '{"turn":1,"step":1,"chunk":{"type":"text","index":0,"text":"hello 0"}}',
            source: null,
            ignorable: 0
          }
        ]
      )
    })
  )

  const damages: ReadonlyArray<readonly [what: string, change: string, tag: string, told: string]> = [
    ["malformed JSON", "data = '{'", "JournalCorrupt", "seq 2"],
    ["data that does not fit its type", "data = '{\"turn\":0}'", "JournalCorrupt", "seq 2"],
    ["malformed sources", "source = '[-1]'", "JournalCorrupt", "seq 2"],
    ["a time that is none", "time = 'noon'", "JournalCorrupt", "seq 2"],
    ["a seq that is missing", "seq = 99", "JournalCorrupt", "seq 2 is missing"],
    ["an unknown type", "type = 'later/kind'", "JournalUnsupported", "newer"],
    ["a type that is never stored", "type = 'unrecognized'", "JournalUnsupported", "newer"],
    ["a newer version", "v = 2", "JournalUnsupported", "newer"],
    ["a newer version that may be ignored", "v = 2, type = 'x', ignorable = 1", "JournalUnsupported", "newer"],
    ["an older version", "v = 0", "JournalUnsupported", "older"],
    ["unknown and malformed", "type = 'x', ignorable = 1, data = ''", "JournalCorrupt", "seq 2"]
  ]
  for (const [what, change, tag, told] of damages)
    it.scoped(`J10: ${what} is told apart, naming session and seq`, () =>
      Effect.gen(function* () {
        const filename = yield* written(5)
        meddle(filename, (database) => database.exec(`UPDATE session_event SET ${change} WHERE seq = 2`))
        const journal = yield* opened(filename)
        const error = yield* failureOf(journal.read(id, all))
        assert.strictEqual(error._tag, tag)
        assert.include(error.message, "session s1")
        assert.include(error.message, told)
        assert.deepStrictEqual(yield* journal.read(id, { from: 0, limit: 2 }), chunks(0, 2))
      })
    )

  it.scoped("J10: an unknown type that may be ignored is kept as it is, and its row is not rewritten", () =>
    Effect.gen(function* () {
      const filename = yield* written(5)
      const data = '{ "b": 1, "a": [null] }'
      const change = `type = 'later/kind', ignorable = 1, source = '[0]', data = '${data}'`
      meddle(filename, (database) => database.exec(`UPDATE session_event SET ${change} WHERE seq = 2`))
      const journal = yield* opened(filename)
      const [event] = yield* journal.read(id, { from: 2, limit: 1 })
      assert.deepStrictEqual(event, {
        seq: 2,
        time: 1_760_000_000_002,
        type: "unrecognized",
        data: { type: "later/kind", data: { b: 1, a: [null] } },
        sourceEventSeqs: [0],
        ignorable: true
      })
      yield* journal.append([batch(5, 1)])
      const row = meddle(filename, (database) =>
        database.prepare("SELECT type, data FROM session_event WHERE seq = 2").get()
      )
      assert.deepStrictEqual(row, { type: "later/kind", data })
    })
  )

  it.scoped("a damaged session record is corrupt and named; other sessions still open", () =>
    Effect.gen(function* () {
      const filename = yield* written(1)
      meddle(filename, (database) => database.exec("UPDATE session SET head = 'x'"))
      const journal = yield* opened(filename)
      const error = yield* failureOf(journal.find(id))
      assert.strictEqual(error._tag, "JournalCorrupt")
      assert.include(error.message, "session s1")
      const other = SessionId.make("other")
      yield* journal.create(header({ id: other }))
      assert.deepStrictEqual(yield* journal.append([batch(0, 1, { id: other })]), [Either.right(1)])
      const listed = yield* journal.list({ offset: 0, limit: 10 })
      const shown = listed.map(Either.match({ onLeft: (left) => left._tag, onRight: (record) => record.header.id }))
      assert.sameMembers(shown, ["JournalCorrupt", other])
    })
  )
})

describe("epochs", () => {
  it.scoped("law 9: an event that no owner can have stored there is found", () =>
    Effect.gen(function* () {
      const filename = yield* written(5)
      const journal = yield* opened(filename)
      const more = { summary: noSummary, owner, leaseRead: 0, leaseExpires: 1 }
      yield* journal.take({ ...batch(5, 2), ...more })
      assert.deepStrictEqual(yield* journal.unfenced(id, 10), [])
      const change = (sets: string) => meddle(filename, (database) => database.exec(`UPDATE session_event ${sets}`))
      change("SET epoch = 1 WHERE seq = 2")
      assert.deepStrictEqual(yield* journal.unfenced(id, 10), [3])
      change("SET epoch = 2 WHERE seq IN (2, 6)")
      assert.deepStrictEqual(yield* journal.unfenced(id, 10), [2, 3, 6])
      assert.deepStrictEqual(yield* journal.unfenced(id, 2), [2, 3])
      assert.deepStrictEqual(yield* journal.unfenced(SessionId.make("nobody"), 2), [])
    })
  )
})

describe("statements", () => {
  it.scoped("W20: are prepared once, however many appends follow", () =>
    Effect.gen(function* () {
      const filename = yield* file
      const { journal } = yield* openedBelow(filename)
      yield* journal.create(header())
      const append = (head: number) => journal.append([batch(head, 3)])
      yield* append(0)
      const prepared: Array<string> = []
      const real = Database.prototype.prepare
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          Database.prototype.prepare = function (this: Database.Database, text: string) {
            prepared.push(text)
            return real.call(this, text)
          } as typeof real
        }),
        () =>
          Effect.sync(() => {
            Database.prototype.prepare = real
          })
      )
      for (let head = 3; head < 60; head += 3) yield* append(head)
      yield* journal.append([batch(60, 4)])
      assert.strictEqual(prepared.length, 1)
      assert.deepStrictEqual(yield* journal.read(id, all), chunks(0, 64))
    })
  )
})

describe("several processes", () => {
  it.scopedLive("J20 W23: a kill right after an acknowledged append finds it, and nothing by half", () =>
    Effect.gen(function* () {
      const child = yield* program("child.ts")
      for (const kills of [1, 2, 30, 31, 120]) {
        const filename = yield* file
        const running = yield* spawned(child, "append", filename, "s1", "100000")
        yield* running.printed(kills)
        yield* running.kill
        assert.strictEqual(yield* running.ended, "SIGKILL")
        const acknowledged = Number(running.lines().at(-1))
        assert.isAtLeast(acknowledged, kills)
        const journal = yield* opened(filename)
        const log = yield* journal.read(id, all)
        assert.isAtLeast(log.length, acknowledged)
        assert.strictEqual((yield* journal.find(id)).head, log.length)
        assert.deepStrictEqual(yield* journal.append([{ ...batch(log.length, 1) }]), [Either.right(log.length + 1)])
      }
    })
  )

  it.scopedLive("append to different sessions at once without loss", () =>
    Effect.gen(function* () {
      const child = yield* program("child.ts")
      const filename = yield* file
      const names = ["a", "b", "c"]
      const running = yield* Effect.forEach(names, (name) => spawned(child, "append", filename, name, "150"))
      for (const each of running) assert.strictEqual(yield* each.ended, 0)
      const journal = yield* opened(filename)
      for (const name of names) {
        const log = yield* journal.read(SessionId.make(name), all)
        assert.deepStrictEqual(
          log.map((event) => event.data),
          Array.from({ length: 150 }, (_, index) => ({ turn: index + 1 }))
        )
      }
    })
  )

  it.scopedLive("four that start at once on a new file all come up migrated", () =>
    Effect.gen(function* () {
      const child = yield* program("child.ts")
      for (let round = 0; round < 3; round++) {
        const filename = yield* file
        const running = yield* Effect.replicateEffect(spawned(child, "open", filename), 4)
        for (const each of running) {
          assert.strictEqual(yield* each.ended, 0)
          assert.deepStrictEqual(each.lines(), ["opened 0"])
        }
        const marks = meddle(filename, (database) => [
          database.pragma("application_id", { simple: true }),
          database.pragma("user_version", { simple: true }),
          database.prepare("SELECT count(*) FROM sqlite_schema WHERE type = 'table'").pluck().get()
        ])
        assert.deepStrictEqual(marks, [0x4479626b, latest, 2])
      }
    })
  )
})
