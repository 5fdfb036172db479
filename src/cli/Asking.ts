/**
 * Asking a person on the terminal whether a call may run.
 *
 * - Asked is where both ends are the terminal: standard input gives the keys, standard error shows the question. Anywhere
 *   else nobody is there, and that is said at once.
 * - One question at a time. What was typed before it stood there answers nothing, nor what is pasted.
 * - A question shows what will run: every character that would move the cursor, or hide or reorder others, is spelled out.
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
      /** What was allowed for a session while other questions about it waited here. */
      const allowed = new Set<string>()
      const isThere = stdio.inIsTerminal && stdio.errIsTerminal
      return {
        ask: (question) =>
          isThere
            ? alone((restore) => {
                const tool = `${question.call.sessionId} ${question.call.name}`
                if (allowed.has(tool)) return Effect.succeed(answers.AllowAlways())
                const answer = askOn(screen, terminal, shutdown.interrupt, question)
                return Effect.tap(restore(answer), ({ _tag }) => {
                  if (_tag === "AllowAlways") allowed.add(tool)
                })
              })
            : Effect.fail(new ApproverUnavailable({ message: "no terminal is there to ask on" }))
      }
    })
  )

/** What is shown of a call that is asked about: all of it that a person can be expected to read, a line each. */
export const questionLines = ({ call, reason }: Question): ReadonlyArray<string> => {
  const shown = argumentLines(call.arguments)
  const left = shown.length - headLines - tailLines
  const fitting =
    left <= 0
      ? shown
      : [
          ...shown.slice(0, headLines),
          `[${count(left, "line")} left out here: \`n\` denies the call]`,
          ...shown.slice(-tailLines)
        ]
  return [
    `ask     ${call.name}${reason === undefined ? "" : `: ${flattened(reason)}`}`,
    ...fitting.map((line) => `        ${line}`)
  ]
}

// internal

/** For how long what was typed before is let pass. Nobody has read a question in that time. */
const settling = Duration.millis(20)

/** Returns once what the host had for this process was delivered: on a busy one, a timer may come before it. */
const delivered = Effect.async<void>(
  (resume) => void setImmediate(() => setImmediate(() => resume(Effect.void))) // edge: each comes after a look for input
)

/** How much is shown of a call that is too long: its head and its tail, in lines, and of a line, in characters. */
const headLines = 40
const tailLines = 20
const headLength = 1500
const tailLength = 500

const askOn = (
  screen: Screen,
  terminal: Terminal.Terminal,
  interrupt: Effect.Effect<void>,
  question: Question
): Effect.Effect<Answer> =>
  Effect.scoped(
    Effect.gen(function* () {
      const keys = yield* terminal.readInput
      yield* Effect.zipRight(Effect.sleep(settling), delivered)
      if (Option.exists(yield* keys.size, (waiting) => waiting > 0)) yield* keys.takeAll
      for (const line of questionLines(question)) yield* screen.note(line)
      const { name } = question.call
      const choice = `allow?  y this once  a ${flattened(name)} in all of this session  n no  Esc cancels the turn`
      const next = Effect.map(keys.takeAll, ([pressed, isOver]) => answerTo([...pressed], isOver))
      const answer = Effect.repeat(next, { until: Option.isSome })
      const pressed = yield* screen.asking(choice, Effect.flatten(answer).pipe(Effect.orDie))
      if (pressed !== "cancel") return pressed
      yield* interrupt
      return yield* Effect.never
    })
  )

/** What the keys mean that came at once; none where they mean nothing. Several are pasted, and no answer. */
const answerTo = (pressed: ReadonlyArray<Terminal.UserInput>, isOver: boolean): Option.Option<Answer | "cancel"> => {
  // the library ends the keys with Ctrl-C
  if (isOver || pressed.some(({ key }) => key.name === "escape" || (key.ctrl && key.name === "c")))
    return Option.some("cancel")
  const [only, ...more] = pressed
  return only === undefined || more.length > 0 ? Option.none() : answerOf(only)
}

/** What a key means; none for any that means nothing here. */
const answerOf = ({ key }: Terminal.UserInput): Option.Option<Answer> => {
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

/** The arguments by name, the shortest first, each text as it reads, broken only where it breaks. */
const argumentLines = (args: unknown): ReadonlyArray<string> => {
  if (typeof args !== "object" || args === null) return [JSON.stringify(args)]
  return Object.entries(args)
    .map(([key, value]: readonly [string, unknown]) => {
      const [first = "", ...rest] = (typeof value === "string" ? value : JSON.stringify(value)).split("\n")
      return [`${key}: ${first}`, ...rest.map((line) => `  ${line}`)]
    })
    .toSorted((a, b) => a.join().length - b.join().length)
    .flat()
    .map((line) => cut(spelledOut(line)))
}

/** Control and format characters, odd blanks, and what has no picture, as the escapes that they would be written as. */
const spelledOut = (line: string): string =>
  line.replaceAll(
    /(?! )[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]/gu,
    (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`
  )

const cut = (line: string): string => {
  const left = line.length - headLength - tailLength
  return left <= 0
    ? line
    : `${line.slice(0, headLength)} [${count(left, "character")} left out here] ${line.slice(-tailLength)}`
}
