/**
 * An errand of `run`: a session is opened, a prompt sent or what waits resumed, the turn shown, and its end told.
 *
 * - A prompt is sent or it is not: no signal comes between. Once it is sent, a signal cancels the turn, keeps what is
 *   queued, and waits until all is settled and stored. After that a signal bounds the wait for whoever reads the output.
 * - How it went is read from the journal, and never from what was shown on the way.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { Agent } from "../agent/Agent.ts"
import { Agents } from "../agent/Agents.ts"
import type { SendError } from "../agent/Machine.ts"
import { type MessageId, makeMessageId, makeSessionId, type SessionId } from "../domain/Ids.ts"
import { Journal, type SessionRecord } from "../journal/Journal.ts"
import { closedLine } from "./ClosedLine.ts"
import { supervised, untouched } from "./Failure.ts"
import { count } from "./Line.ts"
import type * as Models from "./Models.ts"
import * as Pages from "./Pages.ts"
import * as Place from "./Place.ts"
import type * as Screen from "./Screen.ts"
import { reading, Shutdown, untilOverdue } from "./Shutdown.ts"
import { say } from "./Stdio.ts"
import * as Verdict from "./Verdict.ts"

/** What is to be done, and everything about it that the command line says. */
export interface Errand {
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
export const run = (errand: Errand, screen: Screen.Screen) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const id = yield* Option.match(errand.session, { onNone: () => makeSessionId, onSome: Effect.succeed })
      const watcher = makeWatcher(screen)
      const conversation = yield* Effect.exit(Effect.scoped(converse({ errand, id, screen, watcher, restore })))
      const isRead = yield* watcher.end
      const verdict = yield* supervised(conversation)
      if (Option.isSome(verdict)) yield* conclude(id, { verdict: verdict.value, isRead, place: errand.again })
      // however it went: an output that lacks something is an error
      yield* supervised(screen.written)
    })
  )

// internal

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
    /**
     * Waits until everything is shown, or is not to be waited for: whether all of it was taken. It is for after the agent,
     * whose feed has ended then.
     */
    end: Effect.scoped(
      Effect.gen(function* () {
        if (Option.isNone(fiber)) return true
        yield* Effect.flatMap(Shutdown, (shutdown) => shutdown.waitingFor(reading))
        const isRead = Option.isSome(yield* untilOverdue(Fiber.await(fiber.value)))
        if (!isRead) yield* Fiber.interruptFork(fiber.value)
        return isRead
      })
    )
  }
}
