/**
 * The program where nobody reads what it writes: it waits for the reader, but a signal bounds that.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import Database from "better-sqlite3"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { folder, log, run, shell, shellWords, start } from "../support/Cli.ts"
import { eventually, marked } from "../support/processes.ts"

const patience = 120_000

/** The program with one output in a full pipe that nobody reads, and the other in a file of its name. */
const unread = (words: string, output: "stdout" | "stderr") =>
  Effect.gen(function* () {
    const cwd = yield* folder
    const to = (name: string) => (name === output ? "pipe" : name)
    const full = "mkfifo pipe; exec 9<>pipe; head -c 65536 /dev/zero >&9"
    const fiber = yield* Effect.forkScoped(
      shell(`${full}; echo $$ >pid; exec ${shellWords()} ${words} >${to("stdout")} 2>${to("stderr")}`, {
        cwd,
        env: { DAYBOOK_TEST_MARK: cwd }
      })
    )
    const text = (name: string) => (existsSync(join(cwd, name)) ? readFileSync(join(cwd, name), "utf8") : "")
    const logEnds = eventually(
      "the turn's end is stored",
      () => Effect.map(log("s", { cwd }), (events) => events.at(-1)?.type === "turn/end"),
      patience
    )
    return {
      cwd,
      text,
      logEnds,
      up: eventually("the command runs", () => existsSync(join(cwd, "up.txt")), patience),
      says: (line: string) => eventually(line, () => text("stderr").includes(line), patience),
      signal: (name: NodeJS.Signals) => Effect.sync(() => process.kill(Number(text("pid")), name)),
      code: Effect.map(Fiber.join(fiber), (result) => result.code)
    }
  })

/** Whether a process waits for its standard error to take something: an epoll of it says so. */
const waitsToSay = (pid: number): boolean =>
  pid > 0 &&
  existsSync(`/proc/${pid}/fdinfo`) &&
  readdirSync(`/proc/${pid}/fdinfo`).some((descriptor) => {
    const path = `/proc/${pid}/fdinfo/${descriptor}`
    const events = existsSync(path) ? /tfd:\s+2 events:\s+(\w+)/.exec(readFileSync(path, "utf8"))?.[1] : undefined
    return events !== undefined && (Number.parseInt(events, 16) & 4) !== 0
  })

const sleeping = "\\`echo up > up.txt; sleep 60\\`"
const lost = "daybook: standard output was not read; `daybook show s` has it all\n"

describe("output that nobody reads", () => {
  it.scopedLive(
    "a turn that is over: the first signal bounds the wait, further ones are told of it",
    () =>
      Effect.gen(function* () {
        const { code, logEnds, signal, text } = yield* unread('run --yes --session s "Say hello"', "stdout")
        yield* logEnds
        // whichever of the two comes first: both stand for 143
        yield* signal("SIGTERM")
        yield* signal("SIGHUP")
        assert.strictEqual(yield* code, 143)
        assert.match(text("stderr"), /^daybook: still waiting for the output to be read, since 20.*\n/)
        assert.isTrue(text("stderr").endsWith(lost), text("stderr"))
      }),
    patience
  )

  it.scopedLive(
    "standard output, and a signal within the turn: further ones are told what runs, then the wait is bounded",
    () =>
      Effect.gen(function* () {
        const asked = `"Run ${sleeping.replace("sleep", "trap '' TERM; sleep")}"`
        const { code, cwd, logEnds, says, signal, text, up } = yield* unread(
          `run --yes --json --session s ${asked}`,
          "stdout"
        )
        yield* up
        yield* signal("SIGTERM")
        yield* signal("SIGHUP")
        yield* says("still waiting for the turn to settle: bash")
        // it was told while it ran
        assert.isAbove(marked(`DAYBOOK_TEST_MARK=${cwd}`).length, 1)
        assert.strictEqual(yield* code, 143)
        yield* logEnds
        assert.isTrue(text("stderr").endsWith(lost), text("stderr"))
      }),
    patience
  )

  it.scopedLive(
    "standard error, and a signal within the turn",
    () =>
      Effect.gen(function* () {
        const { code, logEnds, signal, up } = yield* unread(`run --yes --session s "Run ${sleeping}"`, "stderr")
        yield* up
        yield* signal("SIGTERM")
        assert.strictEqual(yield* code, 143)
        yield* logEnds
      }),
    patience
  )

  it.scopedLive(
    "standard error, before the prompt is sent: nothing is sent",
    () =>
      Effect.gen(function* () {
        const { code, cwd, signal, text } = yield* unread('run --yes "Say hello"', "stderr")
        yield* eventually("it waits for a reader", () => waitsToSay(Number(text("pid"))), patience)
        yield* signal("SIGINT")
        assert.strictEqual(yield* code, 130)
        assert.notInclude((yield* run(["sessions"], { cwd })).stdout, "hello")
      }),
    patience
  )

  it.scopedLive(
    "what has ended and cannot be stored is not called running",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const env = { DAYBOOK_TEST_MARK: cwd }
        const program = yield* start(["run", "--yes", "--session", "s", "Run `echo up > up.txt; sleep 60`"], {
          cwd,
          env
        })
        yield* eventually("the command runs", () => existsSync(join(cwd, "up.txt")), patience)
        const other = new Database(join(cwd, ".daybook/daybook.db"))
        yield* Effect.addFinalizer(() => Effect.sync(() => other.close()))
        other.exec("BEGIN IMMEDIATE")
        yield* program.signal("SIGINT")
        yield* eventually("the command has ended", () => marked(`DAYBOOK_TEST_MARK=${cwd}`).length === 1)
        // the program learns of that a little later
        const told = Effect.map(program.signal("SIGTERM"), () =>
          program.stderr().includes("still waiting for the turn's end to be stored, since")
        )
        yield* eventually("it tells what is left", () => told, patience)
        other.exec("ROLLBACK")
        assert.strictEqual((yield* program.ended).code, 130)
      }),
    patience
  )
})
