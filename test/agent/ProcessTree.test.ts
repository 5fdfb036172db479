/**
 * A turn whose command has a family: when its cancel has settled, nobody of that family lives and none of their files changes.
 */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type { StoredEvent } from "../../src/domain/Event.ts"
import { textOf } from "../../src/domain/Message.ts"
import * as Journal from "../../src/journal/Journal.ts"
import { call, type Script, say } from "../../src/model/ScriptedModel.ts"
import * as BuiltIn from "../../src/tool/BuiltIn.ts"
import * as Workspace from "../../src/tool/Workspace.ts"
import { eventually, marked, ofGroup } from "../support/processes.ts"
import { of } from "../support/Watching.ts"
import * as World from "../support/World.ts"

const node = Layer.merge(NodeFileSystem.layer, NodePath.layer)

const family = ["deaf", "held", "session", "daemon"] as const

/** Each of the family writes into a file of its own, for as long as it lives. */
const tree = [
  "beat() { while :; do echo beat >> $1; sleep 0.02; done; }; export -f beat",
  "echo begun",
  // a grandchild that does not stop when it is asked to
  "bash -c \"trap '' TERM; bash -c 'beat deaf'; :\" &",
  // a background child that holds the pipes open
  "beat held &",
  "setsid bash -c 'beat session' &",
  // reparented, in a session of its own, with nothing of the pipes
  "(setsid bash -c '(beat daemon) </dev/null >/dev/null 2>&1 &' &)",
  `until ${family.map((name) => `[ -s ${name} ]`).join(" && ")}; do sleep 0.01; done`,
  "echo up",
  "wait"
].join("\n")

const bash = (command: string): Script => call(["bash", { command }])

/** A world with the real tools in a workspace of its own, on a file. */
const make = Effect.fnUntraced(function* (scripts: ReadonlyArray<Script>) {
  const fs = yield* FileSystem.FileSystem
  const root = yield* Effect.flatMap(fs.makeTempDirectoryScoped(), fs.realPath)
  const world = yield* World.make({
    tools: BuiltIn.layer.pipe(Layer.provide(Workspace.layer(root)), Layer.provide(node), Layer.orDie),
    journal: Journal.layerSqlite({ filename: join(root, "journal.db") }),
    settings: { processes: { graceMillis: 300 } },
    scripts
  })
  const sizes = Effect.forEach(family, (name) => Effect.map(fs.stat(join(root, name)), ({ size }) => Number(size)))
  const up = eventually("the family is up", () => Effect.isSuccess(sizes))
  return { world, sizes, up }
})

/** The mark of the command that the log tells of, which every process of it bears. */
const markOf = (log: ReadonlyArray<StoredEvent>): string => {
  const pgid = of(log, "tool/process")[0]?.data.pgid
  const mark = /DAYBOOK_CALL=[^\0]+/.exec(readFileSync(`/proc/${pgid}/environ`, "latin1"))?.[0]
  return mark ?? assert.fail("the command has no mark")
}

describe("a turn whose command has a family", () => {
  it.scopedLive(
    "N01, W25, W26, O-J1, O-J2, O-J6, O-J8, law 4: cancelled, it leaves nobody, and no file changes any more",
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const { sizes, up, world } = yield* make([bash(tree), bash("sleep 0.3"), say("done")])
        const agent = yield* world.open()
        yield* agent.followup("go")
        yield* up
        const before = yield* world.log
        const process = of(before, "tool/process")[0]?.data
        const mark = markOf(before)
        // each of the family, the shell of the command, and its guard
        yield* eventually("they are all seen", () => marked(mark).length >= family.length + 2)
        const stat = yield* fs.readFileString(`/proc/${process?.pgid}/stat`)

        const [settled, other] = yield* Effect.all([agent.cancel("user"), agent.cancel("user")], { concurrency: 2 })
        assert.deepStrictEqual(marked(mark), [])
        assert.deepStrictEqual(ofGroup(process?.pgid ?? -1), [])
        const atCancel = yield* sizes
        assert.deepInclude(settled, { _tag: "Settled", ending: { kind: "aborted" }, durable: true })
        assert.deepInclude(other, { _tag: "Settled", ending: { kind: "aborted" }, durable: true })

        // a turn that takes as long as many beats
        yield* Effect.zipRight(agent.followup("go on"), agent.idle)
        assert.deepStrictEqual(yield* sizes, atCancel)

        const log = yield* world.log
        const boot = (yield* fs.readFileString("/proc/sys/kernel/random/boot_id")).trim()
        const { bootId = "", mark: logged = "", pgid: _pgid, ...recorded } = process ?? {}
        assert.isTrue(bootId.startsWith(`${boot} pid:[`))
        assert.match(logged, /^world\/t1s1c0\/[0-9a-f-]{36}$/)
        assert.deepStrictEqual<unknown>(recorded, {
          turn: 1,
          step: 1,
          callId: "t1s1c0",
          startTime: stat.replace(/^.*\) /s, "").split(" ")[19]
        })
        const [result, next] = of(log, "tool/result")
        assert.deepStrictEqual(result?.data.error, { name: "AbortError", code: "TOOL_ABORTED" })
        assert.match(
          result === undefined ? "" : textOf(result.data.message),
          /^Error: tool call aborted\. Its output until then:\nbegun\n(up\n)?/
        )
        assert.isFalse(next?.data.message.isError)
        assert.deepStrictEqual(
          of(log, "turn/end").map((event) => event.data.reason.kind),
          ["aborted", "completed"]
        )
      }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scopedLive("O-J7, O-J8, W26: ended by itself, its family has ended before the result is there", () =>
    Effect.gen(function* () {
      const { sizes, world } = yield* make([
        bash(tree.replace(/wait$/, "exit 0")),
        say("done"),
        bash("sleep 0.3"),
        say("done")
      ])
      const agent = yield* world.open()
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      const atEnd = yield* sizes
      const log = yield* world.log
      const [result] = of(log, "tool/result")
      const shown = result === undefined ? "" : textOf(result.data.message)
      assert.match(
        shown,
        /^begun\nup\n(\[stderr\]\n[\s\S]*)?\[\d+ processes left in the background, ended with the command\]$/
      )
      yield* Effect.zipRight(agent.followup("go on"), agent.idle)
      assert.deepStrictEqual(yield* sizes, atEnd)
      assert.strictEqual(of(yield* world.log, "tool/result").length, 2)
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scopedLive("O-J7, N01: leaving the agent's scope ends it like a cancel", () =>
    Effect.gen(function* () {
      const { up, world } = yield* make([bash(tree)])
      const scope = yield* Scope.make()
      const agent = yield* Scope.extend(world.open(), scope)
      yield* agent.followup("go")
      yield* up
      const mark = markOf(yield* world.log)
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(marked(mark), [])
      const [end] = of(yield* world.log, "turn/end")
      assert.deepStrictEqual(end?.data.reason, { kind: "aborted" })
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )
})
