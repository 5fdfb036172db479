/**
 * The program on a terminal: the lines of running tools.
 */
import { execFileSync } from "node:child_process"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { folder, shell, shellWords } from "../support/Cli.ts"
import { onScreen } from "../support/TerminalScreen.ts"

/** A terminal for a command: `script` of util-linux, which knows `-qec`. */
const hasScript = (): boolean => {
  try {
    return execFileSync("script", ["--version"], { encoding: "utf8" }).includes("util-linux")
  } catch {
    return false
  }
}

describe("on a terminal", () => {
  it.scopedLive(
    "a line per running tool is drawn in place, and gone when the tool is done",
    (context) =>
      Effect.gen(function* () {
        if (!hasScript()) {
          console.log("skipped: there is no `script` of util-linux to make a terminal with")
          return context.skip()
        }
        const cwd = yield* folder
        const inner = `stty cols 60; ${shellWords()} run 'Run \\\`sleep 1; echo done\\\`, then say bye'`
        const { code, stdout } = yield* shell(`script -qec "${inner.replaceAll('"', '\\"')}" /dev/null`, { cwd })
        assert.strictEqual(code, 0, stdout)
        const times = [...stdout.matchAll(/ {2}(\d\.\d) s {2}bash sleep 1; echo done\r\n/g)].map((match) =>
          Number(match[1])
        )
        assert.isAbove(times.length, 5)
        assert.deepStrictEqual(
          times,
          times.toSorted((a, b) => a - b)
        )
        // what stays, once the terminal has obeyed: nothing of the live lines
        const screen = onScreen(stdout)
        assert.deepStrictEqual(
          screen.filter((line) => /^( {2}\d|call|ok)/.test(line)).map((line) => line.replace(/\d\.\d s$/, "T")),
          ["call    bash sleep 1; echo done", "ok      bash sleep 1; echo done  T"]
        )
        assert.include(screen, "bye")
      }),
    120_000
  )
})
