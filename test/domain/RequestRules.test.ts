import { assert, describe, it } from "@effect/vitest"
import { CallId, MessageId } from "../../src/domain/Ids.ts"
import { type AssistantBlock, type Message, text } from "../../src/domain/Message.ts"
import type { ChatRequest } from "../../src/domain/Request.ts"
import * as RequestRules from "../../src/domain/RequestRules.ts"
import { block, said, spec } from "../support/Facts.ts"

const says = (id: string, content: ReadonlyArray<AssistantBlock>): Message => ({
  id: MessageId.make(id),
  role: "assistant",
  source: { provider: "p", model: "m" },
  content
})

const answers = (callId: string, words = "done"): Message => ({
  id: MessageId.make(callId),
  role: "tool",
  callId: CallId.make(callId, { disableValidation: true }),
  content: [text(words)],
  isError: false
})

const named = (callId: string): AssistantBlock => ({
  ...block(1, 1, 0),
  callId: CallId.make(callId, { disableValidation: true })
})

const request = (...messages: ReadonlyArray<Message>): ChatRequest => ({
  config: { provider: "p", model: "m" },
  system: "",
  tools: [],
  messages
})

const hi = said("m1", "hi")
const again = said("m2", "and now?")

const good = request(
  hi,
  says("a1", [
    { type: "reasoning", text: "", blob: { signature: "s" } },
    text("let me look"),
    block(1, 1, 0, "look", { arguments: ' { "path" : "a" } ', providerCallId: "same" }),
    block(1, 1, 1, "look", { providerCallId: "same" }),
    { type: "blob", blob: [null, "x"] }
  ]),
  answers("t1s1c0"),
  answers("t1s1c1"),
  said("m3", "steer", "steer"),
  says("a2", [text("it is 😀")]),
  again
)

/** For each rule, requests that break this rule alone. */
const fixtures: Record<RequestRules.Rule, ReadonlyArray<ChatRequest>> = {
  "no-messages": [request()],
  "starts-with-user": [request(says("a1", [text("hello")]), hi)],
  "ends-with-input": [request(hi, says("a1", [text("hello")]))],
  "call-answered": [
    request(hi, says("a1", [block(1, 1, 0)]), again),
    request(hi, says("a1", [block(1, 1, 0), block(1, 1, 1)]), answers("t1s1c0"), again),
    request(hi, says("a1", [block(1, 1, 0)]), says("a2", [text("done")]), again)
  ],
  "answer-without-call": [
    request(hi, answers("t1s1c0")),
    request(hi, says("a1", [text("x")]), answers("t1s1c0"), again),
    request(hi, says("a1", [block(1, 1, 0)]), answers("t1s1c0"), answers("t9s9c9"))
  ],
  "call-ids-unique": [
    request(hi, says("a1", [named("t1s1c0")]), answers("t1s1c0"), says("a2", [named("t1s1c0")]), {
      ...answers("t1s1c0"),
      id: MessageId.make("r2")
    })
  ],
  "call-id-legal": [
    request(hi, says("a1", [named("call 1")]), answers("call 1")),
    request(hi, says("a1", [named("c".repeat(41))]), answers("c".repeat(41)))
  ],
  "message-ids-unique": [request(hi, says("a1", [text("x")]), hi)],
  "no-empty-message": [request({ ...hi, content: [] }), request(hi, says("a1", []), again)],
  "no-empty-text": [
    request({ ...hi, content: [text("hi"), text("")] }),
    request(hi, says("a1", [text(" \n\t")]), again),
    request(hi, says("a1", [block(1, 1, 0)]), answers("t1s1c0", ""))
  ],
  "arguments-are-an-object": ["", "{", "[]", "null", '"{}"'].map((raw) =>
    request(hi, says("a1", [block(1, 1, 0, "look", { arguments: raw })]), answers("t1s1c0"))
  ),
  "call-name-legal": ["", "a.b", "a b", "é", "n".repeat(65)].map((name) =>
    request(hi, says("a1", [block(1, 1, 0, name)]), answers("t1s1c0"))
  ),
  "text-well-formed": [
    request(said("m1", "half \uD83D")),
    request(said("m1", "a\0b")),
    request(hi, says("a1", [{ type: "reasoning", text: "\uDE00" }]), again),
    request(hi, says("a1", [{ type: "reasoning", text: "x", blob: { s: "\uD83D" } }]), again),
    request(hi, says("a1", [{ type: "blob", blob: { deep: ["a\0b"] } }]), again),
    request(hi, says("a1", [{ type: "blob", blob: { "\uD83D": 1 } }]), again),
    request(hi, says("a1", [block(1, 1, 0, "look", { arguments: '{"a":"\uD83D"}' })]), answers("t1s1c0")),
    request(hi, says("a1", [block(1, 1, 0, "look", { arguments: '{"a":"\\ud83d"}' })]), answers("t1s1c0")),
    request(hi, says("a1", [block(1, 1, 0, "look", { arguments: '{"\\u0000":1}' })]), answers("t1s1c0")),
    request(hi, says("a1", [block(1, 1, 0)]), answers("t1s1c0", "\uDE00")),
    { ...request(hi), system: "half \uD83D" },
    { ...request(hi), tools: [{ ...spec("look"), description: "a\0b" }] }
  ]
}

describe("law 1: the strict request checker", () => {
  it("law 1: refuses nothing of a good request", () => {
    assert.deepStrictEqual(RequestRules.violations(good), [])
  })

  it.each(
    Object.entries(fixtures).flatMap(([rule, requests]) =>
      requests.map((broken, index) => [rule, index, broken] as const)
    )
  )("O-F4: %s fires, and it alone (%i)", (rule, _, broken) => {
    const fired = RequestRules.violations(broken).map((violation) => violation.rule)
    assert.deepStrictEqual([...new Set(fired)], [rule])
  })

  it("says which message is meant", () => {
    assert.deepStrictEqual(
      RequestRules.violations(request(hi, says("a1", [block(1, 1, 0), block(1, 1, 1)]), answers("t1s1c1"), again)),
      [
        { rule: "answer-without-call", at: 2, detail: "t1s1c1" },
        { rule: "call-answered", at: 3, detail: "t1s1c0" },
        { rule: "call-answered", at: 3, detail: "t1s1c1" }
      ]
    )
  })
})
