import { Readable } from "node:stream"
import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { SessionId } from "../../src/domain/Ids.ts"
import * as Capture from "../../src/tool/Capture.ts"
import * as Outputs from "../../src/tool/Outputs.ts"
import { eventually } from "../support/processes.ts"
import { callId } from "./support.ts"

const limits: Capture.Limits = { tail: 64_000, file: 1e9 }
const pieceSize = 65_536

/** A capture whose file goes to this store. */
const capturing = (write: Outputs.OutputStore["write"]) =>
  Capture.make(limits, (bytes, ended) =>
    Outputs.keep({ inlineCap: 0, write }, { sessionId: SessionId.make("s"), callId, name: "stdout" }, bytes, ended)
  )

/** A pipe that always has more, until it has put out so many pieces. */
const source = (pieces: number) => {
  let produced = 0
  const pipe = new Readable({
    highWaterMark: pieceSize,
    read() {
      this.push(produced < pieces * pieceSize ? new Uint8Array(pieceSize) : null)
      produced = Math.min(produced + pieceSize, pieces * pieceSize)
    }
  })
  return { pipe, produced: () => produced }
}

const whyNoFile = (capture: Capture.Capture): string =>
  Option.match(capture.view().file, { onNone: () => "", onSome: Either.match({ onLeft: String, onRight: String }) })

describe("a captured stream", () => {
  it.scopedLive("O-O5: takes the same memory however long it is: the pipe is held back while the file is behind", () =>
    Effect.gen(function* () {
      const gate = Effect.unsafeMakeLatch()
      const { pipe, produced } = source(256)
      let taken = 0
      let held = 0
      const capture = yield* capturing((_, bytes) =>
        gate.await.pipe(
          Effect.zipRight(
            Stream.runForEachChunk(bytes, (pieces) =>
              Effect.sync(() => {
                held = Math.max(held, produced() - taken)
                taken += Chunk.reduce(pieces, 0, (sum, piece) => sum + piece.length)
              })
            )
          ),
          Effect.as("somewhere")
        )
      )
      capture.listen(pipe)
      // it comes to a stand, or, if nobody holds it back, to its end
      yield* eventually("it stands still", () => pipe.isPaused() || pipe.readableEnded)
      yield* gate.open
      yield* eventually("it has come", capture.isClosed)
      yield* capture.finish
      assert.strictEqual(taken, 256 * pieceSize)
      assert.isAtMost(held, limits.tail + 3 * pieceSize)
    })
  )

  it.scopedLive("W28: flows on with a store that breaks, at once or in the middle, and says why there is no file", () =>
    Effect.gen(function* () {
      const stores: ReadonlyArray<Outputs.OutputStore["write"]> = [
        () => Effect.dieMessage("broken"),
        () => {
          throw new Error("broken")
        },
        () => Effect.interrupt,
        (_, bytes) => Effect.zipRight(Stream.runDrain(Stream.take(bytes, 2)), Effect.dieMessage("broken"))
      ]
      for (const write of stores) {
        const capture = yield* capturing(write)
        capture.listen(source(64).pipe)
        yield* eventually("all of it has come", capture.isClosed)
        yield* capture.finish
        assert.strictEqual(capture.view().total, 64 * pieceSize)
        assert.include(whyNoFile(capture), "what keeps outputs broke")
      }
    })
  )

  it.effect("law 4, W28: a store that hangs is given up a limited time after the end, whatever it does about it", () =>
    Effect.gen(function* () {
      for (const hanging of [Effect.never, Effect.uninterruptible(Effect.never)]) {
        const scope = yield* Scope.make()
        const capture = yield* Scope.extend(
          capturing(() => hanging),
          scope
        )
        const pipe = new Readable({ read() {} })
        capture.listen(pipe)
        pipe.emit("data", new Uint8Array(pieceSize))
        // as long as the command runs it may take its time
        yield* TestClock.adjust("1 day")
        assert.isTrue(Option.isNone(capture.view().file))
        const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
        yield* TestClock.adjust(Duration.subtract(Outputs.patience, Duration.millis(1)))
        assert.isTrue(Option.isNone(yield* Fiber.poll(closing)))
        yield* TestClock.adjust(1)
        yield* Fiber.join(closing)
        assert.include(whyNoFile(capture), "it was not written within 10s")
      }
    })
  )
})
