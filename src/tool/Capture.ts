/**
 * One stream of a command: its tail in memory and, once it is longer than that, the whole of it in a file.
 *
 * - Nothing is lost on the way: when the first byte would leave the tail, all that came before it goes to the file as well.
 * - Memory is bounded: while the file is behind, the pipe is held back, and so is who writes into it. Only what comes once
 *   `flow` was called waits in memory, at most as much as a file may hold.
 * - Trouble with the file never reaches the command: it runs on with its tail, and the view says why there is no file (W28).
 */
import type { Readable } from "node:stream"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import type * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { OutputUnavailable } from "./Outputs.ts"
import * as Tail from "./Tail.ts"

/** What a capture holds now. */
export interface View extends Tail.View {
  /** Where the whole stream is, or why it is nowhere; none while the tail is all of it, or the file is being written. */
  readonly file: Option.Option<Either.Either<string, OutputUnavailable>>
}

/** A stream that is captured. */
export interface Capture {
  /** Begins to read a pipe. Once only. */
  readonly listen: (pipe: Readable) => void
  /** Whether the pipe has ended. */
  readonly isClosed: () => boolean
  /** Never holds the pipe back again: whatever is still in it is to come now. */
  readonly flow: () => void
  readonly view: () => View
  /** Takes nothing more, and waits until the file is whole or given up: no longer than `Write` takes for that. */
  readonly finish: Effect.Effect<void>
}

/** How much of a stream is kept, in bytes. */
export interface Limits {
  readonly tail: number
  readonly file: number
}

/**
 * Writes the whole of a stream somewhere, and says where. Never dies, is not interrupted, and returns in bounded time once
 * `ended` has: `Outputs.keep` is made for it.
 */
export type Write = (
  bytes: Stream.Stream<Uint8Array, OutputUnavailable>,
  ended: Effect.Effect<void>
) => Effect.Effect<string, OutputUnavailable>

/** A capture; it is finished when the scope closes, and no interrupt cuts the writing of its file. */
export const make = (limits: Limits, write: Write): Effect.Effect<Capture, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.suspend(() => {
      const { capture, end, writing } = makeState(limits, write)
      // no child of the call: an interrupt of the call would reach it at once, and what is left would not be written
      return Effect.map(
        Effect.forkDaemon(writing),
        (fiber): Capture => ({ ...capture, finish: Effect.zipRight(end, Effect.asVoid(Fiber.await(fiber))) })
      )
    }),
    (capture) => capture.finish
  )

// internal

const makeState = (limits: Limits, write: Write) => {
  const tail = Tail.make(limits.tail)
  const backlog = makeBacklog(limits.file)
  const begun = Effect.unsafeMakeLatch(false)
  const ended = Effect.unsafeMakeLatch(false)
  let pipe: Readable | undefined
  let closed = false
  let holds = true
  let phase: "short" | "long" | "settled" = "short"
  let file: View["file"] = Option.none()

  const flow = () => {
    holds = false
    pipe?.resume()
  }

  const push = (bytes: Uint8Array) => {
    if (backlog.isEnded()) return
    if (phase === "short" && tail.total() + bytes.length > limits.tail) {
      phase = "long"
      backlog.push(tail.bytes())
      begun.unsafeOpen()
    }
    tail.push(bytes)
    if (phase !== "long") return
    backlog.push(bytes)
    if (holds) pipe?.pause()
  }

  const end = Effect.sync(() => {
    backlog.end()
    begun.unsafeOpen()
    ended.unsafeOpen()
  })

  // what it gives is written while the next ones come
  const pieces = Effect.tap(backlog.next, () => pipe?.resume())

  const writing = Effect.gen(function* () {
    yield* begun.await
    if (phase === "short") return
    file = Option.some(yield* Effect.either(write(Stream.repeatEffectChunkOption(pieces), ended.await)))
    phase = "settled"
    backlog.drop()
    flow()
  })

  const listen = (readable: Readable) => {
    pipe = readable
    readable
      .on("data", push)
      .on("error", () => {})
      .once("close", () => {
        closed = true
      })
  }

  const view = (): View => ({ ...tail.view(closed), file })
  return { writing, end, capture: { listen, isClosed: () => closed, flow, view } }
}

/** The pieces of a stream that are yet to be written. It holds none once they are more than a file may have. */
const makeBacklog = (limit: number) => {
  const changed = Effect.unsafeMakeLatch(false)
  let pieces: Array<Uint8Array> = []
  let total = 0
  let ended = false
  const drop = () => {
    const dropped = pieces
    pieces = []
    return dropped
  }
  /** The next pieces, as soon as there are some; none at the end. */
  const next: Effect.Effect<Chunk.Chunk<Uint8Array>, Option.Option<OutputUnavailable>> = Effect.suspend(() => {
    if (total > limit)
      return Effect.fail(Option.some(new OutputUnavailable({ detail: `it is longer than ${limit} bytes` })))
    if (pieces.length > 0) return Effect.succeed(Chunk.unsafeFromArray(drop()))
    if (ended) return Effect.fail(Option.none())
    changed.unsafeClose()
    return Effect.zipRight(changed.await, next)
  })
  return {
    next,
    drop,
    isEnded: () => ended,
    push: (bytes: Uint8Array) => {
      total += bytes.length
      if (total > limit) drop()
      else pieces.push(bytes)
      changed.unsafeOpen()
    },
    end: () => {
      ended = true
      changed.unsafeOpen()
    }
  }
}
