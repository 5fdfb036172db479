import { writeFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import type * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as TestClock from "effect/TestClock"
import type { Agent } from "../../src/agent/Agent.ts"
import type { StoredEvent, StoredOf } from "../../src/domain/Event.ts"
import { answerId, callId } from "../../src/domain/Ids.ts"
import { type ToolCallBlock, text, textOf } from "../../src/domain/Message.ts"
import { neverStarted, outcomeUnknown } from "../../src/domain/Transcript.ts"
import { call, say } from "../../src/model/ScriptedModel.ts"
import { lingerMillis } from "../../src/session/Writer.ts"
import { AgentLoop } from "../../src/settings/Settings.ts"
import * as Scheduler from "../../src/tool/Scheduler.ts"
import { ToolCall } from "../../src/tool/ToolCall.ts"
import type { Tools } from "../../src/tool/Tools.ts"
import { fileWith, layerOf, opened } from "../settings/support.ts"
import { sourceSeqs } from "../support/Facts.ts"
import * as HeldJournal from "../support/HeldJournal.ts"
import * as World from "../support/World.ts"

interface Door {
  readonly entered: Deferred.Deferred<void>
  readonly open: Deferred.Deferred<void>
}

/** Bodies that tell when they start, and end when they are let go. */
const gates = Effect.map(Ref.make<ReadonlyArray<string>>([]), (log) => {
  const doors = new Map<string, Door>()
  const door = (id: string): Door => {
    const known = doors.get(id) ?? {
      entered: Deferred.unsafeMake(FiberId.none),
      open: Deferred.unsafeMake(FiberId.none)
    }
    doors.set(id, known)
    return known
  }
  const note = (line: string) => Ref.update(log, (lines) => [...lines, line])
  return {
    body: (id: string) =>
      Effect.gen(function* () {
        yield* note(`+${id}`)
        yield* Deferred.succeed(door(id).entered, undefined)
        yield* Deferred.await(door(id).open)
        yield* note(`-${id}`)
        return `did ${id}`
      }),
    entered: (...ids: ReadonlyArray<string>) => Effect.forEach(ids, (id) => Deferred.await(door(id).entered)),
    letGo: (...ids: ReadonlyArray<string>) => Effect.forEach(ids, (id) => Deferred.succeed(door(id).open, undefined)),
    log: Ref.get(log)
  }
})

const of = <T extends StoredEvent["type"]>(log: ReadonlyArray<StoredEvent>, type: T) =>
  log.filter((event): event is StoredOf<T> => event.type === type)

const look = (...ids: ReadonlyArray<string>) => ids.map((id) => ["look", { id }] as const)
const touch = (id: string) => ["touch", { id }] as const

const prompt = (agent: Agent) => Effect.zipRight(agent.followup("go"), agent.idle)

/** What of the log speaks of calls. */
const calls = (log: ReadonlyArray<StoredEvent>) =>
  World.shorthand(log.filter((event) => event.type.startsWith("tool/")))

const codes = (log: ReadonlyArray<StoredEvent>) => of(log, "tool/result").map((event) => event.data.error?.code)

/** Returns once a call has settled in the stored log, as a result or before its place. */
const settled = (world: World.World, index: number): Effect.Effect<void> =>
  Effect.flatMap(world.log, (log) =>
    new RegExp(`T[SR]\\(c${index}\\)`).test(World.shorthand(log))
      ? Effect.void
      : Effect.zipRight(TestClock.adjust(lingerMillis), settled(world, index))
  )

/** Lets every other fiber come as far as it can without what this one holds back, the writer of the log included. */
const others = Effect.zipRight(Effect.replicateEffect(Effect.yieldNow(), 200), TestClock.adjust(lingerMillis))

describe("tool groups", () => {
  it.scoped("E01: parallel calls overlap, results stand in model order, the exclusive call runs alone after them", () =>
    Effect.gen(function* () {
      const gate = yield* gates
      const world = yield* World.make({
        scripts: [call(...look("a", "b", "c"), touch("w")), say("x")],
        body: gate.body
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* gate.entered("a", "b", "c")
      yield* gate.letGo("a", "b", "c")
      yield* gate.entered("w")
      yield* gate.letGo("w")
      yield* agent.idle
      assert.strictEqual(calls(yield* world.log), "TC(c0) TC(c1) TC(c2) TR(c0) TR(c1) TR(c2) TC(c3) TR(c3)")
      assert.deepStrictEqual((yield* gate.log).slice(-2), ["+w", "-w"])
    })
  )

  it.scoped("E02: a slot is refilled as soon as one settles", () =>
    Effect.gen(function* () {
      const gate = yield* gates
      const settings = { "agent-loop": { maxParallelToolCalls: 2 } }
      const world = yield* World.make({
        scripts: [call(...look("a", "b", "c")), say("x")],
        body: gate.body,
        settings
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* gate.entered("a", "b")
      assert.deepStrictEqual(yield* gate.log, ["+a", "+b"])
      yield* gate.letGo("a")
      yield* gate.entered("c")
      assert.strictEqual(calls(yield* world.log), "TC(c0) TC(c1) TR(c0) TC(c2)")
      yield* gate.letGo("b", "c")
      yield* agent.idle
    })
  )

  it.scoped(
    "E03 E04 W14 O-G3: what settles early is durable at once and answered in model order; its slot is free",
    () =>
      Effect.gen(function* () {
        const gate = yield* gates
        const settings = { "agent-loop": { maxParallelToolCalls: 2 } }
        const world = yield* World.make({
          scripts: [call(...look("a", "b", "c")), say("x")],
          body: gate.body,
          settings
        })
        const agent = yield* world.open()
        yield* agent.followup("go")
        yield* gate.entered("a", "b")
        yield* gate.letGo("b")
        yield* gate.entered("c")
        yield* gate.letGo("c")
        yield* settled(world, 2)
        assert.strictEqual(calls(yield* world.log), "TC(c0) TC(c1) TS(c1) TC(c2) TS(c2)")
        yield* gate.letGo("a")
        yield* agent.idle
        const log = yield* world.log
        assert.strictEqual(calls(log), "TC(c0) TC(c1) TS(c1) TC(c2) TS(c2) TR(c0) TR(c1) TR(c2)")
        const before = log.filter((event) => event.type === "tool/call" || event.type === "tool/settled")
        assert.deepStrictEqual(
          of(log, "tool/result").map((event) => sourceSeqs(event.sourceEventSeqs ?? [])),
          [0, 1, 2].map((n) => before.filter((event) => event.data.callId.endsWith(`c${n}`)).map((event) => event.seq))
        )
        const sent = (yield* world.requests)[1]?.messages ?? []
        assert.deepStrictEqual(sent.slice(-3).map(textOf), ["did a", "did b", "did c"])
      })
  )

  it.scoped("E06: ten at once by default", () =>
    Effect.gen(function* () {
      const gate = yield* gates
      const ids = Array.from({ length: 12 }, (_, index) => `n${index}`)
      const world = yield* World.make({ scripts: [call(...look(...ids)), say("x")], body: gate.body })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* gate.entered(...ids.slice(0, 10))
      assert.strictEqual((yield* gate.log).length, 10)
      yield* gate.letGo(...ids)
      yield* agent.idle
      assert.strictEqual(of(yield* world.log, "tool/result").length, 12)
    })
  )

  it.scoped("E07: a changed limit holds from the next group on", () =>
    Effect.gen(function* () {
      const gate = yield* gates
      const world = yield* World.make({
        scripts: [call(...look("a", "b", "c"), touch("w"), ...look("d", "e")), say("x")],
        body: gate.body,
        settings: { "agent-loop": { maxParallelToolCalls: 2 } }
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* gate.entered("a", "b")
      yield* Effect.orDie(world.settings.set(AgentLoop, { maxParallelToolCalls: 1 }))
      yield* gate.letGo("a")
      yield* gate.entered("c")
      yield* gate.letGo("b", "c", "w")
      yield* gate.entered("d")
      yield* gate.letGo("d")
      yield* gate.entered("e")
      assert.deepStrictEqual((yield* gate.log).slice(-3), ["+d", "-d", "+e"])
      yield* gate.letGo("e")
      yield* agent.idle
    })
  )

  it.scoped("E07 L03: a limit that another process writes to the settings file holds from the next group on", () =>
    Effect.gen(function* () {
      const gate = yield* gates
      const path = yield* fileWith('{ "agent-loop": { "maxParallelToolCalls": 2 } }')
      const world = yield* World.make({
        scripts: [call(...look("a", "b", "c"), touch("w"), ...look("d", "e")), call(...look("f", "g")), say("x")],
        body: gate.body,
        settingsLayer: layerOf({ path })
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* gate.entered("a", "b")
      const other = yield* opened({ path })
      yield* other.set(AgentLoop, { maxParallelToolCalls: 1 })
      yield* gate.letGo("a")
      yield* gate.entered("c")
      yield* gate.letGo("b", "c", "w")
      yield* gate.entered("d")
      // broken by hand: what was in force stays so
      writeFileSync(path, "{")
      yield* gate.letGo("d")
      yield* gate.entered("e")
      yield* gate.letGo("e")
      yield* gate.entered("f")
      yield* others
      assert.deepStrictEqual((yield* gate.log).slice(-5), ["+d", "-d", "+e", "-e", "+f"])
      yield* gate.letGo("f", "g")
      yield* agent.idle
    })
  )

  it.scoped("E08: a call runs beside others only where its tool says exactly so for these arguments", () =>
    Effect.gen(function* () {
      const maybe = (id: string) => ["maybe", { id }] as const
      const world = yield* World.make({ scripts: [call(maybe("a"), maybe("b"), maybe("alone"), maybe("c")), say("x")] })
      yield* prompt(yield* world.open())
      assert.strictEqual(calls(yield* world.log), "TC(c0) TC(c1) TR(c0) TR(c1) TC(c2) TR(c2) TC(c3) TR(c3)")
    })
  )

  it.scoped(
    "E10: any call is announced before its hook, also an unknown or a denied one, and its result cites that",
    () =>
      Effect.gen(function* () {
        const announced = yield* Ref.make(false)
        const world: World.World = yield* World.make({
          scripts: [call(["nobody", { id: "a" }], ...look("b")), say("x")],
          toolHooks: {
            before: ({ callId }) =>
              Effect.gen(function* () {
                yield* Ref.set(announced, calls(yield* world.log).includes(`TC(c${callId.at(-1)})`))
                return { _tag: "Deny", reason: "not now" } as const
              })
          }
        })
        yield* prompt(yield* world.open())
        assert.isTrue(yield* Ref.get(announced))
        assert.deepStrictEqual(codes(yield* world.log), ["UNKNOWN_TOOL", "TOOL_DENIED"])
        for (const result of of(yield* world.log, "tool/result"))
          assert.strictEqual(sourceSeqs(result.sourceEventSeqs ?? []).length, 1)
      })
  )

  it.scoped("E15: what a tool leaves for the next step is queued right after its result, in model order", () =>
    Effect.gen(function* () {
      const leave = (id: string) => Effect.flatMap(ToolCall, (it) => it.addContext(`note of ${id}`))
      const world = yield* World.make({
        scripts: [call(...look("a", "b")), say("x")],
        body: (id) => Effect.as(leave(id), id)
      })
      yield* prompt(yield* world.open())
      assert.match(yield* world.shorthand, /TR\(c0\) in\+ TR\(c1\) in\+ S>1 in- S<2 UM UM/)
      const sent = (yield* world.requests)[1]?.messages ?? []
      assert.deepStrictEqual(sent.slice(-2).map(textOf), ["note of a", "note of b"])
    })
  )

  it.scoped("E15 R4: what cancelled tools had left for the next step is not lost: the next prompt brings it", () =>
    Effect.gen(function* () {
      const ready = yield* Deferred.make<void>()
      const leave = (id: string) => Effect.flatMap(ToolCall, (it) => it.addContext(`note of ${id}`))
      const world = yield* World.make({
        scripts: [call(["touch", { id: "a" }], ["look", { id: "b" }], ["touch", { id: "c" }]), say("x")],
        body: (id) =>
          id === "a"
            ? Effect.as(leave(id), id)
            : Effect.zipRight(leave(id), Effect.zipRight(Deferred.succeed(ready, undefined), Effect.never))
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* Deferred.await(ready)
      yield* agent.cancel("user")
      assert.match(yield* world.shorthand, /TR\(c0\) in\+ TC\(c1\) TR\(c1\) in\+ TC\(c2\) TR\(c2\) S>1 T>\(aborted\)$/)
      assert.deepStrictEqual((yield* agent.pending).map(textOf), ["note of a", "note of b"])
      yield* agent.followup("next")
      yield* agent.idle
      const sent = (yield* world.requests)[1]?.messages ?? []
      assert.deepStrictEqual(sent.slice(-3).map(textOf), ["note of a", "note of b", "next"])
    })
  )

  it.scoped(
    "E11 O-A1 O-A2 O-A4 O-A8: a cancel keeps real results, cuts what runs, answers what never started; the next prompt works",
    () =>
      Effect.gen(function* () {
        const gate = yield* gates
        const world = yield* World.make({ scripts: [call(...look("a", "b"), touch("w")), say("x")], body: gate.body })
        const agent = yield* world.open()
        yield* agent.followup("go")
        yield* gate.entered("a", "b")
        yield* gate.letGo("a")
        yield* settled(world, 0)
        const cancelled = yield* agent.cancel("user")
        assert.deepInclude(cancelled, { _tag: "Settled", turn: 1, cause: "user", durable: true })
        const log = yield* world.log
        assert.match(World.shorthand(log), /TC\(c0\) TC\(c1\) TR\(c0\) TR\(c1\) TC\(c2\) TR\(c2\) S>1 T>\(aborted\)$/)
        assert.deepStrictEqual(codes(log), [undefined, "TOOL_ABORTED", "TOOL_ABORTED_BEFORE_DISPATCH"])
        yield* prompt(agent)
        assert.strictEqual((yield* world.requests).length, 2)
      })
  )

  it.scoped("R4: a body that may finish does, and its result says that it came after the cancel", () =>
    Effect.gen(function* () {
      const gate = yield* gates
      const world = yield* World.make({ scripts: [call(["finish", { id: "a" }])], body: gate.body })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* gate.entered("a")
      const cancel = yield* Effect.fork(agent.cancel("user"))
      yield* Effect.yieldNow()
      yield* gate.letGo("a")
      yield* Fiber.join(cancel)
      const [result] = of(yield* world.log, "tool/result")
      assert.deepStrictEqual(result?.data.meta, { finishedAfterCancel: true })
      assert.isFalse(result?.data.message.isError)
    })
  )

  it.scoped(
    "W07 E14 R6: a fault between groups: settled results stay, nothing is made up, the next request is acceptable",
    () =>
      Effect.gen(function* () {
        const reads = yield* Ref.make(0)
        const world = yield* World.make({
          scripts: [call(...look("a", "b"), touch("w")), say("well")],
          onSettingsRead: Effect.flatMap(
            Ref.getAndUpdate(reads, (n) => n + 1),
            (n) => (n === 1 ? Effect.die(new Error("the settings are gone")) : Effect.void)
          )
        })
        const agent = yield* world.open()
        yield* prompt(agent)
        const log = yield* world.log
        assert.match(World.shorthand(log), /TC\(c0\) TC\(c1\) TR\(c0\) TR\(c1\) S>1 T>\(error\)$/)
        yield* prompt(agent)
        const sent = (yield* world.requests)[1]?.messages ?? []
        assert.deepStrictEqual(sent.slice(-4).map(textOf), ["did a", "did b", neverStarted, "go"])
      })
  )

  it.scoped(
    "W07 O-Q5 E14 R6: a fault beside running bodies: they are awaited, what they settle with is kept, and the same session goes on",
    () =>
      Effect.gen(function* () {
        const gate = yield* gates
        const world = yield* World.make({
          scripts: [call(...look("bad", "b")), say("well")],
          body: gate.body,
          onCall: (block) =>
            block.arguments.includes("bad") ? Effect.die(new Error("the pipeline broke")) : Effect.void
        })
        const agent = yield* world.open()
        yield* agent.followup("go")
        yield* gate.entered("b")
        const idle = yield* Effect.fork(agent.idle)
        yield* others // the fault is known by now
        assert.isTrue(Option.isNone(yield* Fiber.poll(idle)))
        yield* gate.letGo("b")
        yield* Fiber.join(idle)
        assert.match(yield* world.shorthand, /TC\(c0\) TC\(c1\) TS\(c1\) S>1 T>\(error\)$/)
        assert.deepInclude(world.notices, {
          type: "error",
          turn: 1,
          failure: { message: "the pipeline broke", code: "UNKNOWN" }
        })
        yield* prompt(agent)
        const sent = (yield* world.requests)[1]?.messages ?? []
        assert.strictEqual(sent.filter((message) => message.role === "tool").length, 2)
        assert.include(sent.map(textOf), "did b")
      })
  )

  it.scoped(
    "R6 law 6 E14: a fault stays one when a cancel follows: bodies stop, what settled counts, no call reads as undispatched",
    () =>
      Effect.gen(function* () {
        const gate = yield* gates
        const world = yield* World.make({
          scripts: [call(...look("bad", "b", "c")), say("well")],
          body: gate.body,
          onCall: (block) =>
            block.arguments.includes("bad") ? Effect.die(new Error("the pipeline broke")) : Effect.void
        })
        const agent = yield* world.open()
        yield* agent.followup("go")
        yield* gate.entered("b", "c")
        yield* gate.letGo("b")
        yield* settled(world, 1)
        yield* others
        assert.deepInclude(yield* agent.cancel("user"), { _tag: "Settled", cause: "user", durable: true })
        assert.match(yield* world.shorthand, /TS\(c1\) TS\(c2\) S>1 T>\(error\)$/)
        yield* prompt(agent)
        const sent = ((yield* world.requests)[1]?.messages ?? []).filter((message) => message.role === "tool")
        assert.deepStrictEqual(sent.map(textOf), [outcomeUnknown, "did b", "Error: tool call aborted"])
      })
  )

  it.scoped("R6 law 6 E14: a fault is one also where it comes while a cancel waits", () =>
    Effect.gen(function* () {
      const gate = yield* gates
      const ready = yield* Deferred.make<void>()
      const fault = yield* Deferred.make<void>()
      const world = yield* World.make({
        scripts: [call(...look("bad", "b")), say("well")],
        body: gate.body,
        onCall: (block) =>
          block.arguments.includes("bad")
            ? Effect.uninterruptible(
                Deferred.succeed(ready, undefined).pipe(
                  Effect.zipRight(Deferred.await(fault)),
                  Effect.zipRight(Effect.die(new Error("the pipeline broke")))
                )
              )
            : Effect.void
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* Effect.zipRight(Deferred.await(ready), gate.entered("b"))
      const cancel = yield* Effect.fork(agent.cancel("user"))
      yield* settled(world, 1)
      yield* Deferred.succeed(fault, undefined)
      assert.deepInclude(yield* Fiber.join(cancel), { _tag: "Settled", cause: "user", durable: true })
      assert.match(yield* world.shorthand, /TC\(c0\) TC\(c1\) TS\(c1\) S>1 T>\(error\)$/)
    })
  )

  it.scoped("E14 R6: after a fault no further call starts, although there is room for one", () =>
    Effect.gen(function* () {
      const gate = yield* gates
      const world = yield* World.make({
        scripts: [call(...look("bad", "b", "c"), touch("w")), say("well")],
        body: gate.body,
        settings: { "agent-loop": { maxParallelToolCalls: 2 } },
        onCall: (block) => (block.arguments.includes("bad") ? Effect.die(new Error("the pipeline broke")) : Effect.void)
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* gate.entered("b")
      yield* others
      yield* gate.letGo("b", "c", "w")
      yield* agent.idle
      assert.deepStrictEqual(yield* gate.log, ["+b", "-b"])
      assert.strictEqual(calls(yield* world.log), "TC(c0) TC(c1) TS(c1)")
    })
  )

  it.scoped("E06 E07: a group never runs more at once than it was given, whatever the setting says meanwhile", () =>
    Effect.gen(function* () {
      const gate = yield* gates
      const world = yield* World.make({
        scripts: [call(...look("a", "b", "c", "d")), say("x")],
        body: gate.body,
        settings: { "agent-loop": { maxParallelToolCalls: 1 } }
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* gate.entered("a")
      yield* Effect.orDie(world.settings.set(AgentLoop, { maxParallelToolCalls: 3 }))
      yield* gate.letGo("a")
      yield* gate.entered("b")
      yield* others
      assert.deepStrictEqual(yield* gate.log, ["+a", "-a", "+b"])
      yield* gate.letGo("b", "c", "d")
      yield* agent.idle
      assert.deepStrictEqual(yield* gate.log, ["+a", "-a", "+b", "-b", "+c", "-c", "+d", "-d"])
    })
  )

  it.scoped("E07 E08: a call's mode is read just before it starts, not when its answer came", () =>
    Effect.gen(function* () {
      const gate = yield* gates
      const world = yield* World.make({ unchecked: true, settings: { "agent-loop": { maxParallelToolCalls: 2 } } })
      const session = yield* world.sessions.acquire(World.id, { cwd: "/workspace", create: "if-absent" })
      const step = { turn: 1, step: 1 }
      const block = (index: number): ToolCallBlock => ({
        type: "tool-call",
        callId: callId(1, 1, index),
        name: "any",
        arguments: "{}"
      })
      yield* session.append(() => [
        { type: "turn/start", data: { turn: 1 } },
        { type: "step/start", data: step },
        {
          type: "assistant/message",
          data: {
            ...step,
            message: { id: answerId(1, 1), role: "assistant", source: World.config, content: [0, 1, 2].map(block) },
            finish: "tool-calls"
          }
        }
      ])
      let isParallel = true
      const tool = { isParallel: () => isParallel }
      const run = Scheduler.run(
        {
          session,
          settings: world.settings,
          // all that the scheduler asks of a registry is the mode of a call
          tools: { find: () => Option.some(tool) } as unknown as Context.Tag.Service<Tools>,
          pipeline: {
            run: ({ callId }) => Effect.map(gate.body(callId), (done) => ({ content: [text(done)], isError: false }))
          }
        },
        step,
        () => false
      )
      const running = yield* Effect.fork(run)
      yield* gate.entered("t1s1c0", "t1s1c1")
      isParallel = false
      yield* gate.letGo("t1s1c0")
      yield* others
      assert.strictEqual(calls(yield* world.log), "TC(c0) TC(c1) TR(c0)")
      yield* gate.letGo("t1s1c1", "t1s1c2")
      yield* Fiber.join(running)
      yield* session.barrier
      assert.strictEqual(calls(yield* world.log), "TC(c0) TC(c1) TR(c0) TR(c1) TC(c2) TR(c2)")
    })
  )

  it.scoped("R4: a body that is cut while it runs leaves what it had put out, and an error is no late success", () =>
    Effect.gen(function* () {
      const gate = yield* gates
      const told = (id: string) => Effect.flatMap(ToolCall, (it) => it.onAbort(() => (id === "a" ? "half of it" : "")))
      const world = yield* World.make({
        scripts: [call(...look("a", "b"), ["finish", { id: "c" }])],
        body: (id) =>
          Effect.zipRight(told(id), id === "c" ? Effect.zipRight(gate.body(id), Effect.fail("no")) : gate.body(id))
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* gate.entered("a", "b", "c")
      const cancel = yield* Effect.fork(agent.cancel("user"))
      yield* others
      yield* gate.letGo("c")
      yield* Fiber.join(cancel)
      const results = of(yield* world.log, "tool/result")
      assert.deepStrictEqual(
        results.slice(0, 2).map((event) => textOf(event.data.message)),
        ["Error: tool call aborted. Its output until then:\nhalf of it", "Error: tool call aborted"]
      )
      assert.isTrue(results[2]?.data.message.isError)
      assert.isUndefined(results[2]?.data.meta)
    })
  )

  it.scoped("E12 R4 R7: a call that settled early before the cancel keeps its real result, in model order", () =>
    Effect.gen(function* () {
      const gate = yield* gates
      const world = yield* World.make({ scripts: [call(...look("a", "b"), touch("w"), touch("v"))], body: gate.body })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* gate.entered("a", "b")
      yield* gate.letGo("b")
      yield* settled(world, 1)
      yield* agent.cancel("user")
      const log = yield* world.log
      assert.match(World.shorthand(log), /TS\(c1\) TR\(c0\) TR\(c1\) TC\(c2\) TR\(c2\) TC\(c3\) TR\(c3\) S>1/)
      assert.deepStrictEqual(codes(log), [
        "TOOL_ABORTED",
        undefined,
        "TOOL_ABORTED_BEFORE_DISPATCH",
        "TOOL_ABORTED_BEFORE_DISPATCH"
      ])
    })
  )

  it.scoped("W25 law 6: a process is recorded durably before its call goes on", () =>
    Effect.gen(function* () {
      const held = yield* HeldJournal.make
      const recorded = yield* Ref.make(false)
      const identity = { pgid: 7, startTime: "1", bootId: "b" }
      const record = Effect.flatMap(ToolCall, (it) => Effect.orDie(it.recordProcess(identity)))
      const world = yield* World.make({
        journal: held.layer,
        scripts: [call(...look("a")), say("x")],
        body: () =>
          held.gate.close.pipe(Effect.zipRight(record), Effect.zipRight(Ref.set(recorded, true)), Effect.as("so"))
      })
      const agent = yield* world.open()
      yield* Effect.fork(agent.followup("go"))
      yield* others
      assert.isFalse(yield* Ref.get(recorded))
      yield* held.gate.open
      yield* agent.idle
      assert.match(yield* world.shorthand, /TC\(c0\) TP TR\(c0\) S>1/)
    })
  )

  it.effect("law 2: whatever order calls settle in, each has one result, in place, in model order", () =>
    Effect.promise(() =>
      FastCheck.assert(
        FastCheck.asyncProperty(
          FastCheck.array(FastCheck.constantFrom("look", "touch", "maybe"), { minLength: 1, maxLength: 6 }),
          FastCheck.infiniteStream(FastCheck.nat()),
          FastCheck.integer({ min: 1, max: 4 }),
          (names, picks, limit) => Effect.runPromise(Effect.scoped(randomSettling(names, picks, limit)))
        ),
        { numRuns: 150 }
      )
    )
  )
})

/** Bodies that end in the order that `picks` draws from those that run. */
const randomSettling = (names: ReadonlyArray<string>, picks: Iterable<number>, limit: number) =>
  Effect.gen(function* () {
    const running = new Map<string, Deferred.Deferred<void>>()
    const draw = picks[Symbol.iterator]()
    const world = yield* World.make({
      scripts: [call(...names.map((name, index) => [name, { id: `${index}` }] as const)), say("done")],
      settings: { "agent-loop": { maxParallelToolCalls: limit } },
      body: (id) =>
        Effect.gen(function* () {
          const open = yield* Deferred.make<void>()
          running.set(id, open)
          yield* Deferred.await(open)
          return `did ${id}`
        })
    })
    const agent = yield* world.open()
    yield* agent.followup("go")
    const idle = yield* Effect.fork(agent.idle)
    const release: Effect.Effect<void> = Effect.suspend(() => {
      const ids = [...running.keys()]
      const id = ids.length === 0 ? undefined : ids[Number(draw.next().value) % ids.length]
      const open = id === undefined ? undefined : running.get(id)
      if (id !== undefined) running.delete(id)
      return Effect.zipRight(
        open === undefined ? Effect.yieldNow() : Deferred.succeed(open, undefined),
        Effect.flatMap(Fiber.poll(idle), (exit) => (Option.isSome(exit) ? Effect.void : release))
      )
    })
    yield* release
    const sent = (yield* world.requests)[1]?.messages ?? []
    assert.deepStrictEqual(
      sent.filter((message) => message.role === "tool").map(textOf),
      names.map((_, index) => `did ${index}`)
    )
  })
