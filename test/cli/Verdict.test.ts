import { assert, describe, it } from "@effect/vitest"
import * as Option from "effect/Option"
import type { Signal } from "../../src/cli/Shutdown.ts"
import { advance, advice, type Denied, exitCode, search, stopped, type Verdict } from "../../src/cli/Verdict.ts"
import { JournalCorrupt, JournalFull, SessionBroken, SessionFenced } from "../../src/domain/Errors.ts"
import type { SessionEvent } from "../../src/domain/Event.ts"
import { MessageId, SessionId } from "../../src/domain/Ids.ts"
import * as Facts from "../support/Facts.ts"

const own = MessageId.make("own")
const id = SessionId.make("s")

const verdictOf = (...events: ReadonlyArray<SessionEvent>): Verdict =>
  Facts.logOf(...events).reduce(advance, search(own)).verdict

const queued = (...ids: ReadonlyArray<string>) =>
  Facts.inserted("next-turn", 0, ...ids.map((each) => Facts.said(each, each)))

const denied = Facts.result([1, 1, 0], Facts.outcome("Error: no", "TOOL_DENIED"))
const turn = (number: number, ...inside: ReadonlyArray<SessionEvent>): ReadonlyArray<SessionEvent> => [
  Facts.turnStart(number),
  Facts.claimed("next-turn", 0),
  ...inside,
  Facts.turnEnd(number, "completed")
]

describe("Verdict", () => {
  it("is the ending of the turn that took the prompt, and of no other", () => {
    assert.deepStrictEqual(verdictOf(queued("own"), ...turn(1)), {
      _tag: "Ended",
      turn: 1,
      ending: { kind: "completed" },
      denied: false
    })
    const behind = [queued("first", "own"), ...turn(1, denied)]
    assert.deepStrictEqual(verdictOf(...behind), { _tag: "Waiting" })
    const after = verdictOf(
      ...behind,
      Facts.turnStart(2),
      Facts.claimed("next-turn", 0),
      Facts.turnEnd(2, "max-tokens")
    )
    assert.deepStrictEqual(after, { _tag: "Ended", turn: 2, ending: { kind: "max-tokens" }, denied: false })
  })

  it("knows a call that was denied in that turn", () => {
    const verdict = verdictOf(queued("own"), ...turn(1, denied))
    assert.deepStrictEqual(verdict, { _tag: "Ended", turn: 1, ending: { kind: "completed" }, denied: "refused" })
  })

  it("follows the prompt through its list", () => {
    const moved = verdictOf(queued("a", "own", "b"), Facts.dropped("next-turn", 0), Facts.dropped("next-turn", 1))
    assert.deepStrictEqual(moved, { _tag: "Waiting" })
    assert.deepStrictEqual(verdictOf(queued("a", "own"), Facts.dropped("next-turn", 0, 2)), { _tag: "Dropped" })
    assert.deepStrictEqual(verdictOf(queued("own"), Facts.claimed("next-step", 0)), { _tag: "Waiting" })
    assert.deepStrictEqual(verdictOf(queued("own"), Facts.turnStart(1)), { _tag: "Waiting" })
  })

  it("sees a turn without an end", () => {
    const verdict = verdictOf(queued("own"), Facts.turnStart(1), Facts.claimed("next-turn", 0))
    assert.deepStrictEqual(verdict, { _tag: "Unended", turn: 1 })
  })

  it("gives the exit codes of the table", () => {
    const ended = (ending: Extract<Verdict, { _tag: "Ended" }>["ending"], denied: Denied = false): Verdict => ({
      _tag: "Ended",
      turn: 1,
      ending,
      denied
    })
    const none = { signal: Option.none(), isRead: true }
    const signalled = (signal: Signal, isRead = true) => ({ signal: Option.some(signal), isRead })
    assert.strictEqual(exitCode(ended({ kind: "completed" }), none), 0)
    assert.strictEqual(exitCode(ended({ kind: "completed" }, "refused"), none), 3)
    assert.strictEqual(exitCode(ended({ kind: "completed" }, "unasked"), none), 3)
    assert.strictEqual(exitCode(ended({ kind: "blocked", message: "no" }), none), 3)
    assert.strictEqual(exitCode(ended({ kind: "max-tokens" }), none), 1)
    assert.strictEqual(exitCode(ended({ kind: "error", error: { message: "", code: "SERVER" } }), none), 1)
    assert.strictEqual(exitCode({ _tag: "Waiting" }, none), 1)
    assert.strictEqual(exitCode(ended({ kind: "aborted" }), signalled("SIGINT")), 130)
    assert.strictEqual(exitCode(ended({ kind: "aborted" }), signalled("SIGTERM")), 143)
    assert.strictEqual(exitCode({ _tag: "Waiting" }, signalled("SIGHUP")), 143)
    // the signal came too late to change anything
    assert.strictEqual(exitCode(ended({ kind: "completed" }), signalled("SIGINT")), 0)
    // but not for the output
    assert.strictEqual(exitCode(ended({ kind: "completed" }), signalled("SIGINT", false)), 130)
    assert.strictEqual(exitCode(ended({ kind: "completed" }, "refused"), signalled("SIGINT", false)), 3)
    // a signal's code says that the turn is durable
    assert.strictEqual(exitCode({ _tag: "Unended", turn: 1 }, signalled("SIGTERM")), 1)
  })

  it("without a prompt is the ending of the turn that was opened last, whatever it took", () => {
    const anyOf = (...events: ReadonlyArray<SessionEvent>): Verdict =>
      Facts.logOf(...events).reduce(advance, search()).verdict
    const none = { signal: Option.none(), isRead: true }
    assert.deepStrictEqual(anyOf(queued("a")), { _tag: "Unopened" })
    const first = [queued("a", "b"), ...turn(1, denied)]
    assert.deepStrictEqual(anyOf(...first), {
      _tag: "Ended",
      turn: 1,
      ending: { kind: "completed" },
      denied: "refused"
    })
    // each turn is judged by its own calls
    assert.deepStrictEqual(anyOf(...first, ...turn(2)), {
      _tag: "Ended",
      turn: 2,
      ending: { kind: "completed" },
      denied: false
    })
    assert.deepStrictEqual(anyOf(...first, Facts.turnStart(2)), { _tag: "Unended", turn: 2 })
    assert.strictEqual(exitCode({ _tag: "Unopened" }, none), 1)
    assert.strictEqual(exitCode({ _tag: "Nothing" }, none), 0)
    assert.strictEqual(exitCode({ _tag: "Nothing" }, { signal: Option.some("SIGINT"), isRead: true }), 0)
  })

  it("tells in one line what became of a prompt where nothing more was stored, and what to do", () => {
    const told = (cause: unknown, ...events: ReadonlyArray<SessionEvent>) => {
      const error = new SessionBroken({ sessionId: id, durableHead: 0, cause })
      const verdict = stopped(Facts.logOf(...events).reduce(advance, search(own)), error)
      if (verdict._tag === "Stopped")
        assert.strictEqual(exitCode(verdict, { signal: Option.some("SIGINT"), isRead: true }), 1)
      return advice(id, verdict, " --db x.db")
    }
    const on = "To go on: daybook run --session s --continue --db x.db"
    const full = new JournalFull({ file: "x.db", cause: undefined })
    const why =
      "x.db: the disk is full; this write was not kept, everything before it is. Free some space and try again."
    assert.strictEqual(told(full), `session s: the prompt was not accepted: ${why}`)
    assert.strictEqual(told(full, queued("own")), `session s: the prompt was not run, and is kept: ${why} ${on}`)
    const started = [queued("own"), Facts.turnStart(1), Facts.claimed("next-turn", 0)]
    assert.strictEqual(told(full, ...started), `session s: turn 1 was cut off: ${why} ${on}`)
    assert.strictEqual(
      told(new Error("a bug"), ...started),
      `session s: turn 1 was cut off: a bug. What was stored before is kept. ${on}`
    )
    // also once the next owner has closed the turn
    for (const events of [started, [...started, Facts.turnEnd(1, "interrupted")]])
      assert.strictEqual(
        told(new SessionFenced({ sessionId: id, epoch: 1 }), ...events),
        "session s: turn 1 was cut off: another process took the session over. What was stored before is kept. To see how it stands: daybook show s --db x.db"
      )
    const corrupt = new JournalCorrupt({ file: "x.db", detail: "a page", cause: undefined })
    assert.strictEqual(told(corrupt, ...started), `session s: turn 1 was cut off: ${corrupt.message}`)
    // it came too late to change anything
    assert.isUndefined(told(full, queued("own"), ...turn(1)))
  })

  it("names the place in every command that it says", () => {
    const verdicts: ReadonlyArray<Verdict> = [
      { _tag: "Waiting" },
      { _tag: "Dropped" },
      { _tag: "Unended", turn: 1 },
      { _tag: "Unopened" },
      { _tag: "Nothing" },
      { _tag: "Ended", turn: 1, ending: { kind: "aborted" }, denied: false },
      { _tag: "Ended", turn: 1, ending: { kind: "completed" }, denied: "refused" }
    ]
    for (const verdict of verdicts) assert.match(advice(id, verdict, " --db x.db") ?? "", /daybook [^`]* --db x\.db/)
  })

  it("says how to go on, and nothing of a turn that simply completed", () => {
    const goesOn = "daybook run --session s --continue"
    const ended = (ending: Extract<Verdict, { _tag: "Ended" }>["ending"]) =>
      advice(id, { _tag: "Ended", turn: 1, ending, denied: false })
    for (const verdict of [{ _tag: "Waiting" }, { _tag: "Unopened" }, { _tag: "Unended", turn: 1 }] as const)
      assert.include(advice(id, verdict), goesOn)
    for (const kind of ["aborted", "interrupted", "max-tokens"] as const) assert.include(ended({ kind }), goesOn)
    // there is nothing to continue of these
    assert.include(ended({ kind: "blocked", message: "no" }), "daybook run --session s PROMPT")
    assert.include(advice(id, { _tag: "Nothing" }), "there is nothing to continue")
    assert.isUndefined(advice(id, { _tag: "Ended", turn: 1, ending: { kind: "completed" }, denied: false }))
  })
})
