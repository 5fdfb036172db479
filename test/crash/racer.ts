/**
 * A process that races for sessions: each line of its input is a command, each line of its output what came of it.
 */
import { writeSync } from "node:fs"
import { createInterface } from "node:readline"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Scope from "effect/Scope"
import { SessionId } from "../../src/domain/Ids.ts"
import * as Journal from "../../src/journal/Journal.ts"
import * as Reaper from "../../src/session/Reaper.ts"
import * as Repair from "../../src/session/Repair.ts"
import { Sessions, layer as sessionsLayer } from "../../src/session/Sessions.ts"

/** Acquires a session at a time in Unix milliseconds, or gives back what was acquired. */
export type Command =
  | { readonly do: "acquire"; readonly session: string; readonly at: number }
  | { readonly do: "release" }

/** What came of it. `owned` tells whose it is. */
export type Answer =
  | { readonly became: "ready" | "owner" | "released" }
  | { readonly became: "refused"; readonly host: string; readonly pid: number; readonly since: number }
  | { readonly became: "failed"; readonly why: string }

const { file } = JSON.parse(process.argv[2] ?? "{}") as { readonly file: string } // the test wrote it

const layer = sessionsLayer.pipe(
  Layer.provide(Layer.mergeAll(Journal.layerSqlite({ filename: file }), Repair.layer, Reaper.layerNone)),
  Layer.provide(NodeFileSystem.layer)
)
const runtime = ManagedRuntime.make(layer)
let held: Scope.CloseableScope | undefined

/** Waits without giving anything else a chance, so that all begin at one moment. */
const until = (at: number) =>
  Effect.sync(() => {
    while (Date.now() < at);
  })

const acquire = (session: string, at: number): Effect.Effect<Answer, never, Sessions> =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const { acquire } = yield* Sessions
    yield* until(at)
    const owned = yield* Scope.extend(acquire(SessionId.make(session), { cwd: "/", create: "if-absent" }), scope)
    // something of its own in the log, so that the session stays when it is given back
    yield* owned.append((state) => {
      const turn = state.brackets.lastTurn + 1
      return [
        { type: "turn/start", data: { turn } },
        { type: "turn/end", data: { turn, reason: { kind: "completed" } } }
      ]
    })
    yield* owned.barrier
    held = scope
    return { became: "owner" } as const
  }).pipe(
    Effect.catchTag("SessionOwned", ({ host, pid, since }) =>
      Effect.succeed({ became: "refused", host, pid, since } as const)
    ),
    Effect.catchAll((error) => Effect.succeed({ became: "failed", why: `${error._tag}: ${error.message}` } as const))
  )

const release: Effect.Effect<Answer> = Effect.suspend(() =>
  Effect.as(held === undefined ? Effect.void : Scope.close(held, Exit.void), { became: "released" } as const)
)

const answer = (what: Answer): void => {
  writeSync(1, `${JSON.stringify(what)}\n`)
}

// its layer is built before the first race
runtime.runCallback(Effect.void, { onExit: () => answer({ became: "ready" }) })
createInterface({ input: process.stdin }).on("line", (line) => {
  const command = JSON.parse(line) as Command // the test wrote it
  runtime.runCallback(command.do === "acquire" ? acquire(command.session, command.at) : release, {
    onExit: (exit) => answer(Exit.isSuccess(exit) ? exit.value : { became: "failed", why: String(exit.cause) })
  })
})
