import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { AgentLoop, layerMemory, Settings } from "../../src/settings/Settings.ts"
import * as Explorer from "../../src/testing/Explorer.ts"

describe("settings", () => {
  it("L03: a change that is interrupted at any step is made or not, and the next one is not held up by it", () => {
    const runAt = (at: ReadonlyArray<number>) =>
      Explorer.run(
        (controls) =>
          Effect.gen(function* () {
            const { get, set } = yield* Settings
            const fiber = yield* Effect.fork(
              Effect.zipRight(Effect.yieldNow(), set(AgentLoop, { maxParallelToolCalls: 3 }))
            )
            controls.unsafeArm(() => controls.unsafeFork(Fiber.interrupt(fiber)))
            yield* Fiber.await(fiber)
            controls.unsafeDisarm()
            assert.include([3, 10], (yield* get(AgentLoop)).maxParallelToolCalls)
            yield* set(AgentLoop, { maxParallelToolCalls: 4 })
            return (yield* get(AgentLoop)).maxParallelToolCalls
          }).pipe(Effect.provide(layerMemory())),
        { at }
      )
    const { steps } = runAt([])
    for (let step = 1; step <= steps; step++)
      assert.strictEqual(Exit.getOrElse(Option.getOrThrow(runAt([step]).exit), Cause.pretty), 4, `step ${step}`)
  })
})
