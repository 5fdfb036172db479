/**
 * A process of its own that works on a journal: `open FILE`, or `append FILE SESSION COUNT`.
 *
 * Each line that it prints tells of what is done, and is out before the next thing begins.
 */
import { writeSync } from "node:fs"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { SessionId } from "../../src/domain/Ids.ts"
import * as Journal from "../../src/journal/Journal.ts"

const [role, filename = "", session = "", count = "0"] = process.argv.slice(2)
const id = SessionId.make(session === "" ? "none" : session)
const tell = (line: string) => Effect.sync(() => writeSync(1, `${line}\n`))

const open = Effect.flatMap(Journal.Journal, (journal) =>
  Effect.flatMap(journal.list({ offset: 0, limit: 1 }), (found) => tell(`opened ${found.length}`))
)

const append = Effect.gen(function* () {
  const journal = yield* Journal.Journal
  yield* journal.create({
    id,
    version: Journal.formatVersion,
    cwd: "/",
    created: 1,
    parent: Option.none(),
    seedLength: 0,
    depth: 0
  })
  for (let head = 0; head < Number(count); head++) {
    const [result] = yield* journal.append([
      {
        id,
        head,
        epoch: 0,
        events: [{ seq: head, time: head, type: "turn/start", data: { turn: head + 1 } }],
        summary: { title: "", turns: head + 1, open: true },
        leaseExpires: 0
      }
    ])
    yield* tell(String(result === undefined ? "nothing" : yield* result))
  }
})

// a failure ends the process with code 1 and is printed
await Effect.runPromise(Effect.provide(role === "open" ? open : append, Journal.layerSqlite({ filename })))
