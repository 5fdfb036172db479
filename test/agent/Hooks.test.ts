/**
 * Hooks of several layers: those below come first, and each sees what the ones before it left.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Hooks from "../../src/agent/Hooks.ts"
import { callId, SessionId } from "../../src/domain/Ids.ts"
import { text } from "../../src/domain/Message.ts"
import { ChatError } from "../../src/model/ChatModel.ts"
import { call, say } from "../../src/model/ScriptedModel.ts"
import { Judgement } from "../../src/tool/Approvals.ts"
import * as ToolHooks from "../../src/tool/ToolHooks.ts"
import { said } from "../support/Facts.ts"
import { inputs, results } from "../support/Watching.ts"
import * as World from "../support/World.ts"

const place: Hooks.Place = { sessionId: SessionId.make("s"), turn: 1, step: 1 }
const broken = new Hooks.HookFailed({ sessionId: place.sessionId, hook: "pre-step", detail: "broken" })

/** The hooks of these layers, the first of them at the bottom. */
const inOrder = (...points: ReadonlyArray<Partial<Hooks.HookPoints>>) =>
  Effect.provide(
    Hooks.Hooks,
    points.reduce((below, own) => Layer.provide(Hooks.layer(own), below), Hooks.layer({}))
  )

describe("hooks of the loop", () => {
  it.effect("before a step: each sees what the one before lets enter, and a rejection is the last word", () =>
    Effect.gen(function* () {
      const adding = (id: string): Partial<Hooks.HookPoints> => ({
        preStep: (_, messages) => Effect.succeed({ _tag: "Enter", messages: [...messages, said(id, id)] })
      })
      const rejecting: Partial<Hooks.HookPoints> = {
        preStep: () => Effect.succeed({ _tag: "Reject", message: "no" })
      }
      const never: Partial<Hooks.HookPoints> = { preStep: () => Effect.die("it must not be asked") }
      const both = yield* inOrder(adding("a"), {}, adding("b"))
      assert.deepStrictEqual(yield* both.preStep(place, [said("p", "go")]), {
        _tag: "Enter",
        messages: [said("p", "go"), said("a", "a"), said("b", "b")]
      })
      const rejected = yield* inOrder(adding("a"), rejecting, never)
      assert.deepStrictEqual(yield* rejected.preStep(place, []), { _tag: "Reject", message: "no" })
      const failing = yield* inOrder({ preStep: () => Effect.fail(broken) }, never)
      assert.strictEqual(yield* Effect.flip(failing.preStep(place, [])), broken)
    })
  )

  it.effect("a request: each sees the config as the one before left it", () =>
    Effect.gen(function* () {
      const { request } = yield* inOrder(
        { request: (_, config) => Effect.succeed({ ...config, model: `${config.model}+a` }) },
        { request: (_, config) => Effect.succeed({ ...config, model: `${config.model}+b` }) }
      )
      assert.deepStrictEqual(yield* request(place, { model: "m" }), { model: "m+a+b" })
    })
  )

  it.effect("a failed request: the first that says other than the policy decides", () =>
    Effect.gen(function* () {
      const error = new ChatError({ reason: "SERVER", message: "down" })
      const decisions = ["policy", "retry", "give-up"] as const
      for (const first of decisions)
        for (const second of decisions) {
          const { requestError } = yield* inOrder(
            { requestError: () => Effect.succeed(first) },
            { requestError: () => Effect.succeed(second) }
          )
          assert.strictEqual(yield* requestError(place, error), first === "policy" ? second : first)
        }
    })
  )

  it.effect("a turn that stops: all of them, in order, up to the first that fails", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const noting = (name: string): Partial<Hooks.HookPoints> => ({
        stopping: () => Effect.sync(() => void seen.push(name))
      })
      yield* (yield* inOrder(noting("a"), noting("b"))).stopping(place)
      const failing = yield* inOrder(noting("c"), { stopping: () => Effect.fail(broken) }, noting("d"))
      yield* Effect.flip(failing.stopping(place))
      assert.deepStrictEqual(seen, ["a", "b", "c"])
    })
  )
})

describe("hooks around a tool", () => {
  const chained = (...points: ReadonlyArray<Partial<ToolHooks.ToolHookPoints>>) =>
    Effect.map(
      Effect.provide(
        ToolHooks.ToolHooks,
        points.reduce((below, own) => Layer.provide(ToolHooks.layer(own), below), ToolHooks.layer({}))
      ),
      ({ chain }) => chain
    )

  it.scoped("F02: before it the strictest judgement counts, and after the first denial nobody is asked", () =>
    Effect.gen(function* () {
      const judgements = {
        Allow: Judgement.Allow(),
        Ask: Judgement.Ask({ reason: "why" }),
        Deny: Judgement.Deny({ reason: "no" })
      }
      const order = ["Allow", "Ask", "Deny"] as const
      for (const first of order)
        for (const second of order) {
          const asked: Array<string> = []
          const judging = (name: string, judgement: Judgement) => ({
            before: () =>
              Effect.sync(() => {
                asked.push(name)
                return judgement
              })
          })
          const chain = yield* chained(judging("a", judgements[first]), {}, judging("b", judgements[second]))
          const judged = yield* ToolHooks.judge(
            { chain },
            {
              ...place,
              callId: callId(1, 1, 0),
              name: "look",
              arguments: {},
              annotations: { readonly: true, idempotent: true, destructive: false }
            }
          )
          assert.strictEqual(judged._tag, order[Math.max(order.indexOf(first), order.indexOf(second))])
          assert.deepStrictEqual(asked, first === "Deny" ? ["a"] : ["a", "b"])
        }
    })
  )

  it.scoped("F17: after it each sees the outcome as the one before left it, and one that fails is the last", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const seeing =
        (decide: (shown: string) => ToolHooks.After): ToolHooks.ToolHookPoints["after"] =>
        (_, { content }) =>
          Effect.sync(() => {
            const shown = content.map((block) => block.text).join("")
            seen.push(shown)
            return decide(shown)
          })
      const replacing = (mark: string) =>
        seeing((shown) => ToolHooks.After.Replace({ content: [text(`${shown}${mark}`)] }))
      const world = yield* World.make({
        scripts: [call(["look", { id: "fine" }], ["look", { id: "blocked" }], ["look", { id: "broken" }]), say("done")],
        body: (id) => Effect.succeed(id),
        toolHooks: [
          { after: replacing("+1") },
          {
            after: seeing((shown) =>
              shown.startsWith("blocked") ? ToolHooks.After.Block({ feedback: "bad" }) : ToolHooks.After.Accept()
            )
          },
          {
            after: (_, { content }) =>
              content[0]?.text.startsWith("broken") === true
                ? Effect.die("broken")
                : Effect.succeed(ToolHooks.After.Accept())
          },
          { after: replacing("+2") }
        ]
      })
      const agent = yield* world.open()
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      assert.deepStrictEqual(
        (yield* results(world)).map(({ code, text: shown }) => [code, shown]),
        [
          [undefined, "fine+1+2"],
          ["TOOL_DENIED", "Error: bad+2"],
          ["HOOK_FAILED", "Error: a hook after the tool failed, so its result is withheld: broken"]
        ]
      )
      assert.notInclude(seen, "broken+1+2")
      assert.deepStrictEqual(yield* inputs(world), ["go"])
    })
  )
})
