/**
 * Processes: a command in a process group of its own, as a scoped resource.
 *
 * - Nothing of a command outlives its scope: its group is asked to stop, killed after the grace of the settings, and waited
 *   for. What left the group is ended as well, where there is a `/proc` to find it in (see `ProcessTable`).
 * - Nothing of its group outlives this process either, SIGKILL included: a guard in the group kills it when our end of a
 *   pipe closes. It comes first, and starts the command only once the journal knows the group (law 6, W25). Where this
 *   process exits by itself, it kills what left the groups as well (N14).
 * - What left the group outlives a SIGKILL of this process, and so does a group that killed or stopped its guard:
 *   `ProcessReaper` ends it when the session is taken next.
 * - What is not held: what left the session is not found where its environment was cleared or overwritten and its parent was gone
 *   before anybody looked; what another service started for the command never is.
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
import { Processes, Settings } from "../settings/Settings.ts"
import * as Capture from "./Capture.ts"
import * as Outputs from "./Outputs.ts"
import * as ProcessEnd from "./ProcessEnd.ts"
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
  /** How long it may run; for ever by default. */
  readonly timeout?: Duration.DurationInput
}

/** What is known of the end of a command as soon as it has begun. */
export interface Ending {
  /** Whether its time was over before its leader exited. */
  readonly timedOut: boolean
  /** Those that this process has no right to end, once everything else has been ended. */
  readonly left: ReadonlyArray<number>
  /** Whether processes that left its group could be looked for. */
  readonly searched: boolean
}

/** How a command ended. */
export interface Ended extends Ending {
  /** None where a signal ended it. */
  readonly code: Option.Option<number>
  readonly signal: Option.Option<string>
  /** How many processes it had left behind, which were ended with it. */
  readonly background: number
}

/** A command that runs. */
export interface Running {
  readonly identity: ProcessIdentity
  /** The ends of its streams so far, and where the whole of a longer one is once it has ended. */
  readonly output: () => { readonly stdout: Capture.View; readonly stderr: Capture.View }
  /** What there is to say where `ended` was interrupted. */
  readonly ending: () => Ending
  /** Waits until its leader has exited or its time is over: how it ended is decided then (N05). */
  readonly over: Effect.Effect<void>
  /** Waits for that, ends what is left of it, and returns once all that is gone. Only the first wait can be interrupted. */
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
  const settings = yield* Settings
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
      const mark = `${sessionId}/${callId}/${randomUUID()}` // edge: unique on this host, whatever Random is given
      const plan = {
        ...command,
        env: { ...env, ...command.env },
        mark,
        stdout,
        stderr,
        proc
      }
      const grace = Duration.millis((yield* settings.get(Processes)).graceMillis)
      const group = yield* opened(plan, grace)
      const startTime = yield* Effect.provideService(Host.startTimeOf(group.pgid), FileSystem.FileSystem, fs)
      const identity: ProcessIdentity = { pgid: group.pgid, startTime, bootId, mark }
      yield* call.recordProcess(identity)
      group.release(Number(startTime) || 0)
      const first = yield* firstOf(group, command.timeout)
      return {
        identity,
        output: () => ({ stdout: stdout.view(), stderr: stderr.view() }),
        ending: () => endingOf(group, first.reached()),
        over: Effect.asVoid(first.wait),
        ended: Effect.uninterruptibleMask((restore) =>
          restore(first.wait).pipe(
            Effect.flatMap((event) => ended(group, event, grace)),
            Effect.zipLeft(Effect.zipRight(stdout.finish, stderr.finish))
          )
        )
      }
    }, quiet("Process.spawn")),
    which: (program) => Effect.sync(() => Option.fromNullable(which(program, cwd, env)))
  })
})

/** Processes of this host. Files are needed to read what it says of them; of the settings it reads `Processes`. */
export const layer: Layer.Layer<Process, never, FileSystem.FileSystem | Settings> = Layer.effect(Process, make("/proc"))

/** The same with another table of processes: a folder without one stands for a host that has none. */
export const layerProc = (proc: string): Layer.Layer<Process, never, FileSystem.FileSystem | Settings> =>
  Layer.effect(Process, make(proc))

// internal

const limits: Capture.Limits = { tail: Outputs.maxShown, file: 64 * 1024 * 1024 }

/** A group that is ended with the scope, and with this process. */
const opened = (plan: ProcessGroup.Plan, grace: Duration.Duration) => {
  const owned = Effect.map(ProcessGroup.open(plan), (group) => ({
    group,
    disown: ProcessEnd.unsafeOnExit(() => ProcessEnd.unsafeKill(group))
  }))
  const release = ({ disown, group }: Effect.Effect.Success<typeof owned>) =>
    Effect.ensuring(ProcessEnd.close(group, grace), Effect.sync(disown))
  return Effect.map(Effect.acquireRelease(owned, release), ({ group }) => group)
}

type First = "exited" | "timed-out"

/** Whichever comes first: the exit of the leader, or the end of its time. */
const firstOf = Effect.fnUntraced(function* (group: ProcessGroup.Group, timeout: Duration.DurationInput | undefined) {
  const first = yield* Deferred.make<First>()
  let reached: First | undefined
  const when = (event: Effect.Effect<unknown>, what: First) => {
    const reach = Effect.suspend(() => {
      reached ??= what
      return Deferred.succeed(first, reached)
    })
    // interruptible, also where the call is not: the scope waits for it when it closes
    return Effect.forkScoped(Effect.interruptible(Effect.zipRight(event, reach)))
  }
  yield* when(Deferred.await(group.exit), "exited")
  if (timeout !== undefined) yield* when(Effect.sleep(timeout), "timed-out")
  return { wait: Deferred.await(first), reached: () => reached }
})

const endingOf = (group: ProcessGroup.Group, first: First | undefined): Ending => ({
  timedOut: first === "timed-out",
  left: group.left() ?? [],
  searched: group.isSearched()
})

const ended = Effect.fnUntraced(function* (group: ProcessGroup.Group, first: First, grace: Duration.Duration) {
  group.flow()
  let found: ProcessTable.Found | undefined
  if (first === "exited") {
    yield* ProcessEnd.until(() => {
      if (!group.isClosed()) return false
      found = group.living()
      return ProcessEnd.commandsOf(found).length === 0
    }, ProcessEnd.drain)
    found ??= group.living()
  }
  const left = yield* ProcessEnd.end(group, grace, found)
  const { code, signal } = left.includes(group.pgid) ? { code: null, signal: null } : yield* Deferred.await(group.exit)
  if (first === "timed-out") yield* ProcessEnd.until(group.isClosed, ProcessEnd.drain)
  return {
    ...endingOf(group, first),
    code: Option.fromNullable(code),
    signal: Option.fromNullable(signal),
    background: group.isSearched() && found !== undefined ? ProcessEnd.commandsOf(found).length : 0
  }
})
