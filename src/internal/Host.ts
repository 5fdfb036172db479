/**
 * This process, as another process of the same host can recognise it.
 */

import { hostname } from "node:os"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"

/** What `/proc` does not tell. */
const unknown = "unknown"

/** When a process started, in clock ticks since boot (field 22 of its stat); `unknown` where there is no `/proc`. */
export const startTimeOf = (pid: number): Effect.Effect<string, never, FileSystem.FileSystem> =>
  FileSystem.FileSystem.pipe(
    Effect.flatMap((fs) => fs.readFileString(`/proc/${pid}/stat`)),
    // the command name may hold anything, so count from the last parenthesis
    Effect.map((stat) => stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? unknown),
    Effect.orElseSucceed(() => unknown)
  )

/** The boot of this host; `unknown` where there is no `/proc`. */
export const bootId: Effect.Effect<string, never, FileSystem.FileSystem> = FileSystem.FileSystem.pipe(
  Effect.flatMap((fs) => fs.readFileString("/proc/sys/kernel/random/boot_id")),
  Effect.map((id) => id.trim()),
  Effect.orElseSucceed(() => unknown)
)

/** Host name, process id, its start and the host's boot. */
export const identity = Effect.gen(function* () {
  const pid = process.pid // edge: there is no service that tells it
  return { host: hostname(), pid, processStart: yield* startTimeOf(pid), bootId: yield* bootId }
})
