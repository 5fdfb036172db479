/**
 * The reaper of process groups: what a host left running that was killed.
 *
 * - The guard of a group ends it with its host (`ProcessGroup`). Here comes what that could not reach: who left the group,
 *   and who killed or stopped the guard.
 * - A pid comes again: a group is one that the log shows by its number together with the start of its leader, or by the mark
 *   that its processes bear. Nobody else is looked at, let alone signalled (W25).
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Found, LeftOver } from "../domain/Repair.ts"
import * as Host from "../internal/Host.ts"
import * as Turnstile from "../internal/Turnstile.ts"
import { Reaper } from "../session/Reaper.ts"
import { Processes, Settings } from "../settings/Settings.ts"
import * as ProcessEnd from "./ProcessEnd.ts"
import { wanted } from "./ProcessGroup.ts"
import * as ProcessTable from "./ProcessTable.ts"

/** Ends left-over groups of this host, or does what `Processes.leftOver` says; it waits the grace of the same settings. */
export const layer: Layer.Layer<Reaper, never, Settings | FileSystem.FileSystem> = Layer.effect(
  Reaper,
  Effect.gen(function* () {
    const settings = yield* Settings
    const bootId = yield* Host.bootId
    const isSearched = ProcessTable.isReadable(proc)
    /** What `find` says of each group. Pids of another boot or host mean nothing here. */
    const told = (processes: ReadonlyArray<LeftOver>, find: (process: LeftOver) => Effect.Effect<Found>) => {
      const found = (process: LeftOver) =>
        isSearched && process.bootId === bootId ? find(process) : Effect.succeed<Found>("unknown")
      // together, so that they take one grace; an end that has begun is not interrupted
      return Effect.uninterruptible(
        Effect.forEach(processes, (process) => Effect.map(found(process), (found) => ({ process, found })), {
          concurrency: "unbounded"
        })
      )
    }
    const reap = Effect.fn("Reaper.reap")(function* (processes: ReadonlyArray<LeftOver>) {
      const { graceMillis, leftOver } = yield* settings.get(Processes)
      switch (leftOver) {
        case "end":
          return yield* told(processes, (process) => ended(process, Duration.millis(graceMillis)))
        case "report":
          return yield* told(processes, seen)
        case "leave":
          return processes.map((process) => ({ process, found: "unknown" as const }))
        default:
          return leftOver satisfies never
      }
    })
    return { reap, look: Effect.fn("Reaper.look")((processes: ReadonlyArray<LeftOver>) => told(processes, seen)) }
  })
)

// internal

const proc = "/proc"

const lives = ({ escaped, guards, members, sure }: ProcessTable.Found): boolean =>
  members.length + escaped.length + guards.length > 0 || !sure

const seen = (process: LeftOver): Effect.Effect<Found> =>
  Effect.sync(() => (lives(targetOf(process).living()) ? "running" : "gone"))

const ended = Effect.fnUntraced(function* (process: LeftOver, grace: Duration.Duration): Effect.fn.Return<Found> {
  const target = targetOf(process)
  const found = target.living()
  if (!lives(found)) return "gone"
  const left = yield* ProcessEnd.end(target, grace, found)
  return left.length > 0 ? "running" : "ended"
})

/** A group that another process has started, as its end needs it. */
const targetOf = ({ mark, pgid, startTime }: LeftOver): ProcessEnd.Target => {
  const since = Number(startTime)
  // an event without a mark is one of a build that gave none: no environment holds a NUL
  const look = ProcessTable.looks(proc, { ...wanted(pgid, mark ?? "\0"), leaderStart: since })
  let left: ReadonlyArray<number> | undefined
  return {
    pgid,
    isSearched: () => true,
    isReleased: () => true,
    // its guards listen to its own host
    dismiss: () => {},
    living: () => look(since),
    ending: Turnstile.make(),
    left: () => left,
    setLeft: (some) => {
      left = some
    }
  }
}
