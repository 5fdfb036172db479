/**
 * The real program in tests: bundled from the source once, run as a process of its own in a folder of its own.
 */
import * as ChildProcess from "node:child_process"
import { mkdtempSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"
import type { Scope } from "effect/Scope"
import { buildSync } from "esbuild"
import { afterAll } from "vitest"
import type { StoredEvent } from "../../src/domain/Event.ts"
import { eventually } from "./processes.ts"

const repository = fileURLToPath(new URL("../..", import.meta.url))

let built: string | undefined

/** The program's one file, gone once the tests of a file are done. */
const program = (): string => {
  if (built !== undefined) return built
  const folder = mkdtempSync(join(tmpdir(), "daybook-program-"))
  symlinkSync(join(repository, "node_modules"), join(folder, "node_modules"))
  built = join(folder, "main.mjs")
  buildSync({
    entryPoints: [join(repository, "src/main.ts")],
    outfile: built,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    external: ["better-sqlite3"],
    mainFields: ["module", "main"]
  })
  return built
}

afterAll(() => {
  if (built !== undefined) rmSync(dirname(built), { recursive: true, force: true })
})

/** The command line that runs the program, for tests that need a shell in between. */
export const shellWords = (): string => `"${process.execPath}" "${program()}"`

/** An empty folder that is gone with the scope. */
export const folder: Effect.Effect<string, never, Scope> = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "daybook-cli-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** How a run of the program came out. */
export interface Result {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export interface Options {
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
  /** What stands on standard input; without it there is none. `open` leaves it open and empty. */
  readonly stdin?: string | Uint8Array | "open"
}

/** The program while it runs. */
export interface Running {
  readonly pid: number
  readonly stdout: () => string
  readonly stderr: () => string
  readonly signal: (name: NodeJS.Signals) => Effect.Effect<void>
  readonly ended: Effect.Effect<Result>
  /** Returns once standard error holds this text. */
  readonly says: (text: string) => Effect.Effect<void>
  /** Writes to a standard input that was left open. */
  readonly type: (text: string) => Effect.Effect<void>
}

const spawned = (
  file: string,
  args: ReadonlyArray<string>,
  options: Options
): Running & { readonly kill: () => void } => {
  const child = ChildProcess.spawn(file, args, {
    cwd: options.cwd,
    // what whoever runs the tests has must not be written to, nor decide anything
    env: {
      ...process.env,
      DAYBOOK_DB: "",
      DAYBOOK_SETTINGS: join(options.cwd, "no-settings.json"),
      NODE_TEST_CONTEXT: undefined,
      ...options.env
    },
    stdio: [options.stdin === undefined ? "ignore" : "pipe", "pipe", "pipe"]
  })
  let stdout = ""
  let stderr = ""
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text
  })
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr += text
  })
  // the program may stop reading before the end
  child.stdin?.on("error", () => {})
  if (options.stdin !== undefined && options.stdin !== "open") child.stdin?.end(options.stdin)
  const closed = new Promise<Result>((resolve) => {
    child.on("close", (code, signal) => resolve({ code, signal, stdout, stderr }))
  })
  return {
    pid: child.pid ?? -1,
    stdout: () => stdout,
    stderr: () => stderr,
    signal: (name) => Effect.sync(() => child.kill(name)),
    ended: Effect.promise(() => closed),
    says: (text) => eventually(`${text} on standard error`, () => stderr.includes(text)),
    type: (text) => Effect.sync(() => void child.stdin?.write(text)),
    kill: () => child.kill("SIGKILL")
  }
}

/** Starts the program; it is gone with the scope. */
export const start = (args: ReadonlyArray<string>, options: Options): Effect.Effect<Running, never, Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => spawned(process.execPath, [program(), ...args], options)),
    ({ kill }) => Effect.sync(kill)
  )

/** Runs the program to its end. */
export const run = (args: ReadonlyArray<string>, options: Options): Effect.Effect<Result> =>
  Effect.scoped(Effect.flatMap(start(args, options), ({ ended }) => ended))

/** Starts a shell command; it is gone with the scope. */
export const startShell = (command: string, options: Options): Effect.Effect<Running, never, Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => spawned("bash", ["-c", command], options)),
    ({ kill }) => Effect.sync(kill)
  )

/** Runs a shell command to its end. */
export const shell = (command: string, options: Options): Effect.Effect<Result> =>
  Effect.scoped(Effect.flatMap(startShell(command, options), ({ ended }) => ended))

/** The lines of a text. */
export const lines = (text: string): ReadonlyArray<string> => text.split("\n").filter((line) => line !== "")

/** The log that `daybook events ID --json` prints. */
export const log = (id: string, options: Options): Effect.Effect<ReadonlyArray<StoredEvent>> =>
  Effect.map(run(["events", id, "--json"], options), ({ stdout }) =>
    lines(stdout).map((line): StoredEvent => JSON.parse(line))
  )
