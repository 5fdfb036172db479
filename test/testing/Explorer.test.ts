import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Explorer from "../../src/testing/Explorer.ts"

/** Runs some work that can be interrupted at each of its steps; which of its notes each run took. */
const atEveryStep = (work: (note: (text: string) => Effect.Effect<void>) => Effect.Effect<unknown>) => {
  const notesOf = (at: ReadonlyArray<number>) => {
    const notes: Array<string> = []
    const outcome = Explorer.run(
      (controls) =>
        Effect.gen(function* () {
          const fiber = yield* Effect.fork(
            Effect.zipRight(
              Effect.yieldNow(),
              work((text) => Effect.sync(() => void notes.push(text)))
            )
          )
          controls.unsafeArm(() => controls.unsafeFork(Fiber.interrupt(fiber)))
          yield* Fiber.await(fiber)
        }),
      { at }
    )
    assert.isTrue(Option.exists(outcome.exit, Exit.isSuccess))
    assert.deepStrictEqual([outcome.fibers, outcome.timers], [0, 0])
    return { steps: outcome.steps, notes: notes.join(" ") }
  }
  const { steps } = notesOf([])
  return Array.from({ length: steps }, (_, index) => notesOf([index + 1]).notes)
}

describe("the explorer", () => {
  it("law 4: finds the step between a lock and the finalizer that gives it back, and none where there is none", () => {
    const late = atEveryStep((note) => Effect.zipRight(note("lock"), Effect.ensuring(Effect.sleep(10), note("unlock"))))
    assert.include(late, "lock")
    const held = atEveryStep((note) =>
      Effect.acquireUseRelease(
        note("lock"),
        () => Effect.sleep(10),
        () => note("unlock")
      )
    )
    assert.deepStrictEqual([...new Set(held)].sort(), ["", "lock unlock"])
  })

  it("takes the same steps each time, whatever the work is", () => {
    const work = (note: (text: string) => Effect.Effect<void>) =>
      Effect.gen(function* () {
        const beside = yield* Effect.fork(Effect.zipRight(Effect.sleep(5), note("a")))
        yield* Effect.zipRight(Effect.sleep(5), note("b"))
        yield* Fiber.join(beside)
      })
    assert.deepStrictEqual(atEveryStep(work), atEveryStep(work))
  })

  it("draws another order of the same program from each seed, and the same one from the same", () => {
    const order = (seed: number) => {
      const told: Array<string> = []
      const worker = (name: string) =>
        Effect.repeatN(
          Effect.sync(() => void told.push(name)),
          20
        )
      const outcome = Explorer.run(() => Effect.all(["a", "b", "c"].map(worker), { concurrency: 3 }), { seed })
      assert.isTrue(Option.exists(outcome.exit, Exit.isSuccess))
      assert.strictEqual(outcome.fibers, 0)
      return told.join("")
    }
    const seeds = Array.from({ length: 20 }, (_, seed) => seed)
    assert.strictEqual(new Set(seeds.map(order)).size, seeds.length)
    assert.deepStrictEqual(seeds.map(order), seeds.map(order))
  })

  it("lets time pass only when nothing else can happen, the earliest timer first", () => {
    const told: Array<string> = []
    const later = (millis: number) =>
      Effect.flatMap(Effect.zipRight(Effect.sleep(millis), Clock.currentTimeMillis), (now) =>
        Effect.sync(() => void told.push(`${millis} at ${now}`))
      )
    Explorer.run(() =>
      Effect.all([later(30), later(10), later(10), Effect.sync(() => void told.push("first"))], { concurrency: 4 })
    )
    assert.deepStrictEqual(told, ["first", "10 at 10", "10 at 10", "30 at 30"])
  })

  it("tells of a program that hangs, and of what it leaves behind", () => {
    const hanging = Explorer.run(() => Effect.never)
    assert.isTrue(Option.isNone(hanging.exit))
    const leaving = Explorer.run(() => Effect.forkDaemon(Effect.never))
    assert.isTrue(Option.isSome(leaving.exit))
    assert.strictEqual(leaving.fibers, 1)
  })
})
