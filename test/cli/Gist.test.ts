import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { json, line } from "../../src/cli/Gist.ts"
import { heading, row, json as sessionJson } from "../../src/cli/Sessions.ts"
import { SessionId } from "../../src/domain/Ids.ts"
import { wellFormedValue } from "../../src/internal/Json.ts"
import type { SessionRecord } from "../../src/journal/Journal.ts"
import * as Facts from "../support/Facts.ts"
import * as Inside from "../support/Inside.ts"
import { sampleLogs } from "../support/Logs.ts"

describe("Gist", () => {
  it("prints an event as JSON with its keys in order, and reads back the same", () => {
    const event = { ...Facts.answer(1, 1, [], { cites: [3, 4] }), seq: 5, time: 1_760_000_000_000 } as const
    assert.deepStrictEqual(Object.keys(JSON.parse(json(event))), ["seq", "time", "type", "data", "sourceEventSeqs"])
    for (const log of sampleLogs(15, 11))
      for (const stored of log) assert.deepStrictEqual(JSON.parse(json(stored)), JSON.parse(JSON.stringify(stored)))
  })

  it.scoped("prints an event that was just committed and the one that the journal gives as the same line", () =>
    Effect.gen(function* () {
      const all = Object.fromEntries(sampleLogs(20, 77, 400).map((log, index) => [`s${index}`, wellFormedValue(log)]))
      const journal = yield* Inside.journalOf(all)
      for (const [name, events] of Object.entries(all)) {
        const stored = yield* Effect.orDie(journal.read(SessionId.make(name), { from: 0, limit: 100_000 }))
        assert.deepStrictEqual(stored.map(json), events.map(json))
      }
    })
  )

  it("prints an event of a newer version in its own form", () => {
    const data = { type: "later/kind", data: { x: 1 } }
    assert.strictEqual(
      json({ type: "unrecognized", data, ignorable: true, seq: 0, time: 5 }),
      '{"seq":0,"time":5,"type":"later/kind","data":{"x":1},"ignorable":true}'
    )
  })

  it("has one short line for every event, whatever it holds", () => {
    for (const log of sampleLogs(30, 12))
      for (const stored of log) {
        const told = line(stored)
        assert.notMatch(told, /[\u0000-\u001f\u007f-\u009f]/)
        assert.isBelow(told.length, 400)
      }
    const event = { ...Facts.call([1, 1, 0], "bash", '{"command":"ls"}'), seq: 7, time: 1_760_000_000_000 } as const
    assert.strictEqual(line(event), "     7  2025-10-09T08:53:20.000Z  tool/call             t1s1c0 bash ls")
  })
})

describe("Sessions", () => {
  const record: SessionRecord = {
    header: {
      id: SessionId.make("monday"),
      version: 1,
      cwd: "/work",
      created: 5,
      parent: Option.none(),
      seedLength: 0,
      depth: 0
    },
    head: 12,
    epoch: 1,
    owner: Option.some({ host: "box", pid: 7, processStart: "1", bootId: "b", token: "t", since: 5 }),
    leaseExpires: 0,
    summary: { title: "Say \u001b[31mhello\nto the world, and to all others as well", turns: 2, open: true }
  }

  it("fits a row to the terminal, and takes two lines and more where that is narrow", () => {
    assert.strictEqual(
      row(record, 0),
      "monday            2      running      7@box         Say [31mhello to the world, and to all others as well"
    )
    assert.isAtMost(row(record, 80).length, 80)
    assert.isTrue(row(record, 80).endsWith("…"))
    assert.deepStrictEqual(row(record, 20).split("\n"), ["monday", "  running, 7@box", "  Say [31mhello to …"])
    assert.strictEqual(heading(20), "")
    assert.isAtMost(heading(80).length, 80)
  })

  it("prints a session as one JSON object", () => {
    assert.deepStrictEqual(JSON.parse(sessionJson(record)), {
      id: "monday",
      title: record.summary.title,
      turns: 2,
      ending: null,
      open: true,
      interrupted: false,
      waiting: null,
      dropped: null,
      owner: { host: "box", pid: 7 },
      events: 12,
      parent: null,
      seedLength: 0,
      created: 5,
      cwd: "/work"
    })
  })

  it("tells what was interrupted, what waits, and what was dropped unrun (K04)", () => {
    const summary = { ...record.summary, title: "Say hello", waiting: 2, dropped: true }
    const left: SessionRecord = { ...record, owner: Option.none(), summary }
    assert.strictEqual(row(left, 0), "monday            2      interrupted  -             (2 wait) (dropped) Say hello")
    assert.isAtMost(row(left, 60).split("\n")[1]?.length ?? 0, 60)
    assert.include(JSON.parse(sessionJson(left)), { owner: null, interrupted: true, waiting: 2, dropped: true })
    const one = { ...left, summary: { ...summary, waiting: 1, dropped: false, open: false, ending: "error" as const } }
    assert.strictEqual(row(one, 0), "monday            2      error        -             (1 waits) Say hello")
    assert.include(JSON.parse(sessionJson(one)), { ending: "error", interrupted: false, waiting: 1, dropped: false })
  })
})
