/**
 * The screen of `run`: writes what the view shows, and keeps a line per running tool at the bottom of a terminal.
 *
 * - One writer at a time. The live lines are taken away before anything else is written, and drawn again after it.
 * - Where standard output and standard error are one terminal, a line of the one never continues a line of the other.
 * - A reader that went away ends nothing: the turn is worth finishing. An output that cannot be written ends nothing either,
 *   but is kept for the end.
 * - With `events`, standard output gets each event as it commits, as `daybook events --json` prints it, and nothing else.
 */
import type * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import type { FeedItem, Status } from "../domain/Notice.ts"
import * as Turnstile from "../internal/Turnstile.ts"
import * as Gist from "./Gist.ts"
import { clip } from "./Line.ts"
import * as RunView from "./RunView.ts"
import { type OutputClosed, Stdio } from "./Stdio.ts"

/** How often the live lines are drawn. */
export const tick = Duration.millis(100)

/** How many live lines there are at most. They must fit on the screen together, above the line of the cursor. */
export const maxLiveLines = 8

/** What goes to standard output. */
export type Output = "answer" | "events"

export interface Screen {
  /** Shows a feed until it ends. */
  readonly show: <E>(feed: Stream.Stream<FeedItem, E>) => Effect.Effect<void, E>
  /** Shows a line among what the feed shows. */
  readonly note: (line: string) => Effect.Effect<void>
  /** Shows a line below all others until the answer has come. It is asked for once the line stands there. */
  readonly asking: <A>(line: string, answer: Effect.Effect<A>) => Effect.Effect<A>
  /** What an agent of this status is waiting for, its calls named as they were shown. */
  readonly waitingFor: (status: Status) => string
  /** Fails with the first reason why standard output lacks what was shown. A reader that went away is none. */
  readonly written: Effect.Effect<void, OutputClosed>
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

/** A screen that has shown nothing yet. */
export const make = Effect.fnUntraced(function* (output: Output): Effect.fn.Return<Screen, never, Stdio> {
  const stdio = yield* Stdio
  const alone = Turnstile.make()
  const surface = makeSurface(stdio, output)
  let view = RunView.empty
  /** The line of a question that waits. */
  let question: string | undefined

  const draw = Effect.gen(function* () {
    if (!stdio.errTakesEscapes) return
    const now = yield* Clock.currentTimeMillis
    const columns = (yield* stdio.columns) || 80
    const rows = Math.min(maxLiveLines, ((yield* stdio.rows) || 24) - 1)
    const asked = question === undefined ? [] : [clip(question, columns - 1)]
    const running = RunView.liveLines(view, { now, columns: columns - 1, rows: rows - asked.length })
    yield* surface.draw([...running, ...asked])
  })

  const put = (news: ReadonlyArray<RunView.Piece>) => Effect.zipRight(surface.write(news), draw)

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

  const redraw = Effect.repeat(
    alone((restore) => restore(draw)),
    Schedule.spaced(tick)
  )

  const note = (line: string) =>
    Effect.suspend(() => {
      const news: ReadonlyArray<RunView.Piece> = [{ to: "err", line }]
      // while standard output is written to no live lines stand: whoever does not read it keeps no note back
      return surface.isWritingOut() ? surface.write(news) : alone((restore) => restore(put(news)))
    })

  return {
    show: (feed) =>
      Effect.scoped(
        Effect.gen(function* () {
          if (stdio.errTakesEscapes) yield* Effect.forkScoped(redraw)
          yield* Stream.runForEachChunk(feed, (items) => alone((restore) => restore(take(items))))
          yield* alone((restore) => restore(surface.draw([])))
        })
      ),
    note,
    asking: (line, answer) => {
      const put = (shown: string | undefined) =>
        Effect.sync(() => {
          question = shown
        })
      // the next redraw takes it off: whoever is interrupted here does not wait for an output that nobody reads
      if (stdio.errTakesEscapes)
        return Effect.acquireUseRelease(
          put(line),
          () =>
            Effect.zipRight(
              alone((restore) => restore(draw)),
              answer
            ),
          () => put(undefined)
        )
      return Effect.zipRight(note(line), answer)
    },
    waitingFor: (status) => RunView.waitingFor(view, status),
    written: surface.written
  }
})

// internal

/** What an item writes to standard output, and to standard error. */
const pieces = (output: Output, item: FeedItem, shown: ReadonlyArray<RunView.Piece>): ReadonlyArray<RunView.Piece> => {
  if (output === "answer") return shown
  const lines = shown.filter((piece) => piece.to === "err" && piece.about !== "printed text")
  return item.type === "event" ? [{ to: "out", text: `${Gist.json(item.event)}\n` }, ...lines] : lines
}

/** Where both streams are written to: how many live lines stand at its bottom, and whether it stands within a line. */
const makeSurface = (stdio: Context.Tag.Service<Stdio>, output: Output) => {
  const isShared = stdio.outIsTerminal && stdio.errIsTerminal
  let drawn = 0
  let endsLine = true
  let failure: OutputClosed | undefined
  let writingOut = false

  const out = (text: string) => {
    endsLine = text.endsWith("\n")
    writingOut = true
    return stdio.out(text, output === "events" ? "json" : "text").pipe(
      Effect.catchAll((error) =>
        Effect.sync(() => {
          if (!error.isReaderGone) failure ??= error
        })
      ),
      Effect.ensuring(
        Effect.sync(() => {
          writingOut = false
        })
      )
    )
  }

  const err = (text: string) => {
    if (text === "") return Effect.void
    const gap = isShared && !endsLine ? "\n" : ""
    endsLine = true
    return stdio.err(gap + text)
  }

  /** Draws these live lines over those that stand there. */
  const draw = (lines: ReadonlyArray<string>) =>
    Effect.suspend(() => {
      const text = erase(drawn) + lines.map((line) => `${line}\n`).join("")
      drawn = lines.length
      return err(text)
    })

  const paint = (piece: RunView.Piece): RunView.Piece =>
    stdio.errTakesEscapes && piece.to === "err" ? { ...piece, line: coloured(piece.line) } : piece

  const write = (news: ReadonlyArray<RunView.Piece>) =>
    news.length === 0
      ? Effect.void
      : Effect.zipRight(
          draw([]),
          Effect.forEach(joined(news.map(paint)), ([to, text]) => (to === "err" ? err(text) : out(text)), {
            discard: true
          })
        )

  const written = Effect.suspend(() => (failure === undefined ? Effect.void : Effect.fail(failure)))

  return { draw, write, written, isWritingOut: () => writingOut }
}
