/**
 * A regular expression that cannot hold the program up.
 *
 * - JavaScript cannot stop an expression that it has begun, and some take for ever. So lines are matched in a context of
 *   `node:vm` with a limit of time: the event loop waits that long at most, once, and the pattern is then given up.
 */
import { createContext, Script } from "node:vm"
import * as Either from "effect/Either"
import * as Predicate from "effect/Predicate"

/** How long one block of lines may take. Generous: even a busy host matches a block in a few milliseconds. */
const limitMillis = 500

/** A pattern that was understood. */
export interface Pattern {
  /** Where it first matches in each of the lines, -1 where it does not; or why that could not be found out. */
  readonly places: (lines: ReadonlyArray<string>) => Either.Either<ReadonlyArray<number>, string>
}

/** Reads a pattern; what is wrong with it otherwise. Unicode rules, unless it only makes sense without them. */
export const parse = (source: string): Either.Either<Pattern, string> =>
  Either.map(
    Either.orElse(compiled(source, "u"), () => compiled(source, "")),
    (expression) => {
      let lines: ReadonlyArray<string> = []
      let found: Array<number> = []
      const run = () => {
        for (const line of lines) found.push(line.search(expression))
      }
      // one for all blocks: to make one takes as long as to match many
      const context = createContext({ run })
      return {
        places: (block) =>
          Either.try({
            try: () => {
              lines = block
              found = []
              script.runInContext(context, { timeout: limitMillis })
              return found
            },
            catch: problemOf
          })
      }
    }
  )

// internal

const script = new Script("run()")

const compiled = (source: string, flags: string): Either.Either<RegExp, string> =>
  Either.try({
    try: () => new RegExp(source, flags),
    catch: (error) => (error instanceof Error ? error.message : String(error))
  })

const problemOf = (error: unknown): string =>
  Predicate.hasProperty(error, "code") && error.code === "ERR_SCRIPT_EXECUTION_TIMEOUT"
    ? `the pattern took more than ${limitMillis} ms on a few lines; use one without a repetition inside a repetition`
    : `the pattern cannot be matched: ${Predicate.hasProperty(error, "message") ? error.message : String(error)}`
