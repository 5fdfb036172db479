import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Mailbox from "effect/Mailbox"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import type { Piece } from "../../src/cli/RunView.ts"
import { coloured, erase, joined, make, maxLiveLines, type Output } from "../../src/cli/Screen.ts"
import { OutputClosed, Stdio } from "../../src/cli/Stdio.ts"
import type { SessionEvent } from "../../src/domain/Event.ts"
import { callId } from "../../src/domain/Ids.ts"
import { text } from "../../src/domain/Message.ts"
import type { FeedItem, Status } from "../../src/domain/Notice.ts"
import * as Facts from "../support/Facts.ts"
import { onScreen } from "../support/TerminalScreen.ts"

const at = (event: SessionEvent, time: number): FeedItem => ({ type: "event", event: { ...event, seq: 0, time } })
const call = (index: number, command: string) => at(Facts.call([1, 1, index], "bash", JSON.stringify({ command })), 0)
const done = (index: number, time: number) => at(Facts.result([1, 1, index], Facts.outcome("fine")), time)

interface Options {
  /** Why no write to standard output succeeds; the first of several is that of the first write. */
  readonly failing?: ReadonlyArray<string>
  readonly rows?: number
  /** No escape sequences: TERM=dumb, or NO_COLOR. */
  readonly plain?: boolean
  readonly output?: Output
}

/** A screen on a terminal that shows both streams, and the feed that it shows. */
const onTerminal = (options: Options = {}) =>
  Effect.gen(function* () {
    let output = ""
    const failing = [...(options.failing ?? [])]
    const write = (words: string) =>
      Effect.sync(() => {
        output += words
      })
    const screen = yield* Effect.provideService(make(options.output ?? "answer"), Stdio, {
      input: Stream.empty,
      out: (words) =>
        Effect.suspend(() => {
          const code = failing.shift()
          return code === undefined ? write(words) : new OutputClosed({ cause: { code } })
        }),
      err: write,
      inIsTerminal: false,
      outIsTerminal: true,
      errIsTerminal: true,
      errTakesEscapes: options.plain !== true,
      rows: Effect.succeed(options.rows ?? 24),
      columns: Effect.succeed(40)
    })
    const feed = yield* Mailbox.make<FeedItem>()
    const shown = yield* Effect.fork(screen.show(Mailbox.toStream(feed)))
    /** The items are shown, and so much time goes by. */
    const pass = (millis: number, ...items: ReadonlyArray<FeedItem>) =>
      Effect.zipRight(feed.offerAll(items), TestClock.adjust(millis))
    return {
      screen,
      pass,
      raw: () => output,
      lines: () => onScreen(output),
      close: Effect.zipRight(feed.end, Fiber.join(shown))
    }
  })

describe("Screen", () => {
  it("writes what is next to each other at once, and takes its lines away from where they stand", () => {
    const out = (words: string): Piece => ({ to: "out", text: words })
    const err = (line: string): Piece => ({ to: "err", line })
    assert.deepStrictEqual(joined([out("a"), out("b\n"), err("x"), err("y"), out("c")]), [
      ["out", "ab\n"],
      ["err", "x\ny\n"],
      ["out", "c"]
    ])
    assert.strictEqual(erase(0), "")
    assert.strictEqual(erase(3), "\r\u001b[3A\u001b[J")
  })

  it.effect("keeps the running tools at the bottom, with the time as it goes by", () =>
    Effect.gen(function* () {
      const { close, lines, pass, screen } = yield* onTerminal()
      yield* pass(1000, call(0, "one"), call(1, "two"))
      const started = ["call    bash one", "call    bash two"]
      assert.deepStrictEqual(lines(), [...started, "  1.0 s  bash one", "  1.0 s  bash two"])
      yield* pass(250)
      assert.deepStrictEqual(lines().slice(2), ["  1.2 s  bash one", "  1.2 s  bash two"])
      yield* pass(0, done(1, 1300))
      const oneIsLeft = [...started, "ok      bash two  1.3 s"]
      assert.deepStrictEqual(lines(), [...oneIsLeft, "  1.2 s  bash one"])
      yield* screen.note("a note")
      assert.deepStrictEqual(lines(), [...oneIsLeft, "a note", "  1.2 s  bash one"])
      const calls = [{ callId: callId(1, 1, 0), name: "bash", since: 0 }]
      const status: Status = { _tag: "Running", turn: 1, cancelled: true, calls }
      assert.strictEqual(screen.waitingFor(status), "the turn to settle: bash one")
      yield* pass(100, done(0, 1350))
      yield* close
      assert.deepStrictEqual(lines(), [...oneIsLeft, "a note", "ok      bash one  1.3 s"])
    })
  )

  it.effect("draws no more lines than the terminal has room for above its cursor, and none where there is none", () =>
    Effect.gen(function* () {
      for (const [rows, live] of [
        [24, maxLiveLines],
        [5, 4],
        [3, 2],
        [2, 1],
        [1, 0]
      ] as const) {
        const { close, lines, pass, raw } = yield* onTerminal({ rows })
        const calls = Array.from({ length: 20 }, (_, index) => call(index, `number ${index}`))
        yield* pass(1000, ...calls)
        const drawn = lines().slice(calls.length)
        assert.strictEqual(drawn.length, live)
        if (live > 0) assert.strictEqual(drawn.at(-1), `  and ${20 - (live - 1)} more`)
        for (const [up] of raw().matchAll(/\u001b\[(\d+)A/g)) assert.isBelow(Number(/\d+/.exec(up)?.[0]), rows)
        yield* close
      }
    })
  )

  it.effect("starts no escape sequence where there is to be none, and says the same", () =>
    Effect.gen(function* () {
      const { close, lines, pass, raw } = yield* onTerminal({ plain: true })
      yield* pass(1000, at(Facts.stepStart(1, 1), 0), call(0, "one"))
      yield* pass(1000, done(0, 1300))
      yield* close
      assert.notInclude(raw(), "\u001b")
      assert.deepStrictEqual(lines(), ["call    bash one", "ok      bash one  1.3 s"])
    })
  )

  it.effect("colours how a call came out, and nothing else", () =>
    Effect.gen(function* () {
      const { close, pass, raw } = yield* onTerminal()
      yield* pass(0, call(0, "one"), done(0, 100))
      yield* close
      assert.include(raw(), "\u001b[32mok\u001b[39m      bash one  0.1 s\n")
      assert.strictEqual(coloured("failed  bash"), "\u001b[31mfailed\u001b[39m  bash")
      for (const line of ["call    bash ok x", "daybook: ok then", "okay x", "ok"])
        assert.strictEqual(coloured(line), line)
    })
  )

  it.effect("shows for how long the model is waited for, until it speaks", () =>
    Effect.gen(function* () {
      const { close, lines, pass } = yield* onTerminal()
      yield* pass(2500, at(Facts.stepStart(1, 1), 0))
      assert.deepStrictEqual(lines(), ["  2.5 s  waiting for the model"])
      yield* pass(100, { type: "delta", turn: 1, step: 1, chunk: { type: "text", index: 0, text: "Hello\n" } })
      assert.deepStrictEqual(lines(), ["Hello"])
      yield* close
    })
  )

  it.effect("shows what a tool says of its progress, however long its call is", () =>
    Effect.gen(function* () {
      const { close, lines, pass } = yield* onTerminal()
      yield* pass(0, call(0, "x".repeat(60)), {
        type: "tool-progress",
        callId: callId(1, 1, 0),
        text: `half\n${"z".repeat(90)}`
      })
      yield* pass(200)
      assert.deepStrictEqual(lines().slice(1), ["  0.2 s  bash xxxxxxxxxxxxx…  half zzz…"])
      yield* close
    })
  )

  it.effect("with events, standard output gets each event and standard error the rest", () =>
    Effect.gen(function* () {
      const { close, lines, pass } = yield* onTerminal({ output: "events", plain: true })
      yield* pass(0, at(Facts.stepStart(1, 1), 7), {
        type: "delta",
        turn: 1,
        step: 1,
        chunk: { type: "text", index: 0, text: "Hello" }
      })
      yield* pass(0, call(0, "one"), { type: "lagged" })
      yield* close
      assert.strictEqual(lines()[0], '{"seq":0,"time":7,"type":"step/start","data":{"step":1,"turn":1}}')
      assert.match(lines()[1] ?? "", /^\{"seq":0,"time":0,"type":"tool\/call"/)
      assert.strictEqual(lines()[2], "call    bash one")
    })
  )

  it.effect("never continues a line of the answer with a line of another kind", () =>
    Effect.gen(function* () {
      const { close, lines, pass, screen } = yield* onTerminal()
      yield* pass(0, at(Facts.stepStart(1, 1), 0), {
        type: "delta",
        turn: 1,
        step: 1,
        chunk: { type: "text", index: 0, text: "Half a line" }
      })
      yield* screen.note("a note")
      yield* pass(0, at(Facts.answer(1, 1, [text("Half a line, and the rest")]), 0))
      yield* close
      assert.deepStrictEqual(lines(), ["Half a line", "a note", ", and the rest"])
    })
  )

  it.effect("goes on when nobody reads the answer any more", () =>
    Effect.gen(function* () {
      const { close, lines, pass, screen } = yield* onTerminal({ failing: ["EPIPE"] })
      yield* pass(0, at(Facts.answer(1, 1, [text("unread")]), 0), call(0, "one"), done(0, 100))
      yield* close
      assert.deepStrictEqual(lines(), ["call    bash one", "ok      bash one  0.1 s"])
      yield* screen.written
    })
  )

  it.effect("goes on when the answer cannot be written, and keeps the first reason for the end (law 10)", () =>
    Effect.gen(function* () {
      const failing = ["EPIPE", "ENOSPC", "EIO"]
      const { close, lines, pass, screen } = yield* onTerminal({ failing, output: "events", plain: true })
      for (const index of failing.keys()) yield* pass(0, call(index, "one"))
      yield* pass(0, at(Facts.turnEnd(1, "completed"), 0))
      yield* close
      assert.deepStrictEqual(lines().slice(0, 3), ["call    bash one", "call    bash one", "call    bash one"])
      assert.match(lines()[3] ?? "", /"type":"turn\/end"/)
      assert.deepStrictEqual((yield* Effect.flip(screen.written)).cause, { code: "ENOSPC" })
    })
  )
})
