/**
 * `daybook events`: the log of a session, one event a line.
 */
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { SessionId } from "../domain/Ids.ts"
import { Journal } from "../journal/Journal.ts"
import * as Gist from "./Gist.ts"
import * as Pages from "./Pages.ts"
import * as Place from "./Place.ts"
import { reading } from "./Reading.ts"
import * as SeqOption from "./SeqOption.ts"
import * as SessionArg from "./SessionArg.ts"
import { Stdio } from "./Stdio.ts"

const config = {
  ...Place.options,
  json: Options.boolean("json").pipe(Options.withDescription("One JSON object a line, with all that is stored.")),
  from: SeqOption.make({ name: "from", description: "The first event to print. They are numbered from 0." }).pipe(
    Options.withDefault(0)
  ),
  follow: Options.boolean("follow").pipe(
    Options.withDescription(
      "Go on with what is appended, whoever appends it, until a signal. A reader that went away is noticed at the next event, and ends it then."
    )
  ),
  id: SessionArg.argument
}

const description = HelpDoc.blocks([
  HelpDoc.p("Prints the log of a session, one event a line. It can be read while the session runs."),
  HelpDoc.p(
    [
      "Examples:",
      "",
      "  daybook events ID",
      "  daybook events ID --json --from 100 | head -20",
      "  daybook events ID --follow"
    ].join("\n")
  )
])

/** `daybook events`: prints until the end of the log, or with `--follow` until it is interrupted. */
export const command = Command.make("events", config, (own) => reading(own, print(own))).pipe(
  Command.withDescription(description)
)

// internal

const print = Effect.fnUntraced(function* (wanted: {
  readonly id: SessionId
  readonly json: boolean
  readonly from: number
  readonly follow: boolean
}) {
  const journal = yield* Journal
  const stdio = yield* Stdio
  const { head } = yield* journal.find(wanted.id)
  const render = wanted.json ? Gist.json : Gist.line
  const pages = wanted.follow ? Pages.following : Pages.events
  yield* Stream.runForEachChunk(pages(journal, wanted.id, { from: wanted.from, head }), (events) => {
    const text = Chunk.toReadonlyArray(events).map((event) => `${render(event)}\n`)
    return text.length === 0 ? Effect.void : stdio.out(text.join(""), wanted.json ? "json" : "text")
  })
})
