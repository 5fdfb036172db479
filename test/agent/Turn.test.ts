import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import type { Agent } from "../../src/agent/Agent.ts"
import { HookFailed } from "../../src/agent/Hooks.ts"
import type { EventOf, StoredEvent, StoredOf } from "../../src/domain/Event.ts"
import { MessageId } from "../../src/domain/Ids.ts"
import { text, type UserMessage } from "../../src/domain/Message.ts"
import { call, die, fail, say, send, wait } from "../../src/model/ScriptedModel.ts"
import { ToolCall } from "../../src/tool/ToolCall.ts"
import { sourceSeqs } from "../support/Facts.ts"
import * as World from "../support/World.ts"

const prompt = (agent: Agent, text: string) => Effect.zipRight(agent.followup(text), agent.idle)

const of = <T extends StoredEvent["type"]>(log: ReadonlyArray<StoredEvent>, type: T) =>
  log.filter((event): event is StoredOf<T> => event.type === type)

const ending = (log: ReadonlyArray<StoredEvent>): EventOf<"turn/end">["data"]["reason"] | undefined =>
  of(log, "turn/end").at(-1)?.data.reason

describe("a turn", () => {
  it.scoped("A01: a prompt, its answer, and nothing else; the answer cites exactly its chunks", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [say("hello there")] })
      const agent = yield* world.open()
      const report = yield* prompt(agent, "hello")
      const log = yield* world.log
      assert.strictEqual(World.shorthand(log), "in+ T<1 in- S<1 UM RH(initial) ck AM S>1 T>(completed)")
      const [answer] = of(log, "assistant/message")
      assert.deepStrictEqual(
        sourceSeqs(answer?.sourceEventSeqs ?? []),
        of(log, "assistant/chunk").map((chunk) => chunk.seq)
      )
      assert.deepStrictEqual(Option.getOrThrow(report.last).ending, { kind: "completed" })
    })
  )

  it.scoped("A02: when a send returns, its turn is open and the status says so", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const world = yield* World.make({ scripts: [[wait(Deferred.await(gate)), ...say("done")]] })
      const agent = yield* world.open()
      yield* agent.followup("go")
      assert.deepStrictEqual(
        (yield* world.log).slice(0, 2).map((event) => event.type),
        ["agent/inbox/spliced", "turn/start"]
      )
      assert.strictEqual((yield* agent.status)._tag, "Running")
      yield* Deferred.succeed(gate, undefined)
      yield* agent.idle
    })
  )

  it.scoped("A03 law 3: tools, then text: one turn, two steps, one header", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [call(["look", { id: "a" }]), say("done")] })
      yield* prompt(yield* world.open(), "look")
      assert.strictEqual(
        yield* world.shorthand,
        "in+ T<1 in- S<1 UM RH(initial) ck AM TC(c0) TR(c0) S>1 S<2 ck AM S>2 T>(completed)"
      )
    })
  )

  it.scoped("A04: turns count on, steps start again", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [say("one"), say("two")] })
      const agent = yield* world.open()
      yield* prompt(agent, "1")
      yield* prompt(agent, "2")
      const log = yield* world.log
      assert.deepStrictEqual(
        of(log, "step/start").map((event) => event.data),
        [
          { turn: 1, step: 1 },
          { turn: 2, step: 1 }
        ]
      )
    })
  )

  it.scoped("A05: a batch that the hook empties opens no step and calls no model", () =>
    Effect.gen(function* () {
      const world = yield* World.make({
        hooks: { preStep: () => Effect.succeed({ _tag: "Enter", messages: [] }) }
      })
      yield* prompt(yield* world.open(), "nothing")
      assert.strictEqual(yield* world.shorthand, "in+ T<1 in- T>(completed)")
      assert.deepStrictEqual(yield* world.requests, [])
    })
  )

  it.scoped("A05: a message that is removed before the first step opens no step", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const inHook = yield* Deferred.make<void>()
      const world = yield* World.make({
        hooks: {
          preStep: (_place, messages) =>
            Deferred.succeed(inHook, undefined).pipe(
              Effect.zipRight(Deferred.await(gate)),
              Effect.as({ _tag: "Enter", messages })
            )
        }
      })
      const agent = yield* world.open()
      const id = yield* agent.followup("never mind")
      yield* Deferred.await(inHook)
      assert.isTrue(yield* agent.remove(id))
      assert.isFalse(yield* agent.remove(id))
      yield* Deferred.succeed(gate, undefined)
      yield* agent.idle
      assert.strictEqual(yield* world.shorthand, "in+ T<1 in× T>(completed)")
    })
  )

  it.scoped("A05 W32: a batch of nothing but blanks opens no step", () =>
    Effect.gen(function* () {
      const world = yield* World.make({
        hooks: {
          preStep: (_place, messages) =>
            Effect.succeed({
              _tag: "Enter",
              messages: messages.map((message) => ({ ...message, content: [text(" ")] }))
            })
        }
      })
      yield* prompt(yield* world.open(), "nothing")
      assert.strictEqual(yield* world.shorthand, "in+ T<1 in- T>(completed)")
    })
  )

  it.scoped(
    "law 1: a hook that enters a message twice, at once or again later, fails its turn before anything is sent",
    () =>
      Effect.gen(function* () {
        const fixed = {
          id: MessageId.make("fixed"),
          role: "user",
          source: { kind: "prompt" },
          content: [text("hi")]
        } as const
        for (const entering of [
          (offered: ReadonlyArray<UserMessage>) => [...offered, ...offered],
          (offered: ReadonlyArray<UserMessage>) => [...offered, fixed]
        ]) {
          const world = yield* World.make({
            scripts: [say("ok")],
            hooks: {
              preStep: (_place, offered) => Effect.succeed({ _tag: "Enter", messages: entering(offered) })
            },
            unchecked: true
          })
          const agent = yield* world.open()
          yield* prompt(agent, "one")
          yield* prompt(agent, "two")
          assert.strictEqual(ending(yield* world.log)?.kind, "error")
          assert.isAtMost((yield* world.requests).length, 1)
        }
      })
  )

  it.scoped("O-O1 O-O2: ill-formed text of a failure is stored well-formed", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [[fail("QUOTA", "half \ud83d and \0")]] })
      yield* prompt(yield* world.open(), "go")
      const end = ending(yield* world.log)
      assert.strictEqual(end?.kind === "error" ? end.error.message : "", "half \uFFFD and \uFFFD")
    })
  )

  it.scoped("A06 W10: a prompt behind an empty or a blocked turn runs all the same", () =>
    Effect.gen(function* () {
      const world = yield* World.make({
        scripts: [say("third")],
        hooks: {
          preStep: ({ turn }, messages) =>
            Effect.succeed(
              turn === 1
                ? { _tag: "Enter", messages: [] }
                : turn === 2
                  ? { _tag: "Reject", message: "not today" }
                  : { _tag: "Enter", messages }
            )
        }
      })
      const agent = yield* world.open()
      yield* Effect.all([agent.followup("1"), agent.followup("2"), agent.followup("3")], { concurrency: 3 })
      yield* agent.idle
      assert.deepStrictEqual(
        of(yield* world.log, "turn/end").map((event) => event.data.reason.kind),
        ["completed", "blocked", "completed"]
      )
    })
  )

  it.scoped("A07: a rejected turn claims its input, opens no step and logs no message", () =>
    Effect.gen(function* () {
      const world = yield* World.make({
        hooks: { preStep: () => Effect.succeed({ _tag: "Reject", message: "no" }) }
      })
      yield* prompt(yield* world.open(), "please")
      assert.strictEqual(yield* world.shorthand, "in+ T<1 in- T>(blocked)")
      assert.deepStrictEqual(ending(yield* world.log), { kind: "blocked", message: "no" })
    })
  )

  it.scoped("A08 W09: a pre-step hook that fails or dies ends the turn as error, and the prompt still waits", () =>
    Effect.gen(function* () {
      for (const failure of [
        Effect.fail(new HookFailed({ sessionId: World.id, hook: "pre-step", detail: "broken" })),
        Effect.die(new Error("broken"))
      ]) {
        const world = yield* World.make({ hooks: { preStep: () => failure } })
        const agent = yield* world.open()
        const report = yield* prompt(agent, "hold on to this")
        assert.strictEqual(yield* world.shorthand, "in+ T<1 T>(error)")
        const end = ending(yield* world.log)
        assert.strictEqual(end?.kind === "error" ? end.error.code : "", "UNKNOWN")
        assert.strictEqual(report.parked, 1)
        assert.strictEqual((yield* agent.pending).length, 1)
      }
    })
  )

  it.scoped("A09: what the hook returns is what enters, in its order", () =>
    Effect.gen(function* () {
      const world = yield* World.make({
        scripts: [say("ok")],
        hooks: {
          preStep: (_place, messages) =>
            Effect.succeed({
              _tag: "Enter",
              messages: [...messages, ...messages.map((message) => ({ ...message, content: [text("again")] }))]
                .map((message, index) => ({ ...message, id: message.id.concat(String(index)) as typeof message.id }))
                .reverse()
            })
        },
        unchecked: true
      })
      yield* prompt(yield* world.open(), "first")
      assert.strictEqual(yield* world.shorthand, "in+ T<1 in- S<1 UM UM RH(initial) ck AM S>1 T>(completed)")
      assert.deepStrictEqual(
        of(yield* world.log, "user/message").map((event) => event.data.content),
        [[text("again")], [text("first")]]
      )
    })
  )

  it.scoped("A11 law 3: every way out of a turn closes its step first and ends it once", () =>
    Effect.gen(function* () {
      const ways = {
        completed: [say("fine")],
        error: [[fail("AUTHENTICATION", "no key")]],
        "max-tokens": [[send({ type: "text", index: 0, text: "half" }, { type: "finish", reason: "max-tokens" })]]
      }
      for (const [kind, scripts] of Object.entries(ways)) {
        const world = yield* World.make({ scripts })
        yield* prompt(yield* world.open(), "go")
        const log = yield* world.log
        assert.match(World.shorthand(log), new RegExp(`S>1 T>\\(${kind}\\)$`))
        assert.strictEqual(of(log, "turn/end").length, 1)
      }
    })
  )

  it.scoped("A12 D14: a provider's error ends the turn with what it said; what it streamed enters no request", () =>
    Effect.gen(function* () {
      const world = yield* World.make({
        scripts: [[send({ type: "text", index: 0, text: "half a" }), fail("AUTHENTICATION", "key refused")], say("b")]
      })
      const agent = yield* world.open()
      yield* prompt(agent, "go")
      assert.strictEqual(yield* world.shorthand, "in+ T<1 in- S<1 UM RH(initial) ck S>1 T>(error)")
      assert.deepStrictEqual(ending(yield* world.log), {
        kind: "error",
        error: { message: "key refused", code: "AUTHENTICATION" }
      })
      yield* prompt(agent, "again")
      assert.notInclude(JSON.stringify((yield* world.requests).at(-1)), "half a")
    })
  )

  it.scoped("A13: any other failure in a step is an error that tells its whole cause", () =>
    Effect.gen(function* () {
      const world = yield* World.make({
        hooks: { request: () => Effect.die(new Error("outer", { cause: new Error("inner") })) }
      })
      yield* prompt(yield* world.open(), "go")
      assert.deepStrictEqual(ending(yield* world.log), {
        kind: "error",
        error: { message: "outer: inner", code: "UNKNOWN" }
      })
    })
  )

  it.scoped("A14: no call of an answer cut by its limit runs", () =>
    Effect.gen(function* () {
      const world = yield* World.make({
        scripts: [
          [
            send(
              { type: "text", index: 0, text: "so" },
              { type: "tool-call", index: 1, id: "x", name: "look", arguments: '{"id":' },
              { type: "finish", reason: "max-tokens" }
            )
          ]
        ]
      })
      yield* prompt(yield* world.open(), "go")
      const log = yield* world.log
      assert.strictEqual(World.shorthand(log), "in+ T<1 in- S<1 UM RH(initial) ck AM S>1 T>(max-tokens)")
      assert.deepStrictEqual(of(log, "assistant/message")[0]?.data.message.content, [{ type: "text", text: "so" }])
    })
  )

  it.scoped("A14: a turn cut once stays cut, also when a steered step follows", () =>
    Effect.gen(function* () {
      const streaming = yield* Deferred.make<void>()
      const gate = yield* Deferred.make<void>()
      const world = yield* World.make({
        scripts: [
          [
            send({ type: "text", index: 0, text: "so" }),
            wait(Effect.zipRight(Deferred.succeed(streaming, undefined), Deferred.await(gate))),
            send({ type: "finish", reason: "max-tokens" })
          ],
          say("steered")
        ]
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* Deferred.await(streaming)
      yield* agent.steer("go on")
      yield* Deferred.succeed(gate, undefined)
      yield* agent.idle
      assert.deepStrictEqual(ending(yield* world.log), { kind: "max-tokens" })
      assert.strictEqual((yield* world.requests).length, 2)
    })
  )

  it.scoped("A16: a call that concludes ends the turn after its batch, if it succeeded", () =>
    Effect.gen(function* () {
      const conclude = Effect.flatMap(ToolCall, (call) => call.conclude)
      const world = yield* World.make({
        scripts: [call(["look", { id: "end" }], ["look", { id: "b" }]), call(["look", { id: "fail" }]), say("so")],
        body: (id) =>
          id === "end"
            ? Effect.as(conclude, "ended")
            : id === "fail"
              ? Effect.zipRight(conclude, Effect.fail("did not work"))
              : Effect.succeed(id)
      })
      const agent = yield* world.open()
      yield* prompt(agent, "go")
      assert.match(yield* world.shorthand, /TR\(c0\) TR\(c1\) S>1 T>\(completed\)$/)
      assert.strictEqual((yield* world.requests).length, 1)
      yield* prompt(agent, "again")
      assert.strictEqual((yield* world.requests).length, 3)
    })
  )

  it.scoped("A18: three prompts in one tick are three turns, in order, without an idle status between", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [say("1"), say("2"), say("3")] })
      const agent = yield* world.open()
      const statuses = yield* Ref.make<ReadonlyArray<string>>([])
      yield* agent.events.pipe(
        Stream.runForEach((item) =>
          item.type === "status" ? Ref.update(statuses, (all) => [...all, item.status._tag]) : Effect.void
        ),
        Effect.fork
      )
      yield* Effect.yieldNow()
      yield* Effect.all(["a", "b", "c"].map(agent.followup), { concurrency: 3 })
      yield* agent.idle
      const log = yield* world.log
      assert.deepStrictEqual(
        of(log, "user/message").map((event) => event.data.content[0]?.text),
        ["a", "b", "c"]
      )
      assert.strictEqual(of(log, "turn/start").length, 3)
      yield* Effect.yieldNow()
      assert.deepStrictEqual(
        (yield* Ref.get(statuses)).filter((tag) => tag === "Idle"),
        ["Idle"]
      )
    })
  )

  it.scoped("A20: without a provider and a model the step fails before any request", () =>
    Effect.gen(function* () {
      const world = yield* World.make({})
      const agent = yield* world.open({ config: {} })
      yield* prompt(agent, "go")
      assert.strictEqual(yield* world.shorthand, "in+ T<1 in- S<1 UM S>1 T>(error)")
      const end = ending(yield* world.log)
      assert.include(end?.kind === "error" ? end.error.message : "", "provider")
    })
  )

  it.scoped("A21: a retry stays in its step; each attempt's chunks stay in the log, the answer cites its own", () =>
    Effect.gen(function* () {
      const world = yield* World.make({
        scripts: [[send({ type: "text", index: 0, text: "lost" }), fail("SERVER", "oops")], say("found")]
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      const idle = yield* Effect.fork(agent.idle)
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(idle)
      const log = yield* world.log
      assert.strictEqual(World.shorthand(log), "in+ T<1 in- S<1 UM RH(initial) ck RR ck AM S>1 T>(completed)")
      const [answer] = of(log, "assistant/message")
      assert.deepStrictEqual(
        sourceSeqs(answer?.sourceEventSeqs ?? []),
        of(log, "assistant/chunk")
          .slice(1)
          .map((chunk) => chunk.seq)
      )
      assert.notInclude(JSON.stringify(answer), "lost")
    })
  )

  it.scoped("A21 O02: the request-error hook may retry what the policy would not, or give up what it would retry", () =>
    Effect.gen(function* () {
      for (const [decision, reason, requests] of [
        ["retry", "QUOTA", 2],
        ["give-up", "SERVER", 1],
        ["policy", "QUOTA", 1]
      ] as const) {
        const world = yield* World.make({
          scripts: [[fail(reason)], say("found")],
          hooks: { requestError: () => Effect.succeed(decision) }
        })
        const agent = yield* world.open()
        yield* agent.followup("go")
        const idle = yield* Effect.fork(agent.idle)
        yield* TestClock.adjust("1 minute")
        yield* Fiber.join(idle)
        assert.strictEqual((yield* world.requests).length, requests, decision)
      }
    })
  )

  it.scoped("A08 A12 D14: a hook that fails after a failed attempt leaves its chunks once", () =>
    Effect.gen(function* () {
      const world = yield* World.make({
        scripts: [[send({ type: "text", index: 0, text: "lost" }), fail("SERVER")]],
        hooks: { requestError: () => Effect.die(new Error("broken")) }
      })
      yield* prompt(yield* world.open(), "go")
      assert.strictEqual(yield* world.shorthand, "in+ T<1 in- S<1 UM RH(initial) ck S>1 T>(error)")
      assert.strictEqual(of(yield* world.log, "assistant/chunk").length, 1)
    })
  )

  it.scoped("A07: a step that a hook refuses after tools ran ends the turn blocked, with its steps closed", () =>
    Effect.gen(function* () {
      const world = yield* World.make({
        scripts: [call(["look", { id: "a" }])],
        hooks: {
          preStep: ({ step }, messages) =>
            Effect.succeed(step === 1 ? { _tag: "Enter", messages } : { _tag: "Reject", message: "enough" })
        }
      })
      yield* prompt(yield* world.open(), "go")
      assert.match(yield* world.shorthand, /TR\(c0\) S>1 T>\(blocked\)$/)
    })
  )

  it.scoped("A14 A07: a cut turn that is blocked afterwards says so", () =>
    Effect.gen(function* () {
      const holder = yield* Deferred.make<Agent>()
      const cut = send({ type: "text", index: 0, text: "so" }, { type: "finish", reason: "max-tokens" })
      const world = yield* World.make({
        scripts: [[cut]],
        hooks: {
          preStep: ({ step }, messages) =>
            Effect.succeed(step === 1 ? { _tag: "Enter", messages } : { _tag: "Reject", message: "enough" }),
          stopping: () => Effect.orDie(Effect.flatMap(Deferred.await(holder), (agent) => agent.steer("more")))
        }
      })
      const agent = yield* world.open()
      yield* Deferred.succeed(holder, agent)
      yield* prompt(agent, "go")
      assert.deepStrictEqual(ending(yield* world.log), { kind: "blocked", message: "enough" })
    })
  )

  it.scoped("A05 B03: the stopping hook is asked also where the last boundary let nothing enter", () =>
    Effect.gen(function* () {
      const holder = yield* Deferred.make<Agent>()
      const asked = yield* Ref.make(0)
      const inject = Effect.flatMap(Deferred.await(holder), (agent) => Effect.orDie(agent.inject("x")))
      const world = yield* World.make({
        scripts: [[wait(inject), ...say("one")]],
        hooks: {
          preStep: ({ step }, messages) => Effect.succeed({ _tag: "Enter", messages: step === 1 ? messages : [] }),
          stopping: () => Ref.update(asked, (n) => n + 1)
        }
      })
      const agent = yield* world.open()
      yield* Deferred.succeed(holder, agent)
      yield* prompt(agent, "go")
      assert.match(yield* world.shorthand, /S>1 in- T>\(completed\)$/)
      assert.strictEqual(yield* Ref.get(asked), 1)
    })
  )

  it.scoped("A16 B03: input that waits does not keep a concluded turn going", () =>
    Effect.gen(function* () {
      const holder = yield* Deferred.make<Agent>()
      const inject = Effect.orDie(Effect.flatMap(Deferred.await(holder), (agent) => agent.inject("x")))
      const world = yield* World.make({
        scripts: [call(["look", { id: "a" }]), say("never")],
        body: () => Effect.flatMap(ToolCall, (it) => Effect.as(Effect.zipRight(inject, it.conclude), "done"))
      })
      const agent = yield* world.open()
      yield* Deferred.succeed(holder, agent)
      yield* prompt(agent, "go")
      assert.match(yield* world.shorthand, /TR\(c0\) S>1 T>\(completed\)$/)
      assert.strictEqual((yield* agent.pending).length, 1)
    })
  )

  it.scoped("A05 W32: after tools a step follows, also where the hook lets nothing enter", () =>
    Effect.gen(function* () {
      const world = yield* World.make({
        scripts: [call(["look", { id: "a" }]), say("done")],
        hooks: {
          preStep: ({ step }, messages) => Effect.succeed({ _tag: "Enter", messages: step === 1 ? messages : [] })
        }
      })
      yield* prompt(yield* world.open(), "go")
      assert.match(yield* world.shorthand, /S>1 S<2 ck AM S>2 T>\(completed\)$/)
    })
  )

  it.scoped("R8: what is removed while the hook decides is neither claimed nor told of; the rest enters", () =>
    Effect.gen(function* () {
      const holder = yield* Deferred.make<Agent>()
      const world = yield* World.make({
        scripts: [say("ok")],
        hooks: {
          preStep: (_, messages) =>
            Effect.gen(function* () {
              const [first] = messages
              const agent = yield* Deferred.await(holder)
              if (first !== undefined) yield* Effect.orDie(agent.remove(first.id))
              return { _tag: "Enter", messages } as const
            })
        }
      })
      const agent = yield* world.open()
      const claimed = yield* Ref.make<ReadonlyArray<string>>([])
      yield* agent.events.pipe(
        Stream.runForEach((item) =>
          item.type === "claimed" ? Ref.update(claimed, (all) => [...all, ...item.ids]) : Effect.void
        ),
        Effect.fork
      )
      yield* Effect.replicateEffect(Effect.yieldNow(), 20)
      const gone = yield* agent.inject("gone")
      const kept = yield* agent.followup("kept")
      yield* Deferred.succeed(holder, agent)
      yield* agent.idle
      yield* Effect.replicateEffect(Effect.yieldNow(), 20)
      assert.deepStrictEqual(yield* Ref.get(claimed), [kept])
      assert.notInclude(yield* Ref.get(claimed), gone)
      assert.deepStrictEqual(
        of(yield* world.log, "user/message").map((event) => event.data.content),
        [[text("kept")]]
      )
    })
  )

  it.scoped("P07: options hold for the first request of an owner, the restored log only where there are none", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [say("1"), say("2"), say("3")] })
      const other = { provider: "scripted", model: "other" }
      yield* Effect.scoped(Effect.flatMap(world.open(), (agent) => prompt(agent, "1")))
      yield* Effect.scoped(Effect.flatMap(world.open({ config: other }), (agent) => prompt(agent, "2")))
      const bare = yield* world.sessions.acquire(World.id, { cwd: "/workspace", create: "never" }).pipe(Effect.scoped)
      assert.deepStrictEqual(bare.unsafeState().header?.data.config, other)
      assert.deepStrictEqual(
        (yield* world.requests).map((request) => request.config.model),
        ["script", "other"]
      )
    })
  )

  it.scoped("A20: an empty provider or model is none", () =>
    Effect.gen(function* () {
      for (const config of [
        { provider: "", model: "m" },
        { provider: "p", model: "" }
      ]) {
        const world = yield* World.make({})
        const agent = yield* world.open({ config })
        yield* prompt(agent, "go")
        const end = ending(yield* world.log)
        assert.include(end?.kind === "error" ? end.error.message : "", config.model === "" ? "model" : "provider")
      }
    })
  )

  it.scoped("D11: an empty answer is an answer, adds no message, and keeps its usage", () =>
    Effect.gen(function* () {
      const usage = { inputTokens: 3, outputTokens: 0 }
      const world = yield* World.make({ scripts: [[send({ type: "usage", usage })], [], say("well")] })
      const agent = yield* world.open()
      yield* prompt(agent, "go")
      yield* prompt(agent, "go on")
      yield* prompt(agent, "and")
      const answers = of(yield* world.log, "assistant/message")
      assert.deepStrictEqual(answers[0]?.data.usage, usage)
      assert.deepStrictEqual(answers[1]?.sourceEventSeqs, [])
      assert.deepStrictEqual(
        (yield* world.requests).at(-1)?.messages.map((message) => message.role),
        ["user", "user", "user"]
      )
    })
  )

  it.scoped("D15: a stream that dies is a failure, and the next prompt works", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [[die(new Error("adapter broke"))], say("well")] })
      const agent = yield* world.open()
      yield* prompt(agent, "go")
      const end = ending(yield* world.log)
      assert.include(end?.kind === "error" ? end.error.message : "", "adapter broke")
      yield* prompt(agent, "again")
      assert.strictEqual(ending(yield* world.log)?.kind, "completed")
    })
  )

  it.scoped(
    "D15 O09: a stream that dies or interrupts itself is a failed request: its hook is asked and may retry",
    () =>
      Effect.gen(function* () {
        for (const broken of [die(new Error("adapter broke")), wait(Effect.interrupt)]) {
          const reasons = yield* Ref.make<ReadonlyArray<string>>([])
          const world = yield* World.make({
            scripts: [[broken], say("found")],
            hooks: {
              requestError: (_, error) =>
                Effect.as(
                  Ref.update(reasons, (all) => [...all, error.reason]),
                  "retry" as const
                )
            }
          })
          const agent = yield* world.open()
          yield* agent.followup("go")
          const idle = yield* Effect.fork(agent.idle)
          yield* TestClock.adjust("1 minute")
          yield* Fiber.join(idle)
          assert.deepStrictEqual(yield* Ref.get(reasons), ["UNKNOWN"])
          assert.deepStrictEqual(ending(yield* world.log), { kind: "completed" })
        }
      })
  )

  it.scoped("P01 P08: the prompt is put together anew each step, and a change shows in the header", () =>
    Effect.gen(function* () {
      const sections = yield* Ref.make([
        { name: "z", order: 20, text: "last" },
        { name: "empty", order: 5, text: "  " },
        { name: "a", order: 0, text: "first" }
      ])
      const world = yield* World.make({
        scripts: [call(["look", { id: "x" }]), say("done")],
        sections: Ref.get(sections),
        body: () =>
          Effect.as(
            Ref.update(sections, (all) => all.slice(2)),
            "dropped a section"
          )
      })
      yield* prompt(yield* world.open(), "go")
      const headers = of(yield* world.log, "request/header")
      assert.deepStrictEqual(
        headers.map((event) => [event.data.reason, event.data.system]),
        [
          ["initial", "first\n\nlast"],
          ["change", "first"]
        ]
      )
    })
  )

  it.scoped("P07: a route that the request hook chose once stays", () =>
    Effect.gen(function* () {
      const world = yield* World.make({
        scripts: [say("one"), say("two")],
        hooks: {
          request: ({ turn }, config) =>
            Effect.succeed(turn === 1 ? { ...config, model: "other", maxTokens: 7 } : config)
        }
      })
      const agent = yield* world.open()
      yield* prompt(agent, "1")
      yield* prompt(agent, "2")
      assert.deepStrictEqual(
        (yield* world.requests).map((request) => request.config),
        [
          { provider: "scripted", model: "other", maxTokens: 7 },
          { provider: "scripted", model: "other", maxTokens: 7 }
        ]
      )
      assert.strictEqual(of(yield* world.log, "request/header").length, 1)
    })
  )

  it.scoped("H06: the first request after a restore says resume", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [say("one"), say("two")] })
      yield* Effect.scoped(Effect.flatMap(world.open(), (agent) => prompt(agent, "1")))
      yield* Effect.scoped(Effect.flatMap(world.open(), (agent) => prompt(agent, "2")))
      assert.deepStrictEqual(
        of(yield* world.log, "request/header").map((event) => event.data.reason),
        ["initial", "resume"]
      )
    })
  )

  it.scoped("a stopping hook that steers gives the turn another step", () =>
    Effect.gen(function* () {
      const holder = yield* Deferred.make<Agent>()
      const steered = yield* Ref.make(false)
      const world = yield* World.make({
        scripts: [say("one"), say("two")],
        hooks: {
          stopping: () =>
            Effect.gen(function* () {
              if (yield* Ref.getAndSet(steered, true)) return
              yield* Effect.orDie(Effect.flatMap(Deferred.await(holder), (agent) => agent.steer("one more thing")))
            })
        }
      })
      const agent = yield* world.open()
      yield* Deferred.succeed(holder, agent)
      yield* prompt(agent, "go")
      assert.match(yield* world.shorthand, /S>1 in\+ in- S<2 UM ck AM S>2 T>\(completed\)$/)
    })
  )
})
