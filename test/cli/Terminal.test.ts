/**
 * The program on a terminal: the lines of running tools.
 */
import { execFileSync } from "node:child_process"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { folder, shell, shellWords } from "../support/Cli.ts"

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

/** What a terminal shows after this output: it knows line breaks, `cursor up` and `erase below`, all that is used. */
const onScreen = (output: string): ReadonlyArray<string> => {
  const screen: Array<string> = [""]
  let row = 0
  for (const [token] of output.matchAll(/\r\n|\r|\u001b\[\d*[A-Z]|[^\r\u001b]+/g)) {
    if (token === "\r\n") {
      row++
      screen[row] ??= ""
    } else if (token.endsWith("A") && token.startsWith("\u001b")) row -= Number(token.slice(2, -1))
    else if (token === "\u001b[J") screen.splice(row, screen.length, "")
    else if (token !== "\r") screen[row] += token
  }
  return screen.slice(0, screen.at(-1) === "" ? -1 : undefined)
}
