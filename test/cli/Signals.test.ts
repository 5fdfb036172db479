/**
 * Signals to the program: the turn is cancelled, and nothing cuts its end short.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { exitCode, waitingLine } from "../../src/cli/Shutdown.ts"
import type { StoredEvent } from "../../src/domain/Event.ts"
import { folder, lines, log, run, start } from "../support/Cli.ts"
import { eventually, marked } from "../support/processes.ts"

/** How long a test may take: its processes share the machine with other tests. */
const patience = 120_000

/** The log has the turn as aborted at its very end, each call with its result. */
const aborted = (events: ReadonlyArray<StoredEvent>) => {
  const last = events.at(-1)
  assert.strictEqual(last?.type, "turn/end")
  if (last?.type === "turn/end") assert.deepStrictEqual(last.data.reason, { kind: "aborted" })
  const calls = events.filter((event) => event.type === "tool/call").length
  assert.strictEqual(events.filter((event) => event.type === "tool/result").length, calls)
}

/** Runs a command through the program, signals it once the command runs, and returns what came of it. */
const signalled = (command: string, signals: ReadonlyArray<NodeJS.Signals>) =>
  Effect.gen(function* () {
    const cwd = yield* folder
    const env = { DAYBOOK_TEST_MARK: cwd }
    const program = yield* start(["run", "--yes", "--session", "s", `Run \`echo up > up.txt; ${command}\``], {
      cwd,
      env
    })
    yield* program.says("call    bash")
    yield* running(cwd)
    const [first, ...further] = signals
    if (first !== undefined) yield* program.signal(first)
    yield* program.says("turn 1 is being cancelled")
    for (const signal of further) {
      const before = lines(program.stderr()).filter((line) => line.includes("still waiting")).length
      yield* program.signal(signal)
      yield* until(() => lines(program.stderr()).filter((line) => line.includes("still waiting")).length > before)
    }
    const result = yield* program.ended
    return { cwd, result, left: marked(`DAYBOOK_TEST_MARK=${cwd}`), events: yield* log("s", { cwd }) }
  })

const until = (check: () => boolean): Effect.Effect<void> =>
  Effect.suspend(() => (check() ? Effect.void : Effect.zipRight(Effect.sleep(5), until(check))))

/** Whether a process has a handler for SIGHUP, which Node has not by itself. */
const listens = (pid: number): boolean => {
  const caught = /SigCgt:\s*([0-9a-f]+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "0"
  return Number.parseInt(caught.slice(-1), 16) % 2 === 1
}

/** What comes of a connection to a port of this host. */
const connected = (port: number) =>
  Effect.async<string>((resume) => {
    const socket = connect(port, "127.0.0.1")
    socket.once("connect", () => {
      socket.destroy()
      resume(Effect.succeed("connected"))
    })
    socket.once("error", (error) => resume(Effect.succeed("code" in error ? String(error.code) : error.message)))
  })

/** Returns once the shell of the command lives: the program, its guard, the shell. */
const running = (cwd: string) => until(() => marked(`DAYBOOK_TEST_MARK=${cwd}`).length >= 3)

describe("signals", () => {
  it.scopedLive(
    "SIGINT during a tool: exit 130, the end is durable, nothing is left running (N01, E11)",
    () =>
      Effect.gen(function* () {
        const { cwd, events, left, result } = yield* signalled("sleep 60", ["SIGINT"])
        assert.strictEqual(result.code, 130, result.stderr)
        aborted(events)
        assert.deepStrictEqual(left, [])
        assert.include(result.stderr, "turn 1 was cancelled")
        assert.include(result.stderr, "To go on: daybook run --session s --continue")
        const next = yield* run(["run", "--yes", "--session", "s", "Say hello"], { cwd })
        assert.strictEqual(next.stdout, "hello\n")
      }),
    patience
  )

  for (const signal of ["SIGTERM", "SIGHUP"] as const)
    it.scopedLive(
      `${signal} during a tool: exit 143`,
      () =>
        Effect.gen(function* () {
          const { events, left, result } = yield* signalled("sleep 60", [signal])
          assert.strictEqual(result.code, 143, result.stderr)
          aborted(events)
          assert.deepStrictEqual(left, [])
        }),
      patience
    )

  it.scopedLive(
    "SIGINT ends a child that left with setsid, and the port on which it listens is free (O-J6, N01)",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const port = join(cwd, "port")
        // its port is written whole, or not at all
        writeFileSync(
          join(cwd, "listen.cjs"),
          `const { renameSync, writeFileSync } = require("node:fs")
          const server = require("node:net").createServer().listen(0, "127.0.0.1", () => {
            writeFileSync("port.new", String(server.address().port))
            renameSync("port.new", "port")
          })`
        )
        const env = { DAYBOOK_TEST_MARK: cwd }
        const command = `setsid "${process.execPath}" listen.cjs & wait`
        const program = yield* start(["run", "--yes", "--session", "s", `Run \`${command}\``], { cwd, env })
        yield* eventually("it listens", () => existsSync(port), patience)
        const number = Number(readFileSync(port, "utf8"))
        assert.strictEqual(yield* connected(number), "connected")
        yield* program.signal("SIGINT")
        const result = yield* program.ended
        assert.strictEqual(result.code, 130, result.stderr)
        assert.strictEqual(yield* connected(number), "ECONNREFUSED")
        assert.deepStrictEqual(marked(`DAYBOOK_TEST_MARK=${cwd}`), [])
        aborted(yield* log("s", { cwd }))
      }),
    patience
  )

  it.scopedLive(
    "further signals cut nothing short: each is told what is waited for, and since when (R12)",
    () =>
      Effect.gen(function* () {
        const { events, left, result } = yield* signalled("trap '' TERM; sleep 60", ["SIGINT", "SIGINT", "SIGTERM"])
        assert.strictEqual(result.code, 130, result.stderr)
        aborted(events)
        assert.deepStrictEqual(left, [])
        const told = lines(result.stderr).filter((line) => line.includes("still waiting"))
        assert.strictEqual(told.length, 2)
        for (const line of told) assert.match(line, /for the turn to settle: bash .*sleep 60, since 20\d\d-.*Z \(\d/)
      }),
    patience
  )

  it.scopedLive(
    "a signal before the prompt was read sends nothing",
    () =>
      Effect.gen(function* () {
        for (const [signal, code] of [
          ["SIGINT", 130],
          ["SIGTERM", 143],
          ["SIGHUP", 143]
        ] as const) {
          const cwd = yield* folder
          const program = yield* start(["run", "--yes", "-"], { cwd, stdin: "open" })
          yield* until(() => listens(program.pid))
          yield* program.signal(signal)
          const result = yield* program.ended
          assert.deepStrictEqual([result.code, result.stdout, result.stderr], [code, "", ""])
          assert.strictEqual((yield* run(["sessions"], { cwd })).stdout, "no sessions\n")
        }
      }),
    patience
  )
})

describe("Shutdown", () => {
  it("exits with the code that was chosen, else the signal's, else what became of the program", () => {
    assert.strictEqual(exitCode(3, "SIGINT", Exit.void), 3)
    assert.strictEqual(exitCode(undefined, "SIGHUP", Exit.void), 143)
    assert.strictEqual(exitCode(undefined, undefined, Exit.void), 0)
    assert.strictEqual(exitCode(undefined, undefined, Exit.die("bug")), 1)
  })

  it("says what is waited for, since when, and for how long", () => {
    assert.strictEqual(
      waitingLine("the turn to settle", 0, 2500),
      "daybook: still waiting for the turn to settle, since 1970-01-01T00:00:00.000Z (2.5 s). It will end by itself."
    )
  })
})
