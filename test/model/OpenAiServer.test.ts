/**
 * The agent loop against a real server on the loopback interface, which refuses what any provider refuses.
 */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import type { StoredEvent } from "../../src/domain/Event.ts"
import { textOf } from "../../src/domain/Message.ts"
import type { ChatRequest } from "../../src/domain/Request.ts"
import { ChatModel } from "../../src/model/ChatModel.ts"
import * as OpenAi from "../../src/model/OpenAi.ts"
import * as OpenAiWire from "../../src/model/OpenAiWire.ts"
import * as RoutedModel from "../../src/model/RoutedModel.ts"
import * as ScriptedModel from "../../src/model/ScriptedModel.ts"
import * as Settings from "../../src/settings/Settings.ts"
import * as ChatServer from "../support/ChatServer.ts"
import { said } from "../support/Facts.ts"
import { eventually } from "../support/processes.ts"
import * as World from "../support/World.ts"

const { call, event, frame, refusing, reset, say, send, stream, usage, wait } = ChatServer

const services = Layer.merge(FetchHttpClient.layer, Settings.layer)

const config = { provider: "openai", model: "gpt-test" }

const request: ChatRequest = { config, system: "", tools: [], messages: [said("p", "go")] }

/** The model of this server, as `--base-url` makes it. */
const modelOf = (server: ChatServer.ChatServer, profile = OpenAi.openai, key?: string) =>
  Effect.provide(
    OpenAi.make({
      profile: { ...profile, baseUrl: server.url },
      ...(key === undefined ? {} : { apiKey: Redacted.make(key) })
    }),
    services
  )

/** A world whose model is this server. */
const worldOf = (server: ChatServer.ChatServer, profile = OpenAi.openai, options: World.Options = {}) =>
  Effect.flatMap(modelOf(server, profile), (model) => World.make({ ...options, model }))

/** Sends a prompt, waits, and says how the turn ended. */
const turn = Effect.fnUntraced(function* (world: World.World, prompt: string, route = config) {
  const agent = yield* world.open({ config: route })
  yield* Effect.orDie(agent.followup(prompt))
  yield* Effect.orDie(agent.idle)
  const ending = (yield* world.log).findLast((stored) => stored.type === "turn/end")
  return ending?.data.reason
}, Effect.scoped)

const refusals = (server: ChatServer.ChatServer) => server.received.flatMap(({ refused }) => refused ?? [])

/** The bodies that the server got are those of the requests that the loop made, byte for byte. */
const sameBytes = (server: ChatServer.ChatServer, requests: ReadonlyArray<ChatRequest>, profile = OpenAi.openai) => {
  const sent = requests.map((made) => OpenAiWire.body(made, profile))
  assert.deepStrictEqual(
    server.received.map(({ body }) => body),
    sent
  )
}

const results = (log: ReadonlyArray<StoredEvent>) =>
  log.flatMap((stored) => (stored.type === "tool/result" ? [textOf(stored.data.message)] : []))

const callsIn = (
  server: ChatServer.ChatServer,
  index: number
): ReadonlyArray<{ id: string; function: { arguments: string } }> =>
  JSON.parse(server.received[index]?.body ?? "{}").messages.flatMap(
    (message: { tool_calls?: [] }) => message.tool_calls ?? []
  )

describe("a real server", () => {
  it.scopedLive("gets the very bytes, runs calls side by side, and goes on (H01, law 1)", () =>
    Effect.gen(function* () {
      const server = yield* ChatServer.make({
        answers: [
          call([
            ["look", { id: "a" }],
            ["look", { id: "ü😀" }],
            ["touch", { id: "c" }]
          ]),
          say("All done. 漢字")
        ]
      })
      const world = yield* worldOf(server)
      assert.deepStrictEqual(yield* turn(world, "Look"), { kind: "completed" })
      const log = yield* world.log
      assert.deepStrictEqual(results(log), ["did a", "did ü😀", "did c"])
      const answers = log.flatMap((stored) => (stored.type === "assistant/message" ? [stored.data] : []))
      assert.deepStrictEqual(
        answers.map(({ finish }) => finish),
        ["tool-calls", "stop"]
      )
      assert.strictEqual(answers[1] === undefined ? "" : textOf(answers[1].message), "All done. 漢字")
      assert.deepStrictEqual(answers[1]?.usage, {
        inputTokens: 11,
        outputTokens: 7,
        cachedInputTokens: 3,
        reasoningTokens: 2
      })
      assert.deepStrictEqual(refusals(server), [])
      sameBytes(server, yield* world.requests)
      assert.include(server.received[0]?.headers, { "content-type": "application/json", accept: "text/event-stream" })
      assert.doesNotHaveAnyKeys(server.received[0]?.headers, ["authorization", "traceparent", "b3"])
    })
  )

  it.scopedLive("keeps its connection for the next request, once an answer was read to its end", () =>
    Effect.gen(function* () {
      const server = yield* ChatServer.make({ answers: Array.from({ length: 12 }, () => say("hello")) })
      const model = yield* modelOf(server)
      for (let i = 0; i < 12; i++) yield* Stream.runDrain(model.stream(request))
      // the client may open one more while the first is busy
      assert.isBelow(server.connections(), 4)
    })
  )

  it.scopedLive("is asked with the key, and a wrong one is told without being shown", () =>
    Effect.gen(function* () {
      const server = yield* ChatServer.make({ answers: [say("hello")], key: "right-key" })
      yield* Stream.runDrain((yield* modelOf(server, OpenAi.openai, "right-key")).stream(request))
      const failure = yield* Effect.flip(
        Stream.runDrain((yield* modelOf(server, OpenAi.openai, "wrong-key-1234")).stream(request))
      )
      assert.strictEqual(failure.reason, "AUTHENTICATION")
      assert.include(failure.message, "Incorrect API key provided: Bearer [key]")
      assert.notInclude(JSON.stringify(failure), "wrong-key")
    })
  )

  it.scopedLive("sees its connection closed when the stream is left, before and after the first byte (law 4)", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const server = yield* ChatServer.make({
        answers: [{ acts: [wait(Effect.never)] }, { acts: [send(event(frame({ content: "hi" }))), wait(Effect.never)] }]
      })
      const model = yield* modelOf(server)
      const first = yield* Effect.fork(Stream.runDrain(model.stream(request)))
      yield* eventually("the request to arrive", () => server.received.length === 1)
      yield* Fiber.interrupt(first)
      yield* server.closedEarly(0)
      const second = yield* Effect.fork(
        Stream.runForEach(model.stream(request), () => Deferred.succeed(begun, undefined))
      )
      yield* Deferred.await(begun)
      yield* Fiber.interrupt(second)
      yield* server.closedEarly(1)
      assert.strictEqual(server.busy(), 0)
    })
  )

  it.scopedLive("sees its connection closed by a cancel, which keeps what was said and is no error (D09, law 4)", () =>
    Effect.gen(function* () {
      const server = yield* ChatServer.make({
        answers: [{ acts: [send(event(frame({ content: "Half an" }))), wait(Effect.never)] }, say("Whole.")]
      })
      const world = yield* worldOf(server)
      const agent = yield* world.open({ config })
      const seen = yield* Effect.fork(Stream.runDrain(Stream.takeUntil(agent.events, (item) => item.type === "delta")))
      yield* agent.followup("go")
      yield* Fiber.join(seen)
      const cancelled = yield* agent.cancel("user")
      assert.deepInclude(cancelled, { _tag: "Settled", ending: { kind: "aborted" } })
      yield* server.closedEarly(0)
      assert.strictEqual(server.busy(), 0)
      yield* agent.followup("again")
      yield* agent.idle
      assert.include(server.received[1]?.body, '{"content":"Half an","role":"assistant"}')
      assert.deepStrictEqual(refusals(server), [])
    })
  )

  it.scopedLive("breaks in the middle, then answers: the log and the next request know one answer (D14, O-I3)", () =>
    Effect.gen(function* () {
      const half = [
        send(event(frame({ content: "Let me" }))),
        send(
          event(frame({ tool_calls: [{ index: 0, id: "x", function: { name: "touch", arguments: '{"id":"a"' } }] }))
        ),
        wait(Effect.sleep(20)),
        reset
      ]
      const server = yield* ChatServer.make({
        answers: [
          { acts: half },
          refusing(500, { error: { message: "oops", type: "server_error" } }),
          say("Done."),
          say("Bye.")
        ]
      })
      const world = yield* worldOf(server)
      assert.deepStrictEqual(yield* turn(world, "go"), { kind: "completed" })
      assert.deepStrictEqual(yield* turn(world, "and?"), { kind: "completed" })
      const log = yield* world.log
      const retries = log.flatMap((stored) => (stored.type === "request/retry" ? [stored.data.failure.code] : []))
      assert.deepStrictEqual(retries, ["TRANSPORT", "SERVER"])
      assert.strictEqual(log.filter((stored) => stored.type === "tool/call").length, 0)
      assert.deepStrictEqual(
        JSON.parse(server.received[3]?.body ?? "")
          .messages.slice(1)
          .map(({ content }: { content: string }) => content),
        ["go", "Done.", "and?"]
      )
    })
  )

  it.scopedLive("refuses: the turn ends with the reason and the words, and nothing is tried again", () =>
    Effect.gen(function* () {
      const error = {
        message: "Insufficient Balance",
        type: "unknown_error",
        param: null,
        code: "invalid_request_error"
      }
      const server = yield* ChatServer.make({ answers: [refusing(402, { error })] })
      const world = yield* worldOf(server)
      assert.deepStrictEqual(yield* turn(world, "go"), {
        kind: "error",
        error: { message: "Insufficient Balance", code: "QUOTA", details: { status: 402 } }
      })
      assert.strictEqual(server.received.length, 1)
    })
  )
})

describe("arguments that are none", () => {
  const cut = '{"id":"never clo'
  const calling = (name: string, text: string | undefined, finish = "tool_calls") =>
    stream(
      frame({ tool_calls: [{ index: 0, id: "x", type: "function", function: { name, arguments: text } }] }),
      frame({}, finish)
    )

  it.scopedLive.each([
    ["cut inside a string, with the finish reason of calls (O-E1, O-E2)", cut, "tool_calls"],
    ["cut inside a string, with another finish reason (O-E1)", cut, "stop"],
    ["the beginning of a sensible command", '{"id":"rm -rf build"', "tool_calls"],
    ["empty (O-E4)", "", "tool_calls"],
    ["absent (O-E4)", undefined, "tool_calls"]
  ])("%s: nothing runs, the model is told, and the history is sound", ([, text, finish]) =>
    Effect.gen(function* () {
      let ran = 0
      const body = () =>
        Effect.sync(() => {
          ran++
          return "ran"
        })
      const server = yield* ChatServer.make({ answers: [calling("touch", text, finish), say("Sorry."), say("Yes.")] })
      const world = yield* worldOf(server, OpenAi.openai, { body })
      assert.deepStrictEqual(yield* turn(world, "go"), { kind: "completed" })
      assert.deepStrictEqual(yield* turn(world, "and?"), { kind: "completed" })
      assert.strictEqual(ran, 0)
      const log = yield* world.log
      assert.strictEqual(results(log).length, 1)
      assert.match(results(log)[0] ?? "", /touch/)
      // raw in the log, an object on the wire
      const answer = log.find((stored) => stored.type === "assistant/message")
      assert.deepInclude(answer?.data.message.content[0], { arguments: text ?? "" })
      for (const index of [1, 2]) assert.strictEqual(callsIn(server, index)[0]?.function.arguments, "{}")
      assert.deepStrictEqual(refusals(server), [])
    })
  )

  it.scopedLive("a call that the token limit cut does not run, whole as it looks (O-E3)", () =>
    Effect.gen(function* () {
      const server = yield* ChatServer.make({ answers: [calling("touch", '{"id":"a"}', "length")] })
      const world = yield* worldOf(server)
      assert.deepStrictEqual(yield* turn(world, "go"), { kind: "max-tokens" })
      assert.deepStrictEqual(results(yield* world.log), [])
    })
  )
})

describe("ids", () => {
  it.scopedLive("of 43 characters, repeated and missing, are none of the wire's business (O-D1, O-D4)", () =>
    Effect.gen(function* () {
      const id = "call_0123456789012345678901234567890123456"
      const asks = (...ids: ReadonlyArray<string | undefined>) =>
        stream(
          ...ids.map((one, index) =>
            frame({ tool_calls: [{ index, id: one, function: { name: "look", arguments: `{"id":"${index}"}` } }] })
          ),
          frame({}, "tool_calls")
        )
      const server = yield* ChatServer.make({
        answers: [asks(id, `${id}|1`, "a.b", "a:b", "a_b"), asks(id, id, undefined), say("Done.")]
      })
      const world = yield* worldOf(server)
      assert.deepStrictEqual(yield* turn(world, "go"), { kind: "completed" })
      assert.deepStrictEqual(refusals(server), [])
      assert.strictEqual(new Set(callsIn(server, 2).map((made) => made.id)).size, 8)
    })
  )
})

describe("DeepSeek", () => {
  const route = { provider: "deepseek", model: "deepseek-test" }

  it.scopedLive("gets its thinking back with every call, also after a cancel and a new owner (O-C6)", () =>
    Effect.gen(function* () {
      const server = yield* ChatServer.make({
        dialect: "deepseek",
        answers: [
          call(
            [
              ["look", { id: "a" }],
              ["look", { id: "b" }]
            ],
            "I must look at both."
          ),
          call([["touch", { id: "c" }]], "Now I touch."),
          stream(frame({ reasoning_content: "That will do." }), frame({ content: "Done." }, "stop"), usage(1, 2)),
          { acts: [send(event(frame({ reasoning_content: "Never shown" }))), wait(Effect.never)] },
          call([["look", { id: "d" }]]),
          say("Bye.")
        ]
      })
      const world = yield* worldOf(server, OpenAi.deepseek)
      assert.deepStrictEqual(yield* turn(world, "go", route), { kind: "completed" })
      yield* Effect.scoped(
        Effect.gen(function* () {
          const agent = yield* world.open({ config: route })
          yield* agent.followup("and?")
          yield* eventually("the fourth request", () => server.received.length === 4)
          yield* agent.cancel("user")
        })
      )
      assert.deepStrictEqual(yield* turn(world, "again", route), { kind: "completed" })
      assert.deepStrictEqual(refusals(server), [])
      assert.strictEqual(server.received.length, 6)
      sameBytes(server, yield* world.requests, OpenAi.deepseek)
    })
  )
})

describe("several providers", () => {
  it.scopedLive(
    "one session asks another provider, and the first again; one that is not there is said (O-C8, O-D2)",
    () =>
      Effect.gen(function* () {
        const openai = yield* ChatServer.make({ answers: [call([["look", { id: "b" }]], "private"), say("Two.")] })
        const deepseek = yield* ChatServer.make({
          dialect: "deepseek",
          answers: [call([["look", { id: "c" }]], "hm"), say("Three.")]
        })
        const scripted = yield* ScriptedModel.make([
          ScriptedModel.call(["look", { id: "a" }]),
          ScriptedModel.say("One."),
          ScriptedModel.say("Four.")
        ])
        const asking = (server: ChatServer.ChatServer, profile: OpenAiWire.Profile) =>
          OpenAi.layer({ profile: { ...profile, baseUrl: server.url } })
        const context = yield* Layer.build(
          Layer.provide(
            RoutedModel.layer({
              scripted: Layer.succeed(ChatModel, scripted.model),
              openai: asking(openai, OpenAi.openai),
              deepseek: asking(deepseek, OpenAi.deepseek)
            }),
            services
          )
        )
        const world = yield* World.make({ model: yield* Effect.provide(ChatModel, context) })
        const completed = { kind: "completed" } as const
        assert.deepStrictEqual(yield* turn(world, "one", World.config), completed)
        assert.deepStrictEqual(yield* turn(world, "two"), completed)
        assert.deepStrictEqual(yield* turn(world, "three", { provider: "deepseek", model: "m" }), completed)
        assert.deepStrictEqual(yield* turn(world, "four", World.config), completed)
        assert.deepStrictEqual(yield* turn(world, "five", { provider: "acme", model: "x" }), {
          kind: "error",
          error: {
            message: 'there is no provider "acme" to ask. There is: scripted, openai, deepseek.',
            code: "UNSUPPORTED"
          }
        })
        assert.deepStrictEqual([...refusals(openai), ...refusals(deepseek)], [])
        // what another model thought is nobody else's to see
        assert.notInclude(deepseek.received[1]?.body, "private")
        assert.include(deepseek.received[1]?.body, '"reasoning_content":"hm"')
      })
  )
})
