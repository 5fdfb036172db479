/**
 * `daybook run`: one prompt, or what a session was about to do, until the agent is idle.
 *
 * - Nothing is created before the command line was found good and the prompt was read.
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import type { Terminal } from "@effect/platform/Terminal"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { SessionId } from "../domain/Ids.ts"
import * as OfflineGrammar from "../model/OfflineGrammar.ts"
import * as Asking from "./Asking.ts"
import { Composition } from "./Composition.ts"
import * as Errand from "./Errand.ts"
import { notDone, UsageError } from "./Failure.ts"
import * as Models from "./Models.ts"
import * as Place from "./Place.ts"
import * as Prompt from "./Prompt.ts"
import { root } from "./Root.ts"
import * as Screen from "./Screen.ts"
import * as SessionArg from "./SessionArg.ts"
import type { Shutdown } from "./Shutdown.ts"
import { type Stdio, say } from "./Stdio.ts"

const config = {
  ...Place.options,
  session: SessionArg.option({
    name: "session",
    description: "The session to go on with; it is created if there is none. Without it, a new session."
  }).pipe(Options.optional),
  continue: Options.boolean("continue").pipe(
    Options.withDescription(
      "Go on with the session without a prompt: run what waits, else ask the model to continue a turn that was cut off."
    )
  ),
  ...Models.options,
  yes: Options.boolean("yes").pipe(
    Options.withDescription("Allow every call unasked, but for those that a rule of the settings denies.")
  ),
  json: Options.boolean("json").pipe(
    Options.withDescription(
      "Print each event as it commits instead of the answer, one JSON object a line, exactly as `daybook events --json`."
    )
  ),
  prompt: Args.text({ name: "PROMPT" }).pipe(
    Args.withDescription("What to do, in quotes. - reads it from standard input, up to 4 MiB."),
    Args.optional
  )
}

const description = HelpDoc.blocks([
  HelpDoc.p("Sends one prompt, and works until there is nothing left to do. Prompts that waited run first."),
  HelpDoc.p(
    [
      "With --session ID --continue there is no prompt. Prompts that wait are run; where none waits, and the last",
      "turn was interrupted, cancelled, failed or cut at its token limit, the model is asked once to go on from",
      "what the log says. Else there is nothing to continue: that is said, and the exit code is 0."
    ].join("\n")
  ),
  HelpDoc.p(
    [
      "The answer goes to standard output, tools and states to standard error. With --json, standard output",
      "gets the events of the session from its opening on instead of the answer. File tools stay inside the",
      "workspace. The tool bash starts in it and is no sandbox: a command can do whatever you can."
    ].join("\n")
  ),
  HelpDoc.p(
    [
      "A call that only reads runs; any other is asked about on the terminal: y allows it, a allows its tool in",
      "this session, n denies it, Esc and Ctrl-C cancel the turn. Without a terminal it is denied, and the model",
      "is told. --yes allows every call unasked. Rules of the settings section approvals allow, deny or ask, by",
      "tool and by how a command begins; what they deny, --yes does not allow."
    ].join("\n")
  ),
  HelpDoc.p(
    [
      "Examples:",
      "",
      '  daybook run --yes "Run the tests in a, b and c, then write report.md"',
      '  daybook run --session monday --workspace ~/project "Show package.json"',
      '  daybook run --session monday --model openai/NAME "What does it depend on?"',
      "  daybook run --session monday --continue",
      "  echo 'Say hello' | daybook run -"
    ].join("\n")
  ),
  HelpDoc.p(
    [
      "Models: openai/NAME with the key in OPENAI_API_KEY, deepseek/NAME with DEEPSEEK_API_KEY, and offline.",
      "With --base-url, openai/NAME asks any server that speaks chat completions, with a key or without one.",
      "A session may change its model at any prompt; without --model it goes on with the one it had."
    ].join("\n")
  ),
  HelpDoc.p(
    [
      "Exit codes: 0 completed; 1 failed, cut at a token limit, not run, or the output could not be written;",
      "2 usage; 3 blocked, or a call was denied; 4 the session is owned by another process; 130 cancelled by",
      "SIGINT, 143 by SIGTERM or SIGHUP. A signal cancels the turn, and waits until that has settled and is",
      "stored; if that fails the code is 1. Output that nobody reads is then waited for 2 seconds more, and if",
      "some of it is lost, a signal's code takes the place of 0."
    ].join("\n")
  ),
  HelpDoc.p(OfflineGrammar.grammar)
])

/** `daybook run`: ends with the exit code that tells how the prompt went. */
export const command = Command.make("run", config, (own) =>
  Effect.gen(function* () {
    const given = yield* root
    const place = yield* Place.resolve(own, given)
    yield* Place.check(place, "write")
    const models = yield* Models.resolve({ ...own, isNew: Option.isNone(own.session) })
    const prompt = yield* promptOf(own)
    // a session that goes on is there: nothing is created for it
    yield* Option.isSome(prompt) ? Place.prepare(place) : Place.mustExist(place)
    const composition = yield* Composition
    const errand: Errand.Errand = {
      place,
      again: Place.again(own, given),
      route: models.route,
      session: own.session,
      prompt,
      output: own.json ? "events" : "answer"
    }
    const screen = yield* Screen.make(errand.output)
    const context = yield* Effect.context<Stdio | Shutdown | Terminal>()
    const asked = own.yes ? "nobody" : Layer.provide(Asking.layer(screen), Layer.succeedContext(context))
    const id = Option.getOrUndefined(own.session)
    const unsent = notDone(
      id,
      `${id === undefined ? "no session was begun" : "it was not opened"}, and nothing was sent`
    )
    yield* Effect.provide(Errand.run(errand, screen), Layer.mapError(composition.agents(place, models, asked), unsent))
  })
).pipe(Command.withDescription(description))

// internal

/** What is to be sent; none with `--continue`. */
const promptOf = Effect.fnUntraced(function* (own: {
  readonly continue: boolean
  readonly session: Option.Option<SessionId>
  readonly prompt: Option.Option<string>
}) {
  const refuse = (why: string) =>
    new UsageError({ message: `${why} See daybook run --help. Nothing was sent, and nothing was changed.` })
  if (own.continue && Option.isSome(own.prompt))
    return yield* refuse("--continue goes on without a PROMPT: leave one of them out.")
  if (own.continue && Option.isNone(own.session)) return yield* refuse("--continue needs --session ID.")
  if (own.continue) return Option.none<string>()
  if (Option.isNone(own.prompt)) return yield* refuse("run needs PROMPT, or --session ID and --continue.")
  const { replaced, text } = yield* Prompt.read(own.prompt.value)
  if (replaced) yield* say(Prompt.replacedLine)
  return Option.some(text)
})
