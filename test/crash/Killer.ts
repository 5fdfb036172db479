/**
 * The killer: lets victims live up to a moment, kills them with SIGKILL, and reads what they left.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { existsSync, readFileSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import type { Scope } from "effect/Scope"
import { buildSync } from "esbuild"
import type { StoredEvent, StoredOf } from "../../src/domain/Event.ts"
import { SessionId } from "../../src/domain/Ids.ts"
import * as RequestRules from "../../src/domain/RequestRules.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import * as Journal from "../../src/journal/Journal.ts"
import { naiveLaws } from "../support/NaiveFold.ts"
import type { Orders } from "./victim.ts"

const repository = fileURLToPath(new URL("../..", import.meta.url))

/** A place to kill in: the victim's program, its database and its marks. */
export interface Place {
  readonly program: string
  readonly file: string
  readonly marks: string
}

export const place: Effect.Effect<Place, never, Scope> = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "daybook-crash-" })
  const program = join(folder, "victim.mjs")
  symlinkSync(join(repository, "node_modules"), join(folder, "node_modules"))
  buildSync({
    entryPoints: [join(repository, "test/crash/victim.ts")],
    outfile: program,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    external: ["better-sqlite3"]
  })
  return { program, file: join(folder, "victim.db"), marks: join(folder, "marks") }
}).pipe(Effect.orDie, Effect.provide(NodeFileSystem.layer))

/** The last line of one life: `now` if it was killed when it stood still, else what it said at its end. */
export const life = (at: Place, orders: Omit<Orders, "file" | "marks">): Effect.Effect<string> =>
  Effect.async((resume) => {
    const child: ChildProcess = spawn(
      process.execPath,
      [at.program, JSON.stringify({ ...orders, file: at.file, marks: at.marks })],
      { stdio: ["ignore", "pipe", "inherit"] }
    )
    let said = ""
    child.stdout?.on("data", (data) => {
      said += String(data)
      if (said.includes("now\n")) child.kill("SIGKILL")
    })
    child.once("close", () => resume(Effect.succeed(said.trim())))
    return Effect.sync(() => child.kill("SIGKILL"))
  })

/** The marks that bodies left, by call id. */
export const marks = (at: Place): ReadonlyArray<string> =>
  existsSync(at.marks)
    ? readFileSync(at.marks, "utf8")
        .split("\n")
        .filter((line) => line !== "")
    : []

/** The stored log from a seq on, as the dead left it. */
export const log = (at: Place, from = 0): Effect.Effect<ReadonlyArray<StoredEvent>> =>
  Effect.flatMap(Journal.Journal, (journal) => journal.read(SessionId.make("victim"), { from, limit: 1_000_000 })).pipe(
    Effect.orDie,
    Effect.provide(Layer.orDie(Journal.layerSqliteReadonly({ filename: at.file })))
  )

const of = <T extends StoredEvent["type"]>(events: ReadonlyArray<StoredEvent>, type: T) =>
  events.filter((event): event is StoredOf<T> => event.type === type)

/** Marks of bodies whose call is not in the log: they ran before it was durable (law 6). */
export const unannounced = (events: ReadonlyArray<StoredEvent>, left: ReadonlyArray<string>): ReadonlyArray<string> => {
  const announced = new Set<string>(of(events, "tool/call").map((event) => event.data.callId))
  return left.filter((callId) => !announced.has(callId))
}

/** Calls that repair says were never started, and that left a mark (law 6). */
export const lies = (events: ReadonlyArray<StoredEvent>, left: ReadonlyArray<string>): ReadonlyArray<string> =>
  of(events, "tool/result")
    .filter((event) => event.data.error?.code === "TOOL_NOT_STARTED" && left.includes(event.data.message.callId))
    .map((event) => event.data.message.callId)

/** Calls that ran more than once (law 7). */
export const repeated = (left: ReadonlyArray<string>): ReadonlyArray<string> =>
  left.filter((callId, index) => left.indexOf(callId) !== index)

/** How often a message was put into the inbox. */
export const accepted = (events: ReadonlyArray<StoredEvent>, message: string): number =>
  of(events, "agent/inbox/spliced")
    .flatMap((event) => event.data.inserted)
    .filter(({ id }) => id === message).length

/** What is wrong with a log that its next owner has repaired. */
export const wrong = (events: ReadonlyArray<StoredEvent>): ReadonlyArray<string> =>
  Either.match(SessionState.fold(events), {
    onLeft: (detail) => [detail],
    onRight: (state) => {
      const request = SessionState.deriveRequest(state)
      const asked = request?.messages.at(-1)?.role === "assistant" ? [] : RequestRules.violations(request ?? empty)
      return [...naiveLaws(events), ...(request === undefined ? [] : asked.map((found) => found.rule))]
    }
  })

const empty = { config: { provider: "", model: "" }, system: "", tools: [], messages: [] }
