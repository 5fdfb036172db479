import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as fc from "effect/FastCheck"
import type { SessionEvent, StoredEvent } from "../../src/domain/Event.ts"
import * as Inbox from "../../src/domain/Inbox.ts"
import { text } from "../../src/domain/Message.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import {
  answer,
  chunk,
  claimed,
  dropped,
  followedBy,
  header,
  input,
  inserted,
  type Log,
  logOf,
  placed,
  said,
  stateOf,
  stepEnd,
  stepStart,
  turnEnd,
  turnStart
} from "../support/Facts.ts"
import { logsOf } from "../support/Logs.ts"

const refusal = (log: Log, event: SessionEvent): string =>
  Either.match(SessionState.fold(placed([event], log), stateOf(log)), {
    onLeft: (detail) => detail,
    onRight: () => "accepted"
  })

const waiting = (log: Log, seedLength = 0) => {
  const { inbox } = Either.getOrThrow(SessionState.fold(log, SessionState.initial(seedLength)))
  return { turn: inbox["next-turn"].map(({ id }) => `${id}`), step: inbox["next-step"].map(({ id }) => `${id}`) }
}

const message = (id: string, kind: "prompt" | "steer" | "inject" = "prompt") => said(id, `says ${id}`, kind)

describe("the inbox", () => {
  const queued = logOf(
    inserted("next-turn", 0, message("a")),
    inserted("next-turn", 1, message("b"), message("c")),
    inserted("next-step", 0, message("x", "inject"))
  )

  it("B21: is what the splices say, in order", () => {
    assert.deepStrictEqual(waiting(queued), { turn: ["a", "b", "c"], step: ["x"] })
    assert.deepStrictEqual(waiting(followedBy(queued, dropped("next-turn", 1))), { turn: ["a", "c"], step: ["x"] })
    assert.deepStrictEqual(waiting(followedBy(queued, inserted("next-turn", 1, message("d")))).turn, [
      "a",
      "d",
      "b",
      "c"
    ])
  })

  it("B21: a splice that does not fit the lists is refused and names its seq", () => {
    assert.strictEqual(
      refusal(queued, claimed("next-turn", 2, 2)),
      "seq 3: a splice of 2 at 2 does not fit 3 messages for next-turn"
    )
    assert.strictEqual(
      refusal(queued, dropped("next-step", 1)),
      "seq 3: a splice of 1 at 1 does not fit 1 messages for next-step"
    )
    assert.deepStrictEqual(waiting(queued), { turn: ["a", "b", "c"], step: ["x"] })
  })

  it("B08: an id that waits in either list is refused in both, also twice in one splice", () => {
    for (const target of ["next-turn", "next-step"] as const) {
      for (const id of ["a", "x"])
        assert.strictEqual(refusal(queued, inserted(target, 0, message(id))), "seq 3: a message waits twice")
      assert.strictEqual(
        refusal(queued, inserted(target, 0, message("n"), message("n"))),
        "seq 3: a message waits twice"
      )
      assert.strictEqual(refusal(queued, inserted(target, 0, message("n"))), "accepted")
    }
  })

  it("B08: an id may wait again once it does not wait any more, also in the place of itself", () => {
    assert.strictEqual(
      refusal(followedBy(queued, dropped("next-turn", 0)), inserted("next-step", 1, message("a"))),
      "accepted"
    )
    const rewritten: SessionEvent = {
      type: "agent/inbox/spliced",
      data: { target: "next-turn", start: 0, removedCount: 1, inserted: [message("a")], outcome: "canceled" }
    }
    assert.strictEqual(refusal(queued, rewritten), "accepted")
  })

  it("B22: splices that a fork inherited are not its own", () => {
    assert.deepStrictEqual(waiting(queued, 3), { turn: [], step: [] })
    const own = followedBy(queued, inserted("next-turn", 0, message("own")))
    assert.deepStrictEqual(waiting(own, 3), { turn: ["own"], step: [] })
  })

  it("B05: the first boundary of a turn takes all next-step input and one prompt, an inner one next-step input alone", () => {
    const { inbox } = stateOf(followedBy(queued, inserted("next-step", 1, message("s", "steer"))))
    assert.deepStrictEqual<unknown>(
      Inbox.offer(inbox, "first").map(({ id }) => id),
      ["x", "s", "a"]
    )
    assert.deepStrictEqual<unknown>(
      Inbox.offer(inbox, "inner").map(({ id }) => id),
      ["x", "s"]
    )
    assert.deepStrictEqual(Inbox.offer(Inbox.empty, "first"), [])
  })

  it("B01: prompts and steering wake, what is injected does not", () => {
    const wakes = (...events: ReadonlyArray<SessionEvent>) => Inbox.wakes(stateOf(logOf(...events)).inbox)
    assert.isFalse(wakes())
    assert.isFalse(wakes(inserted("next-step", 0, message("x", "inject"))))
    assert.isTrue(wakes(inserted("next-step", 0, message("x", "inject"), message("s", "steer"))))
    assert.isTrue(wakes(inserted("next-turn", 0, message("a"))))
  })

  it.prop(
    "B06: taking any set of messages out leaves the others in order, a splice a run, next-step first",
    {
      log: logsOf(300),
      at: fc.nat(),
      keep: fc.array(fc.boolean(), { minLength: 30, maxLength: 30 }),
      isDrop: fc.boolean()
    },
    ({ at, isDrop, keep, log }) => {
      const prefix = log.slice(0, at % (log.length + 1))
      const { inbox } = stateOf(prefix)
      const all = Inbox.pending(inbox)
      const gone = new Set(all.filter((_, index) => keep[index % 30] !== true).map(({ id }) => id))
      const events = Inbox.removed(inbox, gone, isDrop ? "canceled" : undefined)
      const after = stateOf(followedBy(prefix, ...events)).inbox
      assert.deepStrictEqual(
        Inbox.pending(after),
        all.filter(({ id }) => !gone.has(id))
      )
      let taken = 0
      const targets = events.flatMap((event) => {
        if (event.type !== "agent/inbox/spliced") return []
        taken += event.data.removedCount ?? 0
        assert.strictEqual(event.data.outcome, isDrop ? "canceled" : undefined)
        return [event.data.target]
      })
      assert.strictEqual(taken, gone.size)
      assert.deepStrictEqual(targets, [...targets].sort()) // next-step before next-turn
    }
  )
})

describe("the summary", () => {
  it("says what `sessions` lists", () => {
    const rest = { waiting: 0, dropped: false }
    assert.deepStrictEqual(stateOf([]).summary, { title: "", turns: 0, open: false, ...rest })
    const open = logOf(turnStart(1), stepStart(1, 1), input(said("p", "\n  First line\nsecond")))
    const title = "First line"
    assert.deepStrictEqual(stateOf(open).summary, { title, turns: 1, open: true, ...rest })
    const closed = followedBy(open, input(said("q", "not this one")), stepEnd(1, 1), turnEnd(1, "aborted"))
    assert.deepStrictEqual(stateOf(closed).summary, { title, turns: 1, ending: "aborted", open: false, ...rest })
    const again = followedBy(closed, turnStart(2))
    assert.deepStrictEqual(stateOf(again).summary, { title, turns: 2, ending: "aborted", open: true, ...rest })
  })

  it("says how many messages wait, in both lists, and whether work was dropped since the last that was done", () => {
    const told = (log: Log) => {
      const { dropped, waiting } = stateOf(log).summary
      return [waiting, dropped]
    }
    const queued = logOf(
      inserted("next-turn", 0, message("a"), message("b")),
      inserted("next-step", 0, message("x", "inject"))
    )
    assert.deepStrictEqual(told(queued), [3, false])
    const taken = followedBy(queued, turnStart(1), claimed("next-step", 0), claimed("next-turn", 0), stepStart(1, 1))
    assert.deepStrictEqual(told(taken), [1, false])
    const lost = followedBy(taken, dropped("next-turn", 0))
    assert.deepStrictEqual(told(lost), [0, true])
    const closed = followedBy(lost, stepEnd(1, 1), turnEnd(1, "aborted"), turnStart(2), stepStart(2, 1))
    assert.deepStrictEqual(told(closed), [0, true])
    assert.deepStrictEqual(told(followedBy(closed, stepEnd(2, 1), turnEnd(2, "completed"))), [0, false])
  })

  it("is told apart from another one, and what an older build did not know of is not judged", () => {
    const summary = stateOf(logOf(inserted("next-turn", 0, message("a")))).summary
    const { dropped: _dropped, waiting: _waiting, ...older } = summary
    for (const same of [summary, older, { ...older, waiting: 1 }, { ...older, dropped: false }])
      assert.isTrue(SessionState.isSummary(same, summary), JSON.stringify(same))
    for (const other of [
      { ...summary, waiting: 2 },
      { ...older, waiting: 0 },
      { ...older, dropped: true },
      { ...older, title: "b" }
    ])
      assert.isFalse(SessionState.isSummary(other, summary), JSON.stringify(other))
  })

  it("O-O1: a title is cut between characters", () => {
    const { title } = stateOf(logOf(turnStart(1), stepStart(1, 1), input(said("p", "😀".repeat(100))))).summary
    assert.strictEqual(title, "😀".repeat(80))
  })
})

describe("the request", () => {
  it("law 1: there is none before a header, and the last header counts", () => {
    const bare = logOf(turnStart(1), stepStart(1, 1), input(said("p", "hi")))
    assert.isUndefined(SessionState.deriveRequest(stateOf(bare)))
    const log = followedBy(
      bare,
      header("initial", "one"),
      answer(1, 1, [text("yes")]),
      stepEnd(1, 1),
      stepStart(1, 2),
      header("change", "two")
    )
    const request = SessionState.deriveRequest(stateOf(log))
    assert.strictEqual(request?.config.model, "two")
    assert.strictEqual(request?.messages.length, 2)
  })

  it("law 1: what streams changes no request until its step is closed", () => {
    const log = logOf(turnStart(1), stepStart(1, 1), input(said("p", "hi")), header())
    const streaming = followedBy(
      log,
      chunk(1, 1, "he"),
      chunk(1, 1, "llo"),
      answer(1, 1, [text("hello")], { cites: [4, 5] })
    )
    assert.deepStrictEqual(SessionState.deriveRequest(stateOf(streaming)), SessionState.deriveRequest(stateOf(log)))
    const closed = followedBy(streaming, stepEnd(1, 1))
    assert.strictEqual(SessionState.requestMessages(stateOf(closed)).length, 2)
  })
})

/** Counts every property that a fold reads of its events, however deep. */
const counting = () => {
  let reads = 0
  const wrap = <A extends object>(value: A): A =>
    new Proxy(value, {
      get: (target, key, receiver) => {
        reads++
        const item: unknown = Reflect.get(target, key, receiver)
        return item !== null && typeof item === "object" ? wrap(item) : item
      }
    })
  return { wrap, reads: () => reads }
}

describe("what a fold costs", () => {
  it("W05, W06: each of 20,000 chunks is read once, and equally often, whatever came before", () => {
    const open = stateOf(logOf(turnStart(1), stepStart(1, 1), input(said("p", "go")), header()))
    const { reads, wrap } = counting()
    let state = open
    const costs = new Set<number>()
    for (let i = 0; i < 20_000; i++) {
      const before = reads()
      const event: StoredEvent = { ...chunk(1, 1, "some text"), seq: state.head, time: state.time }
      state = Either.getOrThrow(SessionState.apply(state, wrap(event)))
      costs.add(reads() - before)
    }
    assert.strictEqual(state.head, open.head + 20_000)
    assert.strictEqual(costs.size, 1)
  })

  it("W05: a turn late in a session reads as much as an early one, and no event of an earlier turn", () => {
    const turn = (number: number): ReadonlyArray<SessionEvent> => [
      inserted("next-turn", 0, said(`p${number}`, "go")),
      turnStart(number),
      claimed("next-turn", 0),
      stepStart(number, 1),
      input(said(`p${number}`, "go")),
      chunk(number, 1, "done"),
      answer(number, 1, [text("done")]),
      stepEnd(number, 1),
      turnEnd(number, "completed")
    ]
    const { reads, wrap } = counting()
    let state = SessionState.initial()
    const costs: Array<number> = []
    for (let number = 1; number <= 400; number++) {
      const before = reads()
      for (const event of turn(number))
        state = Either.getOrThrow(SessionState.apply(state, wrap({ ...event, seq: state.head, time: 1 })))
      costs.push(reads() - before)
    }
    assert.strictEqual(new Set(costs.slice(1)).size, 1)
  })

  it("O-P3: what a state holds is what a model still sees, whatever was ever streamed", () => {
    const words = "x".repeat(100_000)
    let state = SessionState.initial()
    const push = (event: SessionEvent) => {
      state = Either.getOrThrow(SessionState.apply(state, { ...event, seq: state.head, time: 1 }))
    }
    /** A turn of a long answer, streamed, tried twice, and then replaced by a sentence. */
    const turn = (number: number) => {
      push(turnStart(number))
      const from = state.head
      push(stepStart(number, 1))
      push(input(said(`p${number}`, "go")))
      push(chunk(number, 1, words))
      const failure = { message: "busy", code: "RATE_LIMIT" }
      push({ type: "request/retry", data: { turn: number, step: 1, attempt: 1, delayMillis: 1, failure } })
      push(chunk(number, 1, words))
      push(answer(number, 1, [text(words)], { cites: [state.head - 1] }))
      push(stepEnd(number, 1))
      push(turnEnd(number, "completed"))
      const to = state.head - 2
      push({
        type: "context/replaced",
        data: { from: number === 1 ? from : first, to, messages: [said(`s${number}`, "so far")] }
      })
    }
    const first = 1
    const sizes = Array.from({ length: 100 }, (_, index) => {
      turn(index + 1)
      const { accepted: _ids, ...held } = state
      return JSON.stringify(held).length
    })
    assert.isBelow(Math.max(...sizes), 2_000)
    assert.deepStrictEqual(state.summary.hidden, [{ from: 1, to: state.head - 3 }])
  })

  it.prop(
    "W21: a fold that stops anywhere and goes on ends where one that ran through ends",
    { log: logsOf(300), at: fc.nat() },
    ({ at, log }) => {
      const cut = at % (log.length + 1)
      const resumed = Either.getOrThrow(SessionState.fold(log.slice(cut), stateOf(log.slice(0, cut))))
      const through = stateOf(log)
      assert.deepStrictEqual(SessionState.deriveRequest(resumed), SessionState.deriveRequest(through))
      assert.deepStrictEqual(
        { ...resumed, transcript: undefined, brackets: JSON.stringify(resumed.brackets) },
        { ...through, transcript: undefined, brackets: JSON.stringify(through.brackets) }
      )
      assert.strictEqual(SessionState.requestDigest(resumed), SessionState.requestDigest(through))
    }
  )
})
