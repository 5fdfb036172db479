import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as TestClock from "effect/TestClock"
import { SessionId } from "../../src/domain/Ids.ts"
import type { Append } from "../../src/journal/Journal.ts"
import * as Writer from "../../src/session/Writer.ts"

/** A client with a number of events; `stored` tells how many of them its commits held. */
const client = (name: string) => {
  let waiting = 0
  const stored: Array<number> = []
  const failed: Array<unknown> = []
  const append = (events: number): Append => ({
    id: SessionId.make(name),
    head: 0,
    epoch: 1,
    events: Array.from({ length: events }, (_, seq) => ({ type: "turn/start", data: { turn: 1 }, seq, time: 0 })),
    summary: { title: "", turns: 0, open: false },
    leaseExpires: 0
  })
  const of: Writer.Client = {
    waiting: () => (waiting === 0 ? undefined : append(waiting)),
    stored: () => {
      stored.push(waiting)
      waiting = 0
    },
    failed: (cause) => failed.push(cause)
  }
  return { of, stored, failed, add: () => waiting++ }
}

const others = Effect.replicateEffect(Effect.yieldNow(), 20)

/** A writer whose commits are told: how many events of each session. */
const writing = Effect.gen(function* () {
  const commits: Array<ReadonlyArray<number>> = []
  const writer = yield* Writer.make((batches) =>
    Effect.sync(() => {
      commits.push(batches.map((batch) => batch.events.length))
      return batches.map(() => Either.right(0))
    })
  )
  yield* others
  return { writer, commits }
})

describe("the writer", () => {
  it.scoped("W20: what is appended in a moment is one commit, of every session at once", () =>
    Effect.gen(function* () {
      const { commits, writer } = yield* writing
      const [a, b] = [client("a"), client("b")]
      for (const { add, of } of [a, b, a]) {
        add()
        writer.unsafeWake(of)
        yield* others
      }
      assert.deepStrictEqual(commits, [], "nobody waits yet")
      yield* TestClock.adjust(Writer.lingerMillis)
      assert.deepStrictEqual(commits, [[2, 1]])
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(commits.length, 1, "and nothing is written for nothing")
      assert.deepStrictEqual([a.stored, b.stored], [[2], [1]])
    })
  )

  it.scoped("W16: a client that throws breaks alone, and the writer goes on", () =>
    Effect.gen(function* () {
      const { commits, writer } = yield* writing
      const [odd, good] = [client("odd"), client("good")]
      const thrown = new Error("odd")
      const throwing: Writer.Client = {
        ...odd.of,
        stored: () => {
          throw thrown
        }
      }
      for (const round of [1, 2]) {
        odd.add()
        good.add()
        writer.unsafeWake(throwing)
        writer.unsafeWake(good.of)
        writer.unsafeHurry()
        yield* others
        assert.strictEqual(commits.length, round)
      }
      assert.deepStrictEqual(odd.failed, [thrown, thrown])
      assert.deepStrictEqual([good.stored, good.failed], [[1, 1], []])
    })
  )

  it.effect("W16: what waits when the writer stops has failed, and what comes later fails at once", () =>
    Effect.gen(function* () {
      const a = client("a")
      const { writer } = yield* Effect.scoped(
        Effect.tap(writing, ({ writer }) =>
          Effect.sync(() => {
            a.add()
            writer.unsafeWake(a.of)
          })
        )
      )
      assert.strictEqual(a.failed.length, 1)
      writer.unsafeWake(a.of)
      assert.strictEqual(a.failed.length, 2)
      assert.deepStrictEqual(a.stored, [])
    })
  )

  it.scoped("J18: whoever waits has it stored at once, and what comes meanwhile is not forgotten", () =>
    Effect.gen(function* () {
      const { commits, writer } = yield* writing
      const a = client("a")
      a.add()
      writer.unsafeWake(a.of)
      writer.unsafeHurry()
      yield* others
      assert.deepStrictEqual(commits, [[1]])
      a.add()
      writer.unsafeWake(a.of)
      yield* TestClock.adjust(Writer.lingerMillis)
      assert.deepStrictEqual(commits, [[1], [1]])
    })
  )
})
