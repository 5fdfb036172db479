/**
 * `daybook events`: the log of a session, one event a line.
 */
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { SessionId } from "../domain/Ids.ts"
import { Journal } from "../journal/Journal.ts"
import * as Gist from "./Gist.ts"
import { brief } from "./Line.ts"
import * as Pages from "./Pages.ts"
import * as Place from "./Place.ts"
import { reading } from "./Reading.ts"
import * as SessionArg from "./SessionArg.ts"
import { Stdio } from "./Stdio.ts"

const decodeSeq = (text: string): Effect.Effect<number, ValidationError.ValidationError> =>
  /^\d+$/.test(text) && Number.isSafeInteger(Number(text))
    ? Effect.succeed(Number(text))
    : Effect.fail(
        ValidationError.invalidValue(HelpDoc.p(`--from takes a whole number from 0 on, and not "${brief(text, 40)}"`))
      )

const config = {
  ...Place.options,
  json: Options.boolean("json").pipe(Options.withDescription("One JSON object a line, exactly as it is stored.")),
  from: Options.text("from").pipe(
    Options.withPseudoName("SEQ"),
    Options.withDescription("The first event to print. They are numbered from 0."),
    Options.mapEffect(decodeSeq),
    Options.withDefault(0)
  ),
  id: SessionArg.argument
}

const description = HelpDoc.blocks([
  HelpDoc.p("Prints the log of a session, one event a line. It can be read while the session runs."),
  HelpDoc.p(["Examples:", "", "  daybook events ID", "  daybook events ID --json --from 100 | head -20"].join("\n"))
])

export const command = Command.make("events", config, (own) => reading(own, print(own))).pipe(
  Command.withDescription(description)
)

// internal

const print = Effect.fnUntraced(function* (wanted: {
  readonly id: SessionId
  readonly json: boolean
  readonly from: number
}) {
  const journal = yield* Journal
  const stdio = yield* Stdio
  yield* journal.find(wanted.id)
  const render = wanted.json ? Gist.json : Gist.line
  yield* Stream.runForEachChunk(Pages.events(journal, wanted.id, wanted.from), (events) => {
    const text = Chunk.toReadonlyArray(events).map((event) => `${render(event)}\n`)
    return text.length === 0 ? Effect.void : stdio.out(text.join(""))
  })
})
