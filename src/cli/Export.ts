/**
 * `daybook export`: a session as a file, on standard output.
 *
 * - It reads a page and writes it: however long a log is, one page of it is in memory. It takes no session.
 */
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { SessionId } from "../domain/Ids.ts"
import { Journal } from "../journal/Journal.ts"
import * as Gist from "./Gist.ts"
import * as Pages from "./Pages.ts"
import * as Place from "./Place.ts"
import { reading } from "./Reading.ts"
import * as SessionArg from "./SessionArg.ts"
import * as SessionFile from "./SessionFile.ts"
import { Stdio } from "./Stdio.ts"

const description = HelpDoc.blocks([
  HelpDoc.p(
    [
      "Writes a session as JSONL, with all that is stored: a header, each event as `daybook events --json` prints",
      "it, and a last line with their number and a sha256 of all before it. `daybook import` reads that. It can be",
      "written while the session runs: it is the session as it was when it began."
    ].join("\n")
  ),
  HelpDoc.p(["Examples:", "", "  daybook export ID > ID.jsonl"].join("\n"))
])

/** `daybook export`: prints a session to the end that it had at first. */
export const command = Command.make("export", { ...Place.options, id: SessionArg.argument }, (own) =>
  reading(own, print(own.id))
).pipe(Command.withDescription(description))

// internal

const print = Effect.fnUntraced(function* (id: SessionId) {
  const journal = yield* Journal
  const stdio = yield* Stdio
  const { head, header } = yield* journal.find(id)
  const hash = SessionFile.digest()
  const out = (text: string) =>
    Effect.suspend(() => {
      hash.update(text)
      return text === "" ? Effect.void : stdio.out(text, "json")
    })
  yield* out(`${SessionFile.headerLine(header)}\n`)
  const events = Stream.take(Pages.events(journal, id, { from: 0, head }), head)
  yield* Stream.runForEachChunk(events, (page) =>
    out(
      Chunk.toReadonlyArray(page)
        .map((event) => `${Gist.json(event)}\n`)
        .join("")
    )
  )
  yield* stdio.out(`${SessionFile.lastLine(head, hash)}\n`, "json")
})
