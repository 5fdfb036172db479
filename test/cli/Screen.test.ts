import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Mailbox from "effect/Mailbox"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import type { Piece } from "../../src/cli/RunView.ts"
import { erase, joined, make } from "../../src/cli/Screen.ts"
import { OutputClosed, Stdio } from "../../src/cli/Stdio.ts"
import type { SessionEvent } from "../../src/domain/Event.ts"
import { text } from "../../src/domain/Message.ts"
import type { FeedItem } from "../../src/domain/Notice.ts"
import * as Facts from "../support/Facts.ts"
import { onScreen } from "../support/TerminalScreen.ts"

const at = (event: SessionEvent, time: number): FeedItem => ({ type: "event", event: { ...event, seq: 0, time } })
const call = (index: number, command: string) => at(Facts.call([1, 1, index], "bash", JSON.stringify({ command })), 0)
const done = (index: number, time: number) => at(Facts.result([1, 1, index], Facts.outcome("fine")), time)

/** A screen on a terminal that shows both streams, and the feed that it shows. */
const onTerminal = (options: { readonly reader?: "gone" } = {}) =>
  Effect.gen(function* () {
    let output = ""
    const write = (words: string) =>
      Effect.sync(() => {
        output += words
      })
    const screen = yield* Effect.provideService(make, Stdio, {
      input: Stream.empty,
      out: (words) => (options.reader === "gone" ? new OutputClosed({ cause: "EPIPE" }) : write(words)),
      err: write,
      outIsTerminal: true,
      errIsTerminal: true,
      columns: Effect.succeed(40)
    })
    const feed = yield* Mailbox.make<FeedItem>()
    const shown = yield* Effect.fork(screen.show(Mailbox.toStream(feed)))
    /** The items are shown, and so much time goes by. */
    const pass = (millis: number, ...items: ReadonlyArray<FeedItem>) =>
      Effect.zipRight(feed.offerAll(items), TestClock.adjust(millis))
    return { screen, pass, lines: () => onScreen(output), close: Effect.zipRight(feed.end, Fiber.join(shown)) }
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
      assert.strictEqual(yield* screen.waitingFor, "the turn to settle: bash one")
      yield* pass(100, done(0, 1350))
      yield* close
      assert.deepStrictEqual(lines(), [...oneIsLeft, "a note", "ok      bash one  1.3 s"])
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
      const { close, lines, pass } = yield* onTerminal({ reader: "gone" })
      yield* pass(0, at(Facts.answer(1, 1, [text("unread")]), 0), call(0, "one"), done(0, 100))
      yield* close
      assert.deepStrictEqual(lines(), ["call    bash one", "ok      bash one  0.1 s"])
    })
  )
})
