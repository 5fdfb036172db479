/**
 * A process group with a guard in it: the node side of `Process`.
 *
 * - `open` starts the guard alone. It waits for one line on a pipe of ours and only then becomes the command; if the pipe
 *   closes first, nothing of the command has run.
 * - A second guard stays in the group and kills it when our end of the pipe closes, so a host that dies leaves nothing. It
 *   is deaf to requests to stop and is no child of the command, which would find a child that it did not start.
 * - `end` is finished when nothing of the group lives, and may be called again.
 */
import * as ChildProcess from "node:child_process"
import type { Writable } from "node:stream"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
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
  /** Those that could not be ended, once everything else has been. */
  readonly left: () => ReadonlyArray<number> | undefined
  readonly setLeft: (left: ReadonlyArray<number>) => void
  /** Lets go of everything that node holds of it. */
  readonly destroy: () => void
}

const guard = [
  "read -r _ <&3 || exit 125",
  "( ( trap '' TERM HUP INT; read -r _ || kill -KILL -$$ ) <&3 >/dev/null 2>&1 & )",
  "unset DAYBOOK_GUARD",
  'exec "$@" 3<&-'
].join("\n")

/** How long a pipe may be held open, and processes may linger, once a leader has exited. */
export const drain = Duration.millis(50)

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

/**
 * Ends the group and what left it: asks it to stop, kills it after `grace`, and returns once it is gone. Gives those that
 * this process has no right to signal; they are all that can be left. `found` is what was just seen of it.
 */
export const end = Effect.fnUntraced(function* (group: Group, grace: Duration.Duration, found?: ProcessTable.Found) {
  // a number may be given to another group once this one is gone: it is never signalled again
  const before = group.left()
  if (before !== undefined) return before
  let seen = found ?? group.living()
  if (group.isReleased()) {
    if (!group.isSearched()) group.dismiss()
    if (commandsOf(seen).length > 0) {
      // a stopped process sees the request only once it goes on
      signalAll(group, seen, "SIGTERM")
      signalAll(group, seen, "SIGCONT")
      yield* until(() => {
        seen = group.living()
        return commandsOf(seen).length === 0
      }, grace)
    }
  }
  let left: ReadonlyArray<number> = []
  // Without limit: what was killed goes, and until it has gone the call has not ended (R12). Where nobody can be looked
  // at, zombies look alive for as long as nobody reaps them.
  const limit = group.isSearched() ? Duration.infinity : Duration.seconds(1)
  yield* until(() => {
    if (isEmpty(seen)) return true
    const answers = signalAll(group, seen, "SIGKILL")
    if (answers.every((answer) => answer === "refused")) {
      left = [...commandsOf(seen), ...seen.guards]
      return true
    }
    // guards alone start nothing: that their group is gone says it all, and only zombies make another look necessary
    const gone = commandsOf(seen).length === 0 && ProcessTable.signal(-group.pgid, 0) === "gone"
    seen = gone ? nothing : group.living()
    return isEmpty(seen)
  }, limit)
  group.setLeft(left)
  return left
})

/** Ends the group, and frees everything that this process holds of it. */
export const close: (group: Group, grace: Duration.Duration) => Effect.Effect<void> = Effect.fnUntraced(
  function* (group, grace) {
    group.flow()
    const left = yield* end(group, grace)
    if (left.length === 0) yield* Deferred.await(group.exit)
    yield* until(group.isClosed, drain)
    group.destroy()
  }
)

/** The processes of the command among them. */
export const commandsOf = ({ escaped, members }: ProcessTable.Found): ReadonlyArray<number> => [...members, ...escaped]

/**
 * Waits until `check` holds, at most for `within`; looks often at first, and then whenever a good tenth more has passed. It
 * counts its own waits, so a host that is busy gives more time.
 */
export const until = (check: () => boolean, within: Duration.Duration): Effect.Effect<void> => {
  const limit = Duration.toMillis(within)
  const loop = (waited: number): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (waited >= limit || check()) return Effect.void
      const pause = Math.min(Math.max(1, waited * 0.15), 500, limit - waited)
      return Effect.zipRight(Effect.sleep(pause), loop(waited + pause))
    })
  return loop(0)
}

// internal

const spawnGuard = (plan: Plan, path: string): ChildProcess.ChildProcess =>
  ChildProcess.spawn("/bin/sh", ["-c", guard, "sh", path, ...plan.args], {
    cwd: plan.cwd,
    env: { ...plan.env, DAYBOOK_CALL: plan.mark, DAYBOOK_GUARD: plan.mark },
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
  const wanted = { pgid, mark: `DAYBOOK_CALL=${plan.mark}`, guardMark: `DAYBOOK_GUARD=${plan.mark}` }
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
        if (searched) return ProcessTable.find(plan.proc, { ...wanted, since })
      } catch {
        searched = false
      }
      return { members: ProcessTable.signal(-pgid, 0) === "gone" ? [] : [pgid], escaped: [], guards: [] }
    },
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

const nothing: ProcessTable.Found = { members: [], escaped: [], guards: [] }

const isEmpty = (found: ProcessTable.Found): boolean => commandsOf(found).length + found.guards.length === 0

/** Signals the group as a whole, and everyone that was found outside it. */
const signalAll = (group: Group, found: ProcessTable.Found, name: NodeJS.Signals) =>
  [-group.pgid, ...found.escaped].map((target) => ProcessTable.signal(target, name))
