/**
 * Bodies of chat completions: what they hold, that they are a function of the request, and that nobody refuses them. And the
 * checker that says so: each of its rules refuses its fixture.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import { MessageId } from "../../src/domain/Ids.ts"
import { type AssistantBlock, type Message, text } from "../../src/domain/Message.ts"
import * as Repair from "../../src/domain/Repair.ts"
import { type ChatRequest, canonicalRequest } from "../../src/domain/Request.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import { deepseek, openai } from "../../src/model/OpenAi.ts"
import { body, type Profile } from "../../src/model/OpenAiWire.ts"
import * as ChatRules from "../support/ChatRules.ts"
import { block, type Log, placed, said, spec } from "../support/Facts.ts"
import { sampleLogs } from "../support/Logs.ts"

const answered = (id: string, content: ReadonlyArray<AssistantBlock>, provider = "openai"): Message => ({
  id: MessageId.make(id),
  role: "assistant",
  source: { provider, model: "m" },
  content
})

const resultOf = (call: ReturnType<typeof block>, words: string): Message => ({
  id: MessageId.make(call.callId),
  role: "tool",
  callId: call.callId,
  content: [text(words)],
  isError: false
})

const asking = (messages: ReadonlyArray<Message>, more: Partial<ChatRequest> = {}): ChatRequest => ({
  config: { provider: "openai", model: "gpt-test" },
  system: "Be brief.",
  tools: [{ ...spec("look"), description: "Looks." }],
  messages,
  ...more
})

const thinking = (words: string): AssistantBlock => ({ type: "reasoning", text: words })

const look = block(1, 1, 0, "look", { arguments: '{"id":"a"}' })
const put = block(1, 1, 1, "put", { arguments: "{}" })

const messagesIn = (request: ChatRequest, profile: Profile = openai): ReadonlyArray<Record<string, unknown>> =>
  JSON.parse(body(request, profile)).messages

const foldedOn = (state: SessionState.SessionState, events: Log): SessionState.SessionState =>
  Either.getOrThrowWith(SessionState.fold(events, state), (detail) => new Error(detail))

const called = [
  said("p", "go"),
  answered("a", [thinking("hm"), text("I look."), look, put]),
  resultOf(look, "seen"),
  resultOf(put, "put")
]

describe("a body", () => {
  it("holds the request, in one canonical text", () => {
    const config = {
      provider: "openai",
      model: "gpt-test",
      maxTokens: 9,
      temperature: 0.5,
      stop: ["END"],
      reasoningEffort: "low"
    }
    assert.strictEqual(
      body(asking(called, { config }), openai),
      [
        '{"max_completion_tokens":9,"messages":[{"content":"Be brief.","role":"system"},{"content":"go","role":"user"},',
        '{"content":"I look.","role":"assistant","tool_calls":[',
        '{"function":{"arguments":"{\\"id\\":\\"a\\"}","name":"look"},"id":"t1s1c0","type":"function"},',
        '{"function":{"arguments":"{}","name":"put"},"id":"t1s1c1","type":"function"}]},',
        '{"content":"seen","role":"tool","tool_call_id":"t1s1c0"},{"content":"put","role":"tool","tool_call_id":"t1s1c1"}],',
        '"model":"gpt-test","reasoning_effort":"low","stop":["END"],"stream":true,"stream_options":{"include_usage":true},',
        '"temperature":0.5,"tools":[{"function":{"description":"Looks.","name":"look","parameters":{"type":"object"}},',
        '"type":"function"}]}'
      ].join("")
    )
  })

  it("leaves out what is not there: no system, no tools, no limits", () => {
    const request = asking([said("p", "go")], {
      system: " \n",
      tools: [],
      config: { provider: "x", model: "m", stop: [] }
    })
    assert.deepStrictEqual(JSON.parse(body(request, deepseek)), {
      model: "m",
      messages: [{ role: "user", content: "go" }],
      stream: true,
      stream_options: { include_usage: true }
    })
  })

  it("is a function of the canonical request: neither the order of keys nor a reload changes a byte (law 1)", () => {
    const turned = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(turned)
      if (value === null || typeof value !== "object") return value
      return Object.fromEntries(
        Object.entries(value)
          .toReversed()
          .map(([key, item]) => [key, turned(item)])
      )
    }
    const parameters = {
      type: "object",
      properties: { b: { type: "string" }, a: { type: "number" }, "10": {}, "9": {} }
    }
    const request = asking(called, { tools: [{ ...spec("look"), parameters }] })
    const reloaded: ChatRequest = JSON.parse(canonicalRequest(request))
    assert.strictEqual(body(reloaded, openai), body(request, openai))
    assert.strictEqual(body(turned(request) as ChatRequest, openai), body(request, openai)) // the same shape
  })

  it("sends our own ids, whatever a provider called its calls (O-D1, O-D2)", () => {
    const long = block(1, 1, 0, "look", { providerCallId: `call_${"x".repeat(38)}|fc_1` })
    const sent = body(asking([said("p", "go"), answered("a", [long]), resultOf(long, "seen")]), openai)
    assert.notInclude(sent, "xxxx")
    assert.strictEqual(ChatRules.refusal(Buffer.from(sent), "openai"), undefined)
  })

  it("joins neighbours of one role, and never across calls and results", () => {
    const request = asking([
      said("p", "one"),
      said("q", "two"),
      answered("a", [text("first")]),
      answered("b", [text("second"), look]),
      resultOf(look, "seen"),
      answered("c", [text("third")]),
      answered("d", [text("fourth")]),
      said("r", "three")
    ])
    assert.deepStrictEqual(
      messagesIn(request).map(({ content, role }) => [role, content]),
      [
        ["system", "Be brief."],
        ["user", "one\n\ntwo"],
        ["assistant", "first\n\nsecond"],
        ["tool", "seen"],
        ["assistant", "third\n\nfourth"],
        ["user", "three"]
      ]
    )
  })

  it("skips answers of thinking alone and sends nothing empty (O-B2, O-B3)", () => {
    const blob: AssistantBlock = { type: "blob", blob: { encrypted: "x" } }
    const request = asking([
      said("p", "one"),
      answered("a", [thinking("hm")]),
      answered("b", [text(" "), blob]),
      { ...said("q", ""), content: [] },
      said("r", "two"),
      answered("c", [text(""), look]),
      resultOf(look, "\n")
    ])
    assert.deepStrictEqual(messagesIn(request).slice(1), [
      { role: "user", content: "one\n\ntwo" },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "t1s1c0", type: "function", function: { name: "look", arguments: '{"id":"a"}' } }]
      },
      { role: "tool", tool_call_id: "t1s1c0", content: "(no output)" }
    ])
  })

  it("returns thinking to DeepSeek alone, and only its own; where it has none, it says so (O-C6, O-C8)", () => {
    const history = (provider: string) => [
      said("p", "go"),
      answered("a", [thinking("I must "), thinking("look"), look], provider),
      resultOf(look, "seen"),
      answered("b", [put], provider),
      resultOf(put, "put"),
      answered("c", [thinking("done"), text("Done.")], provider),
      said("q", "more")
    ]
    const thoughts = (provider: string, profile: Profile) =>
      messagesIn(asking(history(provider)), profile).flatMap((message) =>
        message["role"] === "assistant" ? [message["reasoning_content"]] : []
      )
    assert.deepStrictEqual(thoughts("deepseek", deepseek), ["I must look", "", "done"])
    assert.deepStrictEqual(thoughts("openai", deepseek), ["", "", ""])
    assert.deepStrictEqual(thoughts("openai", openai), [undefined, undefined, undefined])
    const merged = [
      said("p", "go"),
      ...history("deepseek").slice(5, 6),
      answered("d", [thinking("hm"), text("x")], "deepseek"),
      said("q", "more")
    ]
    assert.deepInclude(messagesIn(asking(merged), deepseek)[2] ?? {}, {
      content: "Done.\n\nx",
      reasoning_content: "done\n\nhm"
    })
  })

  it("is taken by a strict server for every prefix of every log, once repaired and prompted (laws 1 and 2, O-A2, O-A8)", () => {
    const ownThoughts: Profile = { ...deepseek, provider: "scripted" }
    let requests = 0
    for (const log of sampleLogs(30, 7, 300)) {
      let state = SessionState.initial()
      for (const event of log) {
        state = foldedOn(state, [event])
        const closers = placed(Repair.closers(state), log.slice(0, state.head))
        const request = SessionState.deriveRequest(foldedOn(state, closers))
        if (request === undefined) continue
        requests++
        const prompted = { ...request, messages: [...request.messages, said("probe", "go on")] }
        assert.strictEqual(ChatRules.refusal(Buffer.from(body(prompted, openai)), "openai"), undefined)
        assert.strictEqual(ChatRules.refusal(Buffer.from(body(prompted, ownThoughts)), "deepseek"), undefined)
      }
    }
    assert.isAbove(requests, 500)
  })
})

describe("the checker of the test server", () => {
  const call = (id: string, more: object = {}) => ({
    id,
    type: "function",
    function: { name: "look", arguments: "{}" },
    ...more
  })
  const user = { role: "user", content: "go" }
  const asks = (...calls: ReadonlyArray<object>) => ({ role: "assistant", content: null, tool_calls: calls })
  const answers = (id: string) => ({ role: "tool", tool_call_id: id, content: "seen" })
  const tool = { type: "function", function: { name: "look", parameters: { type: "object" } } }
  const good = {
    model: "m",
    messages: [user, asks(call("a"), call("b")), answers("a"), answers("b")],
    tools: [tool],
    stream: true,
    stream_options: { include_usage: true }
  }
  const refusal = (value: unknown, dialect: ChatRules.Dialect = "openai", thoughts?: ReadonlyArray<string>) =>
    ChatRules.refusal(Buffer.from(typeof value === "string" ? value : JSON.stringify(value)), dialect, thoughts)
  const history = (...messages: ReadonlyArray<unknown>) => ({ ...good, messages })
  const bad = { function: { name: "look", arguments: "{" } }

  it("takes what is right", () => {
    assert.strictEqual(refusal(good), undefined)
    assert.strictEqual(refusal(history({ role: "system", content: "s" }, user)), undefined)
  })

  const fixtures: ReadonlyArray<readonly [name: string, value: unknown, problem: RegExp]> = [
    ["no JSON", "{", /JSON/],
    ["no model", { ...good, model: "" }, /model/],
    ["a field that is not known", { ...good, top_k: 1 }, /unknown parameter 'top_k'/],
    ["no stream", { ...good, stream: false }, /streams/],
    ["a list of stops that is empty", { ...good, stop: [] }, /stop/],
    ["a temperature out of range", { ...good, temperature: 3 }, /temperature/],
    ["a limit of nothing", { ...good, max_completion_tokens: 0 }, /max_completion_tokens/],
    ["tools that are none", { ...good, tools: [] }, /tools: empty/],
    ["two tools of one name", { ...good, tools: [tool, tool] }, /two of one name/],
    ["a tool with a bad name", { ...good, tools: [{ ...tool, function: { ...tool.function, name: "a b" } }] }, /name/],
    ["a tool without an object", { ...good, tools: [{ ...tool, function: { name: "x", parameters: {} } }] }, /schema/],
    ["no messages", history(), /messages: empty/],
    ["an answer first", history({ role: "assistant", content: "x" }, user), /begins with an answer/],
    ["an answer last", history(user, { role: "assistant", content: "x" }), /last message/],
    ["a system message later", history(user, { role: "system", content: "x" }, user), /not the first/],
    ["two neighbours", history(user, user), /two neighbours of role user/],
    [
      "two answers side by side",
      history(user, { role: "assistant", content: "x" }, { role: "assistant", content: "y" }, user),
      /two neighbours of role assistant/
    ],
    ["an empty text", history({ role: "user", content: " " }), /empty content/],
    ["an answer that says nothing", history(user, { role: "assistant", content: "" }, user), /neither content/],
    ["an empty result", history(user, asks(call("a")), { ...answers("a"), content: "" }), /empty content/],
    ["an empty list of calls", history(user, asks(), user), /empty tool_calls/],
    ["a call without an answer", history(user, asks(call("a"), call("b")), answers("a")), /response messages: b/],
    ["a user between", history(user, asks(call("a")), user, answers("a")), /response messages: a/],
    ["an answer without a call", history(user, answers("a")), /no call 'a'/],
    ["an answer given twice", history(user, asks(call("a")), answers("a"), answers("a")), /no call 'a'/],
    [
      "an answer to an earlier call",
      history(user, asks(call("a")), answers("a"), asks(call("b")), answers("a")),
      /'a'/
    ],
    ["an id used twice", history(user, asks(call("a"), call("a")), answers("a")), /used before/],
    ["a long id", history(user, asks(call("x".repeat(41))), answers("x".repeat(41))), /1 to 40/],
    ["an odd id", history(user, asks(call("Write:6")), answers("Write:6")), /1 to 40/],
    ["arguments that are no JSON", history(user, asks(call("a", bad)), answers("a")), /no JSON/],
    [
      "arguments that are a list",
      history(user, asks(call("a", { function: { name: "look", arguments: "[]" } })), answers("a")),
      /no JSON object/
    ],
    ["half a pair", '{"model":"m\\ud83d","messages":[]}', /well-formed/],
    [
      "thinking, where it is not known",
      history(user, { ...asks(call("a")), reasoning_content: "x" }, answers("a")),
      /reas/
    ]
  ]
  it.each(fixtures)("refuses %s", (_name, value, problem) => {
    assert.match(refusal(value) ?? "taken", problem)
  })

  it("refuses, as DeepSeek, calls that lost their thinking", () => {
    const think = (words?: string) => history(user, { ...asks(call("a")), reasoning_content: words }, answers("a"))
    assert.match(refusal(think(), "deepseek") ?? "taken", /must be passed back/)
    assert.match(refusal(think(""), "deepseek", ["hm"]) ?? "taken", /must be passed back/)
    assert.strictEqual(refusal(think("hm"), "deepseek", ["hm"]), undefined)
  })
})
