import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { CallId } from "../../src/domain/Ids.ts"
import type { Found, LeftOver } from "../../src/domain/Repair.ts"
import { Reaper } from "../../src/session/Reaper.ts"
import * as Settings from "../../src/settings/Settings.ts"
import * as ProcessReaper from "../../src/tool/ProcessReaper.ts"
import { bundled, eventually, host, marked, ofGroup } from "../support/processes.ts"

/** What a reaper that was set up like this says of one group. */
const asked =
  (how: "reap" | "look") =>
  (
    process: LeftOver,
    processes: Partial<typeof Settings.Processes.schema.Type> = {}
  ): Effect.Effect<Found | undefined> =>
    Effect.flatMap(Reaper, (reaper) => reaper[how]([process])).pipe(
      Effect.map((report) => report.find((each) => each.process === process)?.found),
      Effect.provide(
        Layer.provide(ProcessReaper.layer, [
          NodeFileSystem.layer,
          Settings.layerMemory({ processes: { graceMillis: 200, ...processes } })
        ])
      )
    )
const reap = asked("reap")
const look = asked("look")

/** A host whose command is up, and what it recorded. */
const running = Effect.fnUntraced(function* (script: string) {
  const file = yield* bundled("test/tool/fixtures/host.ts")
  const it = yield* host(file, ["tell", script])
  yield* eventually("the host is up", () => it.printed().includes("up\n"))
  // the fixture printed it
  const identity = JSON.parse(it.printed().split("\n")[0] ?? "") as Omit<LeftOver, "turn" | "step" | "callId">
  const process: LeftOver = { turn: 1, step: 1, callId: CallId.make("t1s1c0"), ...identity }
  return { ...it, process, mark: process.mark ?? "none" }
})

const escaping = "setsid sh -c 'sleep 1000' & sleep 0.05; echo up; wait"

describe("ProcessReaper", () => {
  it.scopedLive(
    "W25 G18: what left the group of a killed host is found by its mark, and ended",
    () =>
      Effect.gen(function* () {
        const { exited, kill, mark, process } = yield* running(escaping)
        kill()
        yield* exited
        yield* eventually("the guard has ended the group", () => ofGroup(process.pgid).length === 0)
        assert.lengthOf(marked(mark), 2)
        assert.strictEqual(yield* reap(process, { leftOver: "leave" }), "unknown")
        assert.strictEqual(yield* reap(process, { leftOver: "report" }), "running")
        assert.strictEqual(yield* look(process), "running")
        assert.strictEqual(yield* reap({ ...process, bootId: "another boot" }), "unknown")
        assert.isNotEmpty(marked(mark))
        assert.strictEqual(yield* reap(process), "ended")
        assert.deepStrictEqual(marked(mark), [])
        assert.strictEqual(yield* reap(process), "gone")
        assert.strictEqual(yield* look(process), "gone")
      }).pipe(Effect.provide(NodeFileSystem.layer)),
    60_000
  )

  it.scopedLive(
    "W25 O-N4: what a host runs that is only stopped is ended, also who is deaf to being asked",
    () =>
      Effect.gen(function* () {
        const { mark, pid, process } = yield* running(
          "trap '' TERM; (env -i sleep 1000) & echo up; while :; do sleep 1; done"
        )
        yield* Effect.sync(() => globalThis.process.kill(pid, "SIGSTOP"))
        assert.isAbove(ofGroup(process.pgid).length, 2)
        assert.strictEqual(yield* reap(process, { leftOver: "report" }), "running")
        assert.strictEqual(yield* reap(process), "ended")
        assert.deepStrictEqual([...marked(mark), ...ofGroup(process.pgid)], [])
      }).pipe(Effect.provide(NodeFileSystem.layer)),
    60_000
  )

  it.scopedLive(
    "W25: a number that somebody else has now is nobody's who is ended",
    () =>
      Effect.gen(function* () {
        const { mark, process } = yield* running("echo up; sleep 1000")
        const before = ofGroup(process.pgid)
        const other = { ...process, mark: `${mark}-other` }
        for (const startTime of [
          String(Number(process.startTime) - 1),
          String(Number(process.startTime) + 1),
          "unknown"
        ])
          assert.strictEqual(yield* reap({ ...other, startTime }), "gone")
        const { mark: _mark, ...old } = process
        assert.strictEqual(yield* reap({ ...old, startTime: "1" }), "gone")
        assert.deepStrictEqual(ofGroup(process.pgid), before)
        assert.strictEqual(yield* reap(old), "ended")
        assert.deepStrictEqual(ofGroup(process.pgid), [])
      }).pipe(Effect.provide(NodeFileSystem.layer)),
    60_000
  )
})
