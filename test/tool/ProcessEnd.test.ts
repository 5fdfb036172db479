import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Turnstile from "../../src/internal/Turnstile.ts"
import type * as Process from "../../src/tool/Process.ts"
import * as ProcessEnd from "../../src/tool/ProcessEnd.ts"
import type * as ProcessGroup from "../../src/tool/ProcessGroup.ts"
import { eventually, marked, named, ofGroup } from "../support/processes.ts"
import { others } from "../support/Watching.ts"
import { impatient, interrupted, layer, limitedBy, limitMillis, spawn, stdout, up, upInFiber } from "./commands.ts"

/** The shell function `stopped PID`: returns once that process is stopped. */
const stopped = "stopped() { until grep -q '^State:.T' /proc/$1/status; do :; done; }"

/** Kills the guard of this shell's own group. */
const killGuard =
  "for file in $(grep -sl DAYBOOK_GUARD= /proc/[0-9]*/environ); do " +
  'set -- $(cat ${file%environ}stat 2>/dev/null); [ "$5" = $$ ] && kill -KILL $1; done'

/** A command that says how often it is asked to stop, and does so once it is let go. */
const slow = "trap 'echo asked' TERM; trap exit USR1; echo up; while :; do sleep 0.02; done"
const asked = (running: Process.Running) => eventually("it was asked to stop", () => stdout(running).includes("asked"))
const letGo = ({ identity }: Process.Running) => Effect.sync(() => process.kill(identity.pgid, "SIGUSR1"))

describe("ProcessEnd", () => {
  /** What a cancel leaves nothing of, though nobody here waits for a grace. */
  const trees: Readonly<Record<string, string>> = {
    "a stopped child in a session of its own": `${stopped}; setsid bash -c 'kill -STOP $$' & stopped $!; echo up; wait`,
    "a group that stopped itself, guard and all": "echo up; kill -STOP 0; wait",
    "a child without an environment": "env -i sleep 1000 & echo up; wait",
    "children in groups of their own": "set -m; sleep 1000 & (sleep 1000 & wait) & echo up; wait",
    "a daemon, forked twice": "(setsid bash -c '(sleep 1000 </dev/null >/dev/null 2>&1 &)' &); echo up; sleep 1000",
    "a tree that a request to stop makes grow":
      "trap 'setsid sleep 1000 & exit' TERM; echo up; while :; do sleep 0.02; done",
    "many that come fast": "echo up; while :; do sleep 0.01 & done",
    "many that come fast, each in a session of its own": "echo up; while :; do setsid sleep 0.01 & done"
  }
  for (const [what, script] of Object.entries(trees))
    it.live(`N01, O-J6: a cancel ends ${what}`, () => Effect.provide(interrupted(script), layer))

  /** The same, deaf to requests to stop: so are all that a deaf one starts. */
  const deaf: Readonly<Record<string, string>> = {
    "many that come fast": "echo up; while :; do sleep 0.01 & done",
    "many that come fast from one that left": "setsid bash -c 'while :; do sleep 0.01 & done' & echo up; wait",
    "one that is always a new process, in a session of its own":
      'export HOP=\'setsid bash -c "$HOP" &\'; bash -c "$HOP"; echo up; sleep 1000',
    "one that is always about to become another program, in a session of its own":
      'export HOP=\'exec bash -c "$HOP"\'; setsid bash -c "$HOP" & echo up; sleep 1000'
  }
  for (const [what, script] of Object.entries(deaf))
    it.live(`N01, O-J2: a cancel ends ${what}, all of them deaf`, () =>
      Effect.provide(interrupted(`trap '' TERM; ${script}`), impatient)
    )

  it.live("N01, O-J6: a cancel ends who has no environment and no group of ours, by the session or the parent", () =>
    Effect.gen(function* () {
      const starts = [
        "set -m; env -i sleep TIME &",
        "env -i setsid sleep TIME &",
        "env -i setsid sh -c 'sleep TIME; :' &"
      ]
      for (const start of starts) {
        // its arguments tell who it is: nothing else does
        const time = `1000.${process.pid}${Math.round(performance.now())}`
        const { fiber } = yield* upInFiber(`${start.replace("TIME", time)} echo up; wait`)
        yield* eventually("it sleeps", () => named(`sleep\0${time}`).length === 1)
        yield* Fiber.interrupt(fiber)
        const left = named(time)
        for (const pid of left) process.kill(pid, "SIGKILL")
        assert.deepStrictEqual(left, [], start)
      }
    }).pipe(Effect.provide(layer))
  )

  it.live("N01: a cancel ends a command that has killed its own guard", () =>
    Effect.gen(function* () {
      const script = `${killGuard}; setsid sleep 1000 & echo up; wait`
      const { fiber, mark, running } = yield* upInFiber(script)
      const group = ofGroup(running.identity.pgid)
      assert.deepStrictEqual(
        marked("DAYBOOK_GUARD=").filter((pid) => group.includes(pid)),
        []
      )
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(marked(mark), [])
    }).pipe(Effect.provide(layer))
  )

  it.live("N05, O-J9: a cancel that comes while a time limit ends the command asks nobody again", () =>
    Effect.gen(function* () {
      const over = Effect.unsafeMakeLatch()
      const { fiber, mark, running } = yield* limitedBy(over)(upInFiber(slow, { timeout: limitMillis }))
      yield* Effect.zipRight(over.open, asked(running))
      const cancels = yield* Effect.forEach([1, 2], () => Effect.fork(Fiber.interrupt(fiber)))
      yield* Effect.zipRight(others, letGo(running))
      yield* Effect.forEach(cancels, Fiber.join)
      assert.deepStrictEqual(marked(mark), [])
      assert.strictEqual(stdout(running), "up\nasked\n")
      assert.isTrue(running.ending().timedOut)
    }).pipe(Effect.provide(layer))
  )

  it.live("law 4: two who end a command at once ask it once, and wait for the same end", () =>
    Effect.gen(function* () {
      const over = Effect.unsafeMakeLatch()
      const running = yield* limitedBy(over)(spawn(slow, { timeout: limitMillis }))
      yield* up(running)
      const both = yield* Effect.fork(Effect.all([running.ended, running.ended], { concurrency: 2 }))
      yield* Effect.zipRight(over.open, asked(running))
      yield* Effect.zipRight(others, letGo(running))
      const [one, other] = yield* Fiber.join(both)
      assert.deepStrictEqual(one, other)
      assert.isTrue(one.timedOut)
      assert.strictEqual(stdout(running), "up\nasked\n")
    }).pipe(Effect.scoped, Effect.provide(layer))
  )

  it.effect("law 4: where nobody can be looked at, the guards are told to go, as they would outlast the grace", () =>
    Effect.gen(function* () {
      let dismissed = false
      let left: ReadonlyArray<number> | undefined
      const unused = () => assert.fail("not used")
      const group: ProcessGroup.Group = {
        pgid: 999_999_999, // no host counts that far
        exit: yield* Deferred.make<ProcessGroup.ExitStatus>(),
        isSearched: () => false,
        release: unused,
        isReleased: () => true,
        dismiss: () => {
          dismissed = true
        },
        flow: unused,
        isClosed: () => true,
        living: () => ({ members: dismissed ? [] : [999_999_999], escaped: [], guards: [], sure: true }),
        ending: Turnstile.make(),
        left: () => left,
        setLeft: (some) => {
          left = some
        },
        destroy: unused
      }
      const fiber = yield* Effect.fork(ProcessEnd.end(group, Duration.hours(1)))
      yield* Effect.yieldNow()
      assert.isTrue(dismissed)
      assert.deepStrictEqual(yield* Fiber.join(fiber), [])
      assert.deepStrictEqual(left, [])
    })
  )
})
