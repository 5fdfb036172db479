/**
 * The root command: what every command understands.
 */
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Effect from "effect/Effect"
import { UsageError } from "./Failure.ts"
import * as Place from "./Place.ts"

/** The program's name and its version, that of package.json. */
export const name = "daybook"
export const version = "0.1.0"

const lines = (...text: ReadonlyArray<string>) => HelpDoc.p(text.join("\n"))

const description = HelpDoc.blocks([
  lines(
    "An agent harness with a durable journal. However a turn ends, what happened is in the journal, and",
    "the session goes on from there."
  ),
  lines(
    "  run PROMPT   runs one prompt, until there is nothing left to do; --continue goes on without one",
    "  sessions     lists the sessions",
    "  show ID      prints a session as a person reads it",
    "  events ID    prints the log of a session, one event a line",
    "  request ID   prints the request that the log of a session derives",
    "  verify [ID]  checks every law that the log of a session can show",
    "  repair ID    closes the log of a session whose owner is gone",
    "  fork ID      makes a child of a session, which goes on by itself",
    "  export ID    writes a session as JSONL",
    "  import FILE  stores a session that was exported",
    "  settings     shows and changes your settings: get, set, unset"
  ),
  lines(
    "Examples:",
    "",
    '  daybook run "Run the tests in a, b and c, then write report.md"',
    "  daybook show ID",
    "  daybook run --help"
  ),
  lines(
    "With every command: --help, --version, and --log-level debug, which shows the causes of errors.",
    "A word that begins with a dash is an option; what comes after -- is not."
  )
])

/** The root, with the options that may stand before a command as well as after it. */
export const root = Command.make(name, Place.options, () =>
  Effect.fail(new UsageError({ message: `a command is missing. See ${name} --help.` }))
).pipe(Command.withDescription(description))
