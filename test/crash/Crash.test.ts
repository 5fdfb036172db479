import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Killer from "./Killer.ts"

const lives = 100

/** One victim after another on one session, each killed in one of its first bodies; what each left is judged at once. */
const series = (broken: boolean, kills: number) =>
  Effect.gen(function* () {
    const at = yield* Killer.place
    let killed = 0
    let read = 0
    let marked = 0
    let early: ReadonlyArray<string> = []
    for (let n = 0; n < kills; n++) {
      const said = yield* Killer.life(at, { atBody: 1 + (n % 4), message: `prompt-${n}`, broken })
      if (said === "now") killed++
      // what this life left: a later one may use the numbers of a turn that was lost
      const log = yield* Killer.log(at, read)
      const marks = Killer.marks(at)
      early = [...early, ...Killer.unannounced(log, marks.slice(marked))]
      read += log.length
      marked = marks.length
      if (broken && early.length > 0) break
    }
    return { at, killed, early }
  })

describe("SIGKILL in a body", () => {
  for (const half of [1, 2])
    it.live(
      `law 6 W01 J20 O-A5 O-G1: ${lives} kills, ${half} of 2: no body ran before its call was durable, no started call reads as never started`,
      () =>
        Effect.scoped(
          Effect.gen(function* () {
            const { at, early, killed } = yield* series(false, lives)
            assert.strictEqual(killed, lives)
            assert.deepStrictEqual(early, [])
            // the last owner repairs what the last kill left, and lives to the end
            assert.strictEqual(yield* Killer.life(at, { atBody: 0, message: "last", broken: false }), "ended")
            const log = yield* Killer.log(at)
            const marks = Killer.marks(at)
            assert.deepStrictEqual(Killer.lies(log, marks), [])
            assert.deepStrictEqual(Killer.repeated(marks), [])
            for (let n = 0; n < lives; n++) assert.strictEqual(Killer.accepted(log, `prompt-${n}`), 1)
            assert.deepStrictEqual(Killer.wrong(log), [])
          })
        ),
      240_000
    )

  it.live(
    "O-L6 law 7: after a kill in the fourth body two more lives keep the one prompt, and run no finished call again",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const at = yield* Killer.place
          assert.strictEqual(yield* Killer.life(at, { atBody: 4, message: "prompt", broken: false }), "now")
          const done = ["t1s1c0", "t1s1c1", "t1s1c2", "t1s1c3"]
          assert.deepStrictEqual(Killer.marks(at).toSorted(), done)
          for (const message of ["again", "and again"])
            assert.strictEqual(yield* Killer.life(at, { atBody: 0, message, broken: false }), "ended")
          const log = yield* Killer.log(at)
          assert.strictEqual(Killer.accepted(log, "prompt"), 1)
          const entered = log.flatMap((event) => (event.type === "user/message" ? [event.data.id] : []))
          assert.deepStrictEqual<ReadonlyArray<string>>(entered, ["prompt", "again", "and again"])
          const marks = Killer.marks(at)
          assert.deepStrictEqual(Killer.repeated(marks), [])
          assert.deepStrictEqual(marks.filter((mark) => mark.startsWith("t1")).toSorted(), done)
          const codes = log.flatMap((event) =>
            event.type === "tool/result" && event.data.turn === 1 ? [event.data.error?.code] : []
          )
          assert.deepStrictEqual(codes, [undefined, undefined, undefined, "TOOL_OUTCOME_UNKNOWN"])
          assert.deepStrictEqual(Killer.wrong(log), [])
        })
      ),
    60_000
  )

  it.live(
    "law 6: with the barrier taken out, the same series is caught",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const { early } = yield* series(true, 10)
          assert.isNotEmpty(early)
        })
      ),
    60_000
  )
})

describe("SIGKILL right after a send returned", () => {
  const sends = ["followup", "steer", "inject"] as const
  const message = (kind: string, n: number) => `${kind}-${n}`

  const acknowledged = (broken: boolean, rounds: number) =>
    Effect.gen(function* () {
      const at = yield* Killer.place
      for (let n = 0; n < rounds; n++)
        for (const kind of sends)
          assert.strictEqual(
            yield* Killer.life(at, { atBody: 0, afterSend: kind, message: message(kind, n), broken }),
            "now"
          )
      const log = yield* Killer.log(at)
      return {
        at,
        log,
        counts: sends.flatMap((kind) =>
          Array.from({ length: rounds }, (_, n) => Killer.accepted(log, message(kind, n)))
        )
      }
    })

  it.live(
    "law 7 J20 O-L4: every acknowledged message is in the log exactly once, and in the end each was used once",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const { at, counts } = yield* acknowledged(false, 10)
          assert.deepStrictEqual(
            counts,
            counts.map(() => 1)
          )
          assert.strictEqual(yield* Killer.life(at, { atBody: 0, message: "last", broken: false }), "ended")
          assert.deepStrictEqual(Killer.wrong(yield* Killer.log(at)), [])
        })
      ),
    120_000
  )

  it.live(
    "law 7: with the barrier taken out, messages are lost",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const { counts } = yield* acknowledged(true, 2)
          assert.include(counts, 0)
        })
      ),
    60_000
  )
})
