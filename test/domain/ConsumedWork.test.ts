import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { foldConsumedWork } from "../../src/domain/ConsumedWork.ts"
import type { SessionEvent, StoredOf } from "../../src/domain/Event.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import {
  answer,
  claimed,
  dropped,
  followedBy,
  input,
  inserted,
  type Log,
  logOf,
  said,
  stateOf,
  stepEnd,
  stepStart,
  turnEnd,
  turnFailed,
  turnStart
} from "../support/Facts.ts"
import { logs } from "../support/Logs.ts"

const prompt = said("p", "go")
const blocked = (turn: number): SessionEvent => ({
  type: "turn/end",
  data: { turn, reason: { kind: "blocked", message: "no" } }
})

/** Which turn accounts for work, and whether some was dropped since. */
const consumed = (log: Log, seedLength = 0) => {
  const { droppedUnrun, end } = foldConsumedWork(log, seedLength)
  return [end?.data.turn, droppedUnrun]
}

/** A turn that takes what waits into one step. */
const ran = (turn: number, end: SessionEvent = turnEnd(turn, "completed")): ReadonlyArray<SessionEvent> => [
  inserted("next-turn", 0, said(`p${turn}`, "go")),
  turnStart(turn),
  claimed("next-turn", 0),
  stepStart(turn, 1),
  input(said(`p${turn}`, "go")),
  answer(turn, 1, []),
  stepEnd(turn, 1),
  end
]

/** A turn that takes a prompt, or does not, and ends before a step. */
const stillborn = (turn: number, end: SessionEvent, isClaimed = true): ReadonlyArray<SessionEvent> => [
  inserted("next-turn", 0, said(`p${turn}`, "go")),
  turnStart(turn),
  ...(isClaimed ? [claimed("next-turn", 0)] : []),
  end
]

/** The same, found by looking through the whole log. */
const naive = (log: Log, seedLength: number) => {
  const own = log.slice(seedLength)
  const turns = own.flatMap((event, from) => {
    if (event.type !== "turn/start") return []
    const to = own.findIndex((other, index) => index > from && other.type === "turn/end")
    const end = own[to]
    return end?.type === "turn/end" ? [{ from, end, events: own.slice(from, to) }] : []
  })
  const last = turns.findLast(({ end, events }) => {
    const { kind } = end.data.reason
    const hasStep = events.some((event) => event.type === "step/start")
    const isClaimed = events.some(
      (event) =>
        event.type === "agent/inbox/spliced" &&
        event.data.removedCount !== undefined &&
        event.data.outcome === undefined
    )
    return hasStep || (isClaimed && ["aborted", "blocked", "error", "interrupted"].includes(kind))
  })
  const isDrop = (event: Log[number]): event is StoredOf<"agent/inbox/spliced"> =>
    event.type === "agent/inbox/spliced" && event.data.outcome === "canceled" && event.data.inserted.length === 0
  const since = last?.from ?? 0
  return { end: last?.end, droppedUnrun: own.some((event, index) => index >= since && isDrop(event)) }
}

describe("consumed work", () => {
  it("K01: is told by the end of the last turn that ran steps, whatever its reason", () => {
    assert.deepStrictEqual(consumed([]), [undefined, false])
    const ends: ReadonlyArray<SessionEvent> = [
      turnEnd(2, "completed"),
      turnEnd(2, "max-tokens"),
      turnEnd(2, "aborted"),
      turnEnd(2, "interrupted"),
      blocked(2),
      turnFailed(2)
    ]
    for (const end of ends) {
      const log = followedBy(logOf(...ran(1)), ...ran(2, end))
      const { end: found } = foldConsumedWork(log)
      assert.deepStrictEqual(found?.seq, log.length - 1)
      assert.deepStrictEqual(found?.data, log.at(-1)?.data)
    }
    const open = followedBy(logOf(...ran(1)), turnStart(2), stepStart(2, 1))
    assert.deepStrictEqual(consumed(open), [1, false])
  })

  it("K02: is told by a turn that claimed and ended aborted, blocked, failed or interrupted before a step", () => {
    for (const end of [turnEnd(2, "aborted"), turnEnd(2, "interrupted"), blocked(2), turnFailed(2)]) {
      const log = followedBy(logOf(...ran(1)), ...stillborn(2, end))
      assert.deepStrictEqual(consumed(log), [2, false])
      // one that took nothing did nothing
      assert.deepStrictEqual(consumed(followedBy(logOf(...ran(1)), ...stillborn(2, end, false))), [1, false])
    }
    assert.deepStrictEqual(consumed(logOf(...ran(1), ...stillborn(2, turnEnd(2, "completed")))), [1, false])
  })

  it("K04: work was dropped unrun if it was dropped after the last such turn began, also by its own cancel", () => {
    const waits = inserted("next-turn", 0, said("later", "then this"))
    assert.deepStrictEqual(consumed(logOf(waits, dropped("next-turn", 0))), [undefined, true])
    const after = followedBy(logOf(...ran(1)), waits, dropped("next-turn", 0))
    assert.deepStrictEqual(consumed(after), [1, true])
    // the turns that follow do nothing, until one does
    assert.deepStrictEqual(consumed(followedBy(after, ...stillborn(2, turnEnd(2, "completed")))), [1, true])
    assert.deepStrictEqual(consumed(followedBy(after, ...ran(2))), [2, false])
    const own = logOf(...ran(1).slice(0, -2), waits, dropped("next-turn", 0), stepEnd(1, 1), turnEnd(1, "aborted"))
    assert.deepStrictEqual(consumed(own), [1, true])
    // a cancel before a step drops what was not claimed yet (R8)
    const early = followedBy(
      logOf(...ran(1)),
      inserted("next-turn", 0, prompt),
      turnStart(2),
      dropped("next-turn", 0),
      turnEnd(2, "aborted")
    )
    assert.deepStrictEqual(consumed(early), [1, true])
  })

  it("K05: what is rewritten in the queue is not dropped", () => {
    const rewritten: SessionEvent = {
      type: "agent/inbox/spliced",
      data: {
        target: "next-turn",
        start: 0,
        removedCount: 1,
        inserted: [said("q", "rather this")],
        outcome: "canceled"
      }
    }
    const log = logOf(inserted("next-turn", 0, prompt), rewritten)
    assert.deepStrictEqual(consumed(log), [undefined, false])
    assert.deepStrictEqual(consumed(followedBy(log, dropped("next-turn", 0))), [undefined, true])
  })

  it("K07: a claim outside any turn makes none account for work", () => {
    const log = logOf(inserted("next-turn", 0, prompt), claimed("next-turn", 0), turnStart(1), turnEnd(1, "aborted"))
    assert.deepStrictEqual(consumed(log), [undefined, false])
    assert.deepStrictEqual(consumed(followedBy(logOf(...ran(1)), ...log.slice(0, 2))), [1, false])
  })

  it("K08: of a fork only its own events count", () => {
    const waits = inserted("next-turn", 0, said("later", "then this"))
    const seed = followedBy(logOf(...ran(1)), waits, dropped("next-turn", 0))
    assert.deepStrictEqual(consumed(seed, seed.length), [undefined, false])
    assert.deepStrictEqual(consumed(followedBy(seed, ...ran(2)), seed.length), [2, false])
    const state = SessionState.initial(seed.length)
    const child = SessionState.fold(followedBy(seed, waits), state)
    assert.include(JSON.stringify(child), '"waiting":1,"dropped":false')
    // an end whose turn began in the seed tells nothing of the child
    assert.deepStrictEqual(consumed(logOf(...ran(1)), 4), [undefined, false])
  })

  it.prop(
    "K01 K02 K04 K07 K08: at every cut of a log the fold says what a look through the log says, and so does its state",
    { log: logs, cut: FastCheck.nat(), seed: FastCheck.nat(), isFork: FastCheck.boolean() },
    ({ cut, isFork, log, seed }) => {
      const prefix = log.slice(0, cut % (log.length + 1))
      // a fork begins where no turn is open
      const places = [0, ...prefix.flatMap((event) => (event.type === "turn/end" ? [event.seq + 1] : []))]
      const seedLength = isFork ? (places[seed % places.length] ?? 0) : 0
      const { droppedUnrun, end } = foldConsumedWork(prefix, seedLength)
      assert.deepStrictEqual({ end, droppedUnrun }, naive(prefix, seedLength))
      if (seedLength > 0) return
      const { consumed, inbox, summary } = stateOf(prefix)
      assert.deepStrictEqual({ end: consumed.end, droppedUnrun: consumed.droppedUnrun }, { end, droppedUnrun })
      assert.strictEqual(summary.dropped, droppedUnrun)
      assert.strictEqual(summary.waiting, inbox["next-turn"].length + inbox["next-step"].length)
    }
  )
})
