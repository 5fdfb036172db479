/**
 * `daybook show`: a session as a person reads it.
 */
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { SessionId } from "../domain/Ids.ts"
import { Journal } from "../journal/Journal.ts"
import * as Pages from "./Pages.ts"
import * as Place from "./Place.ts"
import { asItStands, reading } from "./Reading.ts"
import { root } from "./Root.ts"
import * as SessionArg from "./SessionArg.ts"
import { Stdio } from "./Stdio.ts"
import * as TranscriptView from "./TranscriptView.ts"

const description = HelpDoc.blocks([
  HelpDoc.p(
    [
      "Prints a session as a person reads it: who said what, which tools ran and what came of it, how each",
      "turn ended, and what waits. Long results are cut; `daybook events ID --json` has them whole."
    ].join("\n")
  ),
  HelpDoc.p(["Examples:", "", "  daybook show ID", "  daybook show ID | less"].join("\n"))
])

/** `daybook show`: prints all of a session as it is stored now. */
export const command = Command.make("show", { ...Place.options, id: SessionArg.argument }, (own) =>
  Effect.flatMap(root, (given) => reading(own, print(own.id, Place.again(own, given))))
).pipe(Command.withDescription(description))

// internal

const print = Effect.fnUntraced(function* (id: SessionId, place: string) {
  const journal = yield* Journal
  const stdio = yield* Stdio
  const record = yield* journal.find(id)
  yield* stdio.out(TranscriptView.heading(record))
  let last = TranscriptView.start(record.header.seedLength)
  const events = Stream.chunks(Pages.events(journal, id, { from: 0, head: record.head }))
  yield* Stream.runForEach(events, (page) => {
    let text = ""
    for (const event of page) {
      const [next, more] = TranscriptView.read(last, event)
      last = next
      text += more
    }
    return text === "" ? Effect.void : stdio.out(text)
  }).pipe(Effect.tapError(() => stdio.out(TranscriptView.unanswered(last))))
  yield* stdio.out(TranscriptView.footing(last, yield* asItStands(record), place))
})
