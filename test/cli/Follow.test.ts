/**
 * `events --follow` as a process, beside another one that writes.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { folder, lines, run, shell, shellWords, start } from "../support/Cli.ts"
import { eventually } from "../support/processes.ts"

const patience = 120_000

describe("events --follow", () => {
  it.scopedLive(
    "shows what another process writes, once and in order, until a signal ends it",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        yield* run(["run", "--yes", "--session", "s", "Say hello"], { cwd })
        const words = ["events", "s", "--json", "--follow"]
        const followers = yield* Effect.forEach(["SIGINT", "SIGTERM", "SIGHUP"] as const, (signal) =>
          Effect.map(start(words, { cwd }), (program) => ({ program, signal }))
        )
        for (const { program } of followers)
          yield* eventually("what is there", () => program.stdout().includes('"turn/end"'))
        yield* run(["run", "--yes", "--session", "s", "Run `echo one; echo two`, then say done"], { cwd })
        const { stdout } = yield* run(["events", "s", "--json"], { cwd })
        for (const { program, signal } of followers) {
          yield* eventually("what came", () => lines(program.stdout()).length >= lines(stdout).length)
          yield* program.signal(signal)
          const ended = yield* program.ended
          assert.deepStrictEqual(
            [ended.code, ended.stdout, ended.stderr],
            [signal === "SIGINT" ? 130 : 143, stdout, ""]
          )
        }
      }),
    patience
  )

  it.scopedLive(
    "says in its help when it notices that its reader left: at the next event",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const { stdout } = yield* run(["events", "--help"], { cwd })
        assert.match(
          stdout.replace(/\s+/g, " "),
          /--follow .* until a signal\. A reader that went away is noticed at the next event, and ends it then\./
        )
      }),
    patience
  )

  it.scopedLive(
    "ends well when its reader leaves",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        yield* run(["run", "--yes", "--session", "s", "Say hello"], { cwd })
        // the reader leaves after one line; what is written then has none
        const command = `(${shellWords()} events s --follow; echo "code $?" >&2) | head -1 & `
        const writing = `for i in 1 2 3 4 5; do ${shellWords()} run --yes --session s "Say $i" > said.txt; done; wait`
        const { code, stderr } = yield* shell(command + writing, { cwd })
        assert.deepStrictEqual([code, stderr], [0, "code 0\n"])
      }),
    patience
  )
})
