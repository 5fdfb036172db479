/**
 * The processes of this host, as they recognise each other.
 *
 * - A pid names a process within one boot and one pid namespace, and only together with its start: pids come again.
 */

import { hostname } from "node:os"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as ProcStat from "./ProcStat.ts"

/** What `/proc` does not tell. */
const unknown = "unknown"

/** A process, as others can recognise it. */
export interface Identity {
  readonly host: string
  readonly pid: number
  /** When it started, in clock ticks since boot; `unknown` where there is no `/proc`. */
  readonly processStart: string
  /** The boot and the pid namespace; `unknown` where there is no `/proc`. */
  readonly bootId: string
}

/** What there is to know of a process; none if there is no such process, or no `/proc`. */
const statOf = (pid: number): Effect.Effect<Option.Option<ProcStat.ProcStat>, never, FileSystem.FileSystem> =>
  FileSystem.FileSystem.pipe(
    Effect.flatMap((fs) => fs.readFileString(`/proc/${pid}/stat`)),
    Effect.map((line) => Option.fromNullable(ProcStat.parse(line))),
    Effect.orElseSucceed(Option.none)
  )

/** When a process started, in clock ticks since boot; `unknown` where there is no `/proc`. */
export const startTimeOf = (pid: number): Effect.Effect<string, never, FileSystem.FileSystem> =>
  Effect.map(statOf(pid), Option.match({ onNone: () => unknown, onSome: ({ started }) => String(started) }))

/** Where pids mean what they mean here: the boot of this host and the pid namespace; `unknown` where there is no `/proc`. */
export const bootId: Effect.Effect<string, never, FileSystem.FileSystem> = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const boot = yield* fs.readFileString("/proc/sys/kernel/random/boot_id")
  const namespace = yield* fs.readLink("/proc/self/ns/pid")
  return `${boot.trim()} ${namespace}`
}).pipe(Effect.orElseSucceed(() => unknown))

/** This process. */
export const identity: Effect.Effect<Identity, never, FileSystem.FileSystem> = Effect.gen(function* () {
  const pid = process.pid // edge: there is no service that tells it
  return { host: hostname(), pid, processStart: yield* startTimeOf(pid), bootId: yield* bootId }
})

/** Whether an identity tells one process from all others of this host. */
export const isTold = ({ bootId }: Identity): boolean => bootId !== unknown

/** Whether that process is known to have ended: it was one of this boot and namespace, and is there no more. */
export const hasEnded = (there: Identity): Effect.Effect<boolean, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    if (!isTold(there) || there.bootId !== (yield* bootId)) return false
    const stat = yield* statOf(there.pid)
    return Option.isNone(stat) || String(stat.value.started) !== there.processStart || stat.value.hasEnded
  })
