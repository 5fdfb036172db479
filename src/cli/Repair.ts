/**
 * `daybook repair`: takes a session whose owner is gone or silent, closes its log, and gives it back.
 *
 * - It does what opening the session would, and nothing else: no turn runs, and what waits still waits.
 */
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { SessionId } from "../domain/Ids.ts"
import * as Closing from "../domain/Repair.ts"
import { Journal } from "../journal/Journal.ts"
import { Sessions } from "../session/Sessions.ts"
import { untouched } from "./Failure.ts"
import * as Gist from "./Gist.ts"
import { count } from "./Line.ts"
import * as Pages from "./Pages.ts"
import * as Place from "./Place.ts"
import { root } from "./Root.ts"
import * as SessionArg from "./SessionArg.ts"
import { Stdio, say } from "./Stdio.ts"
import { writing } from "./Writing.ts"

const config = {
  ...Place.options,
  json: Options.boolean("json").pipe(
    Options.withDescription("Print the closing events as `daybook events --json` does.")
  ),
  id: SessionArg.argument
}

const description = HelpDoc.blocks([
  HelpDoc.p(
    [
      "Closes the log of a session whose owner is gone or silent, as opening it would: each call gets its result,",
      "or a note that its outcome is unknown or that it never started; then the turn ends as interrupted. Commands",
      "that a dead owner left running are ended. Prints the closing events, one a line; nothing is deleted or",
      "changed.",
      "A session that a live process owns is left alone: exit code 4. No model is asked; to go on, use",
      "`daybook run --session ID --continue`."
    ].join("\n")
  ),
  HelpDoc.p(["Examples:", "", "  daybook repair ID", "  daybook repair ID --json"].join("\n"))
])

/** `daybook repair`: prints what closes the log, once that is stored. */
export const command = Command.make("repair", config, (own) =>
  Effect.flatMap(root, (given) => writing(own, repair({ ...own, place: Place.again(own, given) }), notTaken))
).pipe(Command.withDescription(description))

// internal

const notTaken = "it was not taken, and nothing was changed"

const balanced = (id: SessionId): string => `${id}: its log balances; nothing was written`

const repair = Effect.fnUntraced(function* (wanted: {
  readonly id: SessionId
  readonly json: boolean
  /** The options that name its place. */
  readonly place: string
}) {
  const { id } = wanted
  const journal = yield* Journal
  const sessions = yield* Sessions
  const stdio = yield* Stdio
  // given back before anything is printed: whoever reads may be slow
  const { foundHead, loadedHead } = yield* Effect.scoped(
    untouched(id, notTaken)(sessions.acquire(id, { cwd: "", create: "never" }))
  )
  const closing = loadedHead - foundHead
  if (closing === 0) return yield* wanted.json ? say(balanced(id)) : stdio.out(`${balanced(id)}\n`)
  const render = wanted.json ? Gist.json : Gist.line
  const events = Stream.take(Pages.events(journal, id, { from: foundHead, head: loadedHead }), closing)
  const fates: Array<string> = []
  yield* Stream.runForEach(events, (event) => {
    fates.push(...Closing.fates([event]))
    return stdio.out(`${render(event)}\n`, wanted.json ? "json" : "text")
  })
  const closed = `its turn was interrupted, and these ${count(closing, "event")} close its log.`
  const next = `To go on: daybook run --session ${id} --continue${wanted.place}`
  yield* say(`session ${id}: ${[closed, ...fates, next].join(" ")}`)
})
