import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Turnstile from "../../src/internal/Turnstile.ts"
import { interruptingAt } from "../tool/support.ts"

describe("a turnstile", () => {
  it.effect("lets one step through at a time, also after one that failed or died", () =>
    Effect.gen(function* () {
      const turnstile = Turnstile.make()
      let inside = 0
      let most = 0
      const step = (end: Effect.Effect<void, string>) =>
        turnstile(() =>
          Effect.suspend(() => {
            most = Math.max(most, ++inside)
            return Effect.zipRight(Effect.yieldNow(), end)
          }).pipe(Effect.ensuring(Effect.sync(() => inside--)))
        )
      const ends = [Effect.void, Effect.fail("no"), Effect.dieMessage("broken"), Effect.void]
      const fibers = yield* Effect.forEach(ends, (end) => Effect.fork(step(end)))
      const exits = yield* Effect.forEach(fibers, Fiber.await)
      assert.deepStrictEqual(exits.map(Exit.isSuccess), [true, false, false, true])
      assert.strictEqual(most, 1)
    })
  )

  it.effect("lets steps through in the order in which they came, past those that left, and nobody between", () =>
    Effect.gen(function* () {
      const turnstile = Turnstile.make()
      const gate = yield* Deferred.make<void>()
      const passed: Array<number> = []
      const step = (n: number) =>
        turnstile(() =>
          Effect.zipRight(
            Effect.sync(() => passed.push(n)),
            Effect.yieldNow()
          )
        )
      const first = Effect.zipRight(
        turnstile(() => Deferred.await(gate)),
        // who was first is back before anybody who waited has run
        step(9)
      )
      const fibers = [yield* Effect.fork(first)]
      yield* Effect.yieldNow()
      for (const n of [1, 2, 3, 4]) fibers.push(yield* Effect.fork(step(n)))
      yield* Effect.yieldNow()
      yield* Fiber.interrupt(fibers[2] ?? Fiber.void)
      yield* Deferred.succeed(gate, undefined)
      yield* Effect.forEach(fibers, Fiber.await)
      assert.deepStrictEqual(passed, [1, 3, 4, 9])
    })
  )

  it.effect("stays passable wherever an interrupt comes, before, while or after one waits", () =>
    Effect.gen(function* () {
      let isLast = false
      for (let point = 1; !isLast; point++) {
        const turnstile = Turnstile.make()
        const gate = yield* Deferred.make<void>()
        const first = yield* Effect.fork(turnstile(() => Deferred.await(gate)))
        yield* Effect.yieldNow()
        const interrupting = interruptingAt(point)
        const second = yield* Effect.fork(
          Effect.zipRight(
            Effect.yieldNow(),
            turnstile((restore) => restore(Effect.yieldNow()))
          )
        ).pipe(Effect.withScheduler(interrupting))
        interrupting.watched(second)
        for (let turn = 0; turn < 5; turn++) yield* Effect.yieldNow()
        yield* Deferred.succeed(gate, undefined)
        yield* Fiber.join(first)
        yield* Fiber.await(second)
        assert.strictEqual(yield* turnstile(() => Effect.succeed("through")), "through")
        isLast = !interrupting.hasFired()
        assert.isBelow(point, 200)
      }
    })
  )
})
