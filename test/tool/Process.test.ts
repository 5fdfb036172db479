import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Settings from "../../src/settings/Settings.ts"
import * as Process from "../../src/tool/Process.ts"
import { type ProcessIdentity, ToolCall } from "../../src/tool/ToolCall.ts"
import { bundled, childrenOf, eventually, host, marked, named, ofGroup } from "../support/processes.ts"
import { grace, impatient, interrupted, layer, newMark, spawn, stdout, up, upInFiber } from "./commands.ts"
import { newCall, node } from "./support.ts"

describe("Process", () => {
  it.live("W25: the group is recorded, with its start and the boot, before the command runs", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const folder = yield* fs.makeTempDirectoryScoped()
        const recorded = yield* Deferred.make<ProcessIdentity>()
        const go = yield* Deferred.make<void>()
        const { call } = yield* newCall("bash", {
          recordProcess: (identity) =>
            Effect.zipRight(Deferred.succeed(recorded, identity), Deferred.await(go)).pipe(Effect.asVoid)
        })
        const { spawn } = yield* Process.Process
        const command = { program: "bash", args: ["-c", "touch ran; echo $$"], cwd: folder }
        const fiber = yield* Effect.fork(Effect.provideService(spawn(command), ToolCall, call))
        const identity = yield* Deferred.await(recorded)
        assert.isAbove(ofGroup(identity.pgid).length, 0)
        const stat = yield* fs.readFileString(`/proc/${identity.pgid}/stat`)
        assert.strictEqual(identity.startTime, stat.replace(/^.*\) /s, "").split(" ")[19])
        const boot = (yield* fs.readFileString("/proc/sys/kernel/random/boot_id")).trim()
        assert.isTrue(identity.bootId.startsWith(`${boot} pid:[`))
        assert.isFalse(yield* fs.exists(`${folder}/ran`))
        yield* Deferred.succeed(go, undefined)
        const running = yield* Fiber.join(fiber)
        yield* running.ended
        assert.isTrue(yield* fs.exists(`${folder}/ran`))
        assert.strictEqual(stdout(running), `${identity.pgid}\n`)
      })
    ).pipe(Effect.provide(layer))
  )

  it.live("W25: a group whose record fails, or is cancelled, has run nothing", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* fs.makeTempDirectoryScoped()
      for (const record of [Effect.dieMessage("disk full"), Effect.never]) {
        const mark = newMark()
        const recording = yield* Deferred.make<void>()
        const { call } = yield* newCall("bash", {
          recordProcess: () => Effect.zipRight(Deferred.succeed(recording, undefined), record)
        })
        const { spawn } = yield* Process.Process
        const command = { program: "bash", args: ["-c", "touch ran"], cwd: folder, env: { TEST_MARK: mark } }
        const fiber = yield* Effect.fork(Effect.scoped(Effect.provideService(spawn(command), ToolCall, call)))
        yield* Deferred.await(recording)
        assert.isTrue(Exit.isFailure(yield* Fiber.interrupt(fiber)))
        assert.deepStrictEqual(marked(mark), [])
      }
      assert.deepStrictEqual(yield* fs.readDirectory(folder), [])
    }).pipe(Effect.scoped, Effect.provide(layer))
  )

  it.live("N01, O-J1: interrupting ends the whole group, children included", () =>
    Effect.provide(interrupted("sleep 1000 & (sleep 1000 & sleep 1000) & echo up; wait"), layer)
  )

  it.live("N01, O-J2, O-J4, O-J5: who ignores the request to stop, leader or not, is killed after the grace", () =>
    Effect.gen(function* () {
      for (const script of [
        "trap '' TERM; echo up; while :; do sleep 1; done",
        "bash -c 'trap \"\" TERM; echo up; while :; do sleep 1; done' & wait",
        "trap '' TERM; echo up; kill -STOP $$",
        "timeout 1000 bash -c 'trap \"\" TERM; echo up; while :; do sleep 1; done'",
        "timeout 1000 sh -c 'trap \"\" TERM; echo up; sleep 1000 & wait'"
      ]) {
        yield* interrupted(script)
      }
    }).pipe(Effect.provide(impatient))
  )

  it.live("a process that stops when asked to has its grace, and what it says then is kept", () =>
    Effect.gen(function* () {
      const running = yield* spawn("trap 'sleep 0.2; echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done", {
        timeout: "500 millis"
      })
      const ended = yield* running.ended
      assert.strictEqual(stdout(running), "up\nbye\n")
      assert.strictEqual(Option.getOrUndefined(ended.code), 3)
      assert.isTrue(ended.timedOut)
      // a stopped one as well
      yield* interrupted("trap 'exit 0' TERM; echo up; kill -STOP $$")
    }).pipe(Effect.scoped, Effect.provide(layer))
  )

  it.live("O-J6: who left the group is found by its mark and ended, when interrupted and after a normal exit", () =>
    Effect.gen(function* () {
      yield* interrupted("setsid sleep 1000 & setsid bash -c 'setsid sleep 1000 & wait' & echo up; wait")
      const running = yield* spawn("setsid sleep 1000 >/dev/null 2>&1 & echo hi")
      const ended = yield* running.ended
      assert.deepStrictEqual(marked(running.mark), [])
      assert.strictEqual(ended.background, 1)
      assert.isTrue(ended.searched)
    }).pipe(Effect.scoped, Effect.provide(layer))
  )

  it.live("N08, W26, O-J3: once the leader has exited, survivors are ended, not waited for, pipe or no pipe", () =>
    Effect.gen(function* () {
      for (const script of [
        "sleep 1000 & echo hi",
        "sleep 1000 >/dev/null 2>&1 & echo hi",
        "(sleep 1000; echo late) & echo hi"
      ]) {
        const running = yield* spawn(script)
        const ended = yield* running.ended
        assert.deepStrictEqual(marked(running.mark), [])
        assert.strictEqual(stdout(running), "hi\n")
        assert.isAbove(ended.background, 0)
        assert.strictEqual(Option.getOrUndefined(ended.code), 0)
        assert.isFalse(ended.timedOut)
      }
    }).pipe(Effect.scoped, Effect.provide(layer))
  )

  it.live("O-J7: children of a leader that ended well end with its scope, though nobody waited for its end", () =>
    Effect.gen(function* () {
      for (const script of ["(sleep 1000 &); echo up; exit 0", "(setsid sleep 1000 &); echo up; exit 0"]) {
        const scope = yield* Scope.make()
        const running = yield* Scope.extend(spawn(script), scope)
        yield* up(running)
        const { pgid } = running.identity
        yield* eventually("the leader is gone", () => !ofGroup(pgid).includes(pgid))
        const child = () => named("sleep\0").filter((pid) => marked(running.mark).includes(pid))
        yield* eventually("its child runs on", () => child().length === 1)
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(marked(running.mark), [])
      }
    }).pipe(Effect.provide(layer))
  )

  it.live("N01: the grace is a setting, read when a command starts; what is no grace is refused", () =>
    Effect.gen(function* () {
      const settings = yield* Settings.Settings
      const deaf = "trap '' TERM; echo up; while :; do sleep 1; done"
      const polite = "trap 'sleep 0.3; echo bye; exit' TERM; echo up; while :; do sleep 0.02; done"
      assert.deepStrictEqual(yield* settings.get(Settings.Processes), { graceMillis: 2000, leftOver: "end" })
      for (const graceMillis of [-1, 1.5, Settings.maxGraceMillis + 1])
        assert.strictEqual(
          (yield* Effect.flip(settings.set(Settings.Processes, { graceMillis })))._tag,
          "InvalidSetting"
        )
      yield* settings.set(Settings.Processes, { graceMillis: Settings.maxGraceMillis })
      const patient = yield* upInFiber(polite)
      yield* settings.set(Settings.Processes, { graceMillis: 0 })
      yield* interrupted(deaf)
      yield* Fiber.interrupt(patient.fiber)
      assert.strictEqual(stdout(patient.running), "up\nbye\n")
    }).pipe(Effect.provide(Process.layer.pipe(Layer.provideMerge(Settings.layer), Layer.provideMerge(node))))
  )

  it.live(
    "N08, O-J2: a survivor that ignores the request to stop and holds the pipe delays the end by the grace at most",
    () =>
      Effect.gen(function* () {
        const running = yield* spawn("bash -c 'trap \"\" TERM; echo up; while :; do sleep 1; done' & echo hi")
        yield* up(running)
        yield* running.ended
        assert.deepStrictEqual(marked(running.mark), [])
      }).pipe(Effect.scoped, Effect.provide(impatient))
  )

  it.live("W26: children that end by themselves right after their leader are let do so", () =>
    Effect.gen(function* () {
      const piped = yield* spawn("echo through > >(cat)")
      yield* piped.ended
      assert.strictEqual(stdout(piped), "through\n")
      // how long it takes is not ours to say, so one of several is enough
      let alone = 0
      for (let i = 0; i < 5; i++) {
        const lingering = yield* spawn("(exec >&- 2>&-; sleep 0.01) & echo hi")
        if ((yield* lingering.ended).background === 0) alone++
      }
      assert.isAbove(alone, 0)
    }).pipe(Effect.scoped, Effect.provide(layer))
  )

  it.live("N05, O-J9: a time limit ends the command; which of limit and exit came first is decided once", () =>
    Effect.gen(function* () {
      const late = yield* spawn("trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done", { timeout: "300 millis" })
      const timedOut = yield* late.ended
      assert.isTrue(timedOut.timedOut)
      assert.strictEqual(Option.getOrUndefined(timedOut.code), 0)
      const own = yield* (yield* spawn("kill -TERM $$", { timeout: "1 hour" })).ended
      assert.isFalse(own.timedOut)
      assert.strictEqual(Option.getOrUndefined(own.signal), "SIGTERM")
      assert.isTrue(Option.isNone(own.code))
    }).pipe(Effect.scoped, Effect.provide(layer))
  )

  it.live("N05: the time limit holds also where the call cannot be interrupted", () =>
    Effect.gen(function* () {
      const running = yield* spawn("sleep 1000", { timeout: "100 millis" })
      assert.isTrue((yield* running.ended).timedOut)
      yield* (yield* spawn("true", { timeout: "1 hour" })).ended
    }).pipe(Effect.scoped, Effect.uninterruptible, Effect.provide(layer))
  )

  it.live("N04: an interrupted call starts no process", () =>
    Effect.gen(function* () {
      const mark = newMark()
      const fiber = yield* Effect.fork(
        Effect.uninterruptible(
          Effect.zipRight(
            Effect.withFiberRuntime<void>((self) => {
              self.unsafeInterruptAsFork(self.id())
              return Effect.void
            }),
            Effect.interruptible(Effect.scoped(spawn("sleep 1000", { mark })))
          )
        )
      )
      assert.isTrue(Exit.isInterrupted(yield* Fiber.await(fiber)))
      assert.deepStrictEqual(marked(mark), [])
    }).pipe(Effect.provide(layer))
  )

  it.live("O-J1: interrupted at any moment, from before it exists to after its end, nothing is left", () =>
    Effect.gen(function* () {
      const mark = newMark()
      const scripts = [
        "sleep 1000",
        "trap '' TERM; sleep 1000 & wait; wait",
        "sleep 1000 & echo hi",
        "setsid sleep 1000 & wait"
      ]
      yield* Effect.forEach(
        Array.from({ length: 48 }, (_, i) => i),
        (i) =>
          Effect.gen(function* () {
            const script = scripts[i % scripts.length] ?? ""
            const fiber = yield* Effect.fork(
              Effect.scoped(Effect.flatMap(spawn(script, { mark: `${mark}-${i}-` }), ({ ended }) => ended))
            )
            // no waiting for something: the moment itself is what varies
            yield* Effect.sleep(i * 1.5)
            yield* Fiber.interrupt(fiber)
            assert.deepStrictEqual(marked(`${mark}-${i}-`), [], script)
          }),
        { concurrency: 4, discard: true }
      )
      assert.deepStrictEqual(marked(mark), [])
    }).pipe(Effect.provide(impatient))
  )

  it.live("O-J9: what cannot be started is a typed error, and nothing is left of it", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* fs.makeTempDirectoryScoped()
      yield* fs.writeFileString(`${folder}/text`, "")
      const cases: ReadonlyArray<readonly [Partial<Process.Command>, string]> = [
        [{ cwd: `${folder}/gone` }, "no-folder"],
        [{ cwd: `${folder}/text` }, "no-folder"],
        [{ program: "no-such-program" }, "no-program"],
        [{ program: "./text", cwd: folder }, "no-program"],
        [{ args: ["-c", `: ${"x".repeat(3_000_000)}`] }, "too-long"]
      ]
      for (const [options, reason] of cases) {
        const error = yield* Effect.flip(spawn("true", options))
        assert.strictEqual(error._tag, "SpawnFailed")
        assert.propertyVal(error, "reason", reason)
        assert.match(error.message, /was not started: .* \((ENOENT|E2BIG)\)$/)
      }
    }).pipe(Effect.scoped, Effect.provide(layer))
  )

  it.live(
    "a command has no child that it did not start, no third pipe, no word of the guard, and an empty standard input",
    () =>
      Effect.gen(function* () {
        const running = yield* spawn("cat; ls /proc/$$/fd; env | grep -c GUARD; echo up; exec sleep 1000")
        yield* up(running)
        assert.match(stdout(running), /^0\n1\n2\n(\d{2,}\n)*0\nup\n$/)
        yield* eventually("bash has become sleep", () => childrenOf(running.identity.pgid).length === 0)
        assert.isAbove(ofGroup(running.identity.pgid).length, 1)
      }).pipe(Effect.scoped, Effect.provide(layer))
  )

  it.live(
    "where there is no /proc, or none to be read, the group is ended all the same; it says what it did not look for",
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const none = yield* fs.makeTempDirectoryScoped()
        const broken = yield* fs.makeTempDirectoryScoped()
        yield* fs.makeDirectory(`${broken}/self/stat`, { recursive: true })
        yield* fs.makeDirectory(`${broken}/1/stat`, { recursive: true })
        for (const proc of [none, broken])
          yield* Effect.gen(function* () {
            const running = yield* spawn("sleep 1000 & echo hi")
            const ended = yield* running.ended
            assert.isFalse(ended.searched)
            assert.strictEqual(stdout(running), "hi\n")
            assert.deepStrictEqual(marked(running.mark), [])
            yield* interrupted("trap '' TERM; echo up; while :; do sleep 1; done")
          }).pipe(Effect.scoped, Effect.provide(Layer.provide(Process.layerProc(proc), [node, grace(200)])))
      }).pipe(Effect.scoped, Effect.provide(node))
  )
})

describe("a host that is killed", () => {
  const killed = Effect.fnUntraced(function* (mode: string, script: string, when: string) {
    const mark = newMark()
    const file = yield* bundled("test/tool/fixtures/host.ts")
    const daybook = yield* host(file, [mode, script], { TEST_MARK: mark })
    yield* eventually(`the host says ${when}`, () => daybook.printed().includes(when))
    const before = marked(mark).length
    daybook.kill()
    yield* eventually("nothing is left", () => marked(mark).length === 0)
    return before
  })

  it.live("W25: before the command is let go leaves nothing, and nothing has run", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* fs.makeTempDirectoryScoped()
      assert.isAbove(yield* killed("hold", `touch ${folder}/ran`, "recorded"), 1)
      assert.deepStrictEqual(yield* fs.readDirectory(folder), [])
    }).pipe(Effect.scoped, Effect.provide(node))
  )

  it.live(
    "W25: while the command runs leaves nothing, whatever it ignores, and whatever it sends to its own group",
    () =>
      Effect.gen(function* () {
        const signals = "HUP INT QUIT USR1 USR2 PIPE ALRM TERM"
        const script =
          `trap '' ${signals}; for name in ${signals}; do kill -$name 0; done; ` +
          "sleep 1000 & (sleep 1000 & wait) & echo up; wait"
        assert.isAbove(yield* killed("run", script, "up"), 3)
      }).pipe(Effect.scoped, Effect.provide(node))
  )

  it.live("W25: while the command is being stopped leaves nothing", () =>
    Effect.gen(function* () {
      const script = "trap 'echo asked' TERM; echo up; while :; do sleep 0.05; done"
      assert.isAbove(yield* killed("stop", script, "asked"), 1)
    }).pipe(Effect.scoped, Effect.provide(node))
  )
})

describe("a host that ends by itself", () => {
  for (const [mode, how, code] of [
    ["exit", "by process.exit", 7],
    ["throw", "of an error that nobody catches", 1]
  ] as const)
    it.live(`N14: ${how} has ended all of its commands, also what left the group`, () =>
      Effect.gen(function* () {
        const mark = newMark()
        const file = yield* bundled("test/tool/fixtures/host.ts")
        const script =
          "trap '' TERM HUP INT; sleep 1000 & setsid sleep 1000 & (setsid bash -c '(sleep 1000 &)' &); " +
          "set -m; sleep 1000 & echo up; wait"
        const daybook = yield* host(file, [mode, script], { TEST_MARK: mark })
        assert.strictEqual(yield* daybook.exited, code, daybook.printed())
        assert.match(daybook.printed(), /^up\n/)
        yield* eventually("nothing is left", () => marked(mark).length === 0)
      }).pipe(Effect.scoped, Effect.provide(node))
    )
})
