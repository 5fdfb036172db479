import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import type { Agents } from "../../src/agent/Agents.ts"
import type * as Hooks from "../../src/agent/Hooks.ts"
import { OutputClosed } from "../../src/cli/Stdio.ts"
import { JournalFull, SessionOwned } from "../../src/domain/Errors.ts"
import { call, fail, say, send } from "../../src/model/ScriptedModel.ts"
import * as Approvals from "../../src/tool/Approvals.ts"
import { good } from "../support/BrokenLogs.ts"
import * as HeldJournal from "../support/HeldJournal.ts"
import * as Inside from "../support/Inside.ts"
import * as World from "../support/World.ts"

/** Runs the program in a world, as one whose agents and journal are that world's. */
const daybook = (world: World.World, agents: Partial<Context.Tag.Service<Agents>>, ...words: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const workspace = yield* Inside.folder
    const open: Context.Tag.Service<Agents>["open"] = (_id, { create }) => world.open({ create })
    const said = yield* Inside.run({ journal: world.journal, agents: { open, ...agents }, workspace }, ...words)
    // what names the place to another command
    return { ...said, again: ` --workspace ${workspace} --db ${workspace}/x.db` }
  })

const full = new JournalFull({ file: "x.db", cause: new Error("no space") })

const run = (world: World.World, prompt: string) => daybook(world, {}, "run", "--session", "world", prompt)

const denying = {
  toolHooks: { before: () => Effect.succeed(Approvals.Judgement.Deny({ reason: "not today" })) }
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

  it.scoped("with --json prints each event as it commits, exactly as events --json prints it, and nothing else", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [call(["look", { id: "a" }]), say("All is well."), say("Still.")] })
      const first = yield* run(world, "Look")
      assert.strictEqual(first.stdout, "All is well.\n")
      const { head } = yield* Effect.orDie(world.journal.find(World.id))
      const { code, stderr, stdout } = yield* daybook(world, {}, "run", "--session", "world", "--json", "Look again")
      assert.strictEqual(code, 0)
      assert.notInclude(stderr, "Still.")
      const printed = yield* daybook(world, {}, "events", "world", "--json", "--from", String(head))
      assert.strictEqual(stdout, printed.stdout)
      assert.match(stdout.trimEnd().split("\n").at(-1) ?? "", /"type":"turn\/end"/)
    })
  )

  it.scoped("says of an attempt that is tried again that its text does not count, but not with --json", () =>
    Effect.gen(function* () {
      const half = send({ type: "text", index: 0, text: "All is" })
      for (const words of [[], ["--json"]]) {
        const world = yield* World.make({ scripts: [[half, fail("SERVER", "busy")], say("All is well.")] })
        const fiber = yield* Effect.fork(daybook(world, {}, "run", "--session", "world", ...words, "Look"))
        while (Option.isNone(yield* Fiber.poll(fiber))) {
          yield* TestClock.adjust("1 second")
          yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
        }
        const { code, stderr, stdout } = yield* Fiber.join(fiber)
        assert.strictEqual(code, 0)
        const lines = [/request 1 failed \(SERVER: busy\)/, ...(words.length > 0 ? [] : [/its answer does not count/])]
        const told = stderr.trimEnd().split("\n")
        assert.strictEqual(told.length, lines.length, stderr)
        for (const [index, line] of lines.entries()) assert.match(told[index] ?? "", line)
        if (words.length === 0) assert.strictEqual(stdout, "All is\nAll is well.\n")
      }
    })
  )

  it.scoped("with --json tools and states are still on standard error, and exit codes are the same", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [call(["look", { id: "a" }]), [fail("AUTHENTICATION", "no key")]] })
      const { code, stderr, stdout } = yield* daybook(world, {}, "run", "--session", "world", "--json", "Look")
      assert.strictEqual(code, 1)
      assert.match(
        stderr,
        /^call {4}look id: a\nok {6}look id: a .*\ndaybook: turn 1 failed \(AUTHENTICATION\): no key\n/
      )
      for (const line of stdout.trimEnd().split("\n")) assert.match(line, /^\{"seq":\d+,"time":\d+,"type":"/)
    })
  )

  it.scoped("with --json a reader that goes away ends nothing: the turn completes, and is stored", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [call(["look", { id: "a" }]), say("All is well.")] })
      const services = {
        journal: world.journal,
        agents: { open: () => world.open() },
        onOut: new OutputClosed({ cause: { code: "EPIPE" } })
      }
      const { code } = yield* Inside.run(services, "run", "--session", "world", "--json", "Look")
      assert.strictEqual(code, 0)
      assert.match(yield* world.shorthand, /T>\(completed\)$/)
    })
  )

  it.scoped("an output that cannot be written ends nothing, but is said at the end, with exit 1 (law 10)", () =>
    Effect.gen(function* () {
      for (const words of [[], ["--json"]]) {
        const world = yield* World.make({ scripts: [call(["look", { id: "a" }]), say("All is well.")] })
        const services = {
          journal: world.journal,
          agents: { open: () => world.open() },
          onOut: new OutputClosed({ cause: new Error("no space left on device") })
        }
        const { code, stderr } = yield* Inside.run(services, "run", "--session", "world", ...words, "Look")
        assert.strictEqual(code, 1)
        assert.match(
          stderr,
          /\ndaybook: the output could not be written: no space left on device\. What is stored is kept\.\n$/
        )
        assert.match(yield* world.shorthand, /T>\(completed\)$/)
      }
    })
  )

  it.scoped("exits 1 after an error, says which, and how to go on", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [[fail("AUTHENTICATION", "no such key")]] })
      const { code, stderr, again } = yield* run(world, "Look")
      assert.strictEqual(code, 1)
      assert.deepStrictEqual(stderr.trimEnd().split("\n"), [
        "daybook: turn 1 failed (AUTHENTICATION): no such key",
        `daybook: session world: what turn 1 did until then is kept. To go on: daybook run --session world --continue${again}`
      ])
    })
  )

  it.scoped("where the journal cannot be opened, names the session, and says that nothing was sent", () =>
    Effect.gen(function* () {
      const services = { journal: yield* Inside.journalOf({}), unopened: full }
      for (const [words, what] of [
        [["--session", "s", "x"], "session s: it was not opened, and nothing was sent"],
        [["x"], "no session was begun, and nothing was sent"]
      ] as const) {
        const { code, stderr } = yield* Inside.run(services, "run", ...words)
        assert.deepStrictEqual([code, stderr], [1, `daybook: ${what}. ${full.message}\n`])
      }
    })
  )

  it.scoped("law 10: where nothing can be stored, says in one line that the prompt was not accepted", () =>
    Effect.gen(function* () {
      const held = yield* HeldJournal.make
      const world = yield* World.make({ journal: held.layer, scripts: [] })
      held.failWith(full)
      const { code, stderr } = yield* run(world, "Look")
      assert.strictEqual(code, 1)
      assert.strictEqual(stderr, `daybook: session world: the prompt was not accepted: ${full.message}\n`)
    })
  )

  it.scoped("where nothing more can be stored, says so in one line, and how to go on then", () =>
    Effect.gen(function* () {
      const held = yield* HeldJournal.make
      const body = () =>
        Effect.as(
          Effect.sync(() => held.failWith(full)),
          "done"
        )
      const world = yield* World.make({
        journal: held.layer,
        scripts: [call(["look", { id: "a" }])],
        body,
        unchecked: true
      })
      const { again, code, stderr } = yield* run(world, "Look")
      held.recover()
      assert.strictEqual(code, 1)
      const next = `To go on: daybook run --session world --continue${again}`
      const told = stderr.split("\n").filter((line) => line.startsWith("daybook: "))
      assert.deepStrictEqual(told, [`daybook: session world: turn 1 was cut off: ${full.message} ${next}`])
    })
  )

  it.scoped("says that it closed what an owner left open, once", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [say("All is well."), say("Still.")], unchecked: true })
      yield* Inside.store(world.journal, "world", good.slice(0, 13))
      const first = yield* run(world, "Go on")
      assert.strictEqual(first.code, 0)
      const closed = "daybook: session world: its turn 1 was interrupted, and is closed as that.\n"
      assert.isTrue(first.stderr.startsWith(closed), first.stderr)
      const second = yield* run(world, "And on")
      assert.strictEqual(second.code, 0)
      assert.notInclude(second.stderr, "interrupted")
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
        "session world: the prompt was not run. It is kept, and runs before the next one. To run it now: daybook run --session world --continue"
      )
    })
  )

  it.scoped("exits 4 when another process owns the session", () =>
    Effect.gen(function* () {
      const world = yield* World.make()
      const owned = new SessionOwned({ sessionId: World.id, host: "box", pid: 7, since: 0 })
      const { code, stderr } = yield* daybook(
        world,
        { open: () => Effect.fail(owned) },
        "run",
        "--session",
        "world",
        "x"
      )
      assert.strictEqual(code, 4)
      assert.match(
        stderr,
        /^daybook: session world is owned by process 7 of box, since 1970-01-01T00:00:00.000Z; nothing was changed\. .*\n$/
      )
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
