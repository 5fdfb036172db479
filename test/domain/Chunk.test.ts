import { assert, describe, it } from "@effect/vitest"
import * as fc from "effect/FastCheck"
import * as Answer from "../../src/domain/Answer.ts"
import {
  type ChatChunk,
  cutRun,
  emptyRuns,
  endRun,
  endRuns,
  maxRunBytes,
  pushDelta,
  type RunChunk
} from "../../src/domain/Chunk.ts"

const place: Answer.Place = { turn: 1, step: 1, provider: "p", model: "m" }

/** Everything that an assembly says. */
const told = (assembly: Answer.Assembly) => ({
  message: Answer.message(assembly, place),
  partial: Answer.partialMessage(assembly, place),
  usage: assembly.usage
})

const text = (words: string, index = 0): RunChunk => ({ type: "text", index, text: words })

/** The runs of these deltas and the last one's end. */
const runsOf = (deltas: ReadonlyArray<RunChunk>): ReadonlyArray<RunChunk> => {
  const runs = emptyRuns()
  return [...deltas.flatMap((delta) => pushDelta(runs, delta)), ...endRuns(runs)]
}

// what a stream may hold

const index = fc.nat(2)
/** Text cut anywhere, so also inside an emoji. */
const piece = fc.oneof(
  fc.constantFrom("", "a", "\uD83D", "\uDE00", "😀", "é", "\0", "x".repeat(1500), `${"y".repeat(4095)}\uD83D`),
  fc.string16bits({ maxLength: 5 })
)
const maybeWord = fc.option(fc.constantFrom("", "look", "call-7", "\uD83D"), { nil: undefined })
const delta: fc.Arbitrary<RunChunk> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ type: fc.constant("text" as const), index, text: piece }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant("reasoning" as const), index, text: piece }) },
  {
    weight: 4,
    arbitrary: fc
      .record({ type: fc.constant("tool-call" as const), index, id: maybeWord, name: maybeWord, arguments: piece })
      .map((chunk): RunChunk => {
        const { id, name, ...rest } = chunk
        return { ...rest, ...(id === undefined ? {} : { id }), ...(name === undefined ? {} : { name }) }
      })
  },
  fc.record({ type: fc.constant("blob" as const), index, blob: fc.constantFrom("s", { half: "\uD83D" }, null) }),
  fc.record({
    type: fc.constant("usage" as const),
    usage: fc.record({ inputTokens: fc.nat(9), outputTokens: fc.nat(9) })
  })
)
const end = fc.record({ type: fc.constant("end" as const), index })
/** A run is also cut by a timer, at any moment. */
const tick = fc.constant({ type: "tick" as const })
const stream: fc.Arbitrary<ReadonlyArray<Exclude<ChatChunk, { type: "finish" }> | { readonly type: "tick" }>> =
  fc.array(fc.oneof({ weight: 8, arbitrary: delta }, end, tick), { maxLength: 40 })

/** What the journal gets of a stream, as the loop gives it: what comes for a closed block is not kept. */
const journalled = (chunks: typeof stream extends fc.Arbitrary<infer A> ? A : never) => {
  const all = Answer.make()
  const runs = emptyRuns()
  const kept: Array<RunChunk> = []
  for (const chunk of chunks) {
    if (chunk.type === "tick") kept.push(...cutRun(runs))
    else {
      const accepted = Answer.add(all, chunk)
      if (chunk.type === "end") kept.push(...endRun(runs))
      else if (accepted) kept.push(...pushDelta(runs, chunk))
    }
  }
  kept.push(...endRuns(runs))
  return { all, kept }
}

describe("runs", () => {
  it.prop(
    "D12: joining runs and then assembling equals assembling every delta, cut anywhere",
    { chunks: stream },
    ({ chunks }) => {
      const { all, kept } = journalled(chunks)
      assert.deepStrictEqual(told(Answer.assemble(kept)), told(all))
    },
    { fastCheck: { numRuns: 1000 } }
  )

  it("W06: a run ends at 4 KiB", () => {
    const runs = runsOf(Array.from({ length: 1000 }, () => text("twelve bytes")))
    assert.strictEqual(maxRunBytes, 4096)
    assert.deepStrictEqual(
      runs.map((run) => (run.type === "text" ? run.text.length : -1)),
      [4104, 4104, 3792]
    )
  })

  it("W06: a run counts bytes, not characters", () => {
    const runs = runsOf(Array.from({ length: 4096 }, () => text("é")))
    assert.deepStrictEqual(
      runs.map((run) => (run.type === "text" ? Buffer.byteLength(run.text) : -1)),
      [4096, 4096]
    )
  })

  it("W06: the number of runs depends on the bytes alone, not on how they were cut into deltas", () => {
    const whole = "abcdefgh".repeat(4096)
    for (const size of [1, 3, 12, 500]) {
      const deltas = whole.match(new RegExp(`.{1,${size}}`, "g")) ?? []
      const runs = runsOf(deltas.map((words) => text(words)))
      assert.strictEqual(runs.map((run) => (run.type === "text" ? run.text : "")).join(""), whole)
      assert.isAtMost(runs.length, whole.length / maxRunBytes)
      assert.isAtLeast(runs.length, whole.length / (maxRunBytes + size))
    }
  })

  it("W06: a run ends when another block speaks", () => {
    assert.deepStrictEqual(runsOf([text("a"), text("b"), text("c", 1), text("d")]), [
      text("ab"),
      text("c", 1),
      text("d")
    ])
    const reasoning: RunChunk = { type: "reasoning", index: 0, text: "b" }
    assert.deepStrictEqual(runsOf([text("a"), reasoning]), [text("a"), reasoning])
  })

  it("W06 D07: a blob is a run of its own, and of the usage the last one is, after everything", () => {
    const blob: RunChunk = { type: "blob", index: 0, blob: { s: 1 } }
    const usage: RunChunk = { type: "usage", usage: { inputTokens: 1, outputTokens: 2 } }
    const early: RunChunk = { type: "usage", usage: { inputTokens: 1, outputTokens: 0 } }
    assert.deepStrictEqual(runsOf([text("a"), blob, blob, text("b"), early, text("c"), usage, text("d")]), [
      text("a"),
      blob,
      blob,
      text("bcd"),
      usage
    ])
  })

  it("D12: a call's id and name may come late, and an empty one says nothing", () => {
    const call = (more: object): RunChunk => ({ type: "tool-call", index: 0, arguments: "", ...more })
    assert.deepStrictEqual(
      runsOf([call({ id: "", name: "" }), call({ arguments: "{" }), call({ id: "a", name: "n" })]),
      [{ type: "tool-call", index: 0, id: "a", name: "n", arguments: "{" }]
    )
    assert.deepStrictEqual(runsOf([call({ id: "a" }), call({ id: "b", name: "n" }), call({ name: "m" })]), [
      { type: "tool-call", index: 0, id: "a", name: "n", arguments: "" }
    ])
  })

  const emoji = "a😀é👩‍👩‍👧".repeat(400)

  it.prop(
    "O-O1: runs of one block never split a surrogate pair, wherever deltas and timers cut it",
    {
      kind: fc.constantFrom("text", "reasoning", "tool-call"),
      sizes: fc.array(fc.integer({ min: 1, max: 700 })),
      ticks: fc.array(fc.boolean())
    },
    ({ kind, sizes, ticks }) => {
      const runs = emptyRuns()
      const kept: Array<RunChunk> = []
      let at = 0
      for (let i = 0; at < emoji.length; i++) {
        const part = emoji.slice(at, at + (sizes[i] ?? 701))
        at += part.length
        const chunk =
          kind === "tool-call" ? { type: kind, index: 0, arguments: part } : { type: kind, index: 0, text: part }
        kept.push(...pushDelta(runs, chunk as RunChunk))
        if (ticks[i] === true) kept.push(...cutRun(runs))
      }
      kept.push(...endRun(runs))
      const texts = kept.map((run) => ("text" in run ? run.text : "arguments" in run ? run.arguments : ""))
      assert.strictEqual(texts.join(""), emoji)
      for (const part of texts) assert.isTrue(part.isWellFormed())
      assert.isFalse(texts.includes(""))
    }
  )

  it("O-O1: half a pair that nothing follows is kept, and says so where it is shown", () => {
    const runs = emptyRuns()
    assert.deepStrictEqual(pushDelta(runs, text("\uD83D")), [])
    assert.deepStrictEqual(cutRun(runs), [])
    assert.deepStrictEqual(endRun(runs), [text("\uD83D")])
    assert.deepStrictEqual(endRun(runs), [])
    const message = Answer.message(Answer.assemble([text("\uD83D")]), place)
    assert.deepStrictEqual(message.content, [{ type: "text", text: "\uFFFD" }])
  })

  it("O-O1: a call whose arguments are cut in a pair keeps its id and name with its first run", () => {
    const runs = emptyRuns()
    assert.deepStrictEqual(
      pushDelta(runs, { type: "tool-call", index: 0, id: "a", name: "n", arguments: "\uD83D" }),
      []
    )
    assert.deepStrictEqual(cutRun(runs), [{ type: "tool-call", index: 0, id: "a", name: "n", arguments: "" }])
    assert.deepStrictEqual(pushDelta(runs, { type: "tool-call", index: 0, arguments: "\uDE00" }), [])
    assert.deepStrictEqual(endRun(runs), [{ type: "tool-call", index: 0, arguments: "😀" }])
  })
})
