/**
 * Processes that race for sessions on one file, told what to do line by line.
 */
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type { Scope } from "effect/Scope"
import * as Killer from "./Killer.ts"
import type { Answer, Command } from "./racer.ts"

export interface Racer {
  readonly pid: number
  /** What comes of a command. */
  readonly ask: (command: Command) => Effect.Effect<Answer>
  /** Ends it with SIGKILL; it is gone on return. */
  readonly kill: Effect.Effect<void>
}

/** A place for racers. */
export const racers = Killer.places("racer.ts", (folder) => ({ file: join(folder, "warm.db") }))

/** A racer on a file, ready, killed with the scope. */
export const start = (at: Killer.Place, file: string): Effect.Effect<Racer, never, Scope> =>
  Effect.gen(function* () {
    const { child } = yield* Killer.started(at, { file })
    const answers = yield* Queue.unbounded<Answer>()
    let rest = ""
    child.stdout?.on("data", (data) => {
      const lines = (rest + String(data)).split("\n")
      rest = lines.pop() ?? ""
      for (const line of lines) answers.unsafeOffer(JSON.parse(line) as Answer) // the racer wrote it
    })
    yield* Queue.take(answers)
    return {
      pid: child.pid ?? 0,
      ask: (command) =>
        Effect.zipRight(
          Effect.sync(() => child.stdin?.write(`${JSON.stringify(command)}\n`)),
          Queue.take(answers)
        ),
      kill: Effect.async<void>((resume) => {
        child.once("exit", () => resume(Effect.void))
        child.kill("SIGKILL")
      })
    }
  })
