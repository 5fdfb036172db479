import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Answer from "../../src/domain/Answer.ts"
import type { RunChunk } from "../../src/domain/Chunk.ts"
import { MessageId } from "../../src/domain/Ids.ts"
import { type Message, text, toolCalls } from "../../src/domain/Message.ts"
import { guardDigest } from "../../src/domain/Request.ts"
import * as RequestRules from "../../src/domain/RequestRules.ts"
import { emptyGuardMemory } from "../support/Facts.ts"

describe("the request check", () => {
  it("W04: looks at a message once, when it is new, however many requests carry it", () => {
    let looks = 0
    const message = (index: number): Message => ({
      id: MessageId.make(`m${index}`),
      role: "user",
      source: { kind: "prompt" },
      get content() {
        looks++
        return [text(`words ${index}`)]
      }
    })
    let memory = emptyGuardMemory
    let messages: ReadonlyArray<Message> = []
    const costs: Array<number> = []
    for (let request = 0; request < 500; request++) {
      messages = [...messages, message(2 * request), message(2 * request + 1)]
      looks = 0
      memory = guardDigest(memory, messages).memory
      costs.push(looks)
    }
    assert.deepStrictEqual(new Set(costs), new Set([2]))
    assert.notStrictEqual(guardDigest(memory, messages).digest, guardDigest(memory, messages.slice(1)).digest)
  })
})

/** Ids as providers make them up: long, joined, coloned, repeated, missing. */
const providerId = FastCheck.oneof(
  FastCheck.constantFrom("", "call_1", "call_1", "Write:6", "a.b", "a:b", "a_b", "fc_1|call_2", "x".repeat(43), "é 漢"),
  FastCheck.string({ maxLength: 60 })
)

/** A session that changes its provider at will: for each step who answers, and what it calls its calls. */
const steps = FastCheck.array(
  FastCheck.record({
    provider: FastCheck.constantFrom("openai", "deepseek", "anthropic", "offline"),
    startsTurn: FastCheck.boolean(),
    ids: FastCheck.array(providerId, { maxLength: 5 })
  }),
  { minLength: 1, maxLength: 12 }
)

describe("call ids", () => {
  it.prop(
    "are ours: legal, unique in the session and the same at each reading, whatever providers call them (O-D1, O-D2, O-D3, O-D4)",
    { steps },
    (given) => {
      const answers = () => {
        let turn = 1
        let step = 0
        return given.steps.map(({ ids, provider, startsTurn }) => {
          if (startsTurn && step > 0) turn++
          step = startsTurn ? 1 : step + 1
          const chunks = ids.map(
            (id, index): RunChunk => ({ type: "tool-call", index, id, name: "look", arguments: "{}" })
          )
          return Answer.message(Answer.assemble(chunks), { turn, step, provider, model: "m" })
        })
      }
      const calls = answers().flatMap(toolCalls)
      assert.strictEqual(calls.length, given.steps.flatMap(({ ids }) => ids).length)
      for (const { callId } of calls) assert.match(callId, /^[a-zA-Z0-9]{6,40}$/)
      assert.strictEqual(new Set(calls.map(({ callId }) => callId)).size, calls.length)
      assert.deepStrictEqual(answers(), answers())
      // what the provider said is kept beside it, and no rule looks at it
      const rules = RequestRules.violations({
        config: { provider: "p", model: "m" },
        system: "",
        tools: [],
        messages: answers().filter((answer) => answer.content.length > 0)
      }).map(({ rule }) => rule)
      for (const rule of rules)
        assert.include(["no-messages", "starts-with-user", "ends-with-input", "call-answered"], rule)
    }
  )
})
