/**
 * `run --continue`: inside this process with any model, and as processes that are killed and that race.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import Database from "better-sqlite3"
import * as Effect from "effect/Effect"
import type { Agents } from "../../src/agent/Agents.ts"
import { resumeText } from "../../src/agent/Machine.ts"
import { SessionOwned } from "../../src/domain/Errors.ts"
import { textOf } from "../../src/domain/Message.ts"
import { call, fail, say, wait } from "../../src/model/ScriptedModel.ts"
import * as Approvals from "../../src/tool/Approvals.ts"
import { folder, lines, log, type Running, run, shell, shellWords, start } from "../support/Cli.ts"
import * as Inside from "../support/Inside.ts"
import { door, inputs } from "../support/Watching.ts"
import * as World from "../support/World.ts"

/** How long a test may take: its processes share the machine with other tests. */
const patience = 120_000

const daybook = (world: World.World, ...words: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const workspace = yield* Inside.folder
    const open: Agents["Type"]["open"] = (_id, { create }) => world.open({ create })
    return yield* Inside.run({ journal: world.journal, agents: { open }, workspace }, ...words)
  })

const goOn = (world: World.World, ...words: ReadonlyArray<string>) =>
  daybook(world, "run", "--session", "world", "--continue", ...words)

describe("run --continue", () => {
  it.scoped("asks the model to go on after a turn that failed, streams its answer, and exits 0", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [[fail("AUTHENTICATION")], say("All is well."), say("Never.")] })
      assert.strictEqual((yield* daybook(world, "run", "--session", "world", "Look")).code, 1)
      const { code, stderr, stdout } = yield* goOn(world)
      assert.deepStrictEqual([code, stdout], [0, "All is well.\n"])
      assert.match(stderr, /^daybook: session world was begun in /)
      assert.deepStrictEqual(yield* inputs(world), ["Look", resumeText])
      const before = yield* world.log
      const nothing = yield* goOn(world)
      assert.deepStrictEqual([nothing.code, nothing.stdout, yield* world.log], [0, "", before])
      assert.match(
        nothing.stderr,
        /daybook: session world: there is nothing to continue: .* To send a prompt: daybook run --session world PROMPT --workspace \S+ --db \S+\n$/
      )
    })
  )

  it.scoped("runs what waits instead, says so, and is judged by the turn that was opened last (W10)", () =>
    Effect.gen(function* () {
      const asked = yield* door
      const failing = [wait(asked.pass), fail("AUTHENTICATION")]
      const world = yield* World.make({ scripts: [failing, say("Two."), say("Three.")] })
      yield* Effect.scoped(
        Effect.gen(function* () {
          const agent = yield* world.open()
          yield* Effect.forEach(["one", "two", "three"], (each) => agent.followup(each))
          yield* asked.letGo
          yield* agent.idle
        })
      )
      const { code, stderr, stdout } = yield* goOn(world)
      assert.deepStrictEqual([code, stdout], [0, "Two.\nThree.\n"])
      assert.include(stderr, "session world: 2 prompts waited, and run now")
      assert.deepStrictEqual(yield* inputs(world), ["one", "two", "three"])
    })
  )

  it.scoped("has the exit codes of a run: failed again, a call denied, owned by somebody else", () =>
    Effect.gen(function* () {
      const failing = yield* World.make({ scripts: [[fail("AUTHENTICATION")], [fail("AUTHENTICATION")]] })
      yield* daybook(failing, "run", "--session", "world", "Look")
      const failed = yield* goOn(failing)
      assert.strictEqual(failed.code, 1)
      assert.match(
        failed.stderr,
        /what turn 2 did until then is kept\. To go on: daybook run --session world --continue --workspace \S+ --db \S+\n$/
      )
      const denying = yield* World.make({
        scripts: [[fail("AUTHENTICATION")], call(["look", { id: "a" }]), say("I may not.")],
        toolHooks: { before: () => Effect.succeed(Approvals.Judgement.Deny({ reason: "not today" })) }
      })
      yield* daybook(denying, "run", "--session", "world", "Look")
      assert.strictEqual((yield* goOn(denying)).code, 3)
      const open = () => Effect.fail(new SessionOwned({ sessionId: World.id, host: "box", pid: 7, since: 0 }))
      const owned = yield* Inside.run(
        { journal: failing.journal, agents: { open } },
        "run",
        "--session",
        "world",
        "--continue"
      )
      assert.strictEqual(owned.code, 4)
    })
  )

  it.scoped("with --json prints each event of it, as events --json does", () =>
    Effect.gen(function* () {
      const world = yield* World.make({ scripts: [[fail("AUTHENTICATION")], say("All is well.")] })
      yield* daybook(world, "run", "--session", "world", "Look")
      const { head } = yield* Effect.orDie(world.journal.find(World.id))
      const { stdout } = yield* goOn(world, "--json")
      const printed = yield* daybook(world, "events", "world", "--json", "--from", String(head))
      assert.strictEqual(stdout, printed.stdout)
      assert.include(lines(stdout)[0], '"source":{"kind":"resume"}')
    })
  )

  it.scopedLive(
    "what cannot be is one line, and nothing is created",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const refused = (words: ReadonlyArray<string>, code: number, says: RegExp) =>
          Effect.map(run(["run", "--yes", ...words], { cwd }), (result) => {
            assert.deepStrictEqual([result.code, result.stdout, lines(result.stderr).length], [code, "", 1])
            assert.match(result.stderr, says)
          })
        yield* refused(
          ["--continue"],
          2,
          /--continue needs --session ID\..* Nothing was sent, and nothing was changed\.\n$/
        )
        yield* refused(["--session", "s", "--continue", "Say hello"], 2, /--continue goes on without a PROMPT/)
        yield* refused(["--session", "s", "--continue", "-"], 2, /--continue goes on without a PROMPT/)
        yield* refused(["--session", "s"], 2, /run needs PROMPT, or --session ID and --continue\./)
        yield* refused(["--session", "s", "--continue"], 1, /there is no journal at/)
        assert.deepStrictEqual(readdirSync(cwd), [])
        yield* run(["run", "--yes", "--session", "s", "Say hello"], { cwd })
        yield* refused(["--session", "t", "--continue"], 1, /session t: no such session\./)
        const listed = yield* run(["sessions", "--json"], { cwd })
        assert.strictEqual(lines(listed.stdout).length, 1)
        mkdirSync(join(cwd, "other"))
        const elsewhere = ["--db", ".daybook/daybook.db", "--workspace", "other"]
        yield* refused(
          ["--session", "s", "--continue", ...elsewhere],
          2,
          /session s works in .*; nothing was changed\./
        )
      }),
    patience
  )
})

/** Kills a program whose call runs, and returns once it is gone. */
const killed = (program: Running) =>
  Effect.gen(function* () {
    yield* program.says("call    bash")
    yield* program.signal("SIGKILL")
    assert.strictEqual((yield* program.ended).signal, "SIGKILL")
  })

describe("a run that is killed", () => {
  it.scopedLive(
    "O-N2 O-Q3 Q06: is interrupted at once, and goes on from what the log says: nothing is blindly done again",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        yield* shell("mkfifo never", { cwd })
        const prompt = "Run `echo ran >> ran.txt; cat never`, then write done.txt: it went on"
        yield* killed(yield* start(["run", "--yes", "--session", "s", prompt], { cwd }))
        const before = yield* log("s", { cwd })
        const listed = yield* run(["sessions", "--json"], { cwd })
        assert.include(JSON.parse(listed.stdout), { open: true, interrupted: true, owner: null })
        const shown = yield* run(["show", "s"], { cwd })
        assert.match(shown.stdout, /it was interrupted: its owner is gone or silent\n {2}no result yet: bash echo ran/)
        assert.include(shown.stdout, "\nto go on: daybook run --session s --continue\n")
        // looking has changed nothing
        assert.deepStrictEqual(yield* log("s", { cwd }), before)

        const { code, stderr, stdout } = yield* run(["run", "--yes", "--session", "s", "--continue"], { cwd })
        assert.deepStrictEqual([code, readFileSync(join(cwd, "done.txt"), "utf8")], [0, "it went on"], stderr)
        assert.isAtMost(
          lines(existsSync(join(cwd, "ran.txt")) ? readFileSync(join(cwd, "ran.txt"), "utf8") : "").length,
          1
        )
        assert.match(
          stdout,
          /\$ echo ran >> ran\.txt; cat never\nnot known\. The run was interrupted: .*outcome unknown/
        )
        const events = yield* log("s", { cwd })
        assert.deepStrictEqual(events.slice(0, before.length), before)
        const asked = events.filter((event) => event.type === "user/message").map(({ data }) => textOf(data))
        assert.deepStrictEqual(asked, [prompt, resumeText])
        const nothing = yield* run(["run", "--yes", "--session", "s", "--continue"], { cwd })
        assert.strictEqual(nothing.code, 0)
        assert.include(nothing.stderr, "there is nothing to continue")
        assert.deepStrictEqual(yield* log("s", { cwd }), events)
        assert.strictEqual((yield* run(["verify", "s"], { cwd })).code, 0)
      }),
    patience
  )

  it.scopedLive(
    "O-N1: of two that go on at once one wins, and the other exits with 4 and names it; a signal keeps it resumable",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        yield* shell("mkfifo gate && mkdir a", { cwd })
        const suite = 'require("node:test")("passes", () => require("node:fs").readFileSync("../gate"))\n'
        writeFileSync(join(cwd, "a/a.test.cjs"), suite)
        yield* killed(yield* start(["run", "--yes", "--session", "s", "Run the tests in a"], { cwd }))
        const words = ["run", "--yes", "--session", "s", "--continue"]
        const racers = [yield* start(words, { cwd }), yield* start(words, { cwd })] as const
        const first = yield* Effect.raceAll(
          racers.map(({ ended, pid }) => Effect.map(ended, (result) => ({ pid, result })))
        )
        const winner = racers[0].pid === first.pid ? racers[1] : racers[0]
        assert.deepStrictEqual([first.result.code, first.result.stdout], [4, ""])
        assert.match(first.result.stderr, new RegExp(`^daybook: session s is owned by process ${winner.pid} of .*\\n$`))
        // repair is refused as well, and everything can be read
        assert.strictEqual((yield* run(["repair", "s"], { cwd })).code, 4)
        const running = JSON.parse((yield* run(["sessions", "--json"], { cwd })).stdout)
        assert.deepInclude(running, { interrupted: false, open: true })
        yield* winner.says("call    bash")
        yield* winner.signal("SIGINT")
        const cut = yield* winner.ended
        assert.strictEqual(cut.code, 130)
        assert.include(cut.stderr, "To go on: daybook run --session s --continue")

        const last = yield* start(words, { cwd })
        yield* last.says("call    bash")
        yield* shell("echo go > gate", { cwd })
        const { code, stdout } = yield* last.ended
        assert.strictEqual(code, 0)
        assert.include(stdout, "Suite a: passed. 1 test.")
        assert.strictEqual((yield* run(["verify", "s"], { cwd })).code, 0)
      }),
    patience
  )

  it.scopedLive(
    "G09: repair prints what closes it, once; export and import take it elsewhere, where it goes on",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        yield* shell("mkfifo never", { cwd })
        yield* killed(yield* start(["run", "--yes", "--session", "s", "Run `cat never`, then say done"], { cwd }))
        const moved = yield* shell(
          `${shellWords()} export s > s.jsonl && ${shellWords()} import --db other.db - < s.jsonl && ${shellWords()} export --db other.db s | cmp - s.jsonl`,
          { cwd }
        )
        assert.deepStrictEqual([moved.code, moved.stdout], [0, "s\n"], moved.stderr)
        assert.match(
          moved.stderr,
          /^daybook: session s: its turn 1 was interrupted\. To go on: daybook run --session s --continue/
        )
        const there = yield* run(["run", "--yes", "--db", "other.db", "--session", "s", "--continue"], { cwd })
        assert.strictEqual(there.code, 0, there.stderr)
        assert.match(there.stdout, /\ndone\n/)

        const before = yield* log("s", { cwd })
        const closed = yield* run(["repair", "s", "--json"], { cwd })
        assert.strictEqual(closed.code, 0)
        assert.deepStrictEqual(
          lines(closed.stdout).map((line): unknown => JSON.parse(line)),
          (yield* log("s", { cwd })).slice(before.length)
        )
        const again = yield* run(["repair", "s"], { cwd })
        assert.deepStrictEqual([again.code, again.stdout], [0, "s: its log balances; nothing was written\n"])
        const child = yield* run(["fork", "s", "--as", "child"], { cwd })
        assert.deepStrictEqual([child.code, child.stdout], [0, "child\n"], child.stderr)
        const goesOn = yield* run(["run", "--yes", "--session", "child", "--continue"], { cwd })
        assert.strictEqual(goesOn.code, 0, goesOn.stderr)
        assert.strictEqual((yield* run(["verify"], { cwd })).code, 0)
      }),
    patience
  )

  it.scopedLive(
    "G15: a log that lacks an event is told to be damaged by whoever would write, and nothing is closed or dropped",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const place = { cwd, env: { DAYBOOK_DB: "s.db" } }
        yield* shell("mkfifo never", { cwd })
        yield* killed(yield* start(["run", "--yes", "--session", "s", "Run `cat never`"], place))
        const rows = (change?: string) => {
          const database = new Database(join(cwd, "s.db"))
          if (change !== undefined) database.exec(change)
          const found = [
            database.prepare("SELECT * FROM session").all(),
            database.prepare("SELECT * FROM session_event").all()
          ]
          database.close()
          return found
        }
        const before = rows("DELETE FROM session_event WHERE seq = 3")
        for (const words of [
          ["repair", "s"],
          ["run", "--yes", "--session", "s", "--continue"],
          ["fork", "s"]
        ]) {
          const { code, stderr, stdout } = yield* run(words, place)
          assert.deepStrictEqual([code, stdout], [1, ""], words.join(" "))
          assert.match(
            stderr,
            /^daybook: session s in .*s\.db is damaged: .* Nothing was changed; other sessions still open\./
          )
          assert.deepStrictEqual(rows(), before)
        }
      }),
    patience
  )

  it.scopedLive(
    "O-N3: a journal of a newer version is refused politely by whoever would write, and its file stays as it is",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const place = { cwd, env: { DAYBOOK_DB: "s.db" } }
        yield* run(["run", "--yes", "--session", "s", "Say hello"], place)
        yield* shell(`${shellWords()} export s > s.jsonl`, place)
        const database = new Database(join(cwd, "s.db"))
        database.pragma("user_version = 99")
        database.close()
        const bytes = readFileSync(join(cwd, "s.db"))
        for (const words of [
          ["run", "--yes", "--session", "s", "--continue"],
          ["repair", "s"],
          ["fork", "s"],
          ["import", "s.jsonl"],
          ["export", "s"]
        ]) {
          const { code, stderr, stdout } = yield* run(words, place)
          assert.deepStrictEqual([code, stdout], [1, ""], words.join(" "))
          assert.match(stderr, /^daybook: .*s\.db: unsupported format \(newer\): .* Use a newer daybook\.\n$/)
        }
        assert.isTrue(bytes.equals(readFileSync(join(cwd, "s.db"))))
      }),
    patience
  )

  it.scopedLive(
    "a file that is refused creates nothing, and repair and fork create no journal",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        writeFileSync(join(cwd, "odd.jsonl"), "no session\n")
        for (const [words, code] of [
          [["import", "odd.jsonl"], 1],
          [["import", "nowhere.jsonl"], 2],
          [["repair", "s"], 1],
          [["fork", "s"], 1],
          [["export", "s"], 1]
        ] as const)
          assert.strictEqual((yield* run(words, { cwd })).code, code, words.join(" "))
        assert.deepStrictEqual(readdirSync(cwd), ["odd.jsonl"])
      }),
    patience
  )
})
