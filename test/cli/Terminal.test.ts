/**
 * The program on a terminal: the lines of running tools.
 */
import { cpSync, existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { folder, log, shell, shellWords } from "../support/Cli.ts"
import { hasScript, onTerminal } from "../support/Pty.ts"
import { eventually } from "../support/processes.ts"
import { onScreen } from "../support/TerminalScreen.ts"

const sample = fileURLToPath(new URL("../../scratchpad/report", import.meta.url))

const escapes = (output: string): ReadonlyArray<string> =>
  [...output.matchAll(/\u001b\[[\d;?]*[A-Za-z]/g)].map(([token]) => token)

describe.skipIf(!hasScript())("on a terminal (of `script`, where util-linux has it)", () => {
  it.scopedLive(
    "a line per running tool is drawn in place, and gone when the tool is done",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const { code, stdout } = yield* onTerminal("run --yes 'Run \\`sleep 1; echo done\\`, then say bye'", { cwd })
        assert.strictEqual(code, 0, stdout)
        const times = [...stdout.matchAll(/ {2}(\d\.\d) s {2}bash sleep 1; echo done\r\n/g)].map((match) =>
          Number(match[1])
        )
        assert.isAbove(times.length, 5)
        assert.deepStrictEqual(
          times,
          times.toSorted((a, b) => a - b)
        )
        assert.include(stdout, "\u001b[32mok\u001b[39m")
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

  it.scopedLive(
    "on a low one the live lines never reach above its top, and all are gone at the end",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        cpSync(sample, cwd, { recursive: true })
        const rows = 3
        const { code, stdout } = yield* onTerminal("run --yes 'Run the tests in a, b and c, then write report.md'", {
          cwd,
          rows
        })
        assert.strictEqual(code, 0, stdout)
        const ups = escapes(stdout).filter((token) => token.endsWith("A"))
        assert.isNotEmpty(ups)
        for (const up of ups) assert.isBelow(Number(/\d+/.exec(up)?.[0]), rows)
        assert.include(stdout, "  and 2 more")
        assert.isEmpty(onScreen(stdout).filter((line) => /^ {2}\d+\.\d s|and \d more/.test(line)))
      }),
    120_000
  )

  it.scopedLive(
    "what would turn text around is made visible, but not in JSON, nor where no terminal shows it",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const turned = "a\u202eb\u2066c"
        const seen = "a\uFFFDb\uFFFDc"
        const answer = yield* onTerminal(`run --yes --session s 'Say ${turned}'`, { cwd })
        assert.include(answer.stdout, seen)
        const show = yield* onTerminal("show s", { cwd })
        assert.include(show.stdout, `  ${seen}\r\n`)
        for (const { stdout } of [answer, show, yield* onTerminal("events s", { cwd })])
          assert.notMatch(stdout, /[\u202a-\u202e\u2066-\u2069]/)
        for (const words of [
          "events s --json",
          "sessions --json",
          "request s",
          `run --yes --session s --json 'Say ${turned}'`
        ])
          assert.include((yield* onTerminal(words, { cwd })).stdout, turned, words)
        for (const words of ["show s", `run --session s 'Say ${turned}'`])
          assert.include((yield* shell(`${shellWords()} ${words}`, { cwd })).stdout, turned, words)
      }),
    120_000
  )

  it.scopedLive(
    "one that goes away ends the program with 143, and not with a crash of its own",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const has = (name: string) => eventually(`${name} is there`, () => existsSync(join(cwd, name)), 60_000)
        const command = "echo up > up.txt; sleep 60"
        const program = `${shellWords()} run --yes --session s 'Say hello, then run \\\`${command}\\\`'`
        // the hang-up comes to the shell that the terminal began with, which passes it on
        const inner = `trap 'kill -HUP $p' HUP; ${program} </dev/tty & p=$!; wait $p; wait $p; echo $? >new; mv new code`
        const quoted = inner.replaceAll('"', '\\"').replaceAll("$", "\\$")
        // the terminal is gone with its other end, which `script` holds
        const terminal = yield* Effect.fork(shell(`exec script -qec "${quoted}" /dev/null`, { cwd }))
        yield* has("up.txt")
        yield* Fiber.interrupt(terminal)
        yield* has("code")
        assert.strictEqual(readFileSync(join(cwd, "code"), "utf8"), "143\n")
        assert.strictEqual((yield* log("s", { cwd })).at(-1)?.type, "turn/end")
      }),
    120_000
  )

  for (const env of [{ TERM: "dumb" }, { NO_COLOR: "1" }])
    it.scopedLive(
      `with ${Object.entries(env).join().replace(",", "=")} no escape sequence is written`,
      () =>
        Effect.gen(function* () {
          const cwd = yield* folder
          const { code, stdout } = yield* onTerminal("run --yes 'Run \\`sleep 0.3; echo done\\`, then say bye'", {
            cwd,
            env
          })
          assert.strictEqual(code, 0, stdout)
          assert.deepStrictEqual(escapes(stdout), [])
          assert.match(stdout, /^call {4}bash sleep 0\.3; echo done\r\nok {6}bash sleep/m)
          const { stdout: listed } = yield* onTerminal("sessions", { cwd, env })
          assert.deepStrictEqual(escapes(listed), [])
        }),
      120_000
    )
})
