/**
 * What the second policy keeps of an answer that was cut off, what a reaper's report adds to either, and where the cases of
 * crash repair lead.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import type { RunChunk } from "../../src/domain/Chunk.ts"
import type { SessionEvent } from "../../src/domain/Event.ts"
import { text } from "../../src/domain/Message.ts"
import * as Repair from "../../src/domain/Repair.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import * as Verification from "../../src/domain/Verification.ts"
import {
  answer,
  asked,
  block,
  call,
  chunk,
  decided,
  followedBy,
  input,
  inserted,
  type Log,
  outcome,
  partial,
  placed,
  said,
  settled,
  spawned,
  stateOf,
  stepAsking,
  stepEnd,
  stepStart,
  turnEnd,
  turnStart
} from "../support/Facts.ts"
import { naiveLaws } from "../support/NaiveFold.ts"

const prompt = said("p", "go")
const closing = [stepEnd(1, 1), turnEnd(1, "interrupted")]

/** A step that asks: what it streams begins at seq 6. */
const asking = stepAsking(prompt)

const streamed = (...chunks: ReadonlyArray<RunChunk>): Log =>
  followedBy(
    asking,
    ...chunks.map((chunk): SessionEvent => ({ type: "assistant/chunk", data: { turn: 1, step: 1, chunk } }))
  )

const retry: SessionEvent = {
  type: "request/retry",
  data: { turn: 1, step: 1, attempt: 1, delayMillis: 500, failure: { message: "busy", code: "RATE_LIMIT" } }
}

const minimal = (log: Log, report?: Repair.ReapReport) => Repair.closers(stateOf(log), report)
const salvage = (log: Log, report?: Repair.ReapReport) => Repair.salvage(stateOf(log), report)

const holds = (log: Log): void => {
  assert.deepStrictEqual(naiveLaws(log), [])
  assert.deepStrictEqual(Verification.verify(log), [])
}

describe("an answer that was cut off with its owner", () => {
  it("G11 W08: its chunks stay; the one policy adds no message, the other the text so far, which the next request carries", () => {
    const log = streamed({ type: "text", index: 0, text: "half an " }, { type: "text", index: 0, text: "answer" })
    assert.deepStrictEqual(minimal(log), closing)
    assert.deepStrictEqual(salvage(log), [partial(1, 1, [text("half an answer")], [6, 7]), ...closing])
    for (const [closers, roles] of [
      [minimal(log), ["user"]],
      [salvage(log), ["user", "assistant"]]
    ] as const) {
      const repaired = followedBy(log, ...closers)
      holds(repaired)
      assert.deepStrictEqual(repaired.slice(0, log.length), log)
      assert.deepStrictEqual<unknown>(
        SessionState.requestMessages(stateOf(repaired)).map(({ role }) => role),
        roles
      )
    }
  })

  it("W08 D02 D04 D05 D07: text, reasoning and usage are kept, calls that had begun are not", () => {
    const usage = { inputTokens: 1, outputTokens: 2 }
    const log = streamed(
      { type: "reasoning", index: 0, text: "hm" },
      { type: "blob", index: 0, blob: { signature: "s" } },
      { type: "text", index: 1, text: "let me" },
      { type: "tool-call", index: 2, name: "bash", arguments: '{"comm' },
      { type: "text", index: 3, text: " \n" },
      { type: "usage", usage }
    )
    const [kept, ...rest] = salvage(log)
    assert.deepStrictEqual(rest, closing)
    if (kept?.type !== "assistant/message") return assert.fail("nothing is kept")
    assert.deepStrictEqual(kept.data.message.content, [
      { type: "reasoning", text: "hm", blob: { signature: "s" } },
      text("let me")
    ])
    assert.deepStrictEqual(kept.data.message.source, { provider: "scripted", model: "script" })
    assert.deepStrictEqual([kept.data.interrupted, kept.data.finish, kept.data.usage], [true, undefined, usage])
    assert.deepStrictEqual(kept.sourceEventSeqs, { from: 6, to: 11 })
    holds(followedBy(log, kept, ...rest))
  })

  it("W08 D05: where nothing readable came there is no message", () => {
    const nothing: ReadonlyArray<Log> = [
      asking,
      streamed({ type: "text", index: 0, text: " \n\t" }),
      streamed({ type: "tool-call", index: 0, name: "bash", arguments: "{}" }),
      streamed({ type: "blob", index: 0, blob: "x" }, { type: "usage", usage: { inputTokens: 1, outputTokens: 0 } })
    ]
    for (const log of nothing) assert.deepStrictEqual(salvage(log), minimal(log))
    const whole = followedBy(asking, chunk(1, 1, "all of it"), answer(1, 1, [text("all of it")], { cites: [6] }))
    assert.deepStrictEqual(salvage(whole), closing)
    const cut = followedBy(asking, chunk(1, 1, "some"), partial(1, 1, [text("some")], [6]))
    assert.deepStrictEqual(salvage(cut), closing)
    const later = followedBy(cut, ...closing)
    assert.deepStrictEqual(salvage(later), [])
  })

  it("W22 G18 O08: a wait for another attempt closes as any step; what failed attempts said is not kept", () => {
    const waiting = followedBy(asking, chunk(1, 1, "first try"), retry)
    assert.deepStrictEqual(minimal(waiting), closing)
    assert.deepStrictEqual(salvage(waiting), closing)
    const again = followedBy(
      waiting,
      chunk(1, 1, "second "),
      inserted("next-step", 0, said("q", "s")),
      chunk(1, 1, "try")
    )
    assert.deepStrictEqual(salvage(again), [partial(1, 1, [text("second try")], [8, 10]), ...closing])
    for (const log of [waiting, again]) holds(followedBy(log, ...salvage(log)))
  })

  it("law 8: a message at a time of its own is not what repair writes, and is noticed", () => {
    const log = streamed({ type: "text", index: 0, text: "half" })
    const repaired = followedBy(log, ...salvage(log))
    holds(repaired)
    const later = repaired.map((event) => (event.seq < log.length ? event : { ...event, time: event.time + 1 }))
    assert.include(JSON.stringify(Verification.verify(later)), "kept by repair, at a time of its own")
    const ends = repaired.map((event) => (event.seq <= log.length ? event : { ...event, time: event.time + 1 }))
    assert.include(JSON.stringify(Verification.verify(ends)), "closed by repair, at a time of its own")
  })
})

const found = (at: Parameters<typeof spawned>[0], pgid: number, found: Repair.Found): Repair.ReapReport[number] => {
  const event = spawned(at)
  if (event.type !== "tool/process") throw new Error("no process")
  return { process: { ...event.data, pgid }, found }
}

/** What the results that repair writes say. */
const told = (events: ReadonlyArray<SessionEvent>) =>
  events.flatMap((event) => (event.type === "tool/result" ? event.data.message.content.map((part) => part.text) : []))

describe("what a reaper found", () => {
  const called = (...names: ReadonlyArray<string>) =>
    followedBy(
      asking,
      answer(
        1,
        1,
        names.map((name, index) => block(1, 1, index, name))
      ),
      ...names.map((name, index) => call([1, 1, index], name))
    )

  it("W25: is told with the outcome that nobody knows, each process with its own call", () => {
    const log = followedBy(called("bash", "look"), spawned([1, 1, 0]))
    const report = [found([1, 1, 0], 4711, "ended"), found([1, 1, 1], 11, "gone"), found([1, 1, 0], 12, "running")]
    const recorded = "Error: this tool call was recorded as started, outcome unknown."
    const texts = [
      `${recorded} Its process 4711 still ran and was ended. Its process 12 still runs. bash may have changed something: check the outside world first, or ask. Do not retry it blindly.`,
      `${recorded} Its process 11 had ended. look is read-only: retry it if it is still needed.`
    ]
    const fates = [
      "Its process 4711 still ran and was ended.",
      "Its process 12 still runs.",
      "Its process 11 had ended."
    ]
    for (const closers of [minimal(log, report), salvage(log, report)]) {
      assert.deepStrictEqual(told(closers), texts)
      assert.deepStrictEqual(Repair.fates(followedBy(log, ...closers)), fates)
      holds(followedBy(log, ...closers))
    }
    const closers = minimal(log, [found([1, 1, 0], 4711, "unknown")])
    const unseen = told(closers)
    const fate = "Nobody could see whether its process 4711 still runs."
    assert.include(unseen[0], fate)
    assert.deepStrictEqual(Repair.fates(followedBy(log, ...closers)), [fate])
    assert.notInclude(unseen[1], "process")
  })

  it("W25: changes nothing of a call whose result is known, or that never ran", () => {
    const log = followedBy(
      called("bash", "bash"),
      spawned([1, 1, 0]),
      settled([1, 1, 0], outcome("done")),
      asked([1, 1, 1]),
      decided([1, 1, 1], "rejected")
    )
    const report = [found([1, 1, 0], 4711, "ended"), found([1, 1, 1], 12, "ended")]
    assert.deepStrictEqual(minimal(log, report), minimal(log))
  })
})

describe("a crash", () => {
  it("G12 W09: before a step the claim is not there yet, and the prompt waits; with the step it is in the history", () => {
    const turn = asking.slice(0, 2)
    assert.deepStrictEqual(minimal(turn), [turnEnd(1, "interrupted")])
    assert.deepStrictEqual(stateOf(followedBy(turn, ...minimal(turn))).inbox["next-turn"], [prompt])
    const entered = asking.slice(0, 5)
    const state = stateOf(followedBy(entered, ...minimal(entered)))
    assert.deepStrictEqual(state.inbox["next-turn"], [])
    assert.deepStrictEqual(SessionState.requestMessages(state), [prompt])
  })

  it("G13: right after the first request was sent the step and the turn are closed, and nothing else", () => {
    for (const closers of [minimal(asking), salvage(asking)]) assert.deepStrictEqual(closers, closing)
  })

  it("G15: of a tail that was never written the closers know nothing; a gap before it is refused, not repaired", () => {
    const log = followedBy(asking, answer(1, 1, [block(1, 1, 0)]), call([1, 1, 0]))
    for (let cut = 0; cut < log.length; cut++) {
      const remains = log.slice(0, cut)
      holds(followedBy(remains, ...salvage(remains)))
    }
    const refusal = Either.getOrThrow(Either.flip(SessionState.fold(log.toSpliced(3, 1))))
    assert.strictEqual(refusal, "seq 4 stands where 3 was due")
  })

  it("G18 W22: an open question is closed before its call, its step and its turn", () => {
    const log = followedBy(asking, answer(1, 1, [block(1, 1, 0)]), call([1, 1, 0]), asked([1, 1, 0]))
    for (const closers of [minimal(log), salvage(log)]) {
      assert.deepStrictEqual(
        closers.map(({ type }) => type),
        ["approval/decided", "tool/result", "step/end", "turn/end"]
      )
      assert.deepStrictEqual(closers[0], decided([1, 1, 0], "interrupted"))
      holds(followedBy(log, ...closers))
    }
  })

  it("G19: no mark is added: the seed's length tells what is the session's own", () => {
    const closed = followedBy(asking, ...minimal(asking), inserted("next-turn", 0, said("q", "next")))
    assert.deepStrictEqual(minimal(closed), [])
    const child = Either.getOrThrow(SessionState.fold(closed, SessionState.initial(closed.length)))
    assert.deepStrictEqual(Repair.salvage(child), [])
    assert.deepStrictEqual([child.head, child.summary.waiting], [closed.length, 0])
    // the request is its parent's
    assert.deepStrictEqual(SessionState.deriveRequest(child), SessionState.deriveRequest(stateOf(closed)))
  })
})

describe("what repair costs", () => {
  /** A value that nobody may look at. */
  const sealed = <A extends object>(value: A): A =>
    new Proxy(value, {
      get: () => {
        throw new Error("repair looked at what came before the open turn")
      }
    })

  it("W03: it looks at the open turn alone, whatever came before", () => {
    const open = [
      stepStart(2, 1),
      input(said("q", "again")),
      answer(2, 1, [block(2, 1, 0), block(2, 1, 1)]),
      call([2, 1, 0]),
      call([2, 1, 1]),
      settled([2, 1, 1], { ...outcome("early"), context: [said("t2s1c1-context-0", "note", "context")] })
    ]
    const before = followedBy(asking, ...minimal(asking), turnStart(2))
    for (const log of [
      followedBy(before, ...open),
      followedBy(before, ...open.slice(0, 2), chunk(2, 1, "half")),
      before
    ]) {
      const state = stateOf(log)
      const { accepted, consumed, summary, transcript } = state
      const hidden = {
        ...state,
        accepted: sealed(accepted),
        consumed: sealed(consumed),
        summary: sealed(summary),
        transcript: sealed(transcript)
      }
      for (const policy of [Repair.closers, Repair.salvage]) {
        const closers = policy(hidden)
        assert.deepStrictEqual(closers, policy(state))
        assert.isAtMost(closers.length, 6)
        assert.strictEqual(placed(closers, log).at(-1)?.type, "turn/end")
      }
    }
  })
})
