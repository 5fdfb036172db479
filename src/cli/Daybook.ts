/**
 * The program: every command, and the one supervisor that says what failed.
 */
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Argv from "./Argv.ts"
import * as Events from "./Events.ts"
import * as Export from "./Export.ts"
import { logCause, supervised, UsageError } from "./Failure.ts"
import * as Fork from "./Fork.ts"
import * as Grammar from "./Grammar.ts"
import * as Help from "./Help.ts"
import * as Import from "./Import.ts"
import * as Repair from "./Repair.ts"
import * as Request from "./Request.ts"
import { name, root, version } from "./Root.ts"
import * as Run from "./Run.ts"
import * as Sessions from "./Sessions.ts"
import * as Settings from "./Settings.ts"
import * as Show from "./Show.ts"
import type { Shutdown } from "./Shutdown.ts"
import { Stdio } from "./Stdio.ts"
import * as Verify from "./Verify.ts"

/** Every command. Causes are logged where the log level that was asked for counts: within. */
export const command = root.pipe(
  Command.withSubcommands([
    Run.command,
    Events.command,
    Show.command,
    Sessions.command,
    Request.command,
    Verify.command,
    Repair.command,
    Fork.command,
    Export.command,
    Import.command,
    Settings.command
  ]),
  Command.transformHandler(Effect.tapErrorCause(logCause))
)

/** What its command line may say. */
export const grammar = Grammar.of(command, [Settings.command])

/** Runs the program with the words after its name. Never fails: what failed was said, and is the exit code. */
export const main = (words: ReadonlyArray<string>) =>
  Effect.asVoid(
    supervised(
      Effect.gen(function* () {
        const normal = yield* Effect.mapError(
          Argv.normalize(grammar, words),
          (message) => new UsageError({ message: `${message} Nothing was changed.` })
        )
        yield* withQuietConsole(run(["node", name, ...normal]), Grammar.pathOf(grammar, normal))
      })
    )
  )

// internal

const run = (argv: ReadonlyArray<string>) =>
  Effect.provide(
    Command.run(command, { name, version })(argv),
    CliConfig.layer({ isCaseSensitive: true, showBuiltIns: false })
  )

/**
 * Runs an effect whose console is ours: the help of the command with this path goes to standard output, without colours.
 * What `@effect/cli` says of errors goes nowhere: the supervisor says it, once.
 */
const withQuietConsole = Effect.fnUntraced(function* <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  path: ReadonlyArray<string>
) {
  const context = yield* Effect.context<Shutdown | Stdio>()
  const console = yield* Effect.console
  const print = (text: string) => Effect.flatMap(Stdio, (stdio) => stdio.out(`${Help.tidy({ path, text })}\n`))
  return yield* Effect.withConsole(effect, {
    ...console,
    error: () => Effect.void,
    log: (text) => Effect.asVoid(Effect.provide(supervised(print(String(text))), context))
  })
})
