/**
 * `run` in this process: the real command line and the real loop, with a scripted model where the program has a real one.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { Agents } from "../../src/agent/Agents.ts"
import type * as Hooks from "../../src/agent/Hooks.ts"
import { Composition } from "../../src/cli/Composition.ts"
import * as Daybook from "../../src/cli/Daybook.ts"
import { Shutdown } from "../../src/cli/Shutdown.ts"
import { Stdio } from "../../src/cli/Stdio.ts"
import { SessionOwned } from "../../src/domain/Errors.ts"
import { Journal } from "../../src/journal/Journal.ts"
import { call, fail, say, send } from "../../src/model/ScriptedModel.ts"
import * as ToolHooks from "../../src/tool/ToolHooks.ts"
import * as World from "../support/World.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "daybook-run-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** Runs the program in a world, as one whose agents and journal are that world's. */
const daybook = (world: World.World, agents: Partial<Context.Tag.Service<Agents>>, ...words: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const workspace = yield* folder
    const seen: { code: number | undefined; stdout: string; stderr: string } = {
      code: undefined,
      stdout: "",
      stderr: ""
    }
    const writing = (stream: "stdout" | "stderr") => (text: string) =>
      Effect.sync(() => {
        seen[stream] += text
      })
    const opened = { open: () => world.open({ cwd: workspace }), ...agents }
    const context = Context.make(Agents, opened).pipe(Context.add(Journal, world.journal))
    const composition = Layer.succeed(Composition, {
      reading: () => Layer.succeed(Journal, world.journal),
      agents: () => Layer.succeedContext(context)
    })
    const stdio = Layer.succeed(Stdio, {
      input: Stream.empty,
      out: writing("stdout"),
      err: writing("stderr"),
      outIsTerminal: false,
      errIsTerminal: false,
      columns: Effect.succeed(0)
    })
    const shutdown = Layer.succeed(Shutdown, {
      endWith: (code) =>
        Effect.sync(() => {
          seen.code = code
        }),
      signal: Effect.succeed(Option.none()),
      waitingFor: () => Effect.void
    })
    yield* Effect.provide(
      Daybook.main([...words, "--workspace", workspace, "--db", join(workspace, "x.db")]),
      Layer.mergeAll(composition, stdio, shutdown, NodeContext.layer)
    )
    return seen
  })

const run = (world: World.World, prompt: string) => daybook(world, {}, "run", "--session", "world", prompt)

const denying = {
  toolHooks: { before: () => Effect.succeed(ToolHooks.Before.Deny({ reason: "not today" })) }
}

describe("daybook run", () => {
  it.scoped("streams the answer, and exits 0", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [call(["look", { id: "a" }]), say("All is well.")] })
      const { code, stderr, stdout } = yield* run(world, "Look")
      assert.strictEqual(code, 0)
      assert.strictEqual(stdout, "All is well.\n")
      assert.match(stderr, /^call {4}look id: a\nok {6}look id: a {2}\d+\.\d s\n$/)
    })
  )

  it.scoped("exits 1 after an error, says which, and how to go on", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [[fail("AUTHENTICATION", "no such key")]] })
      const { code, stderr } = yield* run(world, "Look")
      assert.strictEqual(code, 1)
      assert.deepStrictEqual(stderr.trimEnd().split("\n"), [
        "daybook: turn 1 failed (AUTHENTICATION): no such key",
        "daybook: session world: what turn 1 did until then is kept. To go on: daybook run --session world PROMPT"
      ])
    })
  )

  it.scoped("exits 1 when the answer was cut at its token limit", () =>
    Effect.gen(function* () {
      const cut = [send({ type: "text", index: 0, text: "All is" }, { type: "finish", reason: "max-tokens" })]
      const world = yield* World.make({ scripts: [cut] })
      const { code, stderr, stdout } = yield* run(world, "Look")
      assert.strictEqual(code, 1)
      assert.strictEqual(stdout, "All is\n")
      assert.include(stderr, "turn 1: the answer was cut at its token limit")
    })
  )

  it.scoped("exits 3 when the turn was blocked", () =>
    Effect.gen(function* () {
      const reject: Hooks.PreStep = { _tag: "Reject", message: "not on Sundays" }
      const world = yield* World.make({ hooks: { preStep: () => Effect.succeed(reject) } })
      const { code, stderr } = yield* run(world, "Look")
      assert.strictEqual(code, 3)
      assert.include(stderr, "turn 1 was blocked: not on Sundays")
    })
  )

  it.scoped("exits 3 when a call was denied in a turn that completed", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ ...denying, scripts: [call(["look", { id: "a" }]), say("I may not.")] })
      const { code, stderr, stdout } = yield* run(world, "Look")
      assert.strictEqual(code, 3)
      assert.strictEqual(stdout, "I may not.\n")
      assert.include(stderr, "Error: not today")
      assert.include(stderr, "turn 1 completed, but a call was denied")
    })
  )

  it.scoped("runs prompts that waited first, and says so (W10)", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [[fail("AUTHENTICATION")], say("One."), say("Two.")] })
      yield* parked(world)
      const { code, stderr, stdout } = yield* run(world, "third")
      assert.strictEqual(code, 0)
      assert.strictEqual(stdout, "One.\nTwo.\n")
      assert.include(stderr, "session world: 1 prompt waited, and runs first")
    })
  )

  it.scoped("exits 1 when the prompt stayed parked, and says how to continue (W10)", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [[fail("AUTHENTICATION")], [fail("AUTHENTICATION")]] })
      yield* parked(world)
      const { code, stderr } = yield* run(world, "third")
      assert.strictEqual(code, 1)
      assert.include(stderr, "1 prompt waits for the next one")
      assert.include(
        stderr,
        "session world: the prompt was not run. It is kept, and runs before the next one: daybook run --session world PROMPT"
      )
    })
  )

  it.scoped("exits 4 when another process owns the session", () =>
    Effect.gen(function* () {
      const world = yield* World.make()
      const owned = new SessionOwned({ sessionId: World.id, owner: "process 7 of box" })
      const { code, stderr } = yield* daybook(
        world,
        { open: () => Effect.fail(owned) },
        "run",
        "--session",
        "world",
        "x"
      )
      assert.strictEqual(code, 4)
      assert.match(stderr, /^daybook: session world is owned by process 7 of box; nothing was changed\. .*\n$/)
    })
  )

  it.scoped("tells of a defect in one line, and exits 1", () =>
    Effect.gen(function* () {
      const world = yield* World.make()
      const open = { open: () => Effect.die(new Error("a bug")) }
      const logged: Array<string> = []
      const keeping = Logger.replace(
        Logger.defaultLogger,
        Logger.make(({ cause }) => logged.push(Cause.pretty(cause)))
      )
      yield* Effect.provide(daybook(world, open, "--log-level", "debug", "run", "x"), keeping)
      assert.match(logged.splice(0).join(), /^Error: a bug\n {4}at /)
      const { code, stderr } = yield* Effect.provide(daybook(world, open, "run", "x"), keeping)
      assert.strictEqual(code, 1)
      assert.match(stderr, /^daybook: unexpected error: a bug\. .*--log-level debug shows where\.\n$/)
      assert.deepStrictEqual(logged, [])
    })
  )
})

/** Leaves a prompt parked behind a turn that failed. */
const parked = (world: World.World) =>
  Effect.scoped(
    Effect.gen(function* () {
      const agent = yield* world.open()
      yield* agent.followup("first")
      yield* agent.followup("second")
      yield* agent.idle
    })
  )
