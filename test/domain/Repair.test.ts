import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as fc from "effect/FastCheck"
import type { SessionEvent, StoredEvent } from "../../src/domain/Event.ts"
import { text } from "../../src/domain/Message.ts"
import * as Repair from "../../src/domain/Repair.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import { deepFreeze } from "../../src/internal/Json.ts"
import {
  answer,
  asked,
  block,
  call,
  chunk,
  claimed,
  decided,
  followedBy,
  input,
  inserted,
  type Log,
  logOf,
  outcome,
  placed,
  result,
  said,
  settled,
  spawned,
  stateOf,
  stepAsking,
  stepEnd,
  stepStart,
  turnEnd,
  turnFailed,
  turnStart
} from "../support/Facts.ts"
import { logsOf, sampleLogs } from "../support/Logs.ts"
import { naiveLaws } from "../support/NaiveFold.ts"

const closersOf = (log: Log): ReadonlyArray<SessionEvent> => Repair.closers(stateOf(log))
const repaired = (log: Log): Log => followedBy(log, ...closersOf(log))
const types = (events: ReadonlyArray<SessionEvent>): ReadonlyArray<string> => events.map((event) => event.type)
const codes = (events: ReadonlyArray<SessionEvent>): ReadonlyArray<string | undefined> =>
  events.flatMap((event) => (event.type === "tool/result" ? [event.data.error?.code] : []))

const prompt = said("p", "run it")
/** A turn whose step has an answer that calls these tools. */
const called = (...names: ReadonlyArray<string>): Log =>
  followedBy(
    stepAsking(prompt),
    answer(
      1,
      1,
      names.map((name, index) => block(1, 1, index, name)),
      { finish: "tool-calls" }
    )
  )

/** What must become of each unanswered call of the open step, found by looking through the whole log. */
const expected = (log: Log): ReadonlyArray<readonly [callId: string, code: string]> => {
  const from = log.findLastIndex((event) => event.type === "step/start")
  const step = log.slice(from).some((event) => event.type === "step/end") ? [] : log.slice(from)
  const of = (callId: string) => step.filter((event) => "callId" in event.data && event.data.callId === callId)
  return step.flatMap((event) =>
    event.type !== "assistant/message"
      ? []
      : event.data.message.content.flatMap((part): ReadonlyArray<readonly [string, string]> => {
          if (part.type !== "tool-call") return []
          const id = part.callId
          if (step.some((other) => other.type === "tool/result" && other.data.message.callId === id)) return []
          const events = of(id)
          const done = events.find((other) => other.type === "tool/settled")
          if (done !== undefined) return [[id, `settled at ${done.seq}`]]
          const approvals = events.filter((other) => other.type.startsWith("approval/"))
          const last = approvals.at(-1)
          const allowed =
            last === undefined || (last.type === "approval/decided" && last.data.decision.startsWith("allowed"))
          const ran = allowed && events.some((other) => other.type === "tool/call")
          return [[id, ran ? "TOOL_OUTCOME_UNKNOWN" : "TOOL_NOT_STARTED"]]
        })
  )
}

/** What became of each call that repair answered. */
const happened = (closers: Log, log: Log): ReadonlyArray<readonly [callId: string, code: string]> =>
  closers.flatMap((event) => {
    if (event.type !== "tool/result") return []
    const id = event.data.message.callId
    const done = log.find((other) => other.type === "tool/settled" && other.data.callId === id)
    const real =
      done?.type === "tool/settled" &&
      done.data.outcome.isError === event.data.message.isError &&
      done.data.outcome.error?.code === event.data.error?.code &&
      JSON.stringify(done.data.outcome.meta) === JSON.stringify(event.data.meta)
    return [[id, real ? `settled at ${done.seq}` : (event.data.error?.code ?? "none")] as const]
  })

/** Whether a cut would part a result from the context that was queued with it: they are one append, one fact (E15). */
const partsContext = (events: Log, cut: number): boolean => {
  const next = events[cut]
  return events[cut - 1]?.type === "tool/result" && next?.type === "agent/inbox/spliced"
}

/**
 * Whether a cut parts the two ends of a turn that failed: they are one append. Its step is closed, so its open calls stay
 * as they are (G05) although the turn then says `interrupted`.
 */
const isBareFault = (events: Log, cut: number): boolean => {
  const next = events[cut]
  return events[cut - 1]?.type === "step/end" && next?.type === "turn/end" && next.data.reason.kind === "error"
}

/** `deepStrictEqual` that is fast where both are equal. */
const same = (actual: unknown, expected: unknown): void => {
  if (JSON.stringify(actual) !== JSON.stringify(expected)) assert.deepStrictEqual(actual, expected)
}

describe("law 8: repair only completes", () => {
  const sample = deepFreeze(sampleLogs(200, 8, 300))

  it.each([1, 2, 3, 4])("law 8: every prefix of 200 generated logs, quarter %i", (quarter) => {
    let answered = 0
    const sorts = new Set<string>()
    for (const log of sample.slice((quarter - 1) * 50, quarter * 50)) {
      let state = SessionState.initial()
      for (let cut = 0; cut <= log.length; cut++) {
        const event = log[cut - 1]
        if (event !== undefined) state = Either.getOrThrow(SessionState.apply(state, event))
        const prefix = log.slice(0, cut)
        const closers = placed(Repair.closers(state), prefix)
        const { after, events } = Either.getOrThrow(Repair.closed(state))
        same(events, closers)

        const problems = naiveLaws([...prefix, ...closers])
        const bare = isBareFault(log, cut) ? problems.filter((line) => !line.endsWith("has no result")) : problems
        assert.deepStrictEqual(bare, [])
        assert.isUndefined(after.brackets.open)
        assert.strictEqual(after.time, state.time)
        assert.strictEqual(Repair.closers(after).length, 0)
        const due = expected(prefix)
        same(happened(closers, prefix), due)
        answered += due.length
        for (const [, code] of due) sorts.add(code.replace(/ .*/, ""))

        let partly = state
        for (const [index, closer] of closers.slice(0, -1).entries()) {
          partly = Either.getOrThrow(SessionState.apply(partly, closer))
          if (partsContext(closers, index + 1)) continue
          const done = closers.slice(0, index + 1)
          const rest = placed(Repair.closers(partly), [...prefix, ...done])
          same([...done, ...rest], closers)
        }
      }
    }
    assert.isAbove(answered, 100)
    assert.deepStrictEqual([...sorts].sort(), ["TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN", "settled"])
  })

  it("law 8: events of another policy that do not fit are refused", () => {
    const state = stateOf(called("look"))
    assert.match(Either.getOrThrow(Either.flip(Repair.closed(state, [turnEnd(1, "interrupted")]))), /is still open/)
    assert.deepStrictEqual(Either.getOrThrow(Repair.closed(state, [])), { after: state, events: [] })
  })

  it.prop(
    "law 8: nothing that was there changes, and the same log is closed the same way",
    { log: logsOf(300), at: fc.nat() },
    ({ at, log }) => {
      const prefix = deepFreeze(log.slice(0, at % (log.length + 1)))
      const before = JSON.stringify(prefix)
      const once = repaired(prefix)
      assert.strictEqual(JSON.stringify(prefix), before)
      assert.deepStrictEqual(once.slice(0, prefix.length), prefix)
      assert.strictEqual(JSON.stringify(repaired(prefix)), JSON.stringify(once))
      for (const closer of once.slice(prefix.length)) assert.strictEqual(closer.time, prefix.at(-1)?.time)
    }
  )

  it.prop("law 8: a log that balances gets nothing", { log: logsOf(300) }, ({ log }) => {
    for (const event of log)
      if (event.type === "turn/end") assert.deepStrictEqual(closersOf(log.slice(0, event.seq + 1)), [])
  })

  it("law 8: a settled call's context is queued by whoever writes its result, once", () => {
    const note = said("t1s1c1-context-0", "note", "context")
    const log = followedBy(
      called("bash", "look"),
      call([1, 1, 0]),
      call([1, 1, 1], "look"),
      settled([1, 1, 1], { ...outcome("seen"), context: [note] })
    )
    const closed = repaired(log)
    assert.deepStrictEqual(types(closed.slice(log.length)), [
      "tool/result",
      "tool/result",
      "agent/inbox/spliced",
      "step/end",
      "turn/end"
    ])
    assert.deepStrictEqual(stateOf(closed).inbox["next-step"], [note])
  })
})

describe("what repair writes", () => {
  it("G01: a turn without a step is ended and nothing else", () => {
    const log = logOf(inserted("next-turn", 0, prompt), turnStart(1), claimed("next-turn", 0))
    assert.deepStrictEqual(closersOf(log), [turnEnd(1, "interrupted")])
    assert.deepStrictEqual(closersOf(log.slice(0, 2)), [turnEnd(1, "interrupted")])
    assert.deepStrictEqual(closersOf(log.slice(0, 1)), [])
  })

  it("G01: a step whose calls are answered, or that has none, is ended and nothing else", () => {
    const closers = [stepEnd(1, 1), turnEnd(1, "interrupted")]
    const log = followedBy(called("bash"), call([1, 1, 0]), result([1, 1, 0], outcome("done"), [7]))
    assert.deepStrictEqual(closersOf(log), closers)
    assert.deepStrictEqual(closersOf(log.slice(0, 4)), closers)
    assert.deepStrictEqual(closersOf(followedBy(log.slice(0, 6), chunk(1, 1, "half an ans"))), closers)
    assert.deepStrictEqual(closersOf(followedBy(log, stepEnd(1, 1))), [turnEnd(1, "interrupted")])
  })

  it("G02: a call that was started and tells nothing has an unknown outcome that cites its start", () => {
    const log = followedBy(called("bash"), call([1, 1, 0]))
    const [answered, ...rest] = closersOf(log)
    assert.deepStrictEqual(rest, [stepEnd(1, 1), turnEnd(1, "interrupted")])
    assert.deepStrictEqual(codes(closersOf(log)), ["TOOL_OUTCOME_UNKNOWN"])
    assert.deepStrictEqual(answered?.sourceEventSeqs, [7])
  })

  it("G02: its text says how safe a retry is, as the tool was annotated in the header of its request", () => {
    const texts = ["look", "put", "bash", "unheard-of"].map((name) => {
      const [answered] = closersOf(followedBy(called(name), call([1, 1, 0], name)))
      return answered?.type === "tool/result" ? answered.data.message.content[0]?.text : undefined
    })
    const happened = "Error: this tool call was recorded as started, outcome unknown."
    const check = "may have changed something: check the outside world first, or ask. Do not retry it blindly."
    assert.deepStrictEqual(texts, [
      `${happened} look is read-only: retry it if it is still needed.`,
      `${happened} put is idempotent: retry it if it is still needed.`,
      `${happened} bash ${check}`,
      `${happened} unheard-of ${check}`
    ])
  })

  it("G03: a call without a start was never started, cites nothing, and may be retried", () => {
    const log = called("bash")
    const [answered] = closersOf(log)
    assert.deepStrictEqual(codes(closersOf(log)), ["TOOL_NOT_STARTED"])
    assert.isUndefined(answered?.sourceEventSeqs)
    assert.include(JSON.stringify(answered), "never started. Retry it")
  })

  it("G03: a call that was not, or not yet, allowed to run never started", () => {
    const open = followedBy(called("bash"), call([1, 1, 0]), asked([1, 1, 0]))
    assert.deepStrictEqual(types(closersOf(open)), ["approval/decided", "tool/result", "step/end", "turn/end"])
    assert.deepStrictEqual(closersOf(open)[0], decided([1, 1, 0], "interrupted"))
    assert.deepStrictEqual(closersOf(open)[1]?.sourceEventSeqs, [7])
    const code = {
      "allowed-once": "TOOL_OUTCOME_UNKNOWN",
      "allowed-always": "TOOL_OUTCOME_UNKNOWN",
      rejected: "TOOL_NOT_STARTED",
      unavailable: "TOOL_NOT_STARTED",
      canceled: "TOOL_NOT_STARTED"
    } as const
    for (const decision of Object.keys(code) as ReadonlyArray<keyof typeof code>) {
      const closers = closersOf(followedBy(open, decided([1, 1, 0], decision)))
      assert.deepStrictEqual(codes(closers), [code[decision]], decision)
      assert.deepStrictEqual(types(closers), ["tool/result", "step/end", "turn/end"])
    }
  })

  it("G04: mixed fates are closed in model order, a settled call with its real result", () => {
    const log = followedBy(
      called("bash", "bash", "bash", "bash"),
      call([1, 1, 0]),
      call([1, 1, 1]),
      call([1, 1, 2]),
      spawned([1, 1, 1]),
      settled([1, 1, 2], { ...outcome("no such file", "UNKNOWN"), meta: { exitCode: 2 } }),
      result([1, 1, 0], outcome("done"), [7])
    )
    const closers = closersOf(log)
    assert.deepStrictEqual(types(closers), ["tool/result", "tool/result", "tool/result", "step/end", "turn/end"])
    assert.deepStrictEqual(codes(closers), ["TOOL_OUTCOME_UNKNOWN", "UNKNOWN", "TOOL_NOT_STARTED"])
    assert.deepStrictEqual(
      closers[1],
      result([1, 1, 2], { ...outcome("no such file", "UNKNOWN"), meta: { exitCode: 2 } }, [9, 11])
    )
    assert.deepStrictEqual(naiveLaws(repaired(log)), [])
  })

  it("G05: calls that a closed step left open get no result from repair", () => {
    const failed = followedBy(called("bash", "bash"), call([1, 1, 0]), stepEnd(1, 1))
    assert.deepStrictEqual(closersOf(failed), [turnEnd(1, "interrupted")])
    const later = followedBy(failed, turnFailed(1), turnStart(2), stepStart(2, 1), input(said("q", "and now?")))
    assert.deepStrictEqual(closersOf(later), [stepEnd(2, 1), turnEnd(2, "interrupted")])
  })

  it("G06: an empty and a balanced log get nothing, nor does a repaired one", () => {
    assert.deepStrictEqual(closersOf([]), [])
    assert.deepStrictEqual(closersOf(logOf(inserted("next-turn", 0, prompt))), [])
    const log = repaired(called("bash", "look"))
    assert.deepStrictEqual(closersOf(log), [])
  })

  it("W31: two calls with one id of the provider's own have a result each, keyed by position", () => {
    const same = { providerCallId: "call-0" }
    const log = followedBy(
      called().slice(0, 6),
      answer(1, 1, [block(1, 1, 0, "bash", same), text("and"), block(1, 1, 1, "bash", same)]),
      call([1, 1, 0])
    )
    const results = closersOf(log).flatMap((event) => (event.type === "tool/result" ? [event.data] : []))
    assert.deepStrictEqual<unknown>(
      results.map(({ error, message }) => [message.id, message.callId, error?.code]),
      [
        ["t1s1c0", "t1s1c0", "TOOL_OUTCOME_UNKNOWN"],
        ["t1s1c1", "t1s1c1", "TOOL_NOT_STARTED"]
      ]
    )
  })

  it("O-A5: an open call is closed in its step, whatever earlier turns left behind", () => {
    const before = followedBy(called("bash"), call([1, 1, 0]), stepEnd(1, 1), turnFailed(1))
    const log = followedBy(
      before,
      turnStart(2),
      stepStart(2, 1),
      input(said("q", "again")),
      answer(2, 1, [block(2, 1, 0)]),
      call([2, 1, 0])
    )
    const closers = closersOf(log)
    assert.deepStrictEqual(types(closers), ["tool/result", "step/end", "turn/end"])
    assert.deepStrictEqual(closers[0]?.sourceEventSeqs, [log.length - 1])
    assert.deepStrictEqual(naiveLaws(repaired(log)), [])
  })

  it("O-A9: the closers come before anything that follows", () => {
    const log = followedBy(called("bash"), call([1, 1, 0]))
    const next: Log = followedBy(repaired(log), turnStart(2), stepStart(2, 1), input(said("q", "next")))
    assert.deepStrictEqual(
      SessionState.requestMessages(stateOf(next)).map((message) => message.role),
      ["user", "assistant", "tool", "user"]
    )
    const late = SessionState.apply(stateOf(next), {
      ...result([1, 1, 0], outcome("late"), [7]),
      seq: next.length,
      time: next[0]?.time ?? 0
    })
    assert.isTrue(Either.isLeft(late))
  })

  it("O-B4: an answer whose turn never ended is closed, not answered again", () => {
    const log = followedBy(called().slice(0, 6), answer(1, 1, [text("all done")]))
    assert.deepStrictEqual(closersOf(log), [stepEnd(1, 1), turnEnd(1, "interrupted")])
  })

  it("O-G2: opening the same session five times leaves one log and one request", () => {
    let log: ReadonlyArray<StoredEvent> = repaired(followedBy(called("bash", "look"), call([1, 1, 0])))
    const once = JSON.stringify(log)
    const request = JSON.stringify(SessionState.deriveRequest(stateOf(log)))
    for (let i = 0; i < 5; i++) log = repaired(log)
    assert.strictEqual(JSON.stringify(log), once)
    assert.strictEqual(JSON.stringify(SessionState.deriveRequest(stateOf(log))), request)
  })

  it("A04: the turn after a repaired one is numbered on, its steps from 1", () => {
    const log = repaired(called("bash"))
    assert.isTrue(Either.isRight(SessionState.fold(placed([turnStart(2), stepStart(2, 1)], log), stateOf(log))))
    for (const events of [[turnStart(1)], [turnStart(3)], [turnStart(2), stepStart(2, 2)]])
      assert.isTrue(Either.isLeft(SessionState.fold(placed(events, log), stateOf(log))))
  })
})
