/**
 * Processes: a command in a process group of its own, as a scoped resource.
 *
 * - Nothing of a command outlives its scope: its group is asked to stop, then killed, and waited for. What left the group
 *   is found by a mark in its environment and ended as well, where there is a `/proc` to look in.
 * - Nothing of its group outlives this process either, SIGKILL included: a guard in the group kills it when our end of a
 *   pipe closes. It comes first, and starts the command only once the journal knows the group (law 6, W25).
 * - What left the group outlives a SIGKILL of this process; what cleared its environment as well is not found at all.
 * - Of a stream the last 64,000 bytes are kept in memory and, where there are `Outputs`, up to 64 MiB of a longer one in a
 *   file.
 * - A command has ended when its group is gone (W26). Its exit and its time limit exclude each other: the first one counts.
 */
import { randomUUID } from "node:crypto"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { SessionBroken } from "../domain/Errors.ts"
import * as Host from "../internal/Host.ts"
import { quiet } from "../internal/Spans.ts"
import * as Capture from "./Capture.ts"
import * as Outputs from "./Outputs.ts"
import * as ProcessGroup from "./ProcessGroup.ts"
import type * as ProcessTable from "./ProcessTable.ts"
import { type SpawnFailed, which } from "./SpawnFailed.ts"
import { type ProcessIdentity, ToolCall } from "./ToolCall.ts"

/** What to run, and within which limits. */
export interface Command {
  /** A program by path or by name. It is run as it is, without a shell. */
  readonly program: string
  readonly args: ReadonlyArray<string>
  readonly cwd: string
  /** Set over what this process has itself. */
  readonly env?: Readonly<Record<string, string>>
  /** How long its processes may take to stop once asked to; 2 seconds by default. Then they are killed. */
  readonly grace?: Duration.DurationInput
  /** How long it may run; for ever by default. */
  readonly timeout?: Duration.DurationInput
}

/** How a command ended. */
export interface Ended {
  readonly timedOut: boolean
  /** None where a signal ended it. */
  readonly code: Option.Option<number>
  readonly signal: Option.Option<string>
  /** How many processes it had left behind, which were ended with it. */
  readonly background: number
  /** Those that this process has no right to end. */
  readonly left: ReadonlyArray<number>
  /** Whether processes that left its group could be looked for. */
  readonly searched: boolean
}

/** A command that runs. */
export interface Running {
  readonly identity: ProcessIdentity
  /** The ends of its streams so far, and where the whole of a longer one is once it has ended. */
  readonly output: () => { readonly stdout: Capture.View; readonly stderr: Capture.View }
  /** Those that this process has no right to end, once everything else has been. */
  readonly left: () => ReadonlyArray<number>
  /** Waits until its leader has exited or its time is over, ends what is left of it, and returns once all that is gone. */
  readonly ended: Effect.Effect<Ended>
}

export class Process extends Context.Tag("daybook/tool/Process")<
  Process,
  {
    /** Starts a command of this call. It runs on return, and has ended when the scope has closed. */
    readonly spawn: (command: Command) => Effect.Effect<Running, SpawnFailed | SessionBroken, ToolCall | Scope.Scope>
    /** The path of a program of this host. */
    readonly which: (program: string) => Effect.Effect<Option.Option<string>>
  }
>() {}

const make = Effect.fnUntraced(function* (proc: string) {
  const fs = yield* FileSystem.FileSystem
  const outputs = yield* Outputs.Outputs
  const bootId = yield* Host.bootId
  const env = process.env // edge: a command inherits this process's own environment
  const cwd = process.cwd() // edge: names without a folder are looked up from here
  return Process.of({
    spawn: Effect.fnUntraced(function* (command) {
      const call = yield* ToolCall
      const { callId, sessionId } = call
      const capture = (name: string) =>
        Capture.make(limits, (bytes, ended) => Outputs.keep(outputs, { sessionId, callId, name }, bytes, ended))
      // before the group: its scope closes first, and everything has come by then
      const stdout = yield* capture("stdout")
      const stderr = yield* capture("stderr")
      const plan = {
        ...command,
        env: { ...env, ...command.env },
        mark: `${sessionId}/${callId}/${randomUUID()}`, // edge: unique on this host, whatever Random is given
        stdout,
        stderr,
        proc
      }
      const grace = Duration.decode(command.grace ?? defaultGrace)
      const group = yield* Effect.acquireRelease(ProcessGroup.open(plan), (group) => ProcessGroup.close(group, grace))
      const startTime = yield* Effect.provideService(Host.startTimeOf(group.pgid), FileSystem.FileSystem, fs)
      const identity: ProcessIdentity = { pgid: group.pgid, startTime, bootId }
      yield* call.recordProcess(identity)
      group.release(Number(startTime) || 0)
      const first = yield* firstOf(group, command.timeout)
      return {
        identity,
        output: () => ({ stdout: stdout.view(), stderr: stderr.view() }),
        left: () => group.left() ?? [],
        ended: Effect.zipLeft(ended(group, first, grace), Effect.zipRight(stdout.finish, stderr.finish))
      }
    }, quiet("Process.spawn")),
    which: (program) => Effect.sync(() => Option.fromNullable(which(program, cwd, env)))
  })
})

/** Processes of this host. Files are needed to read what it says of them. */
export const layer: Layer.Layer<Process, never, FileSystem.FileSystem> = Layer.effect(Process, make("/proc"))

/** The same with another table of processes: a folder without one stands for a host that has none. */
export const layerProc = (proc: string): Layer.Layer<Process, never, FileSystem.FileSystem> =>
  Layer.effect(Process, make(proc))

// internal

const defaultGrace = Duration.seconds(2)
const limits: Capture.Limits = { tail: Outputs.maxShown, file: 64 * 1024 * 1024 }

type First = "exited" | "timed-out"

/** Whichever comes first: the exit of the leader, or the end of its time. */
const firstOf = Effect.fnUntraced(function* (group: ProcessGroup.Group, timeout: Duration.DurationInput | undefined) {
  const first = yield* Deferred.make<First>()
  const when = (event: Effect.Effect<unknown>, what: First) =>
    // interruptible, also where the call is not: the scope waits for it when it closes
    Effect.forkScoped(Effect.interruptible(Effect.zipRight(event, Deferred.succeed(first, what))))
  yield* when(Deferred.await(group.exit), "exited")
  if (timeout !== undefined) yield* when(Effect.sleep(timeout), "timed-out")
  return first
})

const ended = Effect.fnUntraced(function* (
  group: ProcessGroup.Group,
  first: Deferred.Deferred<First>,
  grace: Duration.Duration
) {
  const timedOut = (yield* Deferred.await(first)) === "timed-out"
  group.flow()
  let found: ProcessTable.Found | undefined
  if (!timedOut) {
    yield* ProcessGroup.until(() => {
      if (!group.isClosed()) return false
      found = group.living()
      return ProcessGroup.commandsOf(found).length === 0
    }, ProcessGroup.drain)
    found ??= group.living()
  }
  const left = yield* ProcessGroup.end(group, grace, found)
  const { code, signal } = left.includes(group.pgid) ? { code: null, signal: null } : yield* Deferred.await(group.exit)
  if (timedOut) yield* ProcessGroup.until(group.isClosed, ProcessGroup.drain)
  return {
    timedOut,
    code: Option.fromNullable(code),
    signal: Option.fromNullable(signal),
    background: group.isSearched() && found !== undefined ? ProcessGroup.commandsOf(found).length : 0,
    left,
    searched: group.isSearched()
  }
})
