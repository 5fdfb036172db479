import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as fc from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { isAppendable, knownTypes, SessionEvent, sources } from "../../src/domain/Event.ts"
import { CallId, callId, SessionId } from "../../src/domain/Ids.ts"
import { canonical, snapshot, wellFormedValue } from "../../src/internal/Json.ts"
import { answer, block, chunk, header, partial, sourceSeqs, turnStart } from "../support/Facts.ts"
import { logsOf } from "../support/Logs.ts"

describe("citations", () => {
  it.prop(
    "W06: name the same seqs, in order, as a range wherever there is no gap",
    { from: fc.nat(1000), gaps: fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 12 }) },
    ({ from, gaps }) => {
      const seqs = [from]
      for (const gap of gaps) seqs.push((seqs.at(-1) ?? from) + gap)
      const cited = sources(seqs)
      assert.deepStrictEqual(sourceSeqs(cited), seqs)
      assert.strictEqual("from" in cited, seqs.length > 2 && gaps.every((gap) => gap === 1))
    }
  )

  it("D11: an answer to nothing cites nothing", () => {
    assert.deepStrictEqual(sources([]), [])
    assert.deepStrictEqual(sourceSeqs([]), [])
  })
})

describe("what may be appended", () => {
  it.prop(
    "I02: every event of a log is JSON without loss, of a known type, and its own schema takes it back",
    { log: logsOf(200) },
    ({ log }) => {
      const decode = Schema.decodeUnknownEither(SessionEvent)
      for (const { seq: _seq, time: _time, ...event } of log) {
        const copy = Either.getOrThrow(snapshot(event))
        assert.isTrue(isAppendable(copy))
        assert.isTrue(knownTypes.has(event.type))
        assert.strictEqual(
          canonical(Either.getOrThrow(decode(JSON.parse(JSON.stringify(copy))))),
          canonical(wellFormedValue(event))
        )
      }
    },
    { fastCheck: { numRuns: 30 } }
  )

  it.each<readonly [string, unknown]>([
    ["an unknown type", { type: "later/thing", data: {} }],
    ["an unknown type that is ignorable", { type: "later/thing", data: {}, ignorable: true }],
    [
      "an event that a load did not know",
      { type: "unrecognized", data: { type: "later/thing", data: {} }, ignorable: true }
    ],
    ["a turn numbered 0", turnStart(0)],
    ["a turn numbered 1.5", turnStart(1.5)],
    ["no data", { type: "turn/start" }],
    [
      "a callId that is the provider's own",
      { type: "tool/call", data: { turn: 1, step: 1, callId: "call_0", name: "x", arguments: "" } }
    ],
    ["a citation of seq -1", { ...turnStart(1), sourceEventSeqs: [-1] }],
    ["ignorable: false", { ...turnStart(1), ignorable: false }],
    [
      "a blob that JSON would lose",
      { ...chunk(1, 1, "x"), data: { turn: 1, step: 1, chunk: { type: "blob", index: 0, blob: Number.NaN } } }
    ],
    ["an ending that there is not", { type: "turn/end", data: { turn: 1, reason: { kind: "stopped" } } }],
    ["nothing", null]
  ])("W24: %s is refused", (_, event) => {
    assert.isFalse(isAppendable(event))
  })

  it("W24: the types of the table, and no others, are known", () => {
    assert.deepStrictEqual([...knownTypes].sort(), [
      "agent/inbox/spliced",
      "approval/asked",
      "approval/decided",
      "assistant/chunk",
      "assistant/message",
      "context/replaced",
      "request/header",
      "request/retry",
      "step/end",
      "step/start",
      "tool/call",
      "tool/process",
      "tool/result",
      "tool/settled",
      "turn/end",
      "turn/start",
      "user/message"
    ])
    for (const event of [header(), chunk(1, 1, "x"), answer(1, 1, [block(1, 1, 0)]), partial(1, 1, [])])
      assert.isTrue(isAppendable(event))
  })
})

describe("ids", () => {
  it.prop(
    "are legal on every wire, and tell turn, step and place",
    { turn: fc.integer({ min: 1 }), step: fc.integer({ min: 1 }), index: fc.nat() },
    ({ index, step, turn }) => {
      const id = callId(turn, step, index)
      assert.match(id, /^[a-zA-Z0-9_-]{1,40}$/)
      assert.deepStrictEqual(id.match(/\d+/g)?.map(Number), [turn, step, index])
    }
  )

  it("refuse what is no id of ours", () => {
    for (const id of ["t0s1c0", "t1s0c0", "t1s1", "T1s1c0", "t1s1c0 ", "t01s1c0", ""])
      assert.isFalse(Schema.is(CallId)(id))
    for (const id of ["", ".a", "-a", "a/b", "a b", "é", "a".repeat(65), "..", "a\0"])
      assert.isFalse(Schema.is(SessionId)(id))
    for (const id of ["a", "A-1_b.c", "9", "a".repeat(64)]) assert.isTrue(Schema.is(SessionId)(id))
  })
})
