/**
 * The program as a process: what it says, what it exits with, and what it leaves on the disk.
 */
import { createHash } from "node:crypto"
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import Database from "better-sqlite3"
import * as Effect from "effect/Effect"
import * as Root from "../../src/cli/Root.ts"
import type { StoredEvent } from "../../src/domain/Event.ts"
import { grammar } from "../../src/model/OfflineGrammar.ts"
import { folder, lines, log, type Options, type Result, run, shell, shellWords } from "../support/Cli.ts"

const repository = fileURLToPath(new URL("../..", import.meta.url))

const tooMuch = "a".repeat(4 * 1024 * 1024 + 1)

/** How long a test may take: its processes share the machine with other tests. */
const patience = 120_000

/** Everything below a folder, byte for byte, but for what SQLite keeps beside a file that it has open. */
const snapshot = (root: string): string =>
  namesIn(root)
    .map((name) => `${name} ${digest(join(root, name))}`)
    .join("\n")

const namesIn = (root: string): ReadonlyArray<string> =>
  readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((name) => !/-(shm|wal)$/.test(name))
    .toSorted()

const digest = (path: string): string => {
  try {
    return createHash("sha256").update(readFileSync(path)).digest("hex")
  } catch {
    return "no file"
  }
}

/** A journal with one session, `there`, made once. */
const soundJournal = Effect.runSync(
  Effect.cached(
    Effect.scoped(
      Effect.gen(function* () {
        const cwd = yield* folder
        yield* run(["run", "--yes", "--session", "there", "--db", "sound.db", "Say hello"], { cwd })
        return readFileSync(join(cwd, "sound.db"))
      })
    )
  )
)

/** A folder with what must not be taken for a journal, and a sound journal beside it. */
const workplace = Effect.gen(function* () {
  const cwd = yield* folder
  mkdirSync(join(cwd, "folder"))
  writeFileSync(join(cwd, "text.db"), "no database at all, but long enough to look like one\n".repeat(100))
  const foreign = new Database(join(cwd, "foreign.db"))
  foreign.exec("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
  foreign.close()
  writeFileSync(join(cwd, "sound.db"), yield* soundJournal)
  return cwd
})

/** One line on standard error, nothing on standard output, and nothing on the disk has changed. */
const refused = (
  cwd: string,
  args: ReadonlyArray<string>,
  expected: { readonly code: number; readonly says: RegExp },
  options: Partial<Options> = {}
) =>
  Effect.gen(function* () {
    const before = snapshot(cwd)
    const result = yield* run(args, { cwd, ...options })
    const told = `daybook ${args.join(" ")}\n${result.stderr}`
    assert.strictEqual(result.code, expected.code, told)
    assert.strictEqual(lines(result.stderr).length, 1, told)
    assert.match(result.stderr, expected.says)
    assert.match(result.stderr, /^daybook: .*\.\n$/, told)
    assert.strictEqual(result.stdout, "", told)
    assert.strictEqual(snapshot(cwd), before, told)
  })

const sound = ["--db", "sound.db"]

describe("bad input gets one line and the right exit code, and changes nothing", () => {
  it.scopedLive(
    "prompts: none, an empty one, a blank one, one over 4 MiB",
    () =>
      Effect.gen(function* () {
        const cwd = yield* workplace
        yield* refused(cwd, ["run", "--yes", ...sound], { code: 2, says: /needs PROMPT/ })
        yield* refused(cwd, ["run", "--yes", ...sound, ""], { code: 2, says: /the prompt is empty/ })
        yield* refused(cwd, ["run", "--yes", ...sound, "-"], { code: 2, says: /the prompt is empty/ }, { stdin: "" })
        yield* refused(cwd, ["run", "--yes", ...sound, "-"], { code: 2, says: /over 4 MiB/ }, { stdin: tooMuch })
        yield* refused(cwd, ["run", "--yes", ...sound, "two", "words"], { code: 2, says: /one word too many/ })
        // also where it must create its database first
        yield* refused(cwd, ["run", "--yes", ""], { code: 2, says: /the prompt is empty/ })
      }),
    patience
  )

  it.scopedLive(
    "a prompt of more than 4 MiB is not read to its end",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const { code, stderr } = yield* shell(`yes | ${shellWords()} run --yes -`, { cwd })
        assert.strictEqual(code, 2)
        assert.include(stderr, "over 4 MiB")
      }),
    patience
  )

  it.scopedLive(
    "sessions, providers, commands and options that there are not",
    () =>
      Effect.gen(function* () {
        const cwd = yield* workplace
        const unknown = /^daybook: session nobody: no such session\./
        yield* refused(cwd, ["events", ...sound, "nobody"], { code: 1, says: unknown })
        yield* refused(cwd, ["show", ...sound, "nobody"], { code: 1, says: unknown })
        yield* refused(cwd, ["run", "--yes", ...sound, "--session", "no body", "x"], {
          code: 2,
          says: /"no body" is no session id/
        })
        yield* refused(cwd, ["events", ...sound, "../x"], { code: 2, says: /is no session id/ })
        yield* refused(cwd, ["run", "--yes", ...sound, "--model", "acme/x", "x"], {
          code: 2,
          says: /no provider "acme".*: offline, openai, deepseek\./
        })
        yield* refused(cwd, ["run", "--yes", ...sound, "--model", "offline/x", "x"], {
          code: 2,
          says: /no model "x".*: offline\./
        })
        yield* refused(cwd, ["chat", ...sound], {
          code: 2,
          says: /no command "chat".*: events, export, fork, import, repair, request, run, sessions, settings, show, verify\./
        })
        yield* refused(cwd, [], { code: 2, says: /a command is missing/ })
        yield* refused(cwd, ["run", "--yes", ...sound, "--verbose", "x"], { code: 2, says: /no option --verbose/ })
        yield* refused(cwd, ["run", "--yes", ...sound, "--verbose"], { code: 2, says: /no option --verbose/ })
        yield* refused(cwd, ["events", ...sound, "there", "--from", "-1"], { code: 2, says: /whole number from 0 on/ })
        yield* refused(cwd, ["events", ...sound, "there", "--from", "1.5"], { code: 2, says: /whole number from 0 on/ })
      }),
    patience
  )

  it.scopedLive(
    "workspaces that are missing, no folder, or not to be read",
    () =>
      Effect.gen(function* () {
        const cwd = yield* workplace
        const missing = { code: 2, says: /workspace .*nowhere cannot be used: there is no such file or folder/ }
        yield* refused(cwd, ["run", "--yes", "--workspace", "nowhere", "x"], missing)
        yield* refused(cwd, ["sessions", "--workspace", "nowhere"], missing)
        yield* refused(cwd, ["run", "--yes", "--workspace", "text.db", "x"], { code: 2, says: /it is not a folder/ })
        if (process.getuid?.() === 0) return console.log("skipped: to root no folder is unreadable")
        mkdirSync(join(cwd, "closed"), { mode: 0o300 })
        yield* refused(cwd, ["run", "--yes", "--workspace", "closed", "x"], {
          code: 2,
          says: /there is no right to it/
        })
      }),
    patience
  )

  it.scopedLive(
    "databases that are foreign, folders, or in no folder, named in whichever way",
    () =>
      Effect.gen(function* () {
        const cwd = yield* workplace
        const foreign = { code: 2, says: /another program's SQLite database/ }
        for (const words of [["run", "--yes", "x"], ["sessions"], ["events", "there"], ["show", "there"]])
          yield* refused(cwd, [...words, "--db", "foreign.db"], foreign)
        yield* refused(cwd, ["run", "--yes", "x"], foreign, { env: { DAYBOOK_DB: "foreign.db" } })
        yield* refused(cwd, ["--db", "text.db", "run", "x"], { code: 2, says: /it is no SQLite database/ })
        yield* refused(cwd, ["sessions", "--db", "text.db"], { code: 2, says: /it is no SQLite database/ })
        yield* refused(cwd, ["run", "--yes", "x", "--db", "folder"], { code: 2, says: /is a folder/ })
        yield* refused(cwd, ["show", "there", "--db", "folder"], { code: 2, says: /is a folder/ })
        const noFolder = { code: 2, says: /the folder .*nowhere does not exist/ }
        yield* refused(cwd, ["run", "--yes", "--db", "nowhere/x.db", "x"], noFolder)
        yield* refused(cwd, ["run", "--yes", "x"], noFolder, { env: { DAYBOOK_DB: "nowhere/x.db" } })
      }),
    patience
  )
})

describe("verify of what is not there", () => {
  it.scopedLive(
    "a place without a journal is one line and exit 1, and a journal without sessions is fine",
    () =>
      Effect.gen(function* () {
        const cwd = yield* workplace
        writeFileSync(join(cwd, "empty.db"), "")
        const missing = (source: string, name: string) => ({
          code: 1,
          says: new RegExp(`^daybook: ${source}: there is no journal at /.*/${name}\\. Nothing was read\\.`)
        })
        for (const name of ["missing.db", "nowhere/missing.db", "empty.db"]) {
          yield* refused(cwd, ["verify", "--db", name], missing("--db", name))
          yield* refused(cwd, ["verify", "there", "--db", name], missing("--db", name))
        }
        yield* refused(cwd, ["verify"], missing("the database", ".daybook/daybook.db"))
        yield* refused(cwd, ["verify"], missing("DAYBOOK_DB", "missing.db"), { env: { DAYBOOK_DB: "missing.db" } })
        const database = new Database(join(cwd, "sound.db"))
        database.exec("DELETE FROM session_event; DELETE FROM session")
        database.close()
        const { code, stderr, stdout } = yield* run(["verify", ...sound], { cwd })
        assert.deepStrictEqual([code, stderr, stdout], [0, "", "0 sessions, 0 events, no violation\n"])
      }),
    patience
  )
})

describe("text that no journal keeps becomes U+FFFD, and the run goes on", () => {
  const replaced = (result: Result) => {
    assert.strictEqual(result.code, 0, result.stderr)
    assert.strictEqual(lines(result.stderr).filter((line) => line.includes("U+FFFD")).length, 1, result.stderr)
  }

  it.scopedLive(
    "NUL and bytes that are not UTF-8, on standard input (O-O1, O-O2)",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const stdin = Buffer.concat([Buffer.from("Say a\0b "), Uint8Array.of(0xff, 0xc3)])
        const result = yield* run(["run", "--yes", "--session", "s", "-"], { cwd, stdin })
        replaced(result)
        assert.strictEqual(result.stdout, "a\uFFFDb \uFFFD\uFFFD\n")
        const events = yield* log("s", { cwd })
        assert.include(JSON.stringify(events[0]), "Say a\uFFFDb \uFFFD\uFFFD")
      }),
    patience
  )

  it.scopedLive(
    "bytes that are not UTF-8, in an argument; a real U+FFFD is nothing to speak of",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const odd = yield* shell(`${shellWords()} run --yes $'Say a\\xff'`, { cwd })
        if (existsSync("/proc/self/cmdline")) replaced(odd)
        assert.strictEqual(odd.stdout, "a\uFFFD\n")
        const sound = yield* run(["run", "--yes", "Say a\uFFFD"], { cwd })
        assert.strictEqual(sound.stdout, "a\uFFFD\n")
        assert.notInclude(sound.stderr, "U+FFFD")
      }),
    patience
  )
})

describe("run", () => {
  const typesOf = (events: ReadonlyArray<StoredEvent>) => events.map((event) => event.type)

  it.scopedLive(
    "does the report on real suites: three at once, then the file (A01, A03, E01)",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        cpSync(join(repository, "scratchpad/report"), cwd, { recursive: true })
        rmSync(join(cwd, "report.md"), { force: true })
        const prompt = "Run the tests in a, b and c, then write report.md"
        const { code, stderr, stdout } = yield* run(["run", "--yes", "--session", "s", prompt], { cwd })
        assert.strictEqual(code, 0, stderr)
        assert.include(stdout, "The report is in report.md.")
        const report = readFileSync(join(cwd, "report.md"), "utf8")
        assert.include(report, "Failed: b.")
        assert.include(report, "the shares of 10.00 among 3 people must add up to 10.00")
        assert.strictEqual(lines(stderr).filter((line) => line.startsWith("call ")).length, 4)
        assert.strictEqual(lines(stderr).filter((line) => line.startsWith("ok ")).length, 4)

        const events = yield* log("s", { cwd })
        assert.deepStrictEqual(
          events.map((event) => event.seq),
          events.map((_, index) => index)
        )
        const order = typesOf(events).filter((type) => !/chunk|process|settled/.test(type))
        assert.deepStrictEqual(order, [
          "agent/inbox/spliced",
          "turn/start",
          "agent/inbox/spliced",
          "step/start",
          "user/message",
          "request/header",
          "assistant/message",
          ...["tool/call", "tool/call", "tool/call", "tool/result", "tool/result", "tool/result"],
          "step/end",
          ...["step/start", "assistant/message", "tool/call", "tool/result", "step/end"],
          ...["step/start", "assistant/message", "step/end"],
          "turn/end"
        ])
        // every suite had its process before the first of them was done
        const processes = events.filter((event) => event.type === "tool/process").map((event) => event.seq)
        const done = events.find((event) => event.type === "tool/settled" || event.type === "tool/result")
        assert.strictEqual(processes.length, 3)
        assert.isBelow(Math.max(...processes), done?.seq ?? 0)
        const answer = events.findLast((event) => event.type === "assistant/message")
        assert.strictEqual(
          stdout,
          `${answer?.data.message.content.map((block) => (block.type === "text" ? block.text : "")).join("")}\n`
        )
      }),
    patience
  )

  it.scopedLive(
    "reads the prompt from standard input, makes a session and says which, and goes on with it",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const first = yield* run(["run", "--yes", "-"], { cwd, stdin: "Say hello" })
        assert.strictEqual(first.stdout, "hello\n")
        const id = /^daybook: session ([a-z2-7]{16})\n$/.exec(first.stderr)?.[1] ?? ""
        const second = yield* run(["run", "--yes", "--session", id, "--model", "offline", "Say more"], { cwd })
        assert.strictEqual(second.stdout, "more\n")
        assert.strictEqual(second.stderr, "")
        const listed = yield* run(["sessions", "--json"], { cwd })
        assert.include(JSON.parse(listed.stdout), {
          id,
          turns: 2,
          ending: "completed",
          open: false,
          title: "Say hello"
        })
        assert.deepStrictEqual(readdirSync(cwd), [".daybook"])
        assert.strictEqual(readFileSync(join(cwd, ".daybook/.gitignore"), "utf8"), "*\n")
      }),
    patience
  )

  it.scopedLive(
    "J11: a session goes on in its own workspace, and in another one only where that is gone",
    () =>
      Effect.gen(function* () {
        const cwd = yield* workplace
        const place = [...sound, "--workspace", "folder"]
        assert.strictEqual((yield* run(["run", "--yes", ...sound, "--session", "here", "Say hello"], { cwd })).code, 0)
        const refused = yield* run(["run", "--yes", ...place, "--session", "here", "Say more"], { cwd })
        assert.strictEqual(refused.code, 2)
        assert.match(
          refused.stderr,
          /^daybook: session here works in .*; nothing was changed\. Open it with that workspace/
        )
        mkdirSync(join(cwd, "gone"))
        const begun = [...sound, "--workspace", "gone", "--session", "moved"]
        assert.strictEqual((yield* run(["run", "--yes", ...begun, "Say hello"], { cwd })).code, 0)
        rmSync(join(cwd, "gone"), { recursive: true })
        const { code, stderr } = yield* run(["run", "--yes", ...place, "--session", "moved", "Say more"], { cwd })
        assert.strictEqual(code, 0)
        assert.match(
          stderr,
          /^daybook: session moved was begun in .*gone, and that folder is gone; its tools work in .*folder now\n$/
        )
      }),
    patience
  )

  it.scopedLive(
    "goes on when nobody reads the answer, or the errors",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const command = (redirect: string) =>
          `${shellWords()} run --yes --session s 'Run the tests, then write r.md' ${redirect}`
        const deaf = yield* shell(`${command("2>&1")} | true; exit \${PIPESTATUS[0]}`, { cwd })
        assert.strictEqual(deaf.code, 0)
        assert.isTrue(existsSync(join(cwd, "r.md")))
      }),
    patience
  )
})

describe("places", () => {
  it.scopedLive(
    "takes white space in a name for part of it, and never opens another file in its place",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        yield* run(["run", "--yes", "--session", "spaced", "--db", " spaced.db", "Say hello"], { cwd })
        assert.include((yield* run(["sessions", "--db= spaced.db"], { cwd })).stdout, "spaced")
        for (const name of ["own.db ", "own.db\n"]) {
          const { code, stderr } = yield* run(["run", "--yes", "--session", "spaced", "--db", name, "Say hello"], {
            cwd
          })
          assert.strictEqual(code, 1)
          assert.match(stderr, /its name ends with white space/)
        }
        assert.deepStrictEqual(namesIn(cwd), [" spaced.db"])
        mkdirSync(join(cwd, "w "))
        yield* run(["run", "--yes", "--workspace", "w ", "--session", "w", "Write there.txt: hello"], { cwd })
        assert.isTrue(existsSync(join(cwd, "w /there.txt")))
      }),
    patience
  )

  it.scopedLive(
    "takes --db and --workspace before and after the command, its own first, then the root's, then DAYBOOK_DB",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        mkdirSync(join(cwd, "w"))
        const env = { DAYBOOK_DB: "env.db" }
        yield* run(["run", "--yes", "--session", "own", "--db", "own.db", "Say hello"], { cwd, env })
        yield* run(["--db", "root.db", "run", "--session", "root", "Say hello"], { cwd, env })
        yield* run(["--db", "root.db", "run", "--session", "both", "--db", "own.db", "Say hello"], { cwd, env })
        yield* run(["run", "--yes", "--session", "env", "Say hello"], { cwd, env })
        yield* run(["--workspace", "w", "run", "--yes", "--session", "w", "Write here.txt: hello"], { cwd })
        yield* run(["run", "--yes", "--session", "w2", "--workspace=w", "Say hello"], { cwd })
        const ids = (...args: ReadonlyArray<string>) =>
          Effect.map(run([...args, "sessions", "--json"], { cwd }), ({ stdout }) =>
            lines(stdout)
              .map((line): unknown => JSON.parse(line).id)
              .toSorted()
          )
        assert.deepStrictEqual(yield* ids("--db", "own.db"), ["both", "own"])
        assert.deepStrictEqual(yield* ids("--db", "root.db"), ["root"])
        assert.deepStrictEqual(yield* ids("--db", "env.db"), ["env"])
        assert.deepStrictEqual(yield* ids("--workspace", "w"), ["w", "w2"])
        assert.strictEqual(readFileSync(join(cwd, "w/here.txt"), "utf8"), "hello")
        assert.deepStrictEqual(
          namesIn(cwd).filter((name) => name.endsWith(".db")),
          ["env.db", "own.db", "root.db", "w/.daybook/daybook.db"]
        )
      })
  )
})

describe("the folder .daybook", () => {
  const modeOf = (path: string): number => statSync(path).mode & 0o777

  it.scopedLive(
    "is its owner's alone, whether the database lies in it or elsewhere; one that is there stays as it is",
    () =>
      Effect.gen(function* () {
        const long = "Run `seq 100000`, then say done"
        for (const place of [[], ["--db", "own.db"]]) {
          const cwd = yield* folder
          const own = join(cwd, ".daybook")
          yield* run(["run", "--yes", "--session", "s", ...place, long], { cwd })
          assert.strictEqual(modeOf(own), 0o700)
          assert.isTrue(existsSync(join(own, "outputs/s")))
          assert.strictEqual(readFileSync(join(own, ".gitignore"), "utf8"), "*\n")
          chmodSync(own, 0o755)
          yield* run(["run", "--yes", "--session", "s", ...place, long], { cwd })
          assert.strictEqual(modeOf(own), 0o755)
        }
      }),
    patience
  )
})

describe("reading", () => {
  it.scopedLive(
    "an event that is damaged or missing hides none before it: they are printed, then one line, and exit 1",
    () =>
      Effect.gen(function* () {
        const cwd = yield* workplace
        const all = yield* log("there", { cwd, env: { DAYBOOK_DB: "sound.db" } })
        const answer = all.findIndex((event) => event.type === "assistant/message")
        for (const [change, at, says] of [
          ["UPDATE session_event SET data = '{' WHERE", answer, /is malformed/],
          ["UPDATE session_event SET v = 99 WHERE", answer, /version 99/],
          ["DELETE FROM session_event WHERE", answer, /is missing/],
          ["DELETE FROM session_event WHERE", all.length - 1, /seq \d+ is missing/]
        ] as const) {
          writeFileSync(join(cwd, "sound.db"), yield* soundJournal)
          const database = new Database(join(cwd, "sound.db"))
          database.exec(`${change} seq = ${at}`)
          database.close()
          for (const follow of [[], ["--follow"]]) {
            const events = yield* run(["events", "there", "--json", ...follow, ...sound], { cwd })
            assert.strictEqual(events.code, 1, change)
            assert.deepStrictEqual(
              lines(events.stdout).map((line): StoredEvent => JSON.parse(line)),
              all.slice(0, at)
            )
            assert.strictEqual(lines(events.stderr).length, 1, events.stderr)
            assert.match(events.stderr, says)
          }
          const show = yield* run(["show", "there", ...sound], { cwd })
          assert.strictEqual(show.code, 1)
          assert.match(show.stdout, at === answer ? /\n\nyou:\n {2}Say hello\n$/ : /\n {2}hello\n$/)
          assert.strictEqual(lines(show.stderr).length, 1, show.stderr)
          assert.match(show.stderr, says)
        }
      }),
    patience
  )

  it.scopedLive("one damaged record is a line and exit 1; the other sessions are listed all the same", () =>
    Effect.gen(function* () {
      const cwd = yield* folder
      for (const id of ["good", "bad"]) yield* run(["run", "--yes", "--session", id, "--db", "a.db", "Say hi"], { cwd })
      const database = new Database(join(cwd, "a.db"))
      database.exec("UPDATE session SET ending = 'weird' WHERE id = 'bad'")
      database.close()
      const { code, stderr, stdout } = yield* run(["sessions", "--db", "a.db"], { cwd })
      assert.strictEqual(code, 1)
      assert.match(stdout, /^good /m)
      assert.strictEqual(stderr.split("\n").filter((line) => line !== "").length, 1)
      assert.include(stderr, "session bad")
    })
  )

  it.scopedLive("a record that disagrees with its events is damage, and nobody's session; nothing is changed", () =>
    Effect.gen(function* () {
      const cwd = yield* folder
      yield* run(["run", "--yes", "--session", "s", "--db", "a.db", "Say hi"], { cwd })
      const database = new Database(join(cwd, "a.db"))
      database.exec("UPDATE session SET head = head - 2")
      const { code, stderr } = yield* run(["run", "--yes", "--session", "s", "--db", "a.db", "Say more"], { cwd })
      assert.strictEqual(code, 1)
      assert.match(stderr, /session s .*is damaged: it holds \d+ events, its record says \d+/)
      const kept = database.prepare("SELECT (SELECT count(*) FROM session_event) - head AS more FROM session").get()
      database.close()
      assert.deepStrictEqual(kept, { more: 2 })
    })
  )

  it.scopedLive("an output that cannot be written is one line and exit 1", () =>
    Effect.gen(function* () {
      const cwd = yield* folder
      yield* run(["run", "--yes", "--session", "s", "Say hi"], { cwd })
      for (const words of [
        "sessions",
        "show s",
        "events s --json",
        "run --yes --session s Say\\ more",
        "run --yes --session s --json Say\\ more",
        "--help"
      ]) {
        const { code, stderr } = yield* shell(`${shellWords()} ${words} > /dev/full`, { cwd })
        assert.strictEqual(code, 1, words)
        assert.match(stderr, /^daybook: the output could not be written: [^\n]+\n$/, words)
      }
      // the turns came to their end all the same
      const ends = (yield* log("s", { cwd })).filter((event) => event.type === "turn/end")
      assert.deepStrictEqual(
        ends.map((event) => event.data.reason.kind),
        ["completed", "completed", "completed"]
      )
    })
  )

  it.scopedLive(
    "creates nothing where there is nothing",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        writeFileSync(join(cwd, "empty.db"), "")
        const before = snapshot(cwd)
        for (const args of [[], ["--db", "empty.db"], ["--db", "absent.db"], ["--db", "nowhere/absent.db"]]) {
          const { code, stderr, stdout } = yield* run(["sessions", ...args], { cwd })
          assert.deepStrictEqual({ code, stderr, stdout }, { code: 0, stderr: "", stdout: "no sessions\n" })
        }
        assert.strictEqual(snapshot(cwd), before)
      }),
    patience
  )

  it.scopedLive(
    "prints the log from a seq on, and ends well when its reader leaves (J14)",
    () =>
      Effect.gen(function* () {
        const cwd = yield* workplace
        const all = yield* log("there", { cwd, env: { DAYBOOK_DB: "sound.db" } })
        const from = yield* run(["events", "there", "--json", "--from", "3", ...sound], { cwd })
        assert.deepStrictEqual(
          lines(from.stdout).map((line): StoredEvent => JSON.parse(line)),
          all.slice(3)
        )
        for (const line of lines(from.stdout))
          assert.match(line, /^\{"seq":\d+,"time":\d+,"type":"[a-z/]+","data":\{.*\}(,"sourceEventSeqs":.*)?\}$/)
        const beyond = yield* run(["events", "there", "--from", "999", ...sound], { cwd })
        assert.deepStrictEqual([beyond.code, beyond.stdout, beyond.stderr], [0, "", ""])
        const plain = yield* run(["events", "there", ...sound], { cwd })
        assert.strictEqual(lines(plain.stdout).length, all.length)
        for (const command of [
          "events there",
          "show there",
          "sessions",
          "run --help",
          "request there",
          "export there",
          "verify"
        ]) {
          const cut = yield* shell(`${shellWords()} ${command} --db sound.db | head -1; exit \${PIPESTATUS[0]}`, {
            cwd
          })
          assert.deepStrictEqual([command, cut.code, cut.stderr], [command, 0, ""])
        }
      }),
    patience
  )

  it.scopedLive(
    "shows a session as a person reads it",
    () =>
      Effect.gen(function* () {
        const cwd = yield* workplace
        const { stdout } = yield* run(["show", "there", ...sound], { cwd })
        assert.match(stdout, /^session there {2}Say hello\n1 turn, \d+ events, begun .* in .*\n\n== turn 1 /)
        assert.include(stdout, "\nyou:\n  Say hello\n\noffline/offline:\n  hello\n\n-- turn 1 completed\n")
      }),
    patience
  )

  it.scopedLive(
    "shows causes with --log-level debug alone, before or after the command",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const plain = yield* run(["events", "nobody"], { cwd })
        assert.strictEqual(lines(plain.stderr).length, 1)
        for (const args of [
          ["--log-level", "debug", "events", "nobody"],
          ["events", "nobody", "--log-level=debug"]
        ]) {
          const { code, stderr } = yield* run(args, { cwd })
          assert.strictEqual(code, 1)
          assert.include(stderr, "SessionNotFound")
          assert.match(stderr, /\n {4}at /)
        }
      }),
    patience
  )
})

describe("help", () => {
  it.scopedLive(
    "prints the grammar of the offline model, and what to know of bash and --yes; no colours in a pipe",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const { code, stderr, stdout } = yield* run(["run", "--yes", "--help"], { cwd })
        assert.deepStrictEqual([code, stderr], [0, ""])
        assert.include(stdout, grammar)
        assert.match(stdout, /bash .*no sandbox/s)
        assert.match(stdout, /Without a terminal it is denied.*--yes allows every call unasked/s)
        assert.notInclude(stdout, "\u001b")
        assert.deepStrictEqual(readdirSync(cwd), [])
        // nothing of what the library says of every option
        for (const word of [
          "",
          "run",
          "events",
          "show",
          "sessions",
          "request",
          "verify",
          "repair",
          "fork",
          "export",
          "import",
          "settings"
        ]) {
          const help = yield* run([...lines(word), "--help"], { cwd })
          assert.match(help.stdout, new RegExp(`^\\$ daybook ${word}`, "m"))
          assert.notMatch(help.stdout, /user-defined|true or false|setting is optional| $/m)
        }
      })
  )

  it.scopedLive(
    "knows the version of the package",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const { stdout } = yield* run(["--version"], { cwd })
        const { version } = JSON.parse(readFileSync(join(repository, "package.json"), "utf8"))
        assert.strictEqual(stdout, `${version}\n`)
        assert.strictEqual(Root.version, version)
      }),
    patience
  )
})
