import * as Toolkit from "@effect/ai/Toolkit"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Settings from "../../src/settings/Settings.ts"
import * as Bash from "../../src/tool/Bash.ts"
import * as Process from "../../src/tool/Process.ts"
import type { CallNotes } from "../../src/tool/ToolCall.ts"
import * as Tools from "../../src/tool/Tools.ts"
import { eventually, ofGroup } from "../support/processes.ts"
import { limitedBy, limitMillis } from "./commands.ts"
import { interruptingAt, inWorkspace, node, pipeline, run, start, startAt, startCancelled, textOf } from "./support.ts"

describe("bash, cancelled", () => {
  it.live("N04: a call that was cancelled before it began starts no process", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const { fiber, notes, processes } = yield* startCancelled("bash", '{"command":"touch ran"}')
        assert.isTrue(Exit.isInterrupted(yield* Fiber.await(fiber)))
        assert.isFalse(yield* notes.started)
        assert.deepStrictEqual(processes, [])
        assert.isFalse(yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.exists(`${root}/ran`)))
      })
    )
  )

  it.live("W26, O-J1: an interrupted command is gone, did not go on, and what it had put out is told", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const { fiber, notes, processes } = yield* start(
          "bash",
          JSON.stringify({ command: "echo so far; echo err >&2; sleep 1000 & sleep 1000; touch late" })
        )
        yield* eventually("it has put something out", () =>
          Effect.map(notes.partialOutput, (text) => text.includes("err"))
        )
        assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(fiber)))
        assert.strictEqual(yield* notes.partialOutput, "so far\n[stderr]\nerr\n")
        assert.strictEqual(processes.length, 1)
        assert.isFalse(yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.exists(`${root}/late`)))
        assert.deepStrictEqual(ofGroup(processes[0]?.pgid ?? 0), [])
      })
    )
  )

  it.live("W26: a host without /proc says what it did not look for, after an end and after a cancel", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const none = "[no /proc on this host: processes that left the command's group were not looked for]"
        const processes = Layer.provide(Process.layerProc(`${root}/no-proc`), [node, Settings.layer])
        const tools = Layer.provide(Tools.layer(Toolkit.make(Bash.tool)), Layer.provide(Bash.layer, processes))
        yield* Effect.gen(function* () {
          assert.strictEqual(textOf(yield* run("bash", '{"command":"echo hi; exit 3"}')), `hi\n${none}\n[exit code 3]`)
          const { fiber, notes, processes } = yield* start("bash", '{"command":"echo so far; sleep 1000"}')
          yield* eventually("it has put something out", () =>
            Effect.map(notes.partialOutput, (text) => text.startsWith("so far\n"))
          )
          yield* Fiber.interrupt(fiber)
          assert.strictEqual(yield* notes.partialOutput, `so far\n${none}`)
          assert.deepStrictEqual(ofGroup(processes[0]?.pgid ?? 0), [])
        }).pipe(Effect.provide(pipeline(tools)))
      })
    )
  )

  it.live("N05, O-J9: of a time limit and a cancel the first one counts, and the output says which it was", () =>
    inWorkspace(
      () =>
        Effect.gen(function* () {
          const command = "exec 2>/dev/null; trap 'echo asked' TERM; echo up; while :; do sleep 0.02; done"
          const asked = (notes: CallNotes, text: string) =>
            eventually(`it says ${text}`, () => Effect.map(notes.partialOutput, (shown) => shown.includes(text)))
          for (const first of ["limit", "cancel"]) {
            const over = Effect.unsafeMakeLatch()
            const { fiber, notes } = yield* limitedBy(over)(
              start("bash", JSON.stringify({ command, timeoutMillis: limitMillis }))
            )
            yield* asked(notes, "up")
            if (first === "limit") yield* over.open
            else yield* Fiber.interruptFork(fiber)
            yield* asked(notes, "asked")
            if (first === "cancel") yield* over.open
            const exit = yield* Fiber.interrupt(fiber)
            // one request, and one grace
            if (first === "cancel") {
              assert.isTrue(Exit.isInterrupted(exit))
              assert.strictEqual(yield* notes.partialOutput, "up\nasked\n")
            } else {
              // a time limit is a result like any other
              const timedOut = `up\nasked\n[timed out after ${limitMillis} ms]\n[signal SIGKILL]`
              assert.strictEqual(Exit.isSuccess(exit) ? textOf(exit.value) : "", timedOut)
            }
          }
        }),
      { settings: Settings.layerMemory({ processes: { graceMillis: 1000 } }) }
    )
  )

  it.live(
    "O-J1, N04: cancelled at every single point of a start, it has run nothing, or all of it is gone",
    () =>
      inWorkspace((root) =>
        Effect.gen(function* () {
          const fs = yield* FileSystem.FileSystem
          const seen = { nothing: 0, ran: 0 }
          for (let point = 1; ; point++) {
            const scheduler = interruptingAt(point)
            const { exit, fired, processes } = yield* Effect.gen(function* () {
              const args = '{"command":"echo hi > ran; sleep 1000"}'
              const { fiber, processes } = yield* startAt("bash", args, Effect.void, scheduler.watched)
              const ran = eventually("it runs", () => Effect.orDie(fs.exists(`${root}/ran`)))
              yield* Effect.race(Fiber.await(fiber), ran)
              // what ends the command takes steps as well
              const fired = scheduler.hasFired()
              return { exit: yield* Fiber.interrupt(fiber), fired, processes }
            }).pipe(Effect.withScheduler(scheduler))
            assert.isTrue(Exit.isInterrupted(exit))
            for (const { pgid } of processes) assert.deepStrictEqual(ofGroup(pgid), [], `point ${point}`)
            seen[(yield* fs.exists(`${root}/ran`)) ? "ran" : "nothing"]++
            // law 6: what is not recorded has not run
            if (processes.length === 0) assert.isFalse(yield* fs.exists(`${root}/ran`))
            yield* fs.remove(`${root}/ran`, { force: true })
            if (!fired) break
          }
          assert.isAbove(seen.nothing, 0)
          assert.isAbove(seen.ran, 0)
        })
      ),
    120_000
  )
})
