/**
 * The end of a process group and of what left it.
 *
 * - Everybody is asked to stop, and killed after a grace. An end is finished when nothing lives, and may be asked for again.
 * - One that has begun is not interrupted: a time limit and a cancel, or two cancels, are one request and one grace.
 * - When this process exits by itself, whatever lives of its groups is killed on the way out.
 */
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Group } from "./ProcessGroup.ts"
import * as ProcessTable from "./ProcessTable.ts"

/** What of a group its end needs: also that of a group which another process has started. */
export type Target = Pick<
  Group,
  "pgid" | "isSearched" | "isReleased" | "dismiss" | "living" | "ending" | "left" | "setLeft"
>

/** How long a pipe may be held open, and processes may linger, once a leader has exited. */
export const drain = Duration.millis(50)

/**
 * Ends the group and what left it: asks it to stop, kills it after `grace`, and returns once it is gone. Gives those that
 * this process has no right to signal; they are all that can be left. `found` is what was just seen of it.
 */
export const end: (
  group: Target,
  grace: Duration.Duration,
  found?: ProcessTable.Found
) => Effect.Effect<ReadonlyArray<number>> = (group, grace, found) =>
  Effect.uninterruptible(group.ending(() => ending(group, grace, found)))

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

/** Kills what lives of the group, at once and without waiting: for a process that exits. */
export const unsafeKill = (group: Group): void => {
  if (group.left() !== undefined) return
  for (let look = 0; look < maxLooks; look++) {
    const seen = group.living()
    if (isEmpty(seen) && seen.sure) return
    if (!signalAll(group, seen, "SIGKILL").includes("sent") && !isEmpty(seen)) return
  }
}

/** Calls `sweep` when this process exits by itself, also by an uncaught error; the result takes that back. */
export const unsafeOnExit = (sweep: () => void): (() => void) => {
  // edge: nobody else tells that this process exits
  if (sweeps.size === 0) process.on("exit", sweepAll)
  sweeps.add(sweep)
  return () => {
    sweeps.delete(sweep)
    if (sweeps.size === 0) process.off("exit", sweepAll)
  }
}

// internal

/** One listener for all: node warns where there are many. */
const sweeps = new Set<() => void>()
const sweepAll = () => {
  for (const sweep of sweeps) sweep()
}

/** How long somebody may be about to become another program, which says nothing of who it is. */
const becoming = Duration.seconds(1)

/** How often a process that exits looks: who is killed is gone before long, and others may have come. */
const maxLooks = 100

const ending = Effect.fnUntraced(function* (group: Target, grace: Duration.Duration, found?: ProcessTable.Found) {
  // a number may be given to another group once this one is gone: it is never signalled again
  const before = group.left()
  if (before !== undefined) return before
  let seen = yield* sure(group, found ?? group.living())
  if (group.isReleased()) {
    if (!group.isSearched()) group.dismiss()
    if (commandsOf(seen).length > 0) seen = yield* stopped(group, grace, seen)
  }
  const left = yield* killed(group, seen)
  group.setLeft(left)
  return left
})

/** What lives of the group: nothing only where that is certain. */
const sure = (group: Target, found: ProcessTable.Found): Effect.Effect<ProcessTable.Found> =>
  Effect.suspend(() => {
    let seen = found
    let looked = false
    const look = until(() => {
      if (looked) seen = group.living()
      looked = true
      return seen.sure || commandsOf(seen).length > 0
    }, becoming)
    return Effect.map(look, () => seen)
  })

/** Asks everybody to stop, also who comes meanwhile, and gives what lives when all have or the grace is over. */
const stopped = Effect.fnUntraced(function* (group: Target, grace: Duration.Duration, found: ProcessTable.Found) {
  const asked = new Set<number>()
  let seen = found
  yield* until(() => {
    // in one moment with the look: a number may be somebody else's soon
    seen = group.living()
    for (const target of targetsOf(group, seen)) {
      if (asked.has(target)) continue
      asked.add(target)
      ProcessTable.signal(target, "SIGTERM")
      // a stopped process sees the request only once it goes on
      ProcessTable.signal(target, "SIGCONT")
    }
    return commandsOf(seen).length === 0 && seen.sure
  }, grace)
  return yield* sure(group, seen)
})

/** Kills everybody until nobody is left, and gives those that cannot be. */
const killed: (group: Target, found: ProcessTable.Found) => Effect.Effect<ReadonlyArray<number>> = Effect.fnUntraced(
  function* (group, found) {
    let seen = found
    let left: ReadonlyArray<number> = []
    // Without limit: what was killed goes, and until it has gone the call has not ended (R12). Where nobody can be looked
    // at, zombies look alive for as long as nobody reaps them.
    const limit = group.isSearched() ? Duration.infinity : Duration.seconds(1)
    yield* until(() => {
      // guards alone start nothing: that their group is gone says it all, and only zombies make another look necessary
      const gone = commandsOf(seen).length === 0 && ProcessTable.signal(-group.pgid, 0) === "gone"
      seen = gone ? nothing : group.living()
      if (isEmpty(seen)) return true
      const answers = signalAll(group, seen, "SIGKILL")
      if (answers.includes("sent") || !answers.includes("refused")) return false
      left = [...commandsOf(seen), ...seen.guards]
      return true
    }, limit)
    if (left.length > 0 || !isEmpty(seen)) return left
    seen = yield* sure(group, seen)
    return isEmpty(seen) ? left : yield* killed(group, seen)
  }
)

const nothing: ProcessTable.Found = { members: [], escaped: [], guards: [], sure: true }

const isEmpty = (found: ProcessTable.Found): boolean => commandsOf(found).length + found.guards.length === 0

/** The group as a whole, where somebody of it lives, and everyone that was found outside it. */
const targetsOf = (group: Target, { escaped, guards, members }: ProcessTable.Found): ReadonlyArray<number> => [
  ...(members.length + guards.length === 0 ? [] : [-group.pgid]),
  ...escaped
]

/** Signals all of what was just found. */
const signalAll = (group: Target, found: ProcessTable.Found, name: NodeJS.Signals) =>
  targetsOf(group, found).map((target) => ProcessTable.signal(target, name))
