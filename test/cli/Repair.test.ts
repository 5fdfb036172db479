/**
 * Looking at a session whose owner died, or lives, and closing it: `repair`, `fork`, `sessions`, `show`, `request`.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Gist from "../../src/cli/Gist.ts"
import { JournalFull } from "../../src/domain/Errors.ts"
import { SessionId } from "../../src/domain/Ids.ts"
import * as Repair from "../../src/domain/Repair.ts"
import { say } from "../../src/model/ScriptedModel.ts"
import { good } from "../support/BrokenLogs.ts"
import * as Facts from "../support/Facts.ts"
import * as Inside from "../support/Inside.ts"
import { sampleLogs } from "../support/Logs.ts"
import { at, door } from "../support/Watching.ts"
import * as World from "../support/World.ts"

const s = SessionId.make("s")

const logIn = (journal: Inside.Services["journal"], id = s) =>
  Effect.orDie(journal.read(id, { from: 0, limit: 100_000 }))

const recordIn = (journal: Inside.Services["journal"], id = s) => Effect.orDie(journal.find(id))

/** What closes a log, in its places. */
const closing = (log: Facts.Log): Facts.Log => {
  const state = Facts.stateOf(log)
  return Either.getOrThrow(Repair.closed(state, Repair.salvage(state))).events
}

/** Sees that everything that was left runs still. */
const running = (processes: ReadonlyArray<Repair.LeftOver>) =>
  Effect.succeed(processes.map((process) => ({ process, found: "running" as const })))
const seeing = { reap: running, look: running }

/** A session that a live agent owns, in the middle of its turn. */
const live = Effect.gen(function* () {
  const half = yield* door
  const world = yield* World.make({ scripts: [at(half.pass), say("more")] })
  const agent = yield* world.open()
  yield* Effect.zipRight(agent.followup("go"), half.entered)
  yield* agent.followup("and then")
  return { agent, world, letGo: half.letGo }
})

describe("daybook repair", () => {
  it.scoped("G09 law 8: prints what closes the log, any prefix of any log, and writes that once", () =>
    Effect.gen(function* () {
      for (const log of sampleLogs(4, 3, 200))
        for (let end = 1; end < log.length; end += 7) {
          const left = log.slice(0, end)
          const journal = yield* Inside.journalOf({ s: left })
          const closers = closing(left)
          const { code, stderr, stdout } = yield* Inside.run({ journal }, "repair", "s", "--json")
          assert.strictEqual(code, undefined)
          assert.strictEqual(stdout, closers.map((event) => `${Gist.json(event)}\n`).join(""))
          assert.match(
            stderr,
            closers.length === 0 ? /balances; nothing was written/ : /To go on: .* --continue --workspace .*\n$/
          )
          const repaired = yield* logIn(journal)
          assert.deepStrictEqual(repaired, [...left, ...closers])
          const again = yield* Inside.run({ journal }, "repair", "s")
          assert.deepStrictEqual([again.code, again.stdout], [undefined, "s: its log balances; nothing was written\n"])
          assert.deepStrictEqual([yield* logIn(journal), (yield* recordIn(journal)).owner._tag], [repaired, "None"])
        }
    })
  )

  it.scoped("prints an event a line for people, and runs nothing that waits", () =>
    Effect.gen(function* () {
      const left = Facts.followedBy(good.slice(0, 14), Facts.inserted("next-turn", 0, Facts.said("q", "more")))
      const journal = yield* Inside.journalOf({ s: left })
      const workspace = yield* Inside.folder
      const { stderr, stdout } = yield* Inside.run({ journal, workspace, reaper: seeing }, "repair", "s")
      const types = stdout
        .trimEnd()
        .split("\n")
        .map((line) => line.split(/ {2,}/)[3])
      assert.deepStrictEqual(types, ["tool/result", "tool/result", "step/end", "turn/end"])
      assert.strictEqual(
        stderr,
        `daybook: session s: its turn was interrupted, and these 4 events close its log. Its process 4711 still runs. To go on: daybook run --session s --continue --workspace ${workspace} --db ${workspace}/x.db\n`
      )
      assert.deepInclude((yield* recordIn(journal)).summary, { waiting: 1, open: false, turns: 1 })
    })
  )

  it.scoped("O-N2: leaves a session alone that a live process owns, and names that; an unknown one is none", () =>
    Effect.gen(function* () {
      const { world } = yield* live
      const before = yield* recordIn(world.journal, World.id)
      const { code, stderr, stdout } = yield* Inside.run({ journal: world.journal }, "repair", "world")
      assert.deepStrictEqual([code, stdout], [4, ""])
      assert.match(
        stderr,
        new RegExp(`^daybook: session world is owned by process ${process.pid} of .*; nothing was changed\\.`)
      )
      assert.deepStrictEqual(yield* recordIn(world.journal, World.id), before)
      const nobody = yield* Inside.run({ journal: world.journal }, "repair", "nobody")
      assert.deepStrictEqual([nobody.code, nobody.stdout], [1, ""])
      assert.match(nobody.stderr, /^daybook: session nobody: no such session\./)
    })
  )
})

describe("a journal that cannot be opened", () => {
  it.scoped("is told of with the session, and what was not done with it", () =>
    Effect.gen(function* () {
      const unopened = new JournalFull({ file: "x.db", cause: undefined })
      for (const [word, what] of [
        ["repair", "it was not taken, and nothing was changed"],
        ["fork", "no child was made"]
      ] as const) {
        const { code, stderr } = yield* Inside.run({ journal: yield* Inside.journalOf({}), unopened }, word, "s")
        assert.deepStrictEqual([code, stderr], [1, `daybook: session s: ${what}. ${unopened.message}\n`])
      }
    })
  )
})

describe("a session whose owner died", () => {
  it.scoped("G09 O-Q3: is shown as interrupted, and how to go on; looking changes nothing, however often", () =>
    Effect.gen(function* () {
      const left = good.slice(0, 14)
      const journal = yield* Inside.journalOf({ s: left })
      const before = yield* recordIn(journal)
      // its owner is recorded, and is no process of this boot that has ended: its lease has
      assert.strictEqual(before.owner._tag, "Some")
      for (const _ of [1, 2]) {
        const listed = yield* Inside.run({ journal }, "sessions")
        assert.match(listed.stdout, /\ns {17}1 {6}interrupted {2}- {13}go\n$/)
        const asJson = yield* Inside.run({ journal }, "sessions", "--json")
        assert.include(JSON.parse(asJson.stdout), { open: true, interrupted: true, owner: null, waiting: 0 })
        const shown = yield* Inside.run({ journal }, "show", "s")
        assert.match(shown.stdout, /-- turn 1 is open; it was interrupted: its owner is gone or silent\n/)
        assert.match(shown.stdout, /\nto go on: daybook run --session s --continue --workspace \S+ --db \S+\n$/)
        const request = yield* Inside.run({ journal }, "request", "s")
        assert.include(request.stderr, "as if the log had been repaired there")
        assert.deepStrictEqual([yield* logIn(journal), yield* recordIn(journal)], [left, before])
      }
    })
  )

  it.scoped("W08: the request that is shown before a repair is the one after it, and has the half answer", () =>
    Effect.gen(function* () {
      for (const [end, part] of [
        [7, '"text":"let me"'],
        [14, "outcome unknown"]
      ] as const) {
        const journal = yield* Inside.journalOf({ s: good.slice(0, end) })
        const promised = yield* Inside.run({ journal }, "request", "s")
        assert.include(promised.stdout, part)
        yield* Inside.run({ journal }, "repair", "s")
        const { stderr, stdout } = yield* Inside.run({ journal }, "request", "s")
        assert.deepStrictEqual([stdout, stderr], [promised.stdout, ""])
      }
    })
  )

  it.scoped("K04: work that was dropped unrun is told", () =>
    Effect.gen(function* () {
      const log = Facts.followedBy(
        good,
        Facts.inserted("next-turn", 0, Facts.said("q", "more"), Facts.said("r", "and more")),
        Facts.dropped("next-turn", 0)
      )
      const journal = yield* Inside.journalOf({ s: log })
      assert.match((yield* Inside.run({ journal }, "sessions")).stdout, / completed .* \(1 waits\) \(dropped\) go\n$/)
      const { stdout } = yield* Inside.run({ journal }, "sessions", "--json")
      assert.include(JSON.parse(stdout), { waiting: 1, dropped: true, interrupted: false, open: false })
      const shown = yield* Inside.run({ journal }, "show", "s")
      assert.include(shown.stdout, "1 message waiting:\n  you: and more\n")
      assert.include(shown.stdout, "something that was sent was dropped unrun since the last turn\n")
    })
  )
})

describe("a session that runs", () => {
  it.scoped("cannot be forked before a turn of it has ended: that is waited for", () =>
    Effect.gen(function* () {
      const { agent, letGo, world } = yield* live
      const { code, stderr } = yield* Inside.run({ journal: world.journal }, "fork", "world")
      assert.strictEqual(code, 2)
      const says = "session world cannot be forked: no turn of it has ended yet. Nothing was changed."
      assert.strictEqual(stderr, `daybook: ${says} Try again once one has.\n`)
      yield* Effect.zipRight(letGo, agent.idle)
    })
  )

  it.scoped("J08: can be listed, shown, exported and forked meanwhile, and is none of it disturbed", () =>
    Effect.gen(function* () {
      const { agent, letGo, world } = yield* live
      const { journal } = world
      const listed = yield* Inside.run({ journal }, "sessions")
      assert.match(listed.stdout, new RegExp(`\\nworld {13}1 {6}running {6}${process.pid}@.* \\(1 waits\\) go\\n$`))
      const asJson = JSON.parse((yield* Inside.run({ journal }, "sessions", "--json")).stdout)
      assert.deepInclude(asJson, { open: true, interrupted: false, waiting: 1 })
      assert.strictEqual(asJson.owner.pid, process.pid)
      const shown = yield* Inside.run({ journal }, "show", "world")
      assert.include(shown.stdout, `-- turn 1 is open; it runs in process ${process.pid} of `)
      assert.notInclude(shown.stdout, "to go on")
      assert.match((yield* Inside.run({ journal }, "export", "world")).stdout, /\n\{"events":\d+,"sha256":"\w+"\}\n$/)
      yield* Effect.zipRight(letGo, agent.idle)
      const forked = yield* Inside.run({ journal }, "fork", "world", "--as", "child")
      assert.deepStrictEqual([forked.code, forked.stdout, forked.stderr], [undefined, "child\n", ""])
      assert.deepStrictEqual(yield* logIn(journal, SessionId.make("child")), yield* world.log)
      yield* Effect.zipRight(agent.followup("on"), agent.idle)
    })
  )
})

describe("daybook fork", () => {
  it.scoped("where no turn has ended yet, names the command that helps, for the same place", () =>
    Effect.gen(function* () {
      const journal = yield* Inside.journalOf({ s: good.slice(0, 9) })
      const workspace = yield* Inside.folder
      const { code, stderr } = yield* Inside.run({ journal, workspace }, "fork", "s")
      assert.strictEqual(code, 2)
      const says = "session s cannot be forked: no turn of it has ended yet. Nothing was changed."
      const repair = `daybook repair s --workspace ${workspace} --db ${workspace}/x.db`
      assert.strictEqual(stderr, `daybook: ${says} \`${repair}\` ends the one that was interrupted.\n`)
    })
  )

  it.scoped("I09 I11: prints the child's id, says what it left out, and refuses what cannot be in one line", () =>
    Effect.gen(function* () {
      const open = Facts.followedBy(good, Facts.inserted("next-turn", 0, Facts.said("q", "more")), Facts.turnStart(2))
      const journal = yield* Inside.journalOf({ s: open })
      const fork = (...words: ReadonlyArray<string>) => Inside.run({ journal }, "fork", "s", ...words)
      const one = yield* fork()
      assert.match(one.stdout, /^[a-z2-7]{16}\n$/)
      const child = one.stdout.trim()
      assert.strictEqual(one.stderr, `daybook: session s has an open turn: ${child} has the 22 events before it\n`)
      assert.deepStrictEqual(yield* logIn(journal, SessionId.make(child)), open.slice(0, 22))
      const two = yield* fork("--at", "21", "--as", "two")
      assert.deepStrictEqual([two.code, two.stdout, two.stderr], [undefined, "two\n", ""])
      assert.deepStrictEqual(yield* logIn(journal, SessionId.make("two")), good)
      assert.strictEqual((yield* recordIn(journal, SessionId.make("two"))).header.seedLength, 21)
      // whoever looks sees whose child it is
      assert.match((yield* Inside.run({ journal }, "sessions")).stdout, /^two .* {2}\(fork of s\) /m)
      const rows = (yield* Inside.run({ journal }, "sessions", "--json")).stdout.trimEnd().split("\n")
      const children = rows.map((row) => JSON.parse(row)).filter(({ parent }) => parent === "s")
      assert.sameMembers(
        children.map(({ seedLength }) => seedLength),
        [21, 22]
      )
      assert.match((yield* Inside.run({ journal }, "show", "two")).stdout, /\nforked from session s at seq 21\n/)
      for (const [words, code, says] of [
        [["--at", "9", "--as", "two"], 1, /^daybook: session two is there already; nothing was changed\./],
        [
          ["--at", "9"],
          2,
          /^daybook: session s cannot be forked at seq 9: turn 1 is open there\. .* The nearest place is seq 21\.\n$/
        ],
        [["--at", "x"], 2, /--at takes a whole number from 0 on/],
        [["--as", "../x"], 2, /"\.\.\/x" is no session id/]
      ] as const) {
        const refused = yield* fork(...words)
        assert.deepStrictEqual([refused.code, refused.stdout], [code, ""])
        assert.match(refused.stderr, says)
      }
      const nobody = yield* Inside.run({ journal }, "fork", "nobody", "--as", "two")
      assert.match(nobody.stderr, /^daybook: session nobody: no such session\./)
      assert.deepStrictEqual(yield* logIn(journal), open)
    })
  )
})
