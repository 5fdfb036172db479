/**
 * The screen of `run`: writes what the view shows, and keeps a line per running tool at the bottom of a terminal.
 *
 * - One writer at a time. The live lines are taken away before anything else is written, and drawn again after it.
 * - Where standard output and standard error are one terminal, a line of the one never continues a line of the other.
 * - A reader that went away ends nothing: the turn is worth finishing.
 * - With `events`, standard output gets each event as it commits, as `daybook events --json` prints it, and nothing else.
 */
import type * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import type { FeedItem } from "../domain/Notice.ts"
import * as Gist from "./Gist.ts"
import * as RunView from "./RunView.ts"
import { Stdio } from "./Stdio.ts"

/** How often the live lines are drawn. */
export const tick = "100 millis"

/** How many live lines there are at most. They must fit on the screen together, above the line of the cursor. */
export const maxLiveLines = 8

/** What goes to standard output. */
export type Output = "answer" | "events"

export interface Screen {
  /** Shows a feed until it ends. */
  readonly show: <E>(feed: Stream.Stream<FeedItem, E>) => Effect.Effect<void, E>
  /** Shows a line among what the feed shows. */
  readonly note: (line: string) => Effect.Effect<void>
  /** What is being waited for, as it is now. */
  readonly waitingFor: Effect.Effect<string>
}

/** Takes live lines off a terminal, whose cursor stands right below them. */
export const erase = (lines: number): string => (lines === 0 ? "" : `\r\u001b[${lines}A\u001b[J`)

/** A line with its first word in colour, where that tells how a call came out. */
export const coloured = (line: string): string =>
  line.replace(/^(?:ok|failed)(?= )/, (word) => `\u001b[3${word === "ok" ? 2 : 1}m${word}\u001b[39m`)

/** Pieces next to each other for the same stream, as one text. */
export const joined = (pieces: ReadonlyArray<RunView.Piece>): ReadonlyArray<readonly ["out" | "err", string]> => {
  const texts: Array<readonly ["out" | "err", string]> = []
  for (const piece of pieces) {
    const text = piece.to === "out" ? piece.text : `${piece.line}\n`
    const last = texts.at(-1)
    if (last !== undefined && last[0] === piece.to) texts[texts.length - 1] = [piece.to, last[1] + text]
    else texts.push([piece.to, text])
  }
  return texts
}

/** What an item writes to standard output, and to standard error. */
const pieces = (output: Output, item: FeedItem, shown: ReadonlyArray<RunView.Piece>): ReadonlyArray<RunView.Piece> => {
  if (output === "answer") return shown
  const lines = shown.filter((piece) => piece.to === "err")
  return item.type === "event" ? [{ to: "out", text: `${Gist.json(item.event)}\n` }, ...lines] : lines
}

export const make = Effect.fnUntraced(function* (output: Output): Effect.fn.Return<Screen, never, Stdio> {
  const stdio = yield* Stdio
  const lock = yield* Effect.makeSemaphore(1)
  const isShared = stdio.outIsTerminal && stdio.errIsTerminal
  let view = RunView.empty
  let drawn = 0
  let endsLine = true

  const paint = (piece: RunView.Piece): RunView.Piece =>
    stdio.errTakesEscapes && piece.to === "err" ? { ...piece, line: coloured(piece.line) } : piece

  const undraw = Effect.suspend(() => {
    const lines = drawn
    drawn = 0
    return lines === 0 ? Effect.void : stdio.err(erase(lines))
  })

  const write = (news: ReadonlyArray<RunView.Piece>) =>
    Effect.forEach(
      joined(news.map(paint)),
      ([to, text]) => {
        if (to === "err") {
          const gap = isShared && !endsLine ? "\n" : ""
          endsLine = true
          return stdio.err(gap + text)
        }
        endsLine = text.endsWith("\n")
        return Effect.ignore(stdio.out(text))
      },
      { discard: true }
    )

  /** Draws a line per running call, over those that were drawn before. */
  const draw = Effect.gen(function* () {
    if (!RunView.isWaiting(view) && drawn === 0) return
    const now = yield* Clock.currentTimeMillis
    const columns = (yield* stdio.columns) || 80
    const rows = Math.min(maxLiveLines, ((yield* stdio.rows) || 24) - 1)
    const lines = RunView.liveLines(view, { now, columns: columns - 1, rows })
    const text = erase(drawn) + lines.map((line) => `${line}\n`).join("")
    drawn = lines.length
    yield* stdio.err(isShared && !endsLine ? `\n${text}` : text)
    if (lines.length > 0) endsLine = true
  })

  const put = (news: ReadonlyArray<RunView.Piece>) =>
    Effect.gen(function* () {
      if (news.length > 0) yield* Effect.zipRight(undraw, write(news))
      if (stdio.errTakesEscapes) yield* draw
    })

  const take = (items: Chunk.Chunk<FeedItem>) =>
    Effect.suspend(() => {
      const news: Array<RunView.Piece> = []
      for (const item of items) {
        const [next, shown] = RunView.show(view, item)
        view = next
        news.push(...pieces(output, item, shown))
      }
      return put(news)
    })

  const redraw = Effect.repeat(lock.withPermits(1)(draw), Schedule.spaced(tick))

  return {
    show: (feed) =>
      Effect.scoped(
        Effect.gen(function* () {
          if (stdio.errTakesEscapes) yield* Effect.forkScoped(redraw)
          yield* Stream.runForEachChunk(feed, (items) => lock.withPermits(1)(take(items)))
          yield* lock.withPermits(1)(undraw)
        })
      ),
    note: (line) => lock.withPermits(1)(put([{ to: "err", line }])),
    waitingFor: Effect.sync(() => RunView.waitingFor(view))
  }
})
