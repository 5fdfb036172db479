import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { empty, liveLines, type Piece, show, type View, waitingFor } from "../../src/cli/RunView.ts"
import { type ChatChunk, cutRun, emptyRuns, endRun, pushDelta, type RunChunk } from "../../src/domain/Chunk.ts"
import type { SessionEvent, StoredEvent } from "../../src/domain/Event.ts"
import { callId } from "../../src/domain/Ids.ts"
import { text } from "../../src/domain/Message.ts"
import type { FeedItem, RunningCall, Status } from "../../src/domain/Notice.ts"
import * as Facts from "../support/Facts.ts"
import { sampleLogs } from "../support/Logs.ts"

const at = (event: SessionEvent, time: number): FeedItem => ({ type: "event", event: { ...event, seq: 0, time } })
const now = (event: SessionEvent): FeedItem => at(event, 0)
const delta = (chunk: ChatChunk): FeedItem => ({ type: "delta", turn: 1, step: 1, chunk })

const play = (items: ReadonlyArray<FeedItem>, from: View = empty): readonly [View, ReadonlyArray<Piece>] => {
  let view = from
  const pieces: Array<Piece> = []
  for (const item of items) {
    const [next, shown] = show(view, item)
    view = next
    pieces.push(...shown)
  }
  return [view, pieces]
}
const outOf = (items: ReadonlyArray<FeedItem>): string =>
  play(items)[1]
    .map((piece) => (piece.to === "out" ? piece.text : ""))
    .join("")
const linesOf = (items: ReadonlyArray<FeedItem>): ReadonlyArray<string> =>
  play(items)[1].flatMap((piece) => (piece.to === "err" ? [piece.line] : []))

/** What a subscriber sees of an answer that streams in these pieces: each delta, and each run once it is in the log. */
const streamed = (pieces: ReadonlyArray<string>, cutAfter: ReadonlySet<number>): ReadonlyArray<FeedItem> => {
  const runs = emptyRuns()
  const stored = (chunks: ReadonlyArray<RunChunk>) =>
    chunks.map((chunk) => now({ type: "assistant/chunk", data: { turn: 1, step: 1, chunk } }))
  const items = pieces.flatMap((piece, index): ReadonlyArray<FeedItem> => {
    const chunk: RunChunk = { type: "text", index: 0, text: piece }
    const ended = pushDelta(runs, chunk)
    return [delta(chunk), ...stored(ended), ...(cutAfter.has(index) ? stored(cutRun(runs)) : [])]
  })
  return [
    now(Facts.stepStart(1, 1)),
    ...items,
    ...stored(endRun(runs)),
    now(Facts.answer(1, 1, [text(pieces.join(""))]))
  ]
}

const pieces = FastCheck.array(
  FastCheck.oneof(
    FastCheck.string({ minLength: 1, maxLength: 12 }),
    FastCheck.constantFrom("\n", "é漢", "\uD83D", "\uDE00", "a\uD83D", "\uDE00b", "x".repeat(5000))
  ),
  { minLength: 1, maxLength: 30 }
)
const cuts = FastCheck.uniqueArray(FastCheck.nat(29)).map((list) => new Set(list))

const whole = (parts: ReadonlyArray<string>): string => {
  const full = parts.join("")
  return full.endsWith("\n") ? full : `${full}\n`
}

describe("RunView", () => {
  it("says that a turn is being cancelled where somebody cancelled it, and leaves it to the end why nothing is stored", () => {
    assert.deepStrictEqual(linesOf([{ type: "cancel", turn: 1, cause: "user" }]), [
      "daybook: turn 1 is being cancelled; waiting until it has settled"
    ])
    const left: ReadonlyArray<FeedItem> = [
      { type: "cancel", turn: 1, cause: "disposed" },
      { type: "broken", durableHead: 0, message: "the disk is full" }
    ]
    assert.deepStrictEqual(linesOf(left), [])
  })

  it.prop("shows an answer whole and once, however it came", { pieces, cuts }, (given) => {
    assert.strictEqual(outOf(streamed(given.pieces, given.cuts)), whole(given.pieces))
  })

  it.prop(
    "shows an answer whole and once where notices were lost",
    { pieces, cuts, from: FastCheck.nat(60), length: FastCheck.integer({ min: 1, max: 60 }) },
    (given) => {
      const items = streamed(given.pieces, given.cuts)
      // within the gap only events arrive; the feed says so first
      const lost = items.filter(
        (item, index) => item.type === "event" || index < given.from || index >= given.from + given.length
      )
      const seen = lost.toSpliced(Math.min(given.from, lost.length), 0, { type: "lagged" })
      assert.strictEqual(outOf(seen), whole(given.pieces))
    }
  )

  it.prop("never cuts a character in two", { pieces, cuts }, (given) => {
    FastCheck.pre(given.pieces.join("").isWellFormed())
    for (const piece of play(streamed(given.pieces, given.cuts))[1])
      if (piece.to === "out") assert.isTrue(piece.text.isWellFormed())
  })

  it("shows what is said after a retry as an answer of its own", () => {
    const failure = { message: "busy", code: "SERVER" }
    const items = [
      now(Facts.stepStart(1, 1)),
      delta({ type: "text", index: 0, text: "half" }),
      now(Facts.chunk(1, 1, "half")),
      now({ type: "request/retry", data: { turn: 1, step: 1, attempt: 1, delayMillis: 500, failure } }),
      delta({ type: "text", index: 0, text: "whole" }),
      now(Facts.chunk(1, 1, "whole")),
      now(Facts.answer(1, 1, [text("whole")]))
    ]
    assert.strictEqual(outOf(items), "half\nwhole\n")
    assert.deepStrictEqual(linesOf(items), [
      "daybook: request 1 failed (SERVER: busy); the next one goes out in 0.5 s",
      "daybook: what was printed of its answer does not count: the next request's answer starts from the beginning"
    ])
  })

  it("shows how long a retry is waited for, what is left of that, and what the server asked for (O-I5)", () => {
    const retried = (asked: number, delayMillis: number) =>
      at(
        {
          type: "request/retry",
          data: {
            turn: 1,
            step: 1,
            attempt: 1,
            delayMillis,
            failure: { message: "slow down", code: "RATE_LIMIT", details: { status: 429, retryAfterMillis: asked } }
          }
        },
        1000
      )
    const cut = [at(Facts.stepStart(1, 1), 0), retried(1_209_600_000, 900_000)]
    assert.deepStrictEqual(linesOf(cut), [
      "daybook: request 1 failed (RATE_LIMIT: slow down); the next one goes out in 15 min 00 s (the server asks to wait 336 h 00 min)"
    ])
    assert.deepStrictEqual(linesOf([retried(20_000, 20_000)]), [
      "daybook: request 1 failed (RATE_LIMIT: slow down); the next one goes out in 20.0 s"
    ])
    const [view] = play(cut)
    const live = (now: number) => liveLines(view, { now, columns: 80, rows: 8 })
    assert.deepStrictEqual(live(1000), ["  15 min 00 s  until the model is asked again"])
    assert.deepStrictEqual(live(880_000), ["  21.0 s  until the model is asked again"])
    assert.deepStrictEqual(live(901_000), ["  0.0 s  waiting for the model"])
    assert.deepStrictEqual(live(903_500), ["  2.5 s  waiting for the model"])
  })

  it("says nothing of text at a retry where none was printed", () => {
    const failure = { message: "busy", code: "SERVER" }
    const retry = (attempt: number) =>
      now({ type: "request/retry", data: { turn: 1, step: 1, attempt, delayMillis: 500, failure } })
    const items = [
      now(Facts.stepStart(1, 1)),
      delta({ type: "text", index: 0, text: "half" }),
      retry(1),
      // the text of the first one is told of once
      delta({ type: "reasoning", index: 0, text: "hm" }),
      delta({ type: "text", index: 1, text: "" }),
      retry(2)
    ]
    assert.deepStrictEqual(
      linesOf(items).map((line) => line.slice(0, 18)),
      ["daybook: request 1", "daybook: what was ", "daybook: request 2"]
    )
  })

  it("shows nothing of what comes for a block that is closed, as no message has it (D12)", () => {
    const items = [
      now(Facts.stepStart(1, 1)),
      delta({ type: "text", index: 0, text: "said" }),
      delta({ type: "end", index: 0 }),
      delta({ type: "text", index: 0, text: "too late" }),
      now(Facts.answer(1, 1, [text("said")]))
    ]
    assert.strictEqual(outOf(items), "said\n")
  })

  it("ends the line of an answer that never became a message", () => {
    const items = [
      now(Facts.stepStart(1, 1)),
      delta({ type: "text", index: 0, text: "half" }),
      now(Facts.turnFailed(1))
    ]
    assert.strictEqual(outOf(items), "half\n")
    assert.deepStrictEqual(linesOf(items), ["daybook: turn 1 failed (UNKNOWN): it broke"])
  })

  it("tells when a call starts and when it has settled, by the times of the events", () => {
    const items = [
      at(Facts.call([1, 1, 0], "bash", '{"command":"one"}'), 1000),
      at(Facts.call([1, 1, 1], "bash", '{"command":"two"}'), 1000),
      at(Facts.settled([1, 1, 1], Facts.outcome("fine\n[exit code 1]")), 2500),
      at(Facts.result([1, 1, 0], Facts.outcome("Error: no\nsuch thing", "UNKNOWN")), 3000),
      at(Facts.result([1, 1, 1], Facts.outcome("fine")), 3000)
    ]
    assert.deepStrictEqual(linesOf(items), [
      "call    bash one",
      "call    bash two",
      "ok      bash two  1.5 s  [exit code 1]",
      "failed  bash one  2.0 s: Error: no such thing"
    ])
  })

  it("has a line for each running call, which fits", () => {
    const [view] = play([
      at(Facts.call([1, 1, 0], "bash", '{"command":"sleep 10"}'), 1000),
      at(Facts.call([1, 1, 1], "read", '{"path":"a.md"}'), 2000),
      { type: "tool-progress", callId: callId(1, 1, 0), text: "half\nway" }
    ])
    assert.deepStrictEqual(liveLines(view, { now: 3500, columns: 60, rows: 8 }), [
      "  2.5 s  bash sleep 10  half way",
      "  1.5 s  read a.md"
    ])
    assert.deepStrictEqual(liveLines(view, { now: 3500, columns: 14, rows: 1 }), ["  and 2 more"])
    assert.deepStrictEqual(liveLines(view, { now: 3500, columns: 14, rows: 8 }), ["  2.5 s  bash…", "  1.5 s  read…"])
  })

  it("says what is waited for: the calls that run in truth, whatever the log has of them", () => {
    const [view] = play([
      at(Facts.call([1, 1, 0], "bash", '{"command":"sleep 10"}'), 1000),
      at(Facts.call([1, 1, 1], "read", '{"path":"a.md"}'), 2000)
    ])
    const running = (...calls: ReadonlyArray<RunningCall>): Status => ({
      _tag: "Running",
      turn: 1,
      cancelled: true,
      calls
    })
    const one = { callId: callId(1, 1, 0), name: "bash", since: 1000 }
    const unseen = { callId: callId(1, 1, 2), name: "list", since: 1000 }
    assert.strictEqual(waitingFor(view, running(one, unseen)), "the turn to settle: bash sleep 10; list")
    assert.strictEqual(waitingFor(view, running()), "the turn's end to be stored")
    assert.strictEqual(waitingFor(view, { _tag: "Idle", parked: 0 }), "the turn's end to be stored")
  })

  it("forgets the calls of a turn that ended, and never writes more than lines for any log", () => {
    for (const log of sampleLogs(40, 7)) {
      const [view, shown] = play(log.map((event: StoredEvent) => ({ type: "event", event })))
      for (const piece of shown) if (piece.to === "err") assert.notMatch(piece.line, /[\u0000-\u001f\u007f-\u009f]/)
      if (log.at(-1)?.type === "turn/end") assert.strictEqual(view.running.size, 0)
    }
  })
})
