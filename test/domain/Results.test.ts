import { assert, describe, it } from "@effect/vitest"
import * as fc from "effect/FastCheck"
import type { SessionEvent, ToolOutcome } from "../../src/domain/Event.ts"
import { text } from "../../src/domain/Message.ts"
import * as Results from "../../src/domain/Results.ts"
import {
  answer,
  block,
  call,
  followedBy,
  header,
  input,
  inserted,
  type Log,
  logOf,
  outcome,
  result,
  said,
  settled,
  stateOf,
  stepEnd,
  stepStart,
  turnEnd,
  turnStart
} from "../support/Facts.ts"
import { naiveLaws } from "../support/NaiveFold.ts"

const open = (calls: number): Log =>
  logOf(
    turnStart(1),
    stepStart(1, 1),
    input(said("p", "go")),
    header(),
    answer(
      1,
      1,
      Array.from({ length: calls }, (_, index) => block(1, 1, index))
    )
  )

const types = (events: ReadonlyArray<SessionEvent>): ReadonlyArray<string> => events.map((event) => event.type)

const noted = (...ids: ReadonlyArray<string>): ToolOutcome => ({
  ...outcome("done"),
  context: ids.map((id) => said(id, `note ${id}`, "context"))
})

describe("answering the calls of the open step", () => {
  it("law 2: in model order, up to the first call that nothing is known of", () => {
    const log = followedBy(
      open(3),
      call([1, 1, 0]),
      call([1, 1, 1]),
      call([1, 1, 2]),
      settled([1, 1, 0], outcome("a")),
      settled([1, 1, 2], outcome("c"))
    )
    const events = Results.answerCalls(stateOf(log), Results.settledOutcome)
    assert.deepStrictEqual(events, [result([1, 1, 0], outcome("a"), [5, 8])])
  })

  it("E11: a call that never started is announced right before its result, which cites it", () => {
    const log = followedBy(open(3), call([1, 1, 0]))
    const events = Results.answerCalls(stateOf(log), () => Results.abortedBeforeDispatch, { announce: true })
    assert.deepStrictEqual(types(events), ["tool/result", "tool/call", "tool/result", "tool/call", "tool/result"])
    assert.deepStrictEqual(
      events.map((event) => event.sourceEventSeqs),
      [[5], undefined, [7], undefined, [9]]
    )
    const aborted = events[2]?.type === "tool/result" ? events[2].data : undefined
    assert.deepStrictEqual(aborted?.error, { name: "AbortError", code: "TOOL_ABORTED_BEFORE_DISPATCH" })
    assert.deepStrictEqual(aborted?.message.content, [text("Error: tool call aborted before dispatch")])
    assert.deepStrictEqual(naiveLaws(followedBy(log, ...events, stepEnd(1, 1), turnEnd(1, "aborted"))), [])
  })

  it("E15: each context is queued right after its result, in model order, behind what waits", () => {
    const log = followedBy(
      open(2),
      inserted("next-step", 0, said("steer", "first", "steer")),
      call([1, 1, 0]),
      call([1, 1, 1])
    )
    const events = Results.answerCalls(stateOf(log), ({ block: { callId } }) =>
      callId === "t1s1c0" ? noted("a1", "a2") : noted("b1")
    )
    assert.deepStrictEqual(types(events), ["tool/result", "agent/inbox/spliced", "tool/result", "agent/inbox/spliced"])
    const after = stateOf(followedBy(log, ...events))
    assert.deepStrictEqual<unknown>(
      after.inbox["next-step"].map(({ id }) => id),
      ["steer", "a1", "a2", "b1"]
    )
  })

  it("E15: no context, no splice", () => {
    const log = followedBy(open(1), call([1, 1, 0]))
    assert.deepStrictEqual(types(Results.answerCalls(stateOf(log), () => ({ ...outcome("x"), context: [] }))), [
      "tool/result"
    ])
  })

  it("O-B3: a result says that there was no output, error, meta and flag are kept", () => {
    const log = followedBy(open(1), call([1, 1, 0]))
    const told = { ...outcome(" \n", "UNKNOWN"), meta: { exitCode: 1 } }
    assert.deepStrictEqual(
      Results.answerCalls(stateOf(log), () => told),
      [result([1, 1, 0], { ...told, content: [text("(no output)")] }, [5])]
    )
  })

  it("answers nothing where nothing is open, and no call twice", () => {
    const always = () => outcome("x")
    assert.deepStrictEqual(Results.answerCalls(stateOf([]), always), [])
    assert.deepStrictEqual(Results.answerCalls(stateOf(open(0)), always), [])
    const log = followedBy(open(1), call([1, 1, 0]), result([1, 1, 0], outcome("x"), [5]))
    assert.deepStrictEqual(Results.answerCalls(stateOf(log), always), [])
    assert.deepStrictEqual(Results.answerCalls(stateOf(followedBy(log, stepEnd(1, 1))), always), [])
  })

  it.prop(
    "law 2: whatever had settled and been answered, what is appended completes the step",
    {
      fates: fc.array(fc.constantFrom("unstarted", "started", "settled", "noted"), { maxLength: 6 }),
      announce: fc.boolean()
    },
    ({ announce, fates }) => {
      let log = open(fates.length)
      for (const [index, fate] of fates.entries()) if (fate !== "unstarted") log = followedBy(log, call([1, 1, index]))
      for (const [index, fate] of [...fates.entries()].reverse()) {
        if (fate === "settled") log = followedBy(log, settled([1, 1, index], outcome(`out ${index}`)))
        if (fate === "noted") log = followedBy(log, settled([1, 1, index], noted(`n${index}`)))
      }
      const code = announce ? "TOOL_ABORTED" : "TOOL_NOT_STARTED"
      const events = Results.answerCalls(
        stateOf(log),
        (made) =>
          Results.settledOutcome(made) ??
          (made.started === undefined || announce ? Results.failure(code, "no") : outcome("late")),
        { announce }
      )
      const closed = followedBy(log, ...events, stepEnd(1, 1), turnEnd(1, announce ? "aborted" : "interrupted"))
      assert.deepStrictEqual(naiveLaws(closed), [])
    }
  )
})
