/**
 * Standard input, output and error.
 *
 * - A write returns once it was handed over. A standard output that cannot be written is a typed failure, which knows
 *   whether only its reader went away; for standard error it is none: there is nobody to tell.
 * - What goes to a terminal moves no cursor and starts no escape sequence, unless it is `err`'s own drawing: and that is
 *   for terminals alone, and for none that is dumb or is to have no colours (TERM=dumb, NO_COLOR).
 */
import * as NodeStream from "@effect/platform-node/NodeStream"
import * as Cause from "effect/Cause"
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import * as FiberRefs from "effect/FiberRefs"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Predicate from "effect/Predicate"
import type * as Stream from "effect/Stream"
import { flattened, printable, uncontrolled } from "./Line.ts"

/** Standard output takes no more. */
export class OutputClosed extends Data.TaggedError("OutputClosed")<{ readonly cause: unknown }> {
  /** Whether nobody reads it any more. Whoever reads may stop when it likes; anything else is an error. */
  get isReaderGone(): boolean {
    const { cause } = this
    return Predicate.hasProperty(cause, "code") && (cause.code === "EPIPE" || cause.code === "ERR_STREAM_DESTROYED")
  }
}

export class Stdio extends Context.Tag("daybook/cli/Stdio")<
  Stdio,
  {
    /** Standard input. It dies where that cannot be read. */
    readonly input: Stream.Stream<Uint8Array>
    /**
     * Writes to standard output. On a terminal control characters show as U+FFFD, and in a text also those that would
     * show it in another order; JSON keeps these.
     */
    readonly out: (text: string, form?: "text" | "json") => Effect.Effect<void, OutputClosed>
    /** Writes to standard error, as it is. Never fails. */
    readonly err: (text: string) => Effect.Effect<void>
    /** Whether somebody may type on standard input. */
    readonly inIsTerminal: boolean
    readonly outIsTerminal: boolean
    readonly errIsTerminal: boolean
    /** Whether escape sequences may go to standard error: colours, and what moves the cursor. */
    readonly errTakesEscapes: boolean
    /** The width of the terminal that shows standard output, or else standard error; 0 where neither is one. */
    readonly columns: Effect.Effect<number>
    /** The height of the terminal that shows standard error; 0 where none does. */
    readonly rows: Effect.Effect<number>
  }
>() {}

/** Says one line on standard error. */
export const say = (line: string): Effect.Effect<void, never, Stdio> =>
  Effect.flatMap(Stdio, (stdio) => stdio.err(`daybook: ${flattened(line)}\n`))

/** Those of this process. From here on a reader that goes away is a failed write, and never a crash. */
export const layer: Layer.Layer<Stdio> = Layer.effect(
  Stdio,
  Effect.map(Effect.all([variable("TERM"), variable("NO_COLOR")]), ([term, noColor]) =>
    ofProcess({ isPlain: term === "dumb" || noColor !== "" })
  )
)

/** Logs go to standard error, a line each. Causes and stack traces show with `--log-level debug` alone. */
export const loggerLayer: Layer.Layer<never> = Logger.replace(
  Logger.defaultLogger,
  Logger.make(({ cause, context, logLevel, message }) => {
    const parts = Array.isArray(message) ? message : [message]
    const minimum = FiberRefs.getOrDefault(context, FiberRef.currentMinimumLogLevel)
    const isDebugging = LogLevel.lessThanEqual(minimum, LogLevel.Debug)
    const details = isDebugging && !Cause.isEmpty(cause) ? `\n${Cause.pretty(cause, { renderErrorCause: true })}` : ""
    const line = flattened(parts.map(String).join(" "))
    process.stderr.write(`daybook: ${logLevel.label.toLowerCase()}: ${line}${details}\n`) // edge: a logger is synchronous
  })
)

// internal

/** A variable of the environment; empty where it is not set or cannot be read. A `function`: `layer`, above, is a value. */
function variable(name: string): Effect.Effect<string> {
  return Effect.orElseSucceed(Config.string(name), () => "")
}

const ofProcess = ({ isPlain }: { readonly isPlain: boolean }): Context.Tag.Service<Stdio> => {
  const stdout = process.stdout // edge: the terminal service knows standard output alone, and not how wide the other is
  const stderr = process.stderr // edge: the same
  stdout.on("error", () => {})
  stderr.on("error", () => {})
  return {
    input: NodeStream.stdin,
    out: (text, form = "text") => {
      if (stdout.isTTY !== true) return write(stdout, text)
      return write(stdout, form === "json" ? uncontrolled(text) : printable(text))
    },
    err: (text) => Effect.ignore(write(stderr, text)),
    inIsTerminal: process.stdin.isTTY === true, // edge: the same
    outIsTerminal: stdout.isTTY === true,
    errIsTerminal: stderr.isTTY === true,
    errTakesEscapes: stderr.isTTY === true && !isPlain,
    columns: Effect.sync(() => stdout.columns ?? stderr.columns ?? 0),
    rows: Effect.sync(() => stderr.rows ?? 0)
  }
}

const write = (stream: NodeJS.WriteStream, text: string): Effect.Effect<void, OutputClosed> =>
  Effect.async((resume) => {
    stream.write(text, (cause) =>
      resume(cause === null || cause === undefined ? Effect.void : Effect.fail(new OutputClosed({ cause })))
    )
  })
