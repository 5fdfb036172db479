/**
 * The killer: lets hosts live up to a moment, ends them with SIGKILL, and looks at what they left on the disk.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Scope } from "effect/Scope"
import { buildSync } from "esbuild"
import { afterAll } from "vitest"
import { SessionId } from "../../src/domain/Ids.ts"
import { emptySummary } from "../../src/domain/SessionState.ts"
import * as Journal from "../../src/journal/Journal.ts"
import type { Orders } from "./Life.ts"
import type { Look } from "./Oracle.ts"
import * as Outside from "./Outside.ts"

const repository = fileURLToPath(new URL("../..", import.meta.url))

/** A folder that is gone with the scope, and what node runs there. */
export interface Place {
  readonly folder: string
  readonly program: string
}

/** Runs the bundle, with what V8 compiled when it ran to warm up: a start costs half as much. */
const loader = `
const { Module } = require("node:module"), fs = require("node:fs"), vm = require("node:vm"), path = require("node:path")
const filename = path.join(__dirname, "bundle.cjs"), cache = filename + ".cache"
const known = fs.existsSync(cache) ? { cachedData: fs.readFileSync(cache) } : {}
const script = new vm.Script(Module.wrap(fs.readFileSync(filename, "utf8")), { filename, ...known })
script.runInThisContext()(exports, require, module, filename, __dirname)
if (process.env.DAYBOOK_WARM_UP) process.on("exit", () => fs.writeFileSync(cache, script.createCachedData()))
`

const temporary = () => mkdtempSync(join(tmpdir(), "daybook-crash-"))
const remove = (folder: string) => rmSync(folder, { recursive: true, force: true })

/** Where programs were built. */
const programs: Array<string> = []
afterAll(() => programs.forEach(remove))

/** A program of this folder, bundled, that has run once with what `warmUp` says. Gone once the tests of a file are done. */
const built = (entry: string, warmUp: (folder: string) => unknown): Effect.Effect<string> =>
  Effect.suspend(() => {
    const folder = temporary()
    programs.push(folder)
    const program = join(folder, "main.cjs")
    symlinkSync(join(repository, "node_modules"), join(folder, "node_modules"))
    buildSync({
      entryPoints: [join(repository, "test/crash", entry)],
      outfile: join(folder, "bundle.cjs"),
      bundle: true,
      platform: "node",
      format: "cjs",
      target: "node20",
      external: ["better-sqlite3"],
      mainFields: ["module", "main"]
    })
    writeFileSync(program, loader)
    const warm = start(program, warmUp(folder), { DAYBOOK_WARM_UP: "1" })
    warm.child.stdin?.end()
    return Effect.as(watched(warm.child, warm.errors).ended, program)
  })

/** Places for a program, which is built once. */
export const places = (entry: string, warmUp: (folder: string) => unknown): Effect.Effect<Place, never, Scope> => {
  const program = Effect.runSync(Effect.cached(built(entry, warmUp)))
  const folder = Effect.acquireRelease(Effect.sync(temporary), (folder) => Effect.sync(() => remove(folder)))
  return Effect.all({ folder, program })
}

/** A place for hosts that live by their orders. */
export const victims = places(
  "victim.ts",
  (folder): Orders => ({
    file: join(folder, "warm.db"),
    outside: join(folder, "warm"),
    session: "warm",
    life: 0,
    rounds: [{ shape: "talk" }, { shape: "tools" }, { shape: "command" }]
  })
)

/** A process that runs, and what it wrote to stderr. */
export interface Started {
  readonly child: ChildProcess
  readonly errors: () => string
}

const start = (program: string, argument: unknown, env: NodeJS.ProcessEnv): Started => {
  const child = spawn(process.execPath, [program, JSON.stringify(argument)], {
    env: { ...process.env, ...env },
    stdio: ["pipe", "pipe", "pipe"]
  })
  let errors = ""
  child.stderr?.on("data", (data) => {
    errors += String(data)
  })
  return { child, errors: () => errors }
}

/** When to kill: so long after the n-th line of a word, or after the start. */
export interface Moment {
  readonly word: Outside.Word | "start"
  readonly nth: number
  readonly afterMillis: number
}

/** How a life came to its end. */
export interface End {
  /** Whether it was killed, by whoever. */
  readonly killed: boolean
  readonly lines: ReadonlyArray<Outside.Line>
  readonly errors: string
}

/** A host that lives until it has done what it was told to, or until it is killed. */
export interface Host {
  readonly pid: number
  readonly signal: (signal: NodeJS.Signals) => void
  /** Returns once it has told so many lines of that word. */
  readonly reached: (word: Outside.Word, nth?: number) => Effect.Effect<void>
  readonly ended: Effect.Effect<End>
}

/** A process of a place, with one argument. It is killed with the scope, if it still lives. */
export const started = (
  at: Place,
  argument: unknown,
  env: NodeJS.ProcessEnv = {}
): Effect.Effect<Started, never, Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => start(at.program, argument, env)),
    ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
  )

/** Starts a host. It is killed with the scope, if it still lives. */
export const host = (at: Place, orders: Orders, env: NodeJS.ProcessEnv = {}): Effect.Effect<Host, never, Scope> =>
  Effect.map(started(at, orders, env), ({ child, errors }) => watched(child, errors))

const watched = (child: ChildProcess, errors: () => string): Host => {
  const lines: Array<Outside.Line> = []
  const waiting = new Set<() => void>()
  let rest = ""
  let end: End | undefined
  const tell = () => {
    for (const look of waiting) look()
  }
  child.stdout?.on("data", (data) => {
    const parts = (rest + String(data)).split("\n")
    rest = parts.pop() ?? ""
    lines.push(...parts.map(Outside.parsed))
    tell()
  })
  child.once("close", (_code, signal) => {
    end = { killed: signal === "SIGKILL", lines, errors: errors() }
    tell()
  })
  const until = <A>(found: () => A | undefined) =>
    Effect.async<A>((resume) => {
      const look = () => {
        const what = found()
        if (what === undefined) return
        waiting.delete(look)
        resume(Effect.succeed(what))
      }
      waiting.add(look)
      look()
      return Effect.sync(() => waiting.delete(look))
    })
  return {
    pid: child.pid ?? 0,
    signal: (signal) => child.kill(signal),
    reached: (word, nth = 1) =>
      Effect.asVoid(until(() => (lines.filter((line) => line.word === word).length >= nth ? true : undefined))),
    ended: until(() => end)
  }
}

/** One life, up to that moment. */
export const life = (at: Place, orders: Orders, moment?: Moment, env: NodeJS.ProcessEnv = {}): Effect.Effect<End> =>
  Effect.scoped(
    Effect.gen(function* () {
      const victim = yield* host(at, orders, env)
      if (moment !== undefined) {
        const { afterMillis, nth, word } = moment
        const come = word === "start" ? Effect.void : victim.reached(word, nth)
        yield* Effect.forkScoped(
          Effect.zipRight(
            Effect.zipRight(come, Effect.sleep(afterMillis)),
            Effect.sync(() => victim.signal("SIGKILL"))
          )
        )
      }
      return yield* victim.ended
    })
  )

/** What lies on the disk of a session: its log from a seq on, all lines after the first so many. Changes nothing. */
export const look = (
  { file, outside, session }: Pick<Orders, "file" | "outside" | "session">,
  from: { readonly seq: number; readonly line: number } = { seq: 0, line: 0 }
): Effect.Effect<Look> =>
  Effect.gen(function* () {
    const journal = yield* Journal.Journal
    const id = SessionId.make(session)
    const events = yield* journal.read(id, { from: from.seq, limit: 1_000_000 })
    const none = { epoch: 0, head: 0, summary: emptySummary }
    const { epoch, head, summary } = yield* Effect.catchTag(journal.find(id), "SessionNotFound", () =>
      Effect.succeed(none)
    )
    return { epoch, head, summary, events, lines: Outside.read(outside, from.line) }
  }).pipe(Effect.orDie, Effect.provide(Layer.orDie(Journal.layerSqliteReadonly({ filename: file }))))
