/**
 * Question: does a stream that is pulled give back what it holds, wherever it is interrupted?
 * Command:  npx vite-node --config test/vitest.config.ts scratchpad/substream.ts
 * Answer:   not quite (effect 3.22.4). Interrupted at the one step between the end of an inner stream and the pull after it,
 *           the channel forgets that stream's finalizers. What is acquired by the outermost stream itself is always given
 *           back: an adapter acquires there, as `Stream.unwrapScoped` does.
 */
import { Console, Effect, Exit, Fiber, Option, type Scope, Stream } from "effect"
import * as Explorer from "../src/testing/Explorer.ts"

type Held = Effect.Effect<void, never, Scope.Scope>

const shapes: Record<string, (held: Held) => Stream.Stream<number>> = {
  "the outermost stream": (held) => Stream.unwrapScoped(Effect.as(held, Stream.make(1, 2))),
  "an inner stream": (held) => Stream.unwrap(Effect.succeed(Stream.unwrapScoped(Effect.as(held, Stream.make(1, 2)))))
}

const pulled = (stream: Stream.Stream<number>) =>
  Effect.scoped(
    Effect.gen(function* () {
      const pull = yield* Stream.toPull(stream)
      while (Option.isSome(yield* Effect.option(pull)));
    })
  )

/** Pulls the stream, interrupted at these steps; how many steps there are, and how much is left in the end. */
const run = (shape: (held: Held) => Stream.Stream<number>, at: ReadonlyArray<number>) => {
  let held = 0
  const hold = Effect.acquireRelease(
    Effect.sync(() => void held++),
    () => Effect.sync(() => held--)
  )
  const { exit, steps } = Explorer.run(
    (controls) =>
      Effect.gen(function* () {
        const fiber = yield* Effect.fork(Effect.zipRight(Effect.yieldNow(), pulled(shape(hold))))
        controls.unsafeArm(() => controls.unsafeFork(Fiber.interrupt(fiber)))
        yield* Fiber.await(fiber)
      }),
    { at }
  )
  return { steps, left: held, ended: Option.exists(exit, Exit.isSuccess) }
}

const lines = Object.entries(shapes).map(([name, shape]) => {
  const { steps } = run(shape, [])
  const leaks = Array.from({ length: steps }, (_, index) => index + 1).filter((step) => run(shape, [step]).left > 0)
  return `${name}: ${steps} steps, something is left after an interrupt at ${leaks.join(", ") || "none"}`
})
Effect.runSync(Console.log(lines.join("\n")))
