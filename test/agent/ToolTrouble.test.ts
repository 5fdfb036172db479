import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { ChatChunk } from "../../src/domain/Chunk.ts"
import type { StoredEvent } from "../../src/domain/Event.ts"
import type { ChatRequest } from "../../src/domain/Request.ts"
import { call, say, send } from "../../src/model/ScriptedModel.ts"
import * as Approvals from "../../src/tool/Approvals.ts"
import { ToolCall } from "../../src/tool/ToolCall.ts"
import * as Tools from "../../src/tool/Tools.ts"
import * as World from "../support/World.ts"

/** What each call was answered with, and how each turn ended. */
const results = (log: ReadonlyArray<StoredEvent>) =>
  log.flatMap((event) =>
    event.type === "tool/result"
      ? [{ code: event.data.error?.code, text: event.data.message.content.map((part) => part.text).join("") }]
      : []
  )
const endings = (log: ReadonlyArray<StoredEvent>) =>
  log.flatMap((event) => (event.type === "turn/end" ? [event.data.reason.kind] : []))

const argumentsIn = (request: ChatRequest | undefined): ReadonlyArray<string> =>
  request?.messages.flatMap((message) =>
    message.role === "assistant"
      ? message.content.flatMap((block) => (block.type === "tool-call" ? [block.arguments] : []))
      : []
  ) ?? []

/** A body that counts its runs. */
const counted = () => {
  const ran: Array<string> = []
  return { ran, body: (id: string) => Effect.sync(() => `did ${String(ran.push(id))}`) }
}

const touching = (finish: string, ...texts: ReadonlyArray<string>) => [
  send(
    ...texts.map(
      (text, index): ChatChunk => ({ type: "tool-call", index, id: `c${index}`, name: "touch", arguments: text })
    ),
    { type: "finish", reason: finish }
  )
]

describe("trouble with tool calls, through whole turns", () => {
  for (const finish of ["tool-calls", "stop", "anything"])
    it.scoped(`O-E1, O-E2, O-E3: arguments that are cut run nothing, whatever the end says: ${finish}`, () =>
      Effect.gen(function* () {
        const cut = ['{"id":"rm -rf build', '{"id":"rm -rf build"', "{", '{"id":"a"}{"id":"b"}']
        const { body, ran } = counted()
        const world = yield* World.make({
          body,
          scripts: [touching(finish, ...cut), call(["touch", { id: "a" }]), say("Sorry."), say("Yes.")]
        })
        const agent = yield* world.open()
        yield* Effect.zipRight(agent.followup("go"), agent.idle)
        yield* Effect.zipRight(agent.followup("and?"), agent.idle)
        assert.deepStrictEqual(ran, ["a"])
        const log = yield* world.log
        assert.deepStrictEqual(endings(log), ["completed", "completed"])
        assert.deepStrictEqual(
          results(log).map(({ code }) => code),
          [...cut.map(() => "INVALID_ARGS"), undefined]
        )
        for (const [index, text] of cut.entries()) assert.include(results(log)[index]?.text, `They were: ${text}`)
        // as they came in the log, as an object in every request that follows
        const stored = log.flatMap((event) => (event.type === "tool/call" ? [event.data.arguments] : []))
        assert.deepStrictEqual(stored, [...cut, '{"id":"a"}'])
        for (const request of (yield* world.requests).slice(1))
          assert.deepStrictEqual(argumentsIn(request).slice(0, 4), ["{}", "{}", "{}", "{}"])
      })
    )

  it.scoped("O-E4: empty arguments are {}: a tool without parameters runs, another is told what it lacks", () =>
    Effect.gen(function* () {
      const kit = Toolkit.make(
        Tool.make("now", { success: Schema.String }),
        Tool.make("touch", { parameters: { id: Schema.String }, success: Schema.String })
      )
      const handlers = kit.toLayer({ now: () => Effect.succeed("noon"), touch: () => Effect.die("it ran") })
      const world = yield* World.make({
        tools: Layer.provide(Tools.layer(kit), handlers),
        scripts: [call(["now", ""], ["touch", ""], ["now", "  "]), say("Done.")]
      })
      const agent = yield* world.open()
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      const [now, touch, again] = results(yield* world.log)
      assert.deepStrictEqual([now?.text, again?.text], ["noon", "noon"])
      assert.strictEqual(touch?.code, "INVALID_ARGS")
      assert.match(touch?.text ?? "", /\["id"\]\s+└─ is missing/)
      assert.deepStrictEqual(argumentsIn((yield* world.requests)[1]), ["{}", "{}", "{}"])
    })
  )

  it.scoped("O-E5: a parameter of the wrong type is a failed result; the turn goes on to the corrected call", () =>
    Effect.gen(function* () {
      const { body, ran } = counted()
      const world = yield* World.make({
        body,
        scripts: [call(["look", { id: "a" }], ["touch", { id: 1 }]), call(["touch", { id: "1" }]), say("Done.")]
      })
      const agent = yield* world.open()
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      const log = yield* world.log
      assert.deepStrictEqual(ran, ["a", "1"])
      assert.deepStrictEqual(
        results(log).map(({ code }) => code),
        [undefined, "INVALID_ARGS", undefined]
      )
      assert.match(results(log)[1]?.text ?? "", /\["id"\][\s\S]*Expected string, actual 1/)
      assert.deepStrictEqual(endings(log), ["completed"])
    })
  )

  it.scoped("O-E6: a tool that does not exist is an error result that lists those that do; the right call runs", () =>
    Effect.gen(function* () {
      const { body, ran } = counted()
      const world = yield* World.make({
        body,
        scripts: [call(["execute_python", { code: "1" }], ["", {}]), call(["touch", { id: "a" }]), say("Done.")]
      })
      const agent = yield* world.open()
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      const log = yield* world.log
      assert.deepStrictEqual(ran, ["a"])
      assert.deepStrictEqual(
        results(log).map(({ code }) => code),
        ["UNKNOWN_TOOL", "UNKNOWN_TOOL", undefined]
      )
      assert.strictEqual(
        results(log)[0]?.text,
        'Error: there is no tool "execute_python". The tools are: finish, look, maybe, touch.'
      )
      assert.deepStrictEqual(endings(log), ["completed"])
    })
  )

  it.scoped("O-E7: what cannot be read is neither shown for approval nor run as anything else", () =>
    Effect.gen(function* () {
      const { body, ran } = counted()
      const asked: Array<unknown> = []
      const world = yield* World.make({
        body,
        approvals: {
          judge: (pending) =>
            Effect.sync(() => {
              asked.push(pending.arguments)
              return Approvals.Judgement.Allow()
            })
        },
        scripts: [call(["touch", "{id: a}"], ["touch", { id: "b" }]), say("Done.")]
      })
      const agent = yield* world.open()
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      assert.deepStrictEqual(asked, [{ id: "b" }])
      assert.deepStrictEqual(ran, ["b"])
    })
  )

  it.scoped("O-E8: of an answer that the token limit cut no call runs; it is told as cut, and never as malformed", () =>
    Effect.gen(function* () {
      const { body, ran } = counted()
      const world = yield* World.make({
        body,
        scripts: [
          [send({ type: "text", index: 0, text: "I will" }), ...touching("max-tokens", '{"id":"a"}', '{"id":"b')],
          say("Again.")
        ]
      })
      const agent = yield* world.open()
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      yield* Effect.zipRight(agent.followup("go on"), agent.idle)
      const log = yield* world.log
      assert.deepStrictEqual(ran, [])
      assert.deepStrictEqual(endings(log), ["max-tokens", "completed"])
      assert.deepStrictEqual(results(log), [])
      assert.deepStrictEqual(argumentsIn((yield* world.requests)[1]), [])
    })
  )

  it.scoped("O-O5: what an interrupted body had put out is kept within a bound, head and tail", () =>
    Effect.gen(function* () {
      const running = yield* Deferred.make<void>()
      const world = yield* World.make({
        body: () =>
          Effect.gen(function* () {
            yield* (yield* ToolCall).onAbort(() => `begin ${"😀".repeat(1_000_000)} end`)
            yield* Deferred.succeed(running, undefined)
            return yield* Effect.never
          }),
        scripts: [call(["touch", { id: "a" }])]
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* Deferred.await(running)
      yield* agent.cancel("user")
      const [result] = results(yield* world.log)
      assert.strictEqual(result?.code, "TOOL_ABORTED")
      assert.match(
        result?.text ?? "",
        /^Error: tool call aborted\. Its output until then:\nbegin (😀)+\n\[\d+ bytes of it are left out here\]\n(😀)+ end$/u
      )
      assert.isBelow(new TextEncoder().encode(result?.text).length, 137_000)
    })
  )
})
