import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { JournalBusy, JournalFull } from "../../src/domain/Errors.ts"
import { textOf } from "../../src/domain/Message.ts"
import { call, say, wait } from "../../src/model/ScriptedModel.ts"
import * as Approvals from "../../src/tool/Approvals.ts"
import { Judgement } from "../../src/tool/Approvals.ts"
import * as BuiltIn from "../../src/tool/BuiltIn.ts"
import { ToolCall } from "../../src/tool/ToolCall.ts"
import { After } from "../../src/tool/ToolHooks.ts"
import * as Workspace from "../../src/tool/Workspace.ts"
import * as HeldJournal from "../support/HeldJournal.ts"
import { type Door, door, endings, of, others, results } from "../support/Watching.ts"
import * as World from "../support/World.ts"

const look = (...ids: ReadonlyArray<string>) => ids.map((id) => ["look", { id }] as const)
const touch = (...ids: ReadonlyArray<string>) => ids.map((id) => ["touch", { id }] as const)
const allow = Approvals.Judgement.Allow()

describe("calls of a cancelled turn", () => {
  it.scoped("F12 W15 R4: a success after the cancel is kept with what it left; a failure of its own stays one", () =>
    Effect.gen(function* () {
      const body = yield* door
      const world = yield* World.make({
        scripts: [call(["finish", { id: "a" }], ["finish", { id: "b" }]), say("2")],
        body: (id) =>
          Effect.gen(function* () {
            yield* body.pass
            yield* (yield* ToolCall).addContext(`note of ${id}`)
            return id === "a" ? "did a" : yield* Effect.fail("b broke")
          })
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* body.entered
      const cancel = yield* Effect.fork(agent.cancel("user"))
      yield* others
      yield* body.letGo
      yield* Fiber.join(cancel)
      assert.deepStrictEqual(yield* results(world), [
        { code: undefined, text: "did a", late: true },
        { code: "UNKNOWN", text: "Error: b broke", late: false }
      ])
      assert.match(yield* world.shorthand, /TR\(c0\) in\+ TR\(c1\) in\+ S>1 T>\(aborted\)$/)
      yield* Effect.zipRight(agent.followup("go on"), agent.idle)
      const sent = ((yield* world.requests)[1]?.messages ?? []).map(textOf)
      assert.deepStrictEqual(sent.slice(-5), ["did a", "Error: b broke", "note of a", "note of b", "go on"])
    })
  )

  it.scoped(
    "E12 R4: cancelled before the batch starts, every call is answered in model order, and no hook is asked",
    () =>
      Effect.gen(function* () {
        const held = yield* HeldJournal.make
        const asked: Array<string> = []
        const world = yield* World.make({
          journal: held.layer,
          scripts: [[wait(held.gate.close), ...call(...look("a", "b"), ...touch("c"))], say("2")],
          toolHooks: {
            before: ({ callId }) =>
              Effect.as(
                Effect.sync(() => asked.push(callId)),
                Judgement.Allow()
              )
          }
        })
        const agent = yield* world.open()
        yield* agent.followup("go")
        yield* others
        const cancel = yield* Effect.fork(agent.cancel("user"))
        yield* Effect.zipRight(others, held.gate.open)
        yield* Fiber.join(cancel)
        assert.match(yield* world.shorthand, /TC\(c0\) TC\(c1\) TR\(c0\) TR\(c1\) TC\(c2\) TR\(c2\) S>1 T>\(aborted\)$/)
        const undispatched = { code: "TOOL_ABORTED_BEFORE_DISPATCH", text: "Error: tool call aborted before dispatch" }
        assert.deepStrictEqual(
          yield* results(world),
          Array.from({ length: 3 }, () => ({ ...undispatched, late: false }))
        )
        for (const { data } of of(yield* world.log, "tool/result")) assert.strictEqual(data.error?.name, "AbortError")
        assert.deepStrictEqual(asked, [])
      })
  )

  it.scoped("E12 R4: cancelled in the first of several groups, no hook is asked for a call of a later one", () =>
    Effect.gen(function* () {
      const body = yield* door
      const asked: Array<string> = []
      const world = yield* World.make({
        scripts: [call(...touch("a"), ...look("b", "c"), ...touch("d"))],
        toolHooks: {
          before: ({ callId }) =>
            Effect.as(
              Effect.sync(() => asked.push(callId)),
              Judgement.Allow()
            )
        },
        body: () => Effect.as(body.pass, "done")
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* body.entered
      yield* agent.cancel("user")
      assert.deepStrictEqual(asked, ["t1s1c0"])
      assert.deepStrictEqual(
        of(yield* world.log, "tool/result").map(({ data }) => data.message.callId),
        ["t1s1c0", "t1s1c1", "t1s1c2", "t1s1c3"]
      )
    })
  )

  it.scoped(
    "O-A1 law 2: several cancels leave one result for each call, and the next prompt works the first time",
    () =>
      Effect.gen(function* () {
        const body = yield* door
        const world = yield* World.make({
          scripts: [call(["finish", { id: "a" }], ...look("b")), say("2")],
          body: (id) => (id === "a" ? Effect.as(body.pass, "done") : Effect.never)
        })
        const agent = yield* world.open()
        yield* agent.followup("go")
        yield* body.entered
        const cancels = yield* Effect.forEach([1, 2, 3, 4, 5], () =>
          Effect.zipLeft(Effect.fork(agent.cancel("user")), others)
        )
        yield* body.letGo
        yield* Effect.forEach(cancels, Fiber.join)
        assert.deepStrictEqual(
          (yield* results(world)).map(({ code }) => code),
          [undefined, "TOOL_ABORTED"]
        )
        yield* Effect.zipRight(agent.followup("go on"), agent.idle)
        assert.deepStrictEqual(yield* endings(world), ["aborted", "completed"])
      })
  )

  it.scoped(
    "O-A7 W19 law 10: a result that cannot be stored stops the turn; memory and journal agree, before and after",
    () =>
      Effect.gen(function* () {
        for (const error of [
          new JournalBusy({ file: "memory", cause: new Error("busy") }),
          new JournalFull({ file: "memory", cause: new Error("no space") })
        ]) {
          const body = yield* door
          const held = yield* HeldJournal.make
          const world = yield* World.make({
            journal: held.layer,
            scripts: [call(["look", { id: "a" }]), say("2")],
            body: () => Effect.as(body.pass, "done")
          })
          yield* Effect.scoped(
            Effect.gen(function* () {
              const agent = yield* world.open()
              yield* agent.followup("go")
              yield* body.entered
              held.failWith(error)
              yield* body.letGo
              const { last } = yield* agent.idle
              assert.deepInclude(Option.getOrThrow(last), { turn: 1, durable: false })
              assert.strictEqual((yield* world.requests).length, 1)
              assert.strictEqual(world.unsafeState()?.head, (yield* world.log).length)
              assert.match(yield* world.shorthand, /AM TC\(c0\)$/)
            })
          )
          held.recover()
          const agent = yield* world.open()
          assert.deepStrictEqual(
            (yield* results(world)).map(({ code }) => code),
            ["TOOL_OUTCOME_UNKNOWN"]
          )
          yield* Effect.zipRight(agent.followup("go on"), agent.idle)
          assert.strictEqual(world.unsafeState()?.head, (yield* world.log).length)
          assert.deepStrictEqual(yield* endings(world), ["interrupted", "completed"])
        }
      })
  )

  it.scoped(
    "O-K6 O-K7 law 6: refused, finished, cut and never started are told apart, and the next request tells them",
    () =>
      Effect.gen(function* () {
        const body = yield* door
        const world = yield* World.make({
          scripts: [
            call(...look("refused", "fast"), ["finish", { id: "late" }], ...look("cut"), ...touch("never")),
            say("2")
          ],
          approvals: {
            judge: ({ callId }) =>
              Effect.succeed(callId.endsWith("c0") ? Approvals.Judgement.Deny({ reason: "not that" }) : allow)
          },
          body: (id) => (id === "fast" ? Effect.succeed("did fast") : Effect.as(body.pass, `did ${id}`))
        })
        const agent = yield* world.open()
        yield* agent.followup("go")
        yield* Effect.zipRight(body.entered, others)
        const cancel = yield* Effect.fork(agent.cancel("user"))
        yield* Effect.zipRight(others, body.letGo)
        yield* Fiber.join(cancel)
        const told = yield* results(world)
        assert.deepStrictEqual(told, [
          { code: "TOOL_DENIED", text: "Error: not that", late: false },
          { code: undefined, text: "did fast", late: false },
          { code: undefined, text: "did late", late: true },
          { code: "TOOL_ABORTED", text: "Error: tool call aborted", late: false },
          { code: "TOOL_ABORTED_BEFORE_DISPATCH", text: "Error: tool call aborted before dispatch", late: false }
        ])
        yield* Effect.zipRight(agent.followup("go on"), agent.idle)
        const sent = ((yield* world.requests)[1]?.messages ?? []).filter(({ role }) => role === "tool")
        assert.deepStrictEqual(
          sent.map(textOf),
          told.map(({ text }) => text)
        )
      })
  )

  it.scoped("O-K6 R4: cancelled before its body, in its body and after it, a call says which", () =>
    Effect.gen(function* () {
      const moments = {
        approval: { code: "TOOL_ABORTED_BEFORE_DISPATCH", late: false },
        body: { code: "TOOL_ABORTED", late: false },
        after: { code: undefined, late: true }
      }
      for (const [moment, expected] of Object.entries(moments)) {
        const here = yield* door
        const pass = (name: string) => (name === moment ? here.pass : Effect.void)
        const world = yield* World.make({
          scripts: [call(...look("a"))],
          approvals: { judge: () => Effect.as(pass("approval"), allow) },
          toolHooks: { after: () => Effect.as(pass("after"), After.Accept()) },
          body: () => Effect.as(pass("body"), "done")
        })
        const agent = yield* world.open()
        yield* agent.followup("go")
        yield* here.entered
        const cancel = yield* Effect.fork(agent.cancel("user"))
        yield* Effect.zipRight(others, here.letGo)
        yield* Fiber.join(cancel)
        const [result] = yield* results(world)
        assert.deepInclude(result, expected, moment)
      }
    })
  )

  /** A world with the built-in tools, on files that stand at a door. */
  const editing = (at: "read" | "written", here: Door) =>
    Effect.gen(function* () {
      const real = yield* FileSystem.FileSystem
      const root = yield* Effect.flatMap(real.makeTempDirectoryScoped(), real.realPath)
      yield* real.writeFileString(`${root}/a.txt`, "before")
      const files: FileSystem.FileSystem = {
        ...real,
        readFile: (path) => Effect.zipLeft(real.readFile(path), at === "read" ? here.pass : Effect.void),
        rename: (from, to) => Effect.zipLeft(real.rename(from, to), at === "written" ? here.pass : Effect.void)
      }
      const tools = BuiltIn.layer.pipe(
        Layer.provide(Workspace.layer(root)),
        Layer.provide([Layer.succeed(FileSystem.FileSystem, files), NodePath.layer]),
        Layer.orDie
      )
      const edit = call(["edit", { path: "a.txt", oldText: "before", newText: "after" }])
      const world = yield* World.make({ tools, scripts: [call(["read", { path: "a.txt" }]), edit, say("2")] })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* here.entered
      const cancel = yield* Effect.fork(agent.cancel("user"))
      yield* Effect.zipRight(others, here.letGo)
      yield* Fiber.join(cancel)
      const result = (yield* results(world)).at(-1)
      return { result, text: yield* real.readFileString(`${root}/a.txt`), files: yield* real.readDirectory(root) }
    })

  it.scopedLive(
    "O-K5 R4: an edit that is cancelled before it writes leaves the file alone; after that it says what it did",
    () =>
      Effect.gen(function* () {
        const early = yield* Effect.flatMap(door, (here) => editing("read", here))
        const late = yield* Effect.flatMap(door, (here) => editing("written", here))
        assert.deepStrictEqual(late.files, ["a.txt"])
        assert.strictEqual(late.text, "after")
        assert.deepInclude(late.result, { text: "Edited a.txt at line 1.", late: true })
        // cancelled while it prepared, it changed nothing
        assert.deepStrictEqual(early.files, ["a.txt"])
        assert.deepInclude(early.result, { code: "TOOL_ABORTED", late: false })
        assert.strictEqual(early.text, "before")
      }).pipe(Effect.provide(NodeFileSystem.layer))
  )
})
