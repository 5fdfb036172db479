/**
 * `daybook verify` on what the program itself leaves, and on what somebody did to it.
 */
import { copyFileSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import Database from "better-sqlite3"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { maxLines } from "../../src/cli/Verify.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import { broken, good } from "../support/BrokenLogs.ts"
import { folder, lines, log, run, start } from "../support/Cli.ts"
import { chunk, logOf, stateOf } from "../support/Facts.ts"
import * as Inside from "../support/Inside.ts"
import { sampleLogs } from "../support/Logs.ts"
import { eventually, marked } from "../support/processes.ts"

const patience = 120_000

/** What the record of a log says that no owner can have left. */
const unfolded = { title: "", turns: 0, open: false }

/** Runs a command of a session, and sends the program this signal once the command runs. */
const struck = (cwd: string, session: string, signal: NodeJS.Signals) =>
  Effect.gen(function* () {
    const mark = join(cwd, session)
    const program = yield* start(["run", "--yes", "--session", session, "Run `echo up; sleep 60`"], {
      cwd,
      env: { DAYBOOK_TEST_MARK: mark }
    })
    yield* program.says("call    bash")
    yield* eventually("the command to run", () => marked(`DAYBOOK_TEST_MARK=${mark}`).length >= 3)
    yield* program.signal(signal)
    return yield* program.ended
  })

/** A citation as a damaged row may hold it. */
const endless = JSON.stringify({ from: 0, to: Number.MAX_SAFE_INTEGER })

/** What is said of `sound.db` after this change: it exits with 1, and changes nothing itself. */
const verifyDamaged = (cwd: string, change: string, ...words: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const file = join(cwd, "damaged.db")
    copyFileSync(join(cwd, "sound.db"), file)
    const database = new Database(file)
    database.exec(change)
    database.close()
    const before = readFileSync(file)
    const result = yield* run(["verify", ...words, "--db", file], { cwd })
    assert.strictEqual(result.code, 1, change)
    assert.isTrue(before.equals(readFileSync(file)))
    assert.match(result.stderr, /^daybook: \d+ violations? in 1 of 1 session\. Nothing was changed\.\n$/)
    return result
  })

/** Runs the command on a journal of this process, which has its file as any other. */
const verify = (journal: Inside.Services["journal"], ...words: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const workspace = yield* Inside.folder
    writeFileSync(join(workspace, "x.db"), "the journal")
    return yield* Inside.run({ journal, workspace }, "verify", ...words)
  })

describe("daybook verify", () => {
  it.scopedLive(
    "finds nothing in sessions that completed, were cancelled, or were killed, before and after their repair",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        yield* run(["run", "--yes", "--session", "done", "Write a.txt: milk; then read a.txt"], { cwd })
        assert.strictEqual((yield* struck(cwd, "cancelled", "SIGINT")).code, 130)
        assert.strictEqual((yield* struck(cwd, "killed", "SIGKILL")).signal, "SIGKILL")
        const open = yield* run(["verify", "killed"], { cwd })
        assert.deepStrictEqual([open.code, open.stderr], [0, ""])
        assert.match(open.stdout, /^killed: \d+ events, no violation; turn 1 is open\n$/)
        yield* run(["run", "--yes", "--session", "killed", "Say hello"], { cwd })
        const types = (yield* log("killed", { cwd })).map((event) => event.type)
        assert.strictEqual(types.filter((type) => type === "turn/end").length, 2)
        const all = yield* run(["verify"], { cwd })
        assert.deepStrictEqual([all.code, all.stderr], [0, ""])
        assert.match(all.stdout, /^3 sessions, \d+ events, no violation\n$/)
      }),
    patience
  )

  it.scopedLive(
    "tells of what is damaged in a line each, goes on after it, and changes nothing (J10)",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        yield* run(["run", "--yes", "--session", "s", "--db", "sound.db", "Say hello"], { cwd })
        yield* run(["run", "--yes", "--session", "s", "--db", "sound.db", "Say more"], { cwd })
        const cases: ReadonlyArray<readonly [change: string, says: ReadonlyArray<RegExp>]> = [
          [
            "UPDATE session_event SET data = '{' WHERE seq = 1",
            [/^s seq 1 unreadable: seq 1 \(turn\/start\) is malformed$/]
          ],
          ["UPDATE session_event SET type = 'new/thing' WHERE seq = 3", [/^s seq 3 unreadable: .*"new\/thing"/]],
          ["UPDATE session_event SET v = 99 WHERE seq = 3", [/^s seq 3 unreadable: .*version 99/]],
          ["DELETE FROM session_event WHERE seq = 2", [/^s seq 2 unreadable: seq 2 is missing$/]],
          ["UPDATE session SET head = head - 1", [/^s seq \d+ law 8: its record says that it has \d+ events$/]],
          ["UPDATE session SET title = 'another'", [/^s seq \d+ law 8: its record sums it up as .*another/]],
          [
            "UPDATE session_event SET data = '{' WHERE seq = 1; UPDATE session_event SET time = 1 WHERE type = 'turn/end'",
            [
              /^s seq 1 unreadable: /,
              /^s seq \d+ law 8: its time is before that of the event before it$/,
              /^s seq \d+ law 8: its time is before that of the event before it$/
            ]
          ],
          [
            "UPDATE session_event SET data = json_set(data, '$.turn', 7) WHERE type = 'turn/start' AND seq > 5",
            [
              /^s seq \d+ law 3: turn 7 starts where turn 2 is due$/,
              /^s seq \d+ law 1: from here on no request is judged: /,
              /^s seq \d+ law 3: step 1 of turn 2 starts in turn 7$/,
              /^s seq \d+ law 3: turn 2 ends where turn 7 is open$/
            ]
          ],
          [
            `UPDATE session_event SET source = '${endless}' WHERE type = 'assistant/message' AND seq > 10`,
            [
              /^s seq \d+ law 8: it cites an event that does not stand before it$/,
              /^s seq \d+ law 3: the answer does not cite the chunks of its attempt$/
            ]
          ]
        ]
        for (const [change, says] of cases) {
          const { stdout } = yield* verifyDamaged(cwd, change)
          for (const [index, expected] of says.entries()) assert.match(lines(stdout)[index] ?? "", expected, change)
          assert.strictEqual(lines(stdout).length, says.length, stdout)
        }
      }),
    patience
  )

  it.scopedLive(
    "a session that cannot be read is a line, whether it was named or not",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        yield* run(["run", "--yes", "--session", "s", "--db", "sound.db", "Say hello"], { cwd })
        for (const [change, says] of [
          ["UPDATE session SET v = 99", /^s unreadable: .*version 99.*\n$/],
          ["UPDATE session SET hidden = '{'", /^s unreadable: .+\n$/]
        ] as const) {
          const all = yield* verifyDamaged(cwd, change)
          assert.match(all.stdout, says)
          assert.deepStrictEqual(yield* verifyDamaged(cwd, change, "s"), all)
        }
      }),
    patience
  )

  it.scoped(
    "a record is judged by what the build that wrote it knew: what waits may be missing, and may not be wrong",
    () =>
      Effect.gen(function* () {
        const { dropped: _dropped, waiting: _waiting, ...older } = stateOf(good).summary
        for (const [summary, code] of [
          [older, undefined],
          [{ ...older, waiting: 1 }, 1]
        ] as const) {
          const journal = yield* Inside.journalOf({})
          yield* Inside.store(journal, "s", good, summary)
          assert.strictEqual((yield* verify(journal, "s")).code, code)
        }
      })
  )

  it.scoped("prints a line a violation with its law, and exits 1", () =>
    Effect.gen(function* () {
      for (const [name, events, , law] of broken) {
        // a journal takes no gap
        if (law === undefined || events.some((event, seq) => event.seq !== seq)) continue
        const journal = yield* Inside.journalOf({})
        // a true one where there is one, so that each line is of the log itself
        const state = SessionState.fold(events)
        yield* Inside.store(journal, "s", events, Either.isRight(state) ? state.right.summary : unfolded)
        const { code, stdout } = yield* verify(journal, "s")
        assert.notInclude(stdout, "its record")
        assert.strictEqual(code, 1, name)
        for (const line of stdout.trimEnd().split("\n")) assert.match(line, /^s seq \d+ law [1-8]: [^\n]+$/)
        assert.include(stdout, ` law ${law}: `, name)
      }
    })
  )

  it.scoped(`prints ${maxLines} lines of a session at most, and looks at the other sessions all the same`, () =>
    Effect.gen(function* () {
      const journal = yield* Inside.journalOf({ good, more: sampleLogs(1, 3, 100)[0] ?? good })
      const bad = logOf(...Array.from({ length: maxLines + 10 }, () => chunk(1, 1, "x")))
      yield* Inside.store(journal, "bad", bad, unfolded)
      const { code, stderr, stdout } = yield* verify(journal)
      assert.strictEqual(code, 1)
      assert.strictEqual(stdout.trimEnd().split("\n").length, maxLines)
      assert.strictEqual(
        stderr,
        `daybook: at least ${maxLines} violations in 1 of 3 sessions; the check of bad stopped there. Nothing was changed.\n`
      )
    })
  )

  it.scoped("law 9: says of an event that its owner's time was over", () =>
    Effect.gen(function* () {
      const journal = yield* Inside.journalOf({ good })
      const { code, stdout } = yield* verify({ ...journal, unfenced: () => Effect.succeed([2, 5]) })
      assert.strictEqual(code, 1)
      const line = (seq: number) => `good seq ${seq} law 9: it was stored by an owner whose time was over\n`
      assert.strictEqual(stdout, line(2) + line(5))
    })
  )

  it.scoped("an unknown session is an error, and no sessions at all are none", () =>
    Effect.gen(function* () {
      const journal = yield* Inside.journalOf({})
      const nobody = yield* verify(journal, "s")
      assert.deepStrictEqual([nobody.code, nobody.stdout], [1, ""])
      assert.match(nobody.stderr, /^daybook: session s: no such session\./)
      const none = yield* verify(journal)
      assert.deepStrictEqual([none.code, none.stdout], [undefined, "0 sessions, 0 events, no violation\n"])
    })
  )
})
