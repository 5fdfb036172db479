import { assert, describe, it } from "@effect/vitest"
import * as fc from "effect/FastCheck"
import * as Answer from "../../src/domain/Answer.ts"
import type { ChatChunk, RunChunk } from "../../src/domain/Chunk.ts"
import { CallId } from "../../src/domain/Ids.ts"

const place: Answer.Place = { turn: 2, step: 3, provider: "p", model: "m" }

const assembled = (...chunks: ReadonlyArray<ChatChunk>): Answer.Assembly => {
  const assembly = Answer.make()
  for (const chunk of chunks) Answer.add(assembly, chunk)
  return assembly
}

const contentOf = (...chunks: ReadonlyArray<ChatChunk>) => Answer.message(assembled(...chunks), place).content
const partialOf = (...chunks: ReadonlyArray<ChatChunk>) => Answer.partialMessage(assembled(...chunks), place)?.content

const text = (index: number, words: string): ChatChunk => ({ type: "text", index, text: words })
const thought = (index: number, words: string): ChatChunk => ({ type: "reasoning", index, text: words })
const call = (index: number, raw: string, more: { readonly id?: string; readonly name?: string } = {}): ChatChunk => ({
  type: "tool-call",
  index,
  arguments: raw,
  ...more
})
const blob = (index: number, value: string): ChatChunk => ({ type: "blob", index, blob: value })
const end = (index: number): ChatChunk => ({ type: "end", index })
const finish = (reason: string): ChatChunk => ({ type: "finish", reason })

describe("a whole answer", () => {
  it("D11: an empty stream is an answer without content, its usage kept", () => {
    const usage = { inputTokens: 3, outputTokens: 0 }
    const assembly = assembled({ type: "usage", usage }, finish("stop"))
    assert.deepStrictEqual(Answer.message(assembly, place), {
      id: Answer.message(assembled(), place).id,
      role: "assistant",
      source: { provider: "p", model: "m" },
      content: []
    })
    assert.deepStrictEqual(assembly.usage, usage)
    assert.strictEqual(Answer.message(assembly, place).id, "t2s3")
  })

  it("D12: deltas need no start of their block, and blocks stand in the order of their first appearance", () => {
    assert.deepStrictEqual(contentOf(text(7, "b"), thought(2, "t"), text(7, "c"), text(0, "a")), [
      { type: "text", text: "bc" },
      { type: "reasoning", text: "t" },
      { type: "text", text: "a" }
    ])
  })

  it("D12: what comes for a closed block is ignored, the first close wins", () => {
    const assembly = assembled(text(0, "a"))
    assert.isTrue(Answer.add(assembly, end(0)))
    assert.isFalse(Answer.add(assembly, text(0, "b")))
    assert.isFalse(Answer.add(assembly, end(0)))
    assert.isFalse(Answer.add(assembly, blob(0, "s")))
    assert.isFalse(Answer.add(assembly, end(5)))
    assert.isTrue(Answer.add(assembly, text(5, "c")))
    assert.deepStrictEqual(Answer.message(assembly, place).content, [
      { type: "text", text: "a" },
      { type: "text", text: "c" }
    ])
  })

  it("D12: a call that names no id gets one, an empty identity says nothing, the first one stays", () => {
    assert.deepStrictEqual(
      contentOf(
        call(4, "{", { id: "", name: "" }),
        call(4, "}", { name: "look" }),
        call(9, "", { id: "x", name: "a" }),
        call(9, "", { id: "y", name: "b" })
      ),
      [
        { type: "tool-call", callId: CallId.make("t2s3c0"), name: "look", arguments: "{}", providerCallId: "call-4" },
        { type: "tool-call", callId: CallId.make("t2s3c1"), name: "a", arguments: "", providerCallId: "x" }
      ]
    )
  })

  it("D12: a call that is never named is a call without a name, which the pipeline answers", () => {
    assert.deepStrictEqual(contentOf(call(0, "{}")), [
      { type: "tool-call", callId: CallId.make("t2s3c0"), name: "", arguments: "{}", providerCallId: "call-0" }
    ])
  })

  it("D12: a stream without a finish has none, the first finish stays, an unknown word is kept", () => {
    assert.isUndefined(assembled(text(0, "a")).finish)
    assert.strictEqual(assembled(finish("refusal"), finish("stop")).finish, "refusal")
  })

  it.prop(
    "D12: whatever a stream holds, there is an answer, and its calls are numbered without gaps",
    {
      chunks: fc.array(
        fc.oneof(
          fc.tuple(fc.nat(3), fc.string16bits()).map(([index, words]) => text(index, words)),
          fc.tuple(fc.nat(3), fc.string16bits()).map(([index, words]) => thought(index, words)),
          fc
            .tuple(fc.nat(3), fc.string16bits(), fc.string16bits())
            .map(([index, raw, name]) => call(index, raw, { name })),
          fc.nat(3).map((index) => blob(index, "s")),
          fc.nat(3).map(end),
          fc.constantFrom("stop", "max-tokens", "").map(finish)
        )
      )
    },
    ({ chunks }) => {
      for (const content of [contentOf(...chunks), partialOf(...chunks) ?? []]) {
        assert.isTrue(JSON.stringify(content).isWellFormed())
        assert.isFalse(/\\u(d[89a-f]|0000)/.test(JSON.stringify(content)))
        const calls = content.flatMap((block) => (block.type === "tool-call" ? [block.callId] : []))
        assert.deepStrictEqual(
          calls,
          calls.map((_, index) => CallId.make(`t2s3c${index}`))
        )
      }
    }
  )

  it("D13: at the token limit every call is dropped, wherever it stands, and all else stays in place", () => {
    const chunks = [thought(0, "t"), blob(0, "s"), call(1, "{", { id: "a" }), text(2, "x"), call(3, "{}"), blob(4, "b")]
    const kept = [
      { type: "reasoning", text: "t", blob: "s" },
      { type: "text", text: "x" },
      { type: "blob", blob: "b" }
    ]
    assert.deepStrictEqual<unknown>(contentOf(...chunks, finish("max-tokens")), kept)
    assert.strictEqual(contentOf(...chunks, finish("stop")).length, 5)
  })

  it("keeps the blob of a thought with it, and a blob of its own in its place", () => {
    assert.deepStrictEqual(contentOf(thought(0, "hm"), blob(0, "signature"), blob(1, "redacted"), text(2, "hi")), [
      { type: "reasoning", text: "hm", blob: "signature" },
      { type: "blob", blob: "redacted" },
      { type: "text", text: "hi" }
    ])
  })

  it("D12: a blob may come before what it belongs to: no text is lost", () => {
    assert.deepStrictEqual(contentOf(blob(0, "s"), thought(0, "hm"), blob(1, "s"), text(1, "hi"), blob(1, "t")), [
      { type: "reasoning", text: "hm", blob: "s" },
      { type: "text", text: "hi" }
    ])
    assert.deepStrictEqual(partialOf(blob(0, "s"), thought(0, "hm")), [{ type: "reasoning", text: "hm", blob: "s" }])
  })

  it("O-O2: halves of pairs and NULs that a model writes are replaced, in text, arguments, names, ids and blobs", () => {
    assert.deepStrictEqual(
      contentOf(
        text(0, "\uD83D"),
        text(0, "\uDE00 \uD83D"),
        call(1, '{"a":"\uD83D', { id: "\0id", name: "\uDE00" }),
        call(1, '"}'),
        blob(2, "\uD83D\0")
      ),
      [
        { type: "text", text: "😀 \uFFFD" },
        {
          type: "tool-call",
          callId: CallId.make("t2s3c0"),
          name: "\uFFFD",
          arguments: '{"a":"\uFFFD"}',
          providerCallId: "\uFFFDid"
        },
        { type: "blob", blob: "\uFFFD\uFFFD" }
      ]
    )
  })
})

describe("what an interrupted stream leaves", () => {
  it("D04: the text, and no call, closed or not", () => {
    assert.deepStrictEqual(partialOf(text(0, "so "), text(0, "far"), call(1, "{}"), end(1), call(2, "{")), [
      { type: "text", text: "so far" }
    ])
  })

  it("D05: reasoning alone is kept", () => {
    assert.deepStrictEqual(partialOf(thought(0, "hm"), thought(0, "m")), [{ type: "reasoning", text: "hmm" }])
  })

  it("D05: white space, a call or a blob alone leave nothing", () => {
    assert.isUndefined(partialOf())
    assert.isUndefined(partialOf(text(0, " \n"), text(1, "")))
    assert.isUndefined(partialOf(thought(0, "\t")))
    assert.isUndefined(partialOf(call(0, "{}", { id: "a", name: "look" })))
    assert.isUndefined(partialOf(blob(0, "redacted")))
  })

  it("D05: a thought that came with its blob keeps it, one that was cut before has its text alone", () => {
    assert.deepStrictEqual(partialOf(thought(0, "a"), blob(0, "s"), end(0), thought(1, "b")), [
      { type: "reasoning", text: "a", blob: "s" },
      { type: "reasoning", text: "b" }
    ])
  })

  it("O-O1: an emoji that was cut in half is shown as cut", () => {
    assert.deepStrictEqual(partialOf(text(0, "ok \uD83D")), [{ type: "text", text: "ok \uFFFD" }])
  })
})

describe("law 1", () => {
  it("law 1: an assembly costs its deltas' own length, whatever came before", () => {
    const assembly = Answer.make()
    const delta: RunChunk = { type: "text", index: 0, text: "x" }
    let reads = 0
    const counted = new Proxy(delta, {
      get: (target, key, receiver) => {
        reads++
        return Reflect.get(target, key, receiver)
      }
    })
    const perDelta = Array.from({ length: 2000 }, () => {
      reads = 0
      Answer.add(assembly, counted)
      return reads
    })
    assert.strictEqual(new Set(perDelta.slice(1)).size, 1)
  })
})
