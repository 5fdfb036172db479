/**
 * `daybook run`: one prompt, or what a session was about to do, until the agent is idle.
 *
 * - Nothing is created before the command line was found good and the prompt was read.
 * - A prompt is sent or it is not: no signal comes between. Once it is sent, a signal cancels the turn, keeps what is
 *   queued, and waits until all is settled and stored. After that a signal bounds the wait for whoever reads the output.
 * - How it went is read from the journal, and never from what was shown on the way.
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import type { Terminal } from "@effect/platform/Terminal"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { Agent } from "../agent/Agent.ts"
import { Agents } from "../agent/Agents.ts"
import type { SendError } from "../agent/Machine.ts"
import { type MessageId, makeMessageId, makeSessionId, type SessionId } from "../domain/Ids.ts"
import { Journal, type SessionRecord } from "../journal/Journal.ts"
import * as OfflineGrammar from "../model/OfflineGrammar.ts"
import * as Asking from "./Asking.ts"
import { closedLine } from "./ClosedLine.ts"
import { Composition } from "./Composition.ts"
import { notDone, supervised, UsageError, untouched } from "./Failure.ts"
import { count } from "./Line.ts"
import * as Models from "./Models.ts"
import * as Pages from "./Pages.ts"
import * as Place from "./Place.ts"
import * as Prompt from "./Prompt.ts"
import { root } from "./Root.ts"
import * as Screen from "./Screen.ts"
import * as SessionArg from "./SessionArg.ts"
import { reading, Shutdown, untilOverdue } from "./Shutdown.ts"
import { type Stdio, say } from "./Stdio.ts"
import * as Verdict from "./Verdict.ts"

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
    const errand: Errand = {
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
    yield* Effect.provide(run(errand, screen), Layer.mapError(composition.agents(place, models, asked), unsent))
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

/** What is to be done, and everything about it that the command line says. */
interface Errand {
  readonly place: Place.Place
  /** The options that name it to another command. */
  readonly again: string
  /** Who is to be asked, if the command line says so. */
  readonly route: Option.Option<Models.Route>
  readonly session: Option.Option<SessionId>
  /** None where the session goes on by itself. */
  readonly prompt: Option.Option<string>
  readonly output: Screen.Output
}

type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** Runs the errand, says what there is to say of how it went, and chooses the exit code. */
const run = (errand: Errand, screen: Screen.Screen) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const id = yield* Option.match(errand.session, { onNone: () => makeSessionId, onSome: Effect.succeed })
      const watcher = makeWatcher(screen)
      const conversation = Effect.scoped(converse({ errand, id, screen, watcher, restore }))
      const verdict = yield* supervised(Effect.ensuring(conversation, watcher.end))
      if (Option.isSome(verdict))
        yield* conclude(id, { verdict: verdict.value, isRead: watcher.isRead(), place: errand.again })
      // however it went: an output that lacks something is an error
      yield* supervised(screen.written)
    })
  )

interface Conclusion {
  readonly verdict: Verdict.Verdict
  readonly isRead: boolean
  /** The options that name its place to another command. */
  readonly place: string
}

const conclude = Effect.fnUntraced(function* (id: SessionId, { isRead, place, verdict }: Conclusion) {
  const shutdown = yield* Shutdown
  const advice = Verdict.advice(id, verdict, place)
  if (advice !== undefined) yield* untilOverdue(say(advice))
  if (!isRead) yield* untilOverdue(say(`standard output was not read; \`daybook show ${id}${place}\` has it all`))
  yield* shutdown.endWith(Verdict.exitCode(verdict, { signal: yield* shutdown.signal, isRead }))
})

interface Conversation {
  readonly errand: Errand
  readonly id: SessionId
  readonly screen: Screen.Screen
  readonly watcher: Watcher
  /** Opens the windows in which a signal is heard. */
  readonly restore: Restore
}

/** Opens the session, sends the prompt or resumes, and waits. */
const converse = Effect.fnUntraced(function* ({ errand, id, restore, screen, watcher }: Conversation) {
  const agents = yield* Agents
  const journal = yield* Journal
  const stored = yield* Effect.catchTag(Effect.asSome(journal.find(id)), "SessionNotFound", () => Effect.succeedNone)
  const moved = yield* movedFrom(stored, errand.place)
  // fails where there is none to go on with
  if (Option.isNone(errand.prompt)) yield* journal.find(id)
  const agent = yield* restore(
    untouched(
      id,
      "it was not opened, and nothing was sent"
    )(
      agents.open(id, {
        cwd: errand.place.workspace,
        create: Option.isSome(moved) ? "never" : "if-absent",
        // without one the log decides
        ...Option.match(errand.route, { onNone: () => ({}), onSome: (route) => ({ config: route }) })
      })
    )
  )
  const what = Effect.map(agent.status, screen.waitingFor)
  yield* Effect.flatMap(Shutdown, (shutdown) => shutdown.waitingFor({ what, tell: screen.note }))
  // until the prompt is sent a signal is heard, also by what nobody reads
  const tell = (line: string) => restore(say(line))
  if (Option.isNone(errand.session)) yield* tell(`session ${id}`)
  yield* watcher.begin(agent)
  const { head } = yield* journal.find(id)
  const found = Option.match(stored, { onNone: () => head, onSome: (record) => record.head })
  const closed = yield* closedLine(id, { from: found, head })
  if (closed !== undefined) yield* tell(closed)
  if (Option.isSome(moved))
    yield* tell(
      `session ${id} was begun in ${moved.value}, and that folder is gone; its tools work in ${errand.place.workspace} now`
    )
  const parked = (yield* agent.pending).filter(
    ({ source }) => source.kind === "prompt" || source.kind === "resume"
  ).length
  const when = Option.isSome(errand.prompt) ? "first" : "now"
  if (parked > 0)
    yield* tell(`session ${id}: ${count(parked, "prompt")} waited, and ${parked === 1 ? "runs" : "run"} ${when}`)

  // the last moment for a signal that is to send nothing
  yield* restore(Effect.yieldNow())
  const sent = yield* makeMessageId
  const worked = yield* Effect.catchTag(
    work(agent, { prompt: errand.prompt, id: sent, restore }),
    "SessionBroken",
    (error) => Effect.succeed(error)
  )
  if (worked === false) return { _tag: "Nothing" } satisfies Verdict.Verdict
  const sought = Verdict.search(Option.isSome(errand.prompt) ? sent : undefined)
  const read = Stream.runFold(Pages.events(journal, id, { from: head }), sought, Verdict.advance)
  if (worked === true) return (yield* read).verdict
  // where the log cannot be read either, that is the same trouble
  return Verdict.stopped(yield* Effect.mapError(read, () => worked), worked)
})

interface Work {
  readonly prompt: Option.Option<string>
  /** What the prompt is to be known by. */
  readonly id: MessageId
  readonly restore: Restore
}

/** Sends the prompt, or has the session go on, and waits until nothing runs. False where there is nothing to go on with. */
const work = Effect.fnUntraced(function* (
  agent: Agent,
  { id, prompt, restore }: Work
): Effect.fn.Return<boolean, SendError> {
  const goesOn = yield* Option.match(prompt, {
    onSome: (text) => Effect.as(agent.followup({ id, text }), true),
    onNone: () => agent.resume
  })
  if (!goesOn) return false
  // `idle` fails on the fibers of a turn alone: here, only a signal ends it early
  const idle = yield* Effect.exit(restore(agent.idle))
  if (Exit.isFailure(idle)) yield* agent.cancel("user", { keepInbox: true })
  // what is broken does not go on, and says why
  if ((yield* agent.status)._tag === "Broken") yield* agent.resume
  return true
})

/** The folder of a stored session, where there is none any more and another one takes its place. */
const movedFrom = Effect.fnUntraced(function* (stored: Option.Option<SessionRecord>, { workspace }: Place.Place) {
  const folder = Option.map(stored, ({ header }) => header.cwd).pipe(Option.filter((cwd) => cwd !== workspace))
  return Option.isSome(folder) && (yield* Place.isGone(folder.value)) ? folder : Option.none<string>()
})

/** Shows an agent's feed on a fiber of its own. */
type Watcher = ReturnType<typeof makeWatcher>

const makeWatcher = (screen: Screen.Screen) => {
  let fiber: Option.Option<Fiber.RuntimeFiber<void>> = Option.none()
  let isRead = true
  return {
    begin: (agent: Agent) =>
      Effect.gen(function* () {
        const shown = Effect.catchAll(screen.show(agent.events), (error) =>
          say(`what follows is not shown: ${error.message}`)
        )
        fiber = Option.some(yield* Effect.forkDaemon(Effect.interruptible(shown)))
        // it subscribes as soon as it runs: let it run
        yield* Effect.yieldNow()
      }),
    /** Waits until everything is shown, or is not to be waited for. It is for after the agent, whose feed has ended then. */
    end: Effect.scoped(
      Effect.gen(function* () {
        if (Option.isNone(fiber)) return
        yield* Effect.flatMap(Shutdown, (shutdown) => shutdown.waitingFor(reading))
        isRead = Option.isSome(yield* untilOverdue(Fiber.await(fiber.value)))
        if (!isRead) yield* Fiber.interruptFork(fiber.value)
      })
    ),
    /** Whether everything that was shown was also taken. */
    isRead: () => isRead
  }
}
