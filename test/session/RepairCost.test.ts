import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { SessionEvent } from "../../src/domain/Event.ts"
import { text } from "../../src/domain/Message.ts"
import * as Journal from "../../src/journal/Journal.ts"
import * as Reaper from "../../src/session/Reaper.ts"
import * as Repair from "../../src/session/Repair.ts"
import * as Sessions from "../../src/session/Sessions.ts"
import { header, id } from "../contract/journal.ts"
import * as Facts from "../support/Facts.ts"

/** So many closed turns, and one that is cut off in the middle of its second answer. */
const cutOff = (turns: number) => {
  const closed = Array.from({ length: turns }, (_, index): ReadonlyArray<SessionEvent> => {
    const turn = index + 1
    return [
      Facts.turnStart(turn),
      Facts.stepStart(turn, 1),
      Facts.input(Facts.said(`m${turn}`, "go on")),
      ...(turn === 1 ? [Facts.header()] : []),
      Facts.chunk(turn, 1, "do"),
      Facts.chunk(turn, 1, "ne"),
      Facts.answer(turn, 1, [text("done")]),
      Facts.stepEnd(turn, 1),
      Facts.turnEnd(turn, "completed")
    ]
  }).flat()
  const last = turns + 1
  return Facts.logOf(
    ...closed,
    Facts.turnStart(last),
    Facts.stepStart(last, 1),
    Facts.input(Facts.said("last", "go on")),
    ...Array.from({ length: 20 }, (_, n) => Facts.chunk(last, 1, `half ${n}`))
  )
}

/** What acquiring a session reads, and what it writes, in the order in which it asks. */
const asked = (turns: number) =>
  Effect.scoped(
    Effect.gen(function* () {
      const journal = Context.get(yield* Layer.build(Journal.layerMemory), Journal.Journal)
      const log = cutOff(turns)
      yield* journal.create(header(), { events: log, summary: Facts.stateOf(log).summary })
      const asked: Array<string> = []
      const layer = Layer.succeed(Journal.Journal, {
        ...journal,
        outline: (session, range) =>
          Effect.tap(journal.outline(session, range), ({ length }) => asked.push(`outline of ${length}`)),
        read: (session, range) =>
          Effect.tap(journal.read(session, range), ({ length }) => asked.push(`read ${length}`)),
        take: (take) => {
          asked.push(`take with ${take.events.map(({ type }) => type).join(" ")}`)
          return journal.take(take)
        }
      })
      const context = yield* Layer.build(
        Layer.provide(Sessions.layer, [layer, Repair.layer, Reaper.layerNone, NodeFileSystem.layer])
      )
      yield* Context.get(context, Sessions.Sessions).acquire(id, { cwd: "/work", create: "never" })
      return asked
    })
  )

describe("the cost of a repair", () => {
  it.effect(
    "W03 W21: the log is read once and not again, chunks of the open answer alone, and only its turn is written to",
    () =>
      Effect.gen(function* () {
        for (const turns of [1, 10, 200]) {
          const outlined = turns * 6 + 1 + 3
          assert.deepStrictEqual(yield* asked(turns), [
            `outline of ${outlined}`,
            // from the start of the step on
            "read 22",
            "take with step/end turn/end"
          ])
        }
      })
  )
})
