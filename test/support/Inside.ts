/**
 * The program in this process: its real command line, on services that a test brings.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { Scope } from "effect/Scope"
import * as Stream from "effect/Stream"
import { Agents } from "../../src/agent/Agents.ts"
import { Composition } from "../../src/cli/Composition.ts"
import * as Daybook from "../../src/cli/Daybook.ts"
import { Shutdown } from "../../src/cli/Shutdown.ts"
import { type OutputClosed, Stdio } from "../../src/cli/Stdio.ts"
import type { JournalError } from "../../src/domain/Errors.ts"
import { SessionId } from "../../src/domain/Ids.ts"
import type { Summary } from "../../src/domain/SessionState.ts"
import * as Journal from "../../src/journal/Journal.ts"
import * as Reaper from "../../src/session/Reaper.ts"
import * as Repair from "../../src/session/Repair.ts"
import * as Sessions from "../../src/session/Sessions.ts"
import { type Log, stateOf } from "./Facts.ts"

/** An empty folder that is gone with the scope. */
export const folder: Effect.Effect<string, never, Scope> = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "daybook-inside-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

type JournalService = Context.Tag.Service<Journal.Journal>

export interface Services {
  readonly journal: JournalService
  readonly agents?: Context.Tag.Service<Agents>
  readonly workspace?: string
  /** What stands on standard input; without it, nothing. */
  readonly input?: string
  /** Why the journal cannot be opened. */
  readonly unopened?: JournalError
  /** Who looks for processes that were left running; without one, nobody. */
  readonly reaper?: Context.Tag.Service<Reaper.Reaper>
  /** What writing to standard output does, after the text was noted. */
  readonly onOut?: Effect.Effect<void, OutputClosed>
}

/** What the program has said so far, and the exit code that it chose. */
export interface Said {
  code: number | undefined
  stdout: string
  stderr: string
}

/** Starts nothing yet: the program with these words, and what it says while it runs. */
export const make = (
  services: Services,
  ...words: ReadonlyArray<string>
): { readonly said: Said; readonly program: Effect.Effect<void, never, Scope> } => {
  const said: Said = { code: undefined, stdout: "", stderr: "" }
  const program = Effect.gen(function* () {
    const workspace = services.workspace ?? (yield* folder)
    // a file is looked for where a journal must be, and it is not opened here
    yield* Effect.sync(() => writeFileSync(join(workspace, "x.db"), "x"))
    const journal = Context.make(Journal.Journal, services.journal)
    const { reaper } = services
    const looking = reaper === undefined ? Reaper.layerNone : Layer.succeed(Reaper.Reaper, reaper)
    const sessions = Sessions.layer.pipe(
      Layer.provide([Repair.layerSalvage, looking, NodeContext.layer]),
      Layer.provideMerge(Layer.succeedContext(journal))
    )
    const nobody = { open: () => Effect.dieMessage("no agent is meant to be opened") }
    const { unopened } = services
    const opened = <A>(layer: Layer.Layer<A>) => (unopened === undefined ? layer : Layer.fail(unopened))
    const composition = Layer.succeed(Composition, {
      reading: () => opened(Layer.succeedContext(journal)),
      sessions: () => opened(sessions),
      agents: () => opened(Layer.succeedContext(Context.add(journal, Agents, services.agents ?? nobody)))
    })
    const stdio = Layer.succeed(Stdio, {
      input: services.input === undefined ? Stream.empty : Stream.make(Buffer.from(services.input)),
      out: (text) =>
        Effect.suspend(() => {
          said.stdout += text
          return services.onOut ?? Effect.void
        }),
      err: (text) =>
        Effect.sync(() => {
          said.stderr += text
        }),
      inIsTerminal: false,
      outIsTerminal: false,
      errIsTerminal: false,
      errTakesEscapes: false,
      columns: Effect.succeed(0),
      rows: Effect.succeed(0)
    })
    const shutdown = Layer.succeed(Shutdown, {
      interrupt: Effect.dieMessage("nobody is asked here"),
      endWith: (code) =>
        Effect.sync(() => {
          said.code = code
        }),
      signal: Effect.succeed(Option.none()),
      waitingFor: () => Effect.void
    })
    yield* Effect.provide(
      Daybook.main([...words, "--workspace", workspace, "--db", join(workspace, "x.db")]),
      Layer.mergeAll(composition, stdio, shutdown, NodeContext.layer)
    )
  })
  return { said, program }
}

/** Runs the program to its end. */
export const run = (services: Services, ...words: ReadonlyArray<string>): Effect.Effect<Said, never, Scope> =>
  Effect.suspend(() => {
    const { program, said } = make(services, ...words)
    return Effect.as(program, said)
  })

/** Stores a log as that of a new session, whatever it holds. The record sums it up as `summary`. */
export const store = (
  journal: JournalService,
  name: string,
  log: Log,
  summary: Summary = stateOf(log).summary
): Effect.Effect<void> =>
  Effect.gen(function* () {
    const id = SessionId.make(name)
    yield* journal.create({
      id,
      version: Journal.formatVersion,
      cwd: "/workspace",
      created: 0,
      parent: Option.none(),
      seedLength: 0,
      depth: 0
    })
    const owner = { host: "host", pid: 1, processStart: "0", bootId: "boot", token: "token", since: 0 }
    yield* journal.take({ id, head: 0, epoch: 0, events: log, summary, owner, leaseRead: 0, leaseExpires: 0 })
  }).pipe(Effect.orDie)

/** A journal in memory with these logs. */
export const journalOf = (logs: Readonly<Record<string, Log>>): Effect.Effect<JournalService, never, Scope> =>
  Effect.gen(function* () {
    const journal = Context.get(yield* Layer.build(Journal.layerMemory), Journal.Journal)
    yield* Effect.forEach(Object.entries(logs), ([name, log]) => store(journal, name, log), { discard: true })
    return journal
  })
