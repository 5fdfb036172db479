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
  /** Takes nothing more, and waits until the file is whole or given up. */
  readonly finish: Effect.Effect<void>
}

/** How much of a stream is kept, in bytes. */
export interface Limits {
  readonly tail: number
  readonly file: number
}

/** Writes the whole of a stream somewhere, and says where. */
export type Write = (bytes: Stream.Stream<Uint8Array, OutputUnavailable>) => Effect.Effect<string, OutputUnavailable>

/** A capture; it is finished when the scope closes, and nothing cuts the writing of its file. */
export const make = (limits: Limits, write: Write): Effect.Effect<Capture, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.suspend(() => {
        const state = makeState(limits)
        // no child of the call: an interrupt of the call would reach it at once, and what is left would not be written
        return Effect.map(Effect.forkDaemon(state.writing(write)), (fiber) => ({
          ...state.capture,
          finish: Effect.zipRight(Effect.sync(state.end), Effect.asVoid(Fiber.await(fiber)))
        }))
      }),
      (capture) => capture.finish
    ),
    (capture): Capture => capture
  )

// internal

const makeState = (limits: Limits) => {
  const tail = Tail.make(limits.tail)
  const changed = Effect.unsafeMakeLatch(false)
  let pipe: Readable | undefined
  let closed = false
  let ended = false
  let holds = true
  let phase: "short" | "long" | "settled" = "short"
  let waiting: Array<Uint8Array> = []
  let file: View["file"] = Option.none()

  const flow = () => {
    holds = false
    pipe?.resume()
  }

  const push = (bytes: Uint8Array) => {
    if (ended) return
    if (phase === "short" && tail.total() + bytes.length > limits.tail) {
      phase = "long"
      waiting.push(tail.bytes())
    }
    tail.push(bytes)
    if (phase !== "long") return
    if (tail.total() > limits.file) waiting = []
    else waiting.push(bytes)
    if (holds) pipe?.pause()
    changed.unsafeOpen()
  }

  /** The next pieces for the file, as soon as there are some. */
  const next: Effect.Effect<Chunk.Chunk<Uint8Array>, Option.Option<OutputUnavailable>> = Effect.suspend(() => {
    if (tail.total() > limits.file)
      return Effect.fail(Option.some(new OutputUnavailable({ detail: `it is longer than ${limits.file} bytes` })))
    if (waiting.length > 0) {
      const pieces = Chunk.unsafeFromArray(waiting)
      waiting = []
      // these are written while the next ones come
      pipe?.resume()
      return Effect.succeed(pieces)
    }
    if (ended) return Effect.fail(Option.none())
    changed.unsafeClose()
    return Effect.zipRight(changed.await, next)
  })

  return {
    writing: (write: Write) =>
      Effect.gen(function* () {
        yield* changed.await
        if (phase === "short") return
        const written = yield* Effect.either(write(Stream.repeatEffectChunkOption(next)))
        phase = "settled"
        file = Option.some(written)
        waiting = []
        flow()
      }),
    end: () => {
      ended = true
      changed.unsafeOpen()
    },
    capture: {
      listen: (readable: Readable) => {
        pipe = readable
        readable
          .on("data", push)
          .on("error", () => {})
          .once("close", () => {
            closed = true
          })
      },
      isClosed: () => closed,
      flow,
      view: () => ({ ...tail.view(closed), file })
    }
  }
}
