/**
 * Damaged files: whatever byte of a journal is not what it was, taking its sessions works or says what is wrong, and writes nothing
 * where it does not work.
 */
import { copyFileSync, readFileSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import { SessionId } from "../../src/domain/Ids.ts"
import * as Journal from "../../src/journal/Journal.ts"
import * as Reaper from "../../src/session/Reaper.ts"
import * as Repair from "../../src/session/Repair.ts"
import * as Sessions from "../../src/session/Sessions.ts"
import { header } from "../contract/journal.ts"
import { contents, folder, meddle, opened } from "../journal/support.ts"
import { stateOf } from "../support/Facts.ts"
import { sampleLogs } from "../support/Logs.ts"

const names = ["a", "b", "c", "d"].map((name) => SessionId.make(name))

/** A journal with some generated sessions, the last of them in the middle of a turn; nobody owns any. */
const written = Effect.gen(function* () {
  const filename = join(yield* folder, "daybook.db")
  const logs = sampleLogs(names.length, 77, 400)
  yield* Effect.scoped(
    Effect.gen(function* () {
      const journal = yield* opened(filename)
      for (const [index, id] of names.entries()) {
        const log = logs[index] ?? []
        const cut =
          index < 3
            ? log
            : log.slice(
                0,
                log.findLastIndex((event) => event.type === "step/end")
              )
        yield* journal.create(header({ id }), { events: cut, summary: stateOf(cut).summary })
      }
    })
  )
  return filename
})

const sessionsOf = (filename: string) =>
  Sessions.layer.pipe(
    Layer.provideMerge(Journal.layerSqlite({ filename })),
    Layer.provide([Repair.layer, Reaper.layerNone, NodeFileSystem.layer])
  )

/** How each session could be taken, in a file that may be damaged: `ok`, or the tag of the error. */
const taken = (filename: string): Effect.Effect<string> =>
  Effect.scoped(
    Effect.gen(function* () {
      const context = yield* Layer.build(sessionsOf(filename))
      const { acquire } = Context.get(context, Sessions.Sessions)
      const outcomes: Array<string> = []
      for (const id of names) {
        const session = acquire(id, { cwd: "/work", create: "never" })
        const exit = yield* Effect.exit(Effect.scoped(Effect.flatMap(session, ({ barrier }) => barrier)))
        outcomes.push(told(exit))
      }
      return outcomes.join(" ")
    })
  ).pipe(
    Effect.exit,
    Effect.map((exit) => (Exit.isSuccess(exit) ? exit.value : `not opened: ${told(exit)}`))
  )

const told = (exit: Exit.Exit<unknown, { readonly _tag: string; readonly message: string }>): string => {
  if (Exit.isSuccess(exit)) return "ok"
  const failure = Cause.failureOrCause(exit.cause)
  return failure._tag === "Left" ? failure.left._tag : `defect: ${Cause.pretty(failure.right)}`
}

const known = new Set([
  "ok",
  "JournalCorrupt",
  "JournalUnsupported",
  "JournalFailed",
  "SessionNotFound",
  "SessionBroken"
])

const unknownOnes = (outcome: string): ReadonlyArray<string> =>
  outcome
    .replace("not opened: ", "")
    .split(" ")
    .filter((word) => !known.has(word))

describe("a damaged file", () => {
  it.scopedLive(
    "J10 O-M6: with any one byte flipped, each session opens or is refused by name; a file that is refused stays as it was",
    () =>
      Effect.gen(function* () {
        const whole = yield* written
        const bytes = readFileSync(whole)
        assert.strictEqual(yield* taken(whole), "ok ok ok ok")
        const outcomes = new Map<string, number>()
        const copy = `${whole}.copy`
        // every byte of the header, then steps that meet all sorts of places of the pages
        const places = [
          ...Array(100).keys(),
          ...Array.from({ length: 250 }, (_, n) => (n * 2_654_435_761) % bytes.length)
        ]
        for (const place of places) {
          const damaged = Buffer.from(bytes)
          damaged.writeUInt8((damaged.readUInt8(place) ^ (1 << (place % 8))) & 0xff, place)
          writeFileSync(copy, damaged)
          const outcome = yield* taken(copy)
          assert.deepStrictEqual(unknownOnes(outcome), [], `byte ${place}: ${outcome}`)
          if (outcome.startsWith("not opened")) assert.isTrue(readFileSync(copy).equals(damaged), `byte ${place}`)
          outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
        }
        assert.isAbove(outcomes.size, 3)
      }),
    120_000
  )

  it.scopedLive("J10 O-M3: cut off anywhere it is refused whole, and stays as it was", () =>
    Effect.gen(function* () {
      const whole = yield* written
      const { length } = readFileSync(whole)
      const copy = `${whole}.copy`
      for (let size = 1; size < length; size += 997) {
        copyFileSync(whole, copy)
        truncateSync(copy, size)
        const before = readFileSync(copy)
        const outcome = yield* taken(copy)
        assert.match(outcome, /^not opened: Journal(Corrupt|Unsupported)$/, `${size} bytes`)
        assert.isTrue(readFileSync(copy).equals(before), `${size} bytes`)
      }
    })
  )

  it.scopedLive(
    "G15 O-M2 O-M6: damage before the last closed turn is told, and nothing of that session is repaired",
    () =>
      Effect.gen(function* () {
        const filename = yield* written
        meddle(filename, (database) =>
          database.exec("UPDATE session_event SET data = '{' WHERE session = 'd' AND type = 'turn/start' AND seq < 20")
        )
        const path = join(filename, "..")
        const rows = () => meddle(filename, (database) => database.prepare("SELECT * FROM session_event").all())
        const before = rows()
        assert.strictEqual(yield* taken(filename), "ok ok ok JournalCorrupt")
        assert.deepStrictEqual(rows(), before)
        assert.include(Object.keys(contents(path)), "daybook.db")
      })
  )

  it.scopedLive(
    "J10: an event of a type that this version needs to know keeps the session shut, and the others open",
    () =>
      Effect.gen(function* () {
        const filename = yield* written
        meddle(filename, (database) =>
          database.exec("UPDATE session_event SET type = 'later/kind' WHERE session = 'b' AND seq = 0")
        )
        assert.strictEqual(yield* taken(filename), "ok JournalUnsupported ok ok")
        meddle(filename, (database) => database.exec("UPDATE session SET v = 9 WHERE id = 'c'"))
        assert.strictEqual(yield* taken(filename), "ok JournalUnsupported JournalUnsupported ok")
      })
  )
})
