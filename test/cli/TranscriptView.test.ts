import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { footing, heading, read, start } from "../../src/cli/TranscriptView.ts"
import type { SessionEvent, StoredEvent } from "../../src/domain/Event.ts"
import { SessionId } from "../../src/domain/Ids.ts"
import { text } from "../../src/domain/Message.ts"
import * as Repair from "../../src/domain/Repair.ts"
import type { Summary } from "../../src/domain/SessionState.ts"
import type { Owner, SessionRecord } from "../../src/journal/Journal.ts"
import * as Facts from "../support/Facts.ts"
import { sampleLogs } from "../support/Logs.ts"

/** The record of a session that somebody owns, or nobody. */
const recordOf = (summary: Summary, owner?: Owner): SessionRecord => {
  const header = {
    id: SessionId.make("s"),
    version: 1,
    cwd: "/work",
    created: 0,
    parent: Option.none(),
    seedLength: 0,
    depth: 0
  }
  return { header, head: 9, epoch: 1, owner: Option.fromNullable(owner), leaseExpires: 0, summary }
}

const owner: Owner = { host: "box", pid: 7, processStart: "1", bootId: "b", token: "t", since: 0 }

const shown = (events: ReadonlyArray<StoredEvent>, owner?: Owner, seedLength = 0, dropped = false): string => {
  let reading = start(seedLength)
  let printed = ""
  for (const event of events) {
    const [next, more] = read(reading, event)
    reading = next
    printed += more
  }
  return printed + footing(reading, recordOf({ title: "", turns: 1, open: false, dropped }, owner))
}
const shownOf = (...events: ReadonlyArray<SessionEvent>): string => shown(Facts.logOf(...events))

const opening = [
  Facts.inserted("next-turn", 0, Facts.said("p1", "List the files,\nplease.")),
  Facts.turnStart(1),
  Facts.claimed("next-turn", 0),
  Facts.stepStart(1, 1),
  Facts.input(Facts.said("p1", "List the files,\nplease."))
]

describe("TranscriptView", () => {
  it("tells who said what, what tools did, and how the turn ended", () => {
    const printed = shownOf(
      ...opening,
      Facts.header(),
      Facts.answer(1, 1, [text("I look."), Facts.block(1, 1, 0, "bash", { arguments: '{"command":"ls"}' })]),
      Facts.call([1, 1, 0], "bash", '{"command":"ls"}'),
      Facts.result([1, 1, 0], Facts.outcome("a.md\nb.md")),
      Facts.stepEnd(1, 1),
      Facts.stepStart(1, 2),
      Facts.answer(1, 2, [text("There are two.")]),
      Facts.stepEnd(1, 2),
      Facts.turnEnd(1, "completed")
    )
    assert.strictEqual(
      printed,
      [
        "",
        "== turn 1  2025-10-09T08:53:20.000Z",
        "",
        "you:",
        "  List the files,",
        "  please.",
        "",
        "scripted/script:",
        "  I look.",
        "",
        "  > bash ls",
        "  ok, 0.0 s",
        "  | a.md",
        "  | b.md",
        "",
        "scripted/script:",
        "  There are two.",
        "",
        "-- turn 1 completed",
        ""
      ].join("\n")
    )
  })

  it("says plainly that a turn was interrupted, cancelled or failed, and that an answer was cut off", () => {
    const interrupted = shownOf(
      ...opening,
      Facts.chunk(1, 1, "half"),
      Facts.stepEnd(1, 1),
      Facts.turnEnd(1, "interrupted")
    )
    assert.include(
      interrupted,
      "-- turn 1 was interrupted: its owner was gone or silent; what was stored by then is kept"
    )
    assert.include(interrupted, "(an answer was cut off after 4 characters; the log has it, the model does not see it)")
    const cancelled = shownOf(...opening, Facts.partial(1, 1, [text("half")]), Facts.turnEnd(1, "aborted"))
    assert.include(cancelled, "  half\n  (interrupted here)\n")
    assert.include(cancelled, "-- turn 1 was cancelled")
    assert.include(shownOf(...opening, Facts.turnFailed(1)), "-- turn 1 failed (UNKNOWN): it broke")
  })

  it("law 10: gives a call that repair answered no duration", () => {
    const ran = Facts.logOf(
      ...opening,
      Facts.answer(1, 1, [Facts.block(1, 1, 0, "bash"), Facts.block(1, 1, 1, "bash")]),
      Facts.call([1, 1, 0], "bash")
    )
    const { events } = Either.getOrThrow(Repair.closed(Facts.stateOf(ran)))
    const printed = shown([...ran, ...events])
    assert.include(printed, "\n  failed (TOOL_OUTCOME_UNKNOWN)\n")
    assert.include(printed, "\n  failed (TOOL_NOT_STARTED), not started\n")
  })

  it("shows what stands open and what waits", () => {
    const log = Facts.logOf(
      ...opening,
      Facts.answer(1, 1, [Facts.block(1, 1, 0, "bash", { arguments: '{"command":"sleep 9"}' })]),
      Facts.call([1, 1, 0], "bash", '{"command":"sleep 9"}'),
      Facts.inserted("next-turn", 0, Facts.said("p2", "And then?")),
      Facts.inserted("next-step", 0, Facts.said("p3", "Hurry", "steer"))
    )
    const open = shown(log)
    assert.include(
      open,
      "-- turn 1 is open; it was interrupted: its owner is gone or silent\n  no result yet: bash sleep 9\n"
    )
    assert.include(open, "2 messages waiting:\n  you, while it worked: Hurry\n  you: And then?\n")
    assert.isTrue(open.endsWith("\nto go on: daybook run --session s --continue\n"))
    const running = shown(log, owner)
    assert.include(running, "-- turn 1 is open; it runs in process 7 of box\n")
    assert.notInclude(running, "to go on")
  })

  it("says what was dropped unrun (K04), and how to go on where prompts wait", () => {
    assert.include(shown([], undefined, 0, true), "something that was sent was dropped unrun since the last turn\n")
    assert.strictEqual(shown([], undefined), "")
    const waits = Facts.logOf(Facts.inserted("next-turn", 0, Facts.said("p1", "Now")))
    assert.include(shown(waits), "to go on: daybook run --session s --continue\n")
    assert.notInclude(shown(waits, owner), "to go on")
    assert.notInclude(shown(Facts.logOf(Facts.inserted("next-step", 0, Facts.said("p1", "Now", "inject")))), "to go on")
  })

  it("names what the harness says itself", () => {
    const resumed = [...opening.slice(0, -1), Facts.input(Facts.said("p1", "Go on.", "resume"))]
    assert.include(shownOf(...resumed), "\ndaybook:\n  Go on.\n")
  })

  it("does not count what a fork inherited as waiting", () => {
    const log = Facts.logOf(Facts.inserted("next-turn", 0, Facts.said("p1", "Old")))
    assert.notInclude(shown(log, undefined, 1), "waiting")
  })

  it("bounds a long result, and shows both of its ends", () => {
    const long = Array.from({ length: 1000 }, (_, index) => `line ${index}`).join("\n")
    const printed = shownOf(
      ...opening,
      Facts.answer(1, 1, [Facts.block(1, 1, 0)]),
      Facts.call([1, 1, 0]),
      Facts.result([1, 1, 0], Facts.outcome(long))
    )
    assert.include(printed, "  | line 3\n  | … 988 lines …\n  | line 992\n")
  })

  it("shows a result as it stands: indentation, columns, empty lines; each line is clipped", () => {
    const output = [
      "def f(x):",
      "    if x:",
      "\treturn  1",
      "",
      "-rw-r--r--  1 me   12 a.md\r",
      "y".repeat(500),
      "\u001b[1m1%\r2%",
      ""
    ].join("\n")
    const printed = shownOf(
      ...opening,
      Facts.answer(1, 1, [Facts.block(1, 1, 0)]),
      Facts.call([1, 1, 0]),
      Facts.result([1, 1, 0], Facts.outcome(output))
    )
    const lines = [
      "def f(x):",
      "    if x:",
      "        return  1",
      "",
      "-rw-r--r--  1 me   12 a.md",
      `${"y".repeat(159)}…`,
      "\uFFFD[1m1%\uFFFD2%"
    ]
    assert.include(printed, ` s\n${lines.map((line) => `  | ${line}`.trimEnd()).join("\n")}\n`)
  })

  it("writes nothing that a terminal would obey, for any log and any prefix of it", () => {
    for (const log of sampleLogs(40, 5)) {
      assert.notMatch(shown(log), /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/)
      for (let cut = 0; cut < log.length; cut += 7) shown(log.slice(0, cut))
    }
  })

  it("heads it with what the session is", () => {
    assert.strictEqual(
      heading(recordOf({ title: "Say hello", turns: 1, open: false })),
      "session s  Say hello\n1 turn, 9 events, begun 1970-01-01T00:00:00.000Z in /work\n"
    )
  })
})
