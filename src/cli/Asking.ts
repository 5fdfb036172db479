/**
 * Asking a person on the terminal whether a call may run.
 *
 * - Asked is where both ends are the terminal: standard input gives the keys, standard error shows the question. Anywhere
 *   else nobody is there, and that is said at once.
 * - One question at a time. What was typed before it stood there answers nothing.
 * - Keys that cancel do what the signal does that they send elsewhere.
 */
import * as Terminal from "@effect/platform/Terminal"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Turnstile from "../internal/Turnstile.ts"
import { type Answer, Approver, ApproverUnavailable, Answer as answers, type Question } from "../tool/Approver.ts"
import { count, flattened } from "./Line.ts"
import type { Screen } from "./Screen.ts"
import { Shutdown } from "./Shutdown.ts"
import { Stdio } from "./Stdio.ts"

/** The approver on the terminal of this program, whose questions a screen shows. */
export const layer = (screen: Screen): Layer.Layer<Approver, never, Stdio | Shutdown | Terminal.Terminal> =>
  Layer.effect(
    Approver,
    Effect.gen(function* () {
      const stdio = yield* Stdio
      const terminal = yield* Terminal.Terminal
      const shutdown = yield* Shutdown
      const alone = Turnstile.make()
      const isThere = stdio.inIsTerminal && stdio.errIsTerminal
      return {
        ask: (question) =>
          isThere
            ? alone((restore) => restore(askOn(screen, terminal, shutdown.interrupt, question)))
            : Effect.fail(new ApproverUnavailable({ message: "no terminal is there to ask on" }))
      }
    })
  )

/** What is shown of a call that is asked about: all of it that a person can be expected to read, a line each. */
export const questionLines = ({ call, reason }: Question): ReadonlyArray<string> => {
  const shown = argumentLines(call.arguments)
  const left = shown.slice(maxLines)
  return [
    `ask     ${call.name}${reason === undefined ? "" : `: ${flattened(reason)}`}`,
    ...shown.slice(0, maxLines).map((line) => `        ${line}`),
    ...(left.length === 0 ? [] : [`        and ${count(left.length, "line")} more, not shown`])
  ]
}

// internal

/** For how long what was typed before is let pass. Nobody has read a question in that time. */
const settling = Duration.millis(20)

const maxLines = 60
const maxLineLength = 2000

const askOn = (
  screen: Screen,
  terminal: Terminal.Terminal,
  interrupt: Effect.Effect<void>,
  question: Question
): Effect.Effect<Answer> =>
  Effect.scoped(
    Effect.gen(function* () {
      const keys = yield* terminal.readInput
      yield* Effect.sleep(settling)
      if (Option.exists(yield* keys.size, (waiting) => waiting > 0)) yield* keys.takeAll
      for (const line of questionLines(question)) yield* screen.note(line)
      const { name } = question.call
      const choice = `allow?  y this once  a ${flattened(name)} in all of this session  n no  Esc cancels the turn`
      const next = Effect.orElseSucceed(keys.take, () => quit)
      const answer = Effect.repeat(Effect.map(next, answerOf), { until: Option.isSome })
      const pressed = yield* screen.asking(choice, Effect.flatten(answer).pipe(Effect.orDie))
      if (pressed !== "cancel") return pressed
      yield* interrupt
      return yield* Effect.never
    })
  )

/** What the library gives in place of Ctrl-C once it has told of it: the mailbox has ended. */
const quit: Terminal.UserInput = {
  input: Option.none(),
  key: { name: "escape", ctrl: false, meta: false, shift: false }
}

/** What a key means; none for any that means nothing here. */
const answerOf = ({ key }: Terminal.UserInput): Option.Option<Answer | "cancel"> => {
  if (key.name === "escape" || (key.ctrl && key.name === "c")) return Option.some("cancel")
  if (key.ctrl || key.meta) return Option.none()
  switch (key.name) {
    case "y":
      return Option.some(answers.AllowOnce())
    case "a":
      return Option.some(answers.AllowAlways())
    case "n":
      return Option.some(answers.Reject({ reason: "the person at the terminal said no" }))
    default:
      return Option.none()
  }
}

/** The arguments by name, each text as it reads, broken only where it breaks. */
const argumentLines = (args: unknown): ReadonlyArray<string> => {
  if (typeof args !== "object" || args === null) return [JSON.stringify(args)]
  return Object.entries(args).flatMap(([key, value]: readonly [string, unknown]) => {
    const [first = "", ...rest] = (typeof value === "string" ? value : JSON.stringify(value)).split("\n")
    return [`${key}: ${first}`, ...rest.map((line) => `  ${line}`)].map(cut)
  })
}

const cut = (line: string): string =>
  line.length > maxLineLength
    ? `${line.slice(0, maxLineLength)} … and ${line.length - maxLineLength} characters more, not shown`
    : line
