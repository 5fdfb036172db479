/**
 * Approvals on a real pseudo-terminal, and where there is none.
 */
import { existsSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { questionLines } from "../../src/cli/Asking.ts"
import { callId, SessionId } from "../../src/domain/Ids.ts"
import type { Json } from "../../src/internal/Json.ts"
import { folder, log, type Running, run } from "../support/Cli.ts"
import { hasScript, startOnTerminal } from "../support/Pty.ts"
import { eventually } from "../support/processes.ts"
import { onScreen } from "../support/TerminalScreen.ts"
import { of } from "../support/Watching.ts"

const prompt = "'Run \\`echo 1 > one\\`, run \\`echo 2 > two\\`, then say bye'"
const esc = "\u001b"

/** Returns once the terminal has shown so many questions. */
const asks = (program: Running, count: number) =>
  eventually(`${count} questions`, () => program.stdout().split("ask     bash").length > count)

/** Denies everything to the end: a key counts once it came alone, as what comes together with others is pasted. */
const refused = (program: Running) =>
  Effect.gen(function* () {
    const ended = yield* Effect.fork(program.ended)
    yield* eventually("its end", () =>
      Effect.flatMap(program.type("n"), () => Effect.map(Fiber.poll(ended), Option.isSome))
    )
    return yield* Fiber.join(ended)
  })

const decisions = (cwd: string) =>
  Effect.map(log("s", { cwd }), (events) => of(events, "approval/decided").map(({ data }) => data.decision))

const made = (cwd: string) => ["one", "two"].filter((name) => existsSync(join(cwd, name)))

describe.skipIf(!hasScript())("a question on a terminal (of `script`, where util-linux has it)", () => {
  it.scopedLive.each([
    { keys: ["y", "y"], decided: ["allowed-once", "allowed-once"], files: ["one", "two"], code: 0 },
    { keys: ["n", "y"], decided: ["rejected", "allowed-once"], files: ["two"], code: 3 },
    { keys: ["a"], decided: ["allowed-always"], files: ["one", "two"], code: 0 }
  ])("F04 F05: the keys $keys", ({ code, decided, files, keys }) =>
    Effect.gen(function* () {
      const cwd = yield* folder
      const program = yield* startOnTerminal(`run --session s ${prompt}`, { cwd })
      for (const [index, typed] of keys.entries()) {
        yield* asks(program, index + 1)
        yield* program.type(typed)
      }
      const ended = yield* program.ended
      assert.strictEqual(ended.code, code, ended.stdout)
      assert.deepStrictEqual(yield* decisions(cwd), decided)
      assert.deepStrictEqual(made(cwd), files)
      const screen = onScreen(ended.stdout)
      assert.include(screen.join("\n"), "command: echo 1 > one")
      assert.isEmpty(screen.filter((line) => line.includes("allow?")))
    })
  )

  it.scopedLive.each([
    { name: "Esc", key: esc },
    { name: "Ctrl-C", key: "\u0003" }
  ])("O-K10 W22: $name takes the question off the screen, cancels the turn, and exits 130", ({ key }) =>
    Effect.gen(function* () {
      const cwd = yield* folder
      const program = yield* startOnTerminal(`run --session s ${prompt}`, { cwd })
      yield* asks(program, 1)
      yield* program.type(key)
      const ended = yield* program.ended
      assert.strictEqual(ended.code, 130, ended.stdout)
      assert.deepStrictEqual(yield* decisions(cwd), ["canceled"])
      assert.deepStrictEqual(made(cwd), [])
      assert.isEmpty(onScreen(ended.stdout).filter((line) => line.includes("allow?")))
      const events = yield* log("s", { cwd })
      assert.deepStrictEqual(
        of(events, "turn/end").map(({ data }) => data.reason.kind),
        ["aborted"]
      )
    })
  )

  it.scopedLive("F04: what is allowed for the session answers the questions that wait as well", () =>
    Effect.gen(function* () {
      const cwd = yield* folder
      const both = "'Run in parallel \\`echo 1 > one\\` and \\`echo 2 > two\\`'"
      const program = yield* startOnTerminal(`run --session s ${both}`, { cwd })
      yield* asks(program, 1)
      yield* program.type("a")
      const ended = yield* program.ended
      assert.strictEqual(ended.code, 0, ended.stdout)
      assert.deepStrictEqual(yield* decisions(cwd), ["allowed-always", "allowed-always"])
      assert.deepStrictEqual(made(cwd), ["one", "two"])
    })
  )

  it.scopedLive("F05: what means nothing answers nothing, nor what is pasted, whatever letters it has", () =>
    Effect.gen(function* () {
      const cwd = yield* folder
      const program = yield* startOnTerminal(`run --session s ${prompt}`, { cwd })
      yield* asks(program, 1)
      for (const typed of ["may I say yes?\r", "x", `${esc}[A`, `${esc}[200~yes${esc}[201~`]) yield* program.type(typed)
      assert.strictEqual((yield* refused(program)).code, 3)
      assert.deepStrictEqual(yield* decisions(cwd), ["rejected", "rejected"])
      assert.deepStrictEqual(made(cwd), [])
    })
  )

  it.scopedLive("F05: what was typed before the question stood there answers nothing", () =>
    Effect.gen(function* () {
      const cwd = yield* folder
      const program = yield* startOnTerminal(`run --session s ${prompt}`, { cwd })
      yield* program.type("y")
      yield* asks(program, 1)
      assert.strictEqual((yield* refused(program)).code, 3)
      assert.deepStrictEqual(yield* decisions(cwd), ["rejected", "rejected"])
      assert.deepStrictEqual(made(cwd), [])
    })
  )
})

describe("a question", () => {
  it.scopedLive("F05: where there is no terminal, is denied at once, the model is told, and the exit code is 3", () =>
    Effect.gen(function* () {
      const cwd = yield* folder
      const words = ["run", "--session", "s", "Run `echo 1 > one`, then say bye"]
      const { code, stderr } = yield* run(words, { cwd, stdin: "y\n" })
      assert.strictEqual(code, 3)
      assert.match(stderr, /nobody could be asked.*--yes allows them/)
      assert.deepStrictEqual(yield* decisions(cwd), ["unavailable"])
      assert.deepStrictEqual(made(cwd), [])
      assert.strictEqual((yield* run(["run", "--yes", ...words.slice(1)], { cwd })).code, 0)
      assert.deepStrictEqual(made(cwd), ["one"])
      assert.deepStrictEqual(yield* decisions(cwd), ["unavailable"])
    })
  )

  it("shows all of the arguments, a line a line, and says how much it leaves out", () => {
    const about = (args: Json, reason?: string) =>
      questionLines({
        call: {
          sessionId: SessionId.make("s"),
          turn: 1,
          step: 1,
          callId: callId(1, 1, 0),
          name: "bash",
          arguments: args,
          annotations: { readonly: false, idempotent: false, destructive: true }
        },
        ...(reason === undefined ? {} : { reason })
      })
    assert.deepStrictEqual(about({ command: "a\nb c", parallel: true }, "a rule says so"), [
      "ask     bash: a rule says so",
      "        parallel: true",
      "        command: a",
      "          b c"
    ])
    // nothing of it can hide what will run
    assert.deepStrictEqual(about({ command: "a\r\u001b[1Ab\tc\u202ed\u200be\u00adf\u{e0041}g\u00a0é" }), [
      "ask     bash",
      "        command: a\\u{d}\\u{1b}[1Ab\\u{9}c\\u{202e}d\\u{200b}e\\u{ad}f\\u{e0041}g\\u{a0}é"
    ])
    const long = about({ content: `${"x".repeat(5000)};rm y`, lines: "1\n".repeat(100), path: "p" })
    assert.strictEqual(long[1], "        path: p")
    assert.match(long.at(-1) ?? "", /x \[3014 characters left out here\] x+;rm y$/)
    assert.match(long[41] ?? "", /\[\d+ lines left out here: `n` denies the call\]$/)
    assert.isAtMost(long.length, 62)
  })
})
