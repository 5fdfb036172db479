/**
 * Files, foreign hands and real processes for the tests of the journal.
 */
import * as ChildProcess from "node:child_process"
import { createHash } from "node:crypto"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import * as NodeContext from "@effect/platform-node/NodeContext"
import Database from "better-sqlite3"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Scope } from "effect/Scope"
import { buildSync } from "esbuild"
import * as Journal from "../../src/journal/Journal.ts"
import * as SqliteFile from "../../src/journal/SqliteFile.ts"
import * as SqlJournal from "../../src/journal/SqlJournal.ts"

/** A folder that is gone with the scope. */
export const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "daybook-journal-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** A disk of that size, as a folder. Fails where none can be mounted. */
export const smallDisk = (size: string) =>
  Effect.acquireRelease(
    Effect.tap(folder, (path) =>
      Effect.try(() => ChildProcess.execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", path]))
    ),
    (path) => Effect.sync(() => ChildProcess.execFileSync("umount", [path]))
  )

/** A path for a journal in a folder of its own. */
export const file = Effect.map(folder, (path) => join(path, "daybook.db"))

/** A journal in a new file of its own. */
export const layerTemporary = Layer.unwrapScoped(Effect.map(file, (filename) => Journal.layerSqlite({ filename })))

const serviceOf = Effect.map((context: Context.Context<Journal.Journal>) => Context.get(context, Journal.Journal))

/** The journal in a file, as long as the scope lasts. */
export const opened = (filename: string) => serviceOf(Layer.build(Journal.layerSqlite({ filename })))

/** The same for reading alone. */
export const openedReadonly = (filename: string) => serviceOf(Layer.build(Journal.layerSqliteReadonly({ filename })))

/** A journal and its connection, for tests that reach below the port. */
export const openedBelow = (filename: string) =>
  Effect.map(Effect.provide(SqliteFile.open(filename), NodeContext.layer), (transactions) => ({
    transactions,
    journal: SqlJournal.make(transactions)
  }))

/** What somebody else does to a file, on a connection of their own. */
export const meddle = <A>(filename: string, work: (database: Database.Database) => A): A => {
  const database = new Database(filename)
  const result = work(database)
  database.close()
  return result
}

/** Every file of a folder and what is in it. */
export const contents = (path: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(path, { withFileTypes: true })
      .map((entry) => {
        const bytes = entry.isFile() ? readFileSync(join(path, entry.name)) : "no file"
        return [entry.name, createHash("sha256").update(bytes).digest("hex")] as const
      })
      .sort(([a], [b]) => (a < b ? -1 : 1))
  )

const driver = createRequire(import.meta.url).resolve("better-sqlite3")

/** A program of this folder as one file that plain node runs; the driver stays where it is installed. */
export const program = (name: string) =>
  Effect.map(folder, (path) => {
    const outfile = join(path, "program.mjs")
    buildSync({
      entryPoints: [join(dirname(fileURLToPath(import.meta.url)), name)],
      outfile,
      bundle: true,
      platform: "node",
      format: "esm",
      target: "node20",
      alias: { "better-sqlite3": driver },
      external: [driver]
    })
    return outfile
  })

export interface Child {
  /** The lines that it has printed so far. */
  readonly lines: () => ReadonlyArray<string>
  /** Returns once it has printed so many lines, or has ended. */
  readonly printed: (count: number) => Effect.Effect<void>
  /** Its exit code, or the signal that killed it. */
  readonly ended: Effect.Effect<number | NodeJS.Signals | null>
  readonly kill: Effect.Effect<void>
}

/** Runs a program until it ends or the scope does. */
export const spawned = (path: string, ...args: ReadonlyArray<string>): Effect.Effect<Child, never, Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const child = ChildProcess.spawn(process.execPath, [path, ...args], { stdio: ["ignore", "pipe", "inherit"] })
      let text = ""
      const lines = () => text.split("\n").slice(0, -1)
      child.stdout.on("data", (data) => {
        text += String(data)
      })
      const isEnded = () => child.exitCode !== null || child.signalCode !== null
      const when = (check: () => boolean, events: ReadonlyArray<"close" | "data">) =>
        Effect.async<void>((resume) => {
          const look = () => {
            if (check()) resume(Effect.void)
          }
          for (const event of events) (event === "data" ? child.stdout : child).on(event, look)
          look()
        })
      let isClosed = false
      child.on("close", () => {
        isClosed = true
      })
      const handle: Child = {
        lines,
        printed: (count) => when(() => lines().length >= count || isEnded(), ["data", "close"]),
        ended: Effect.map(
          when(() => isClosed, ["close"]),
          () => child.exitCode ?? child.signalCode
        ),
        kill: Effect.sync(() => child.kill("SIGKILL"))
      }
      return handle
    }),
    ({ ended, kill }) => Effect.zipRight(kill, ended)
  )
