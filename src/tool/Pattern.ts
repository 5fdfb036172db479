/**
 * A regular expression that is given up when it takes too long.
 *
 * - JavaScript cannot stop an expression that it has begun, and some take for ever. So lines are matched in a context of
 *   `node:vm` with a limit of time for each block of them: the event loop waits that long at most, and the pattern is then
 *   given up. A pattern that stays below it in each block can still take long in all: whoever hands over many blocks looks
 *   at `spentMillis`.
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
  /** How long matching has taken in all. */
  readonly spentMillis: () => number
}

/** Reads a pattern; what is wrong with it otherwise. Unicode rules, unless it only makes sense without them. */
export const parse = (source: string): Either.Either<Pattern, string> =>
  Either.map(
    Either.orElse(compiled(source, "u"), () => compiled(source, "")),
    (expression) => {
      let lines: ReadonlyArray<string> = []
      let found: Array<number> = []
      let spent = 0
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
              const begin = realMillis()
              script.runInContext(context, { timeout: limitMillis })
              spent += realMillis() - begin
              return found
            },
            catch: problemOf
          }),
        spentMillis: () => spent
      }
    }
  )

// internal

const script = new Script("run()")

const realMillis = (): number => performance.now() // edge: of the same clock as the limit of a block

const compiled = (source: string, flags: string): Either.Either<RegExp, string> =>
  Either.try({
    try: () => new RegExp(source, flags),
    catch: (error) => (error instanceof Error ? error.message : String(error))
  })

const problemOf = (error: unknown): string =>
  Predicate.hasProperty(error, "code") && error.code === "ERR_SCRIPT_EXECUTION_TIMEOUT"
    ? `the pattern took more than ${limitMillis} ms on a few lines; use one without a repetition inside a repetition`
    : `the pattern cannot be matched: ${Predicate.hasProperty(error, "message") ? error.message : String(error)}`
