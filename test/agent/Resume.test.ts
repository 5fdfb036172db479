/**
 * Going on without a prompt: what waits is run; else a model is asked, once, to continue a turn that was cut off.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Hooks from "../../src/agent/Hooks.ts"
import { resumeText } from "../../src/agent/Machine.ts"
import type { SessionEvent } from "../../src/domain/Event.ts"
import { text, textOf } from "../../src/domain/Message.ts"
import * as Journal from "../../src/journal/Journal.ts"
import { call, fail, type Script, say, send } from "../../src/model/ScriptedModel.ts"
import { header } from "../contract/journal.ts"
import * as Facts from "../support/Facts.ts"
import { at, door, endings, inputs, of } from "../support/Watching.ts"
import * as World from "../support/World.ts"

/** A turn whose step has asked; its owner died with these events behind that. */
const died = (...events: ReadonlyArray<SessionEvent>): Facts.Log =>
  Facts.logOf(
    Facts.inserted("next-turn", 0, Facts.said("a", "Do it")),
    Facts.turnStart(1),
    Facts.claimed("next-turn", 0),
    Facts.stepStart(1, 1),
    Facts.input(Facts.said("a", "Do it")),
    Facts.header(),
    ...events
  )

/** A world whose session has this log, and an agent on it. */
const opened = (
  log: Facts.Log,
  options: World.Options,
  over: (journal: Journal.Journal["Type"]) => Journal.Journal["Type"] = (journal) => journal
) =>
  Effect.gen(function* () {
    const journal = over(yield* Effect.provide(Journal.Journal, Journal.layerMemory))
    const { summary } = Facts.stateOf(log)
    yield* journal.create(header({ id: World.id, cwd: "/workspace" }), { events: log, summary })
    const world = yield* World.make({ journal: Layer.succeed(Journal.Journal, journal), ...options })
    return { world, agent: yield* world.open() }
  })

const cutAnswer: Script = [send({ type: "text", index: 0, text: "half" }, { type: "finish", reason: "max-tokens" })]

describe("resume", () => {
  it.scoped(
    "Q06 O-Q3 O-Q4: a turn whose owner died is closed when opened, and nothing runs; resume asks once, and no more",
    () =>
      Effect.gen(function* () {
        const started = [
          Facts.answer(1, 1, [text("I touch it."), Facts.block(1, 1, 0, "touch")]),
          Facts.call([1, 1, 0], "touch")
        ]
        const { agent, world } = yield* opened(died(...started), { scripts: [say("All is well.")] })
        const before = yield* world.log
        assert.strictEqual(World.shorthand(before.slice(-3)), "TR(c0) S>1 T>(interrupted)")
        assert.deepStrictEqual([yield* agent.status, yield* world.requests], [{ _tag: "Idle", parked: 0 }, []])
        assert.isTrue(yield* agent.resume)
        assert.deepInclude(yield* agent.idle, { parked: 0 })
        const [request, ...more] = yield* world.requests
        assert.deepStrictEqual(more, [])
        const [asked, told] = request?.messages.toReversed() ?? []
        assert.deepInclude(asked, { role: "user", source: { kind: "resume" }, content: [text(resumeText)] })
        assert.include(told === undefined ? "" : textOf(told), "outcome unknown")
        const after = (yield* world.log).slice(before.length)
        assert.strictEqual(World.shorthand(after), "in+ T<2 in- S<1 UM RH(resume) ck AM S>1 T>(completed)")
        assert.isFalse(yield* agent.resume)
        assert.strictEqual((yield* world.log).length, before.length + after.length)
      })
  )

  it.scoped("law 7: what it is asked by and the start of its turn are one append", () =>
    Effect.gen(function* () {
      const batches: Array<string> = []
      const noting = (journal: Journal.Journal["Type"]): Journal.Journal["Type"] => ({
        ...journal,
        append: (appends) => {
          for (const { events } of appends) batches.push(World.shorthand(events))
          return journal.append(appends)
        }
      })
      const { agent } = yield* opened(died(), { scripts: [say("on")] }, noting)
      assert.isTrue(yield* agent.resume)
      yield* agent.idle
      assert.match(batches[0] ?? "", /^in\+ T<2/)
    })
  )

  const cutOff: ReadonlyArray<readonly [how: string, script: Script]> = [
    ["failed", [fail("AUTHENTICATION")]],
    ["was cut at its token limit", cutAnswer]
  ]
  for (const [how, script] of cutOff)
    it.scoped(`asks after a turn that ${how}, in the same process too`, () =>
      Effect.gen(function* () {
        const world = yield* World.make({ scripts: [script, say("on")] })
        const agent = yield* world.open()
        yield* Effect.zipRight(agent.followup("go"), agent.idle)
        assert.isTrue(yield* agent.resume)
        yield* agent.idle
        assert.deepStrictEqual(yield* inputs(world), ["go", resumeText])
        assert.strictEqual((yield* endings(world)).at(-1), "completed")
        assert.isFalse(yield* agent.resume)
      })
    )

  it.scoped("asks after a turn that was cancelled in its step", () =>
    Effect.gen(function* () {
      const half = yield* door
      const world = yield* World.make({ scripts: [at(half.pass), say("on")] })
      const agent = yield* world.open()
      yield* Effect.zipRight(agent.followup("go"), half.entered)
      yield* agent.cancel("user")
      assert.isTrue(yield* agent.resume)
      yield* agent.idle
      const [, request] = yield* world.requests
      assert.deepStrictEqual(request?.messages.map(textOf), ["go", "well", resumeText])
      assert.deepStrictEqual(yield* endings(world), ["aborted", "completed"])
    })
  )

  it.scoped("does nothing, and writes nothing, where no turn was cut off: none, a completed one, a blocked one", () =>
    Effect.gen(function* () {
      const reject: Hooks.PreStep = { _tag: "Reject", message: "not on Sundays" }
      for (const options of [{ scripts: [say("well")] }, { hooks: { preStep: () => Effect.succeed(reject) } }]) {
        const world = yield* World.make(options)
        const agent = yield* world.open()
        assert.isFalse(yield* agent.resume)
        yield* Effect.zipRight(agent.followup("go"), agent.idle)
        const before = yield* world.log
        assert.isFalse(yield* agent.resume)
        assert.deepStrictEqual([yield* agent.status, yield* world.log], [{ _tag: "Idle", parked: 0 }, before])
      }
    })
  )

  it.scoped("K02: a turn that took nothing does not count: the one before it decides", () =>
    Effect.gen(function* () {
      const assembly = yield* door
      let stands = false
      const sections = Effect.suspend(() => (stands ? Effect.as(assembly.pass, []) : Effect.succeed([])))
      const world = yield* World.make({ scripts: [say("well")], sections })
      const agent = yield* world.open()
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      stands = true
      yield* Effect.zipRight(agent.followup("taken back"), assembly.entered)
      yield* agent.cancel("user")
      assert.deepStrictEqual(yield* endings(world), ["completed", "aborted"])
      assert.isFalse(yield* agent.resume)
    })
  )

  it.scoped("B21: what waits is run instead, and injected input goes along with what is asked", () =>
    Effect.gen(function* () {
      const waits = Facts.followedBy(died(), Facts.inserted("next-turn", 0, Facts.said("b", "And that")))
      const one = yield* opened(waits, { scripts: [say("on")] })
      assert.isTrue(yield* one.agent.resume)
      yield* one.agent.idle
      assert.deepStrictEqual(yield* inputs(one.world), ["Do it", "And that"])
      const noted = Facts.followedBy(died(), Facts.inserted("next-step", 0, Facts.said("b", "Mind the gap", "inject")))
      const two = yield* opened(noted, { scripts: [say("on")] })
      assert.isTrue(yield* two.agent.resume)
      yield* two.agent.idle
      assert.deepStrictEqual(yield* inputs(two.world), ["Do it", "Mind the gap", resumeText])
    })
  )

  it.scoped("O-Q4: an owner that dies again while it goes on leaves it to the next one to ask, who must say so", () =>
    Effect.gen(function* () {
      const asked = Facts.said("r", resumeText, "resume")
      const first = Facts.followedBy(
        died(Facts.stepEnd(1, 1), Facts.turnEnd(1, "interrupted")),
        Facts.inserted("next-turn", 0, asked),
        Facts.turnStart(2)
      )
      // it died before the message was taken: that waits, and no second one is written
      const one = yield* opened(first, { scripts: [say("on")] })
      assert.deepStrictEqual(yield* one.world.requests, [])
      assert.isTrue(yield* one.agent.resume)
      yield* one.agent.idle
      assert.deepStrictEqual(yield* inputs(one.world), ["Do it", resumeText])
      // it died after that: the next one asks again, and only when it is told to
      const second = Facts.followedBy(
        first,
        Facts.claimed("next-turn", 0),
        Facts.stepStart(2, 1),
        Facts.input(asked),
        Facts.header("resume")
      )
      const two = yield* opened(second, { scripts: [call(["look", { id: "a" }]), say("on")] })
      assert.deepStrictEqual(yield* two.world.requests, [])
      assert.isTrue(yield* two.agent.resume)
      yield* two.agent.idle
      assert.deepStrictEqual(yield* inputs(two.world), ["Do it", resumeText, resumeText])
      const ids = of(yield* two.world.log, "user/message").map(({ data }) => data.id)
      assert.strictEqual(new Set(ids).size, 3)
      assert.isFalse(yield* two.agent.resume)
    })
  )

  it.scoped("a cancel takes back what nobody has taken up, and keeps it where it keeps what waits", () =>
    Effect.gen(function* () {
      for (const keepInbox of [false, true]) {
        const assembly = yield* door
        let stands = true
        const sections = Effect.suspend(() => (stands ? Effect.as(assembly.pass, []) : Effect.succeed([])))
        const { agent, world } = yield* opened(died(), { scripts: [say("on")], sections })
        assert.isTrue(yield* agent.resume)
        yield* assembly.entered
        yield* agent.cancel("user", { keepInbox })
        stands = false
        assert.deepStrictEqual((yield* agent.pending).map(textOf), keepInbox ? [resumeText] : [])
        assert.isTrue(yield* agent.resume)
        yield* agent.idle
        assert.deepStrictEqual(yield* inputs(world), ["Do it", resumeText])
        assert.strictEqual(of(yield* world.log, "agent/inbox/spliced").length, keepInbox ? 4 : 6)
      }
    })
  )
})
