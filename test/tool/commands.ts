/**
 * Real commands as one call starts them, and what is left of them.
 */
import { assert } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Settings from "../../src/settings/Settings.ts"
import * as Process from "../../src/tool/Process.ts"
import { ToolCall } from "../../src/tool/ToolCall.ts"
import { eventually, marked } from "../support/processes.ts"
import { newCall, node } from "./support.ts"

/** Settings with this grace. */
export const grace = (graceMillis: number) => Settings.layerMemory({ processes: { graceMillis } })

/** Processes with a grace that no test comes near, */
export const layer = Layer.provide(Process.layer, grace(Settings.maxGraceMillis)).pipe(Layer.provideMerge(node))
/** and with one that is over at once. */
export const impatient = Layer.provide(Process.layer, grace(200)).pipe(Layer.provideMerge(node))

let marks = 0
/** A text that is in the environment of what one test starts, and of nothing else on this host. */
export const newMark = () => `mark-${process.pid}-${marks++}-${performance.now()}`

/** Starts a script with bash, as a call whose processes bear `mark`. */
export const spawn = Effect.fnUntraced(function* (
  script: string,
  options: Partial<Process.Command> & { readonly mark?: string } = {}
) {
  const { call, processes } = yield* newCall("bash")
  const { spawn } = yield* Process.Process
  const { mark = newMark(), ...more } = options
  const running = yield* Effect.provideService(
    spawn({ program: "bash", args: ["-c", script], cwd: "/tmp", env: { TEST_MARK: mark }, ...more }),
    ToolCall,
    call
  )
  return { ...running, processes, mark }
})

export const stdout = (running: Process.Running) => running.output().stdout.text
export const up = (running: Process.Running) => eventually("the command is up", () => stdout(running).includes("up"))

/** A command that is up, and whose scope its fiber holds. */
export const upInFiber = Effect.fnUntraced(function* (script: string, options: Partial<Process.Command> = {}) {
  const mark = newMark()
  const ready = yield* Deferred.make<Process.Running>()
  const fiber = yield* Effect.fork(
    Effect.scoped(
      Effect.gen(function* () {
        const running = yield* spawn(script, { mark, ...options })
        yield* up(running)
        yield* Deferred.succeed(ready, running)
        yield* running.ended
      })
    )
  )
  const running = yield* Effect.raceFirst(Deferred.await(ready), Effect.zipRight(Fiber.join(fiber), Effect.never))
  assert.isAbove(marked(mark).length, 0)
  return { fiber, mark, running }
})

/** Interrupts a command once it is up; what it leaves must be nothing. Gives what it put out. */
export const interrupted = Effect.fnUntraced(function* (script: string, options: Partial<Process.Command> = {}) {
  const { fiber, mark, running } = yield* upInFiber(script, options)
  yield* Fiber.interrupt(fiber)
  const left = marked(mark)
  // a test that fails leaves none of them on the host
  for (const pid of left) process.kill(pid, "SIGKILL")
  assert.deepStrictEqual(left, [], script)
  return stdout(running)
})

/** A time limit that no test comes near. */
export const limitMillis = 86_399_999

/** Runs with a clock on which that limit is over when the latch opens. */
export const limitedBy = (latch: Effect.Latch) => {
  const clock = Clock.make()
  const sleep = (duration: Duration.Duration) =>
    Duration.toMillis(duration) === limitMillis ? latch.await : clock.sleep(duration)
  return Effect.withClock(
    new Proxy(clock, { get: (_, key) => (key === "sleep" ? sleep : Reflect.get(clock, key, clock)) })
  )
}
