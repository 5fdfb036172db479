/**
 * The program on a real pseudo-terminal: that of `script`, which util-linux has.
 */
import { execFileSync } from "node:child_process"
import type * as Effect from "effect/Effect"
import type { Scope } from "effect/Scope"
import { type Options, type Result, type Running, shell, shellWords, startShell } from "./Cli.ts"

/** Whether there is a `script` that knows `-qec`. */
export const hasScript = (): boolean => {
  try {
    return execFileSync("script", ["--version"], { encoding: "utf8" }).includes("util-linux")
  } catch {
    return false
  }
}

export interface TerminalOptions extends Pick<Options, "cwd" | "env"> {
  readonly rows?: number
}

/** Runs the program on a terminal of its own; what it wrote there is its standard output. */
export const onTerminal = (words: string, options: TerminalOptions): Effect.Effect<Result> =>
  shell(commandOf(words, options), optionsOf(options))

/** Starts the program on a terminal of its own, on which one can type. */
export const startOnTerminal = (words: string, options: TerminalOptions): Effect.Effect<Running, never, Scope> =>
  startShell(commandOf(words, options), { ...optionsOf(options), stdin: "open" })

// internal

const commandOf = (words: string, { rows = 24 }: TerminalOptions): string => {
  const inner = `stty cols 100 rows ${rows}; ${shellWords()} ${words}`
  return `script -qec "${inner.replaceAll('"', '\\"')}" /dev/null`
}

const optionsOf = ({ cwd, env }: TerminalOptions): Options => ({
  cwd,
  env: { TERM: "xterm", NO_COLOR: "", ...env }
})
