/**
 * A disk that does not answer: each built-in file tool is cancelled at each operation that it waits for.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { call, say } from "../../src/model/ScriptedModel.ts"
import * as BuiltIn from "../../src/tool/BuiltIn.ts"
import * as Workspace from "../../src/tool/Workspace.ts"
import { eventually } from "../support/processes.ts"
import { door, others, results } from "../support/Watching.ts"
import * as World from "../support/World.ts"

/** Each operation of this host's files, and of every file that is opened, comes after what `before` does. */
const delayed = (
  real: FileSystem.FileSystem,
  before: (operation: string) => Effect.Effect<void>
): FileSystem.FileSystem => {
  const delay = <T extends object>(host: T): T =>
    new Proxy(host, {
      get: (_, key) => {
        const member: unknown = Reflect.get(host, key)
        const first = Effect.suspend(() => before(String(key)))
        const after = (operation: unknown): unknown =>
          Effect.isEffect(operation)
            ? Effect.zipRight(first, key === "open" ? Effect.map(operation, (file) => delay(Object(file))) : operation)
            : operation
        return typeof member === "function"
          ? (...args: ReadonlyArray<unknown>) => after(Reflect.apply(member, host, args))
          : after(member)
      }
    })
  // what is made of other operations, a stream of a file above all, is made of those that are delayed
  return FileSystem.make(delay(real))
}

const file = "folder/file.txt"
const before = "one\ntwo\n"
const after = "one\nthree\n"

/** A call of each tool, and the last operation that it waits for. */
const tools: ReadonlyArray<{ readonly tool: string; readonly args: unknown; readonly last: string }> = [
  { tool: "read", args: { path: file }, last: "readAlloc" },
  { tool: "list", args: { path: "folder" }, last: "stat" },
  { tool: "search", args: { pattern: "two" }, last: "readAlloc" },
  { tool: "write", args: { path: file, content: after }, last: "sync" },
  { tool: "edit", args: { path: file, oldText: "two", newText: "three" }, last: "sync" }
]

/** Cancels the call while its nth operation waits. Gives that operation; none where the call has no nth one. */
const cancelledAt = (nth: number, { args, tool }: (typeof tools)[number]) =>
  Effect.gen(function* () {
    const real = yield* FileSystem.FileSystem
    const root = yield* Effect.flatMap(real.makeTempDirectoryScoped(), real.realPath)
    yield* real.makeDirectory(`${root}/folder`)
    yield* real.writeFileString(`${root}/${file}`, before)
    const stuck = yield* door
    let seen: ReadonlyArray<string> | undefined
    const disk = delayed(real, (operation) => {
      if (seen === undefined) return Effect.void
      seen = [...seen, operation]
      return seen.length === nth ? stuck.pass : Effect.void
    })
    const world = yield* World.make({
      tools: BuiltIn.layer.pipe(
        Layer.provide(Workspace.layer(root)),
        Layer.provide([Layer.succeed(FileSystem.FileSystem, disk), NodePath.layer]),
        Layer.orDie
      ),
      scripts: [call(["read", { path: file }]), say("1"), call([tool, args]), say("2")]
    })
    const agent = yield* world.open()
    // a test that fails holds nobody
    yield* Effect.addFinalizer(() => stuck.letGo)
    yield* Effect.zipRight(agent.followup("look"), agent.idle)
    seen = []
    yield* agent.followup("go")
    yield* Effect.raceFirst(stuck.entered, agent.idle)
    const operation = seen[nth - 1]
    if (operation === undefined) return undefined

    const at = `${tool}, operation ${nth}: ${operation}`
    // the first thing that a change does to the disk: it is finished (O-K5)
    const isChanging = seen.includes("makeDirectory")
    const cancel = yield* Effect.fork(agent.cancel("user"))
    if (isChanging) {
      yield* others
      assert.deepInclude(yield* agent.status, { _tag: "Running", cancelled: true }, at)
      yield* stuck.letGo
    }
    yield* eventually(`${at}: the cancel settles`, () => Effect.map(Fiber.poll(cancel), Option.isSome))
    assert.deepInclude(yield* Fiber.join(cancel), { _tag: "Settled", ending: { kind: "aborted" }, durable: true }, at)
    const { code, late } = (yield* results(world)).at(-1) ?? assert.fail(at)
    assert.deepStrictEqual([code, late], isChanging ? [undefined, true] : ["TOOL_ABORTED", false], at)
    assert.strictEqual(yield* real.readFileString(`${root}/${file}`), isChanging ? after : before, at)
    return operation
  }).pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer))

describe("a disk that does not answer", () => {
  it.live.each(tools)(
    "W17 R12 R4: wherever it waits for it, a cancel stops the tool $tool, or lets it finish what it began to change",
    (one) =>
      Effect.gen(function* () {
        const operations: Array<string> = []
        for (let nth = 1; ; nth++) {
          const operation = yield* cancelledAt(nth, one)
          if (operation === undefined) break
          operations.push(operation)
        }
        assert.strictEqual(operations.at(-1), one.last, operations.join(" "))
      })
  )
})
