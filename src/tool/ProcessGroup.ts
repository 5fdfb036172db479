/**
 * A process group with a guard in it: what `Process` starts.
 *
 * - `open` starts the guard alone. It waits for one line on a pipe of ours and only then becomes the command; if the pipe
 *   closes first, nothing of the command has run.
 * - A second guard stays in the group and kills it when our end of the pipe closes, so a host that dies leaves nothing. It
 *   is deaf to what a command may send to its whole group, SIGKILL and SIGSTOP aside, and it is no child of the command,
 *   which would find a child that it did not start.
 * - `ProcessEnd` ends it.
 */
import * as ChildProcess from "node:child_process"
import type { Writable } from "node:stream"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Turnstile from "../internal/Turnstile.ts"
import type { Capture } from "./Capture.ts"
import * as ProcessTable from "./ProcessTable.ts"
import { isFolder, notStarted, refused, type SpawnFailed, which } from "./SpawnFailed.ts"

/** What to start, and how it is known afterwards. */
export interface Plan {
  readonly program: string
  readonly args: ReadonlyArray<string>
  readonly cwd: string
  readonly env: NodeJS.ProcessEnv
  /** Names this very start, on this host, for ever. */
  readonly mark: string
  /** What takes its two streams. */
  readonly stdout: Capture
  readonly stderr: Capture
  /** Where the table of processes lies. */
  readonly proc: string
}

export interface ExitStatus {
  readonly code: number | null
  readonly signal: string | null
}

export interface Group {
  readonly pgid: number
  readonly exit: Deferred.Deferred<ExitStatus>
  /** Whether the table of processes can be read, so that those outside the group are found too. */
  readonly isSearched: () => boolean
  /** Lets the guard become the command. `since` is when the group started, in the host's ticks. */
  readonly release: (since: number) => void
  readonly isReleased: () => boolean
  /** Tells the guards that they are not needed any more. */
  readonly dismiss: () => void
  /** Lets everything come that is still in its pipes. */
  readonly flow: () => void
  /** Whether both streams have ended. */
  readonly isClosed: () => boolean
  /** What lives of it now; its leader stands for all of them where nothing can be searched. */
  readonly living: () => ProcessTable.Found
  /** Passed by whoever ends it. */
  readonly ending: Turnstile.Turnstile
  /** Those that could not be ended, once everything else has been. */
  readonly left: () => ReadonlyArray<number> | undefined
  readonly setLeft: (left: ReadonlyArray<number>) => void
  /** Lets go of everything that node holds of it. */
  readonly destroy: () => void
}

/** Every process of a call bears its mark in the first of these, the guards bear it in the second. */
const callVariable = "DAYBOOK_CALL"
const guardVariable = "DAYBOOK_GUARD"

/** What is looked for of a group and of what bears that mark. */
export const wanted = (pgid: number, mark: string): ProcessTable.Wanted => ({
  pgid,
  mark: `${callVariable}=${mark}`,
  guardMark: `${guardVariable}=${mark}`
})

const guard = [
  "read -r _ <&3 || exit 125",
  "( ( trap '' HUP INT QUIT USR1 USR2 PIPE ALRM TERM; read -r _ || kill -KILL -$$ ) <&3 >/dev/null 2>&1 & )",
  `unset ${guardVariable}`,
  'exec "$@" 3<&-'
].join("\n")

/** Starts the guard of a command. */
export const open: (plan: Plan) => Effect.Effect<Group, SpawnFailed> = Effect.fnUntraced(function* (plan) {
  if (!isFolder(plan.cwd)) return yield* notStarted(plan, "no-folder", "ENOENT")
  const path = which(plan.program, plan.cwd, plan.env)
  if (path === undefined) return yield* notStarted(plan, "no-program", "ENOENT")
  const exit = yield* Deferred.make<ExitStatus>()
  const failed = yield* Deferred.make<never, SpawnFailed>()
  const child = yield* Effect.try({
    try: () => {
      const child = spawnGuard(plan, path)
      // listeners are there before the next turn of the event loop, which is when node tells the rest
      child.on("error", (cause) => Deferred.unsafeDone(failed, refused(plan, cause)))
      child.once("exit", (code, signal) => Deferred.unsafeDone(exit, Effect.succeed({ code, signal })))
      return child
    },
    catch: (cause) => refused(plan, cause)
  })
  if (child.pid === undefined) return yield* Deferred.await(failed)
  return groupOf(plan, child, child.pid, exit)
})

// internal

const spawnGuard = (plan: Plan, path: string): ChildProcess.ChildProcess =>
  ChildProcess.spawn("/bin/sh", ["-c", guard, "sh", path, ...plan.args], {
    cwd: plan.cwd,
    env: { ...plan.env, [callVariable]: plan.mark, [guardVariable]: plan.mark },
    // a session, and so a group, of its own
    detached: true,
    stdio: ["ignore", "pipe", "pipe", "pipe"]
  })

const groupOf = (
  plan: Plan,
  child: ChildProcess.ChildProcess,
  pgid: number,
  exit: Deferred.Deferred<ExitStatus>
): Group => {
  let searched = ProcessTable.isReadable(plan.proc)
  const look = ProcessTable.looks(plan.proc, wanted(pgid, plan.mark))
  // the third pipe is one of ours to write to; a guard that died first is told by `exit`
  const line = child.stdio[3] as Writable
  let since = 0
  let left: ReadonlyArray<number> | undefined
  let released = false
  // not the child's own `close`: that waits for our line as well, which the guard holds
  const { stderr, stdout } = plan
  if (child.stdout !== null) stdout.listen(child.stdout)
  if (child.stderr !== null) stderr.listen(child.stderr)
  line.on("error", () => {})
  return {
    pgid,
    exit,
    isSearched: () => searched,
    release: (started) => {
      since = started
      released = true
      line.write("\n")
    },
    isReleased: () => released,
    dismiss: () => {
      line.write("\n")
    },
    flow: () => {
      stdout.flow()
      stderr.flow()
    },
    isClosed: () => stdout.isClosed() && stderr.isClosed(),
    living: () => {
      try {
        if (searched) return look(since)
      } catch {
        searched = false
      }
      return { members: ProcessTable.signal(-pgid, 0) === "gone" ? [] : [pgid], escaped: [], guards: [], sure: true }
    },
    ending: Turnstile.make(),
    left: () => left,
    setLeft: (some) => {
      left = some
    },
    destroy: () => {
      for (const stream of child.stdio) stream?.destroy()
      child.unref()
    }
  }
}
