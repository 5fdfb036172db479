/**
 * How the program ends: its exit code, and what signals do.
 *
 * - The first signal interrupts the program, which then comes to its end in good order. No later signal cuts that short:
 *   each is answered with a line that says what is being waited for, and since when.
 * - Output that nobody takes is waited for without limit while no signal came, and for `outputGrace` once one did.
 * - The exit code is the one the program chose, else the signal's.
 */
import { closeSync } from "node:fs"
import { makeRunMain } from "@effect/platform/Runtime"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type { Scope } from "effect/Scope"
import { apart } from "../internal/Apart.ts"
import { elapsed, isoTime } from "./Line.ts"

/** A signal that ends the program. A closed terminal sends `SIGHUP`. */
export type Signal = "SIGINT" | "SIGTERM" | "SIGHUP"

/** The exit code of a program that a signal cut short. */
export const signalCodes: Readonly<Record<Signal, number>> = { SIGINT: 130, SIGTERM: 143, SIGHUP: 143 }

/** For how long output that nobody takes is waited for after a signal, all of it together, once nothing else is. */
export const outputGrace = Duration.seconds(2)

/** What a program waits for, and how it tells a line of that. */
export interface Waiting {
  readonly what: Effect.Effect<string>
  readonly tell: (line: string) => Effect.Effect<void>
}

export class Shutdown extends Context.Tag("daybook/cli/Shutdown")<
  Shutdown,
  {
    /** Chooses the exit code; the last choice counts. */
    readonly endWith: (code: number) => Effect.Effect<void>
    /** Does what a `SIGINT` does: a key that sends one sends none while keys are read singly. */
    readonly interrupt: Effect.Effect<void>
    /** The first signal that came, if one did. */
    readonly signal: Effect.Effect<Option.Option<Signal>>
    /** Until the scope closes, this is what is being waited for, and a further signal is told so in this way. */
    readonly waitingFor: (waiting: Waiting) => Effect.Effect<void, never, Scope>
  }
>() {}

/** Returns once output is not to be waited for any longer. Time counts from where it is first asked for after a signal. */
export class Overdue extends Context.Reference<Overdue>()("daybook/cli/Shutdown/Overdue", {
  defaultValue: (): Effect.Effect<void> => Effect.never
}) {}

/** Waits until output is written, also where no interrupt is heard; none if a signal came and it was given up. */
export const untilOverdue = <A, E, R>(output: Effect.Effect<A, E, R>): Effect.Effect<Option.Option<A>, E, R> =>
  Effect.flatMap(Overdue, (overdue) =>
    apart(Effect.raceFirst(Effect.asSome(output), Effect.as(overdue, Option.none<A>())))
  )

/** What the process knows of its end. */
interface State {
  code: number | undefined
  first: { readonly signal: Signal; readonly at: number } | undefined
  waiting: Waiting
  /** Open once a signal came. */
  readonly signalled: Effect.Latch
  /** Until when output is waited for, in Unix milliseconds. */
  outputUntil: number | undefined
  /** Whether the terminal was closed. */
  hungUp: boolean
}

/** Tells without waiting for anybody. */
const tellAtOnce: Waiting["tell"] = (line) =>
  Effect.sync(() => {
    process.stderr.write(`${line}\n`) // edge: the services may be closed already
  })

/** What is waited for where the program says nothing else. */
const closing: Waiting = { what: Effect.succeed("what is open to be closed"), tell: tellAtOnce }

/** What is waited for where only output is left. */
export const reading: Waiting = { what: Effect.succeed("the output to be read"), tell: tellAtOnce }

/** The exit code. `code` is the one the program chose. */
export const exitCode = (
  code: number | undefined,
  signal: Signal | undefined,
  exit: Exit.Exit<unknown, unknown>
): number => {
  if (code !== undefined) return code
  if (signal !== undefined) return signalCodes[signal]
  return Exit.isSuccess(exit) ? 0 : 1
}

/** What a further signal is told. */
export const waitingLine = (what: string, since: number, now: number): string =>
  `daybook: still waiting for ${what}, since ${isoTime(since)} (${elapsed(now - since)}). It will end by itself.`

const service = (state: State): Context.Tag.Service<Shutdown> => ({
  interrupt: Effect.sync(() => void process.kill(process.pid, "SIGINT")), // edge: it goes the way of every signal
  endWith: (code) =>
    Effect.sync(() => {
      state.code = code
    }),
  signal: Effect.sync(() => Option.map(Option.fromNullable(state.first), (first) => first.signal)),
  waitingFor: (waiting) =>
    Effect.acquireRelease(
      Effect.sync(() => {
        state.waiting = waiting
      }),
      () =>
        Effect.sync(() => {
          state.waiting = closing
        })
    )
})

const overdue = (state: State): Effect.Effect<void> =>
  Effect.gen(function* () {
    yield* state.signalled.await
    const now = yield* Clock.currentTimeMillis
    state.outputUntil ??= now + Duration.toMillis(outputGrace)
    yield* Effect.sleep(state.outputUntil - now)
  })

/**
 * Closes what may be a terminal that is gone. Node sets every terminal back as it exits, and crashes on one that is gone;
 * it passes over descriptors that are closed.
 */
const closeTerminal = (): void => {
  for (const descriptor of [0, 1, 2])
    try {
      closeSync(descriptor) // edge: nothing else can close these, and the process ends right after
    } catch {
      // it was closed before
    }
}

/** Tells a person who has signalled before. It runs beside the program, which is busy with its end. */
const answer = (state: State, since: number): void => {
  const { tell, what } = state.waiting
  const line = Effect.map(Effect.all([what, Clock.currentTimeMillis]), ([text, now]) => waitingLine(text, since, now))
  Effect.runFork(Effect.flatMap(line, tell))
}

/**
 * Runs the program as this process, and ends the process with its exit code. `NodeRuntime.runMain` would not do: it stops
 * listening after the first signal, so that the second one kills in the middle of an end.
 */
export const runMain = (program: Effect.Effect<void, never, Shutdown>): void => {
  const state: State = {
    code: undefined,
    first: undefined,
    waiting: closing,
    signalled: Effect.unsafeMakeLatch(false),
    outputUntil: undefined,
    hungUp: false
  }
  const main = makeRunMain(({ fiber, teardown }) => {
    const receive = (signal: Signal) => {
      state.hungUp ||= signal === "SIGHUP"
      if (state.first !== undefined) return answer(state, state.first.at)
      state.first = { signal, at: Date.now() } // edge: a signal handler runs outside of every fiber
      state.signalled.unsafeOpen()
      fiber.unsafeInterruptAsFork(fiber.id())
    }
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => receive(signal))
    const keepAlive = setInterval(() => {}, 2 ** 31 - 1) // edge: a fiber that waits for another keeps no process alive
    fiber.addObserver((exit) => {
      clearInterval(keepAlive)
      teardown(exit, (code) => {
        if (state.hungUp) closeTerminal()
        process.exit(code)
      })
    })
  })
  const services = Context.make(Shutdown, service(state)).pipe(Context.add(Overdue, overdue(state)))
  main(Effect.provide(program, services), {
    disableErrorReporting: true,
    disablePrettyLogger: true,
    teardown: (exit, end) => end(exitCode(state.code, state.first?.signal, exit))
  })
}
