import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as SettingsPath from "../../src/cli/SettingsPath.ts"
import * as UserSettings from "../../src/cli/UserSettings.ts"
import { folder, lines, log, run } from "../support/Cli.ts"

const patience = 60_000

/** A home of its own, and `daybook settings` in it. */
const home = Effect.map(folder, (cwd) => {
  const file = join(cwd, ".config/daybook/settings.json")
  const env = { DAYBOOK_SETTINGS: "", XDG_CONFIG_HOME: "", HOME: cwd }
  const settings = (...args: ReadonlyArray<string>) => run(["settings", ...args], { cwd, env })
  return {
    cwd,
    env,
    file,
    settings,
    write: (text: string) => {
      mkdirSync(join(cwd, ".config/daybook"), { recursive: true })
      writeFileSync(file, text)
    },
    read: () => readFileSync(file, "utf8"),
    /** A run that is refused with one line, which begins so, and changes nothing. */
    refused: (code: number, line: string, ...args: ReadonlyArray<string>) =>
      Effect.gen(function* () {
        const before = existsSync(file) ? readFileSync(file, "utf8") : undefined
        const result = yield* settings(...args)
        assert.deepStrictEqual([result.code, result.stdout, lines(result.stderr).length], [code, "", 1], result.stderr)
        assert.isTrue(result.stderr.startsWith(`daybook: ${line}`), result.stderr)
        assert.strictEqual(existsSync(file) ? readFileSync(file, "utf8") : undefined, before)
      })
  }
})

describe("daybook settings", () => {
  it.scopedLive(
    "sets, shows and takes out values, and keeps the rest of the file",
    () =>
      Effect.gen(function* () {
        const { cwd, file, read, settings, write } = yield* home
        const none = yield* settings("get", "agent-loop")
        assert.deepStrictEqual(none, {
          code: 0,
          signal: null,
          stdout: '{\n  "maxParallelToolCalls": 10\n}\n',
          stderr: `daybook: ${file} sets nothing of this\n`
        })
        assert.deepStrictEqual(readdirSync(cwd), [])

        const set = yield* settings("set", "agent-loop.maxParallelToolCalls", "4")
        assert.deepStrictEqual([set.code, set.stdout], [0, ""])
        assert.strictEqual(set.stderr, `daybook: agent-loop.maxParallelToolCalls is 4; ${file} sets it\n`)
        assert.strictEqual(statSync(file).mode & 0o777, 0o600)

        write(`// mine\n${read()}`)
        yield* settings("set", "processes.leftOver", "report")
        yield* settings("set", "retry.times.TIMEOUT", "2")
        yield* settings("set", "approvals.rules", '[{"tool": "bash", "command": "git", "decision": "ask"}]')
        const all = yield* settings("get")
        const values = JSON.parse(all.stdout)
        assert.deepStrictEqual(
          Object.keys(values),
          UserSettings.sections.map(({ name }) => name)
        )
        assert.deepStrictEqual(values.processes, { graceMillis: 2000, leftOver: "report" })
        assert.strictEqual(values.retry.times.TIMEOUT, 2)
        assert.strictEqual(
          all.stderr,
          `daybook: ${file} sets agent-loop.maxParallelToolCalls, approvals.rules, processes.leftOver, retry.times.TIMEOUT\n`
        )
        assert.strictEqual((yield* settings("get", "processes.leftOver")).stdout, '"report"\n')

        const unset = yield* settings("unset", "agent-loop.maxParallelToolCalls")
        assert.strictEqual(unset.stderr, `daybook: agent-loop.maxParallelToolCalls is 10; ${file} no longer sets it\n`)
        const again = yield* settings("unset", "agent-loop.maxParallelToolCalls")
        assert.strictEqual(again.stderr, `daybook: agent-loop.maxParallelToolCalls is 10; ${file} did not set it\n`)
        assert.match(read(), /^\/\/ mine\n\{\n {2}"agent-loop": \{\n {2}\},\n {2}"processes"/)
        assert.deepStrictEqual(readdirSync(join(file, "..")), ["settings.json", "settings.json.lock"])
      }),
    patience
  )

  it.scopedLive(
    "L02: refuses what is not there and what its schema refuses with exit code 2, and says what would do",
    () =>
      Effect.gen(function* () {
        const { file, refused } = yield* home
        yield* refused(2, 'there is no section "agent". There is: agent-loop, ', "set", "agent.x", "1")
        yield* refused(2, 'there is no section "agent". There is: agent-loop, ', "get", "agent")
        yield* refused(2, '".x" is no path, such as ', "unset", ".x")
        yield* refused(
          2,
          'agent-loop has no "max"; it has maxParallelToolCalls. Nothing was changed.',
          "get",
          "agent-loop.max"
        )
        yield* refused(2, 'agent-loop has no "max"; it has maxParallelToolCalls. ', "unset", "agent-loop.max")
        yield* refused(
          2,
          'agent-loop has no max; it has "maxParallelToolCalls". Nothing was changed.',
          "set",
          "agent-loop.max",
          "1"
        )
        yield* refused(
          2,
          'processes.leftOver must be "end" or "report" or "leave", not "kill". Nothing was changed.',
          "set",
          "processes.leftOver",
          "kill"
        )
        yield* refused(
          2,
          "processes.graceMillis must be a number between 0 and 600000, not -1. ",
          "set",
          "processes.graceMillis",
          "-1"
        )
        yield* refused(2, "agent-loop must be an object, not 4. ", "set", "agent-loop", "4")
        assert.isFalse(existsSync(file))
      }),
    patience
  )

  it.scopedLive(
    "L02: a file that is no JSON is told with its place, and left alone; a bad value can be mended",
    () =>
      Effect.gen(function* () {
        const { file, read, refused, settings, write } = yield* home
        write('{\n  "agent-loop": {"maxParallelToolCalls": 4\n}')
        const broken = `${file}:3:2 is no JSON: close brace expected. It was left as it is. Mend it by hand, or move it away.`
        yield* refused(1, broken, "get")
        yield* refused(1, broken, "get", "processes")
        yield* refused(1, broken, "set", "processes.graceMillis", "1")
        yield* refused(1, broken, "unset", "processes.graceMillis")
        write('{"agent-loop": {"maxParallelToolCalls": 0}}')
        const bad = `${file}: agent-loop.maxParallelToolCalls must be a positive number, not 0. It was left as it is. Set it right, or`
        yield* refused(1, bad, "get")
        yield* refused(1, bad, "get", "agent-loop")
        assert.strictEqual((yield* settings("get", "processes.graceMillis")).stdout, "2000\n")
        yield* settings("set", "processes.graceMillis", "3")
        const { code } = yield* settings("unset", "agent-loop.maxParallelToolCalls")
        assert.strictEqual(code, 0)
        assert.strictEqual(read(), '{"agent-loop": {}, "processes": {"graceMillis":3}}')
        write('{"agent-loop": {"maxparallel": 1}, "nobodys": {}}')
        assert.strictEqual((yield* settings("unset", "agent-loop.maxparallel")).code, 0)
        assert.include(
          (yield* settings("get")).stderr,
          `${file}: nothing here is called nobodys; it is kept, and means nothing`
        )
      }),
    patience
  )

  it.scopedLive(
    "finds the file where the environment says: DAYBOOK_SETTINGS, XDG_CONFIG_HOME, else ~/.config",
    () =>
      Effect.gen(function* () {
        const { cwd, env } = yield* home
        const set = (value: string, more: Record<string, string>) =>
          run(["settings", "set", "agent-loop.maxParallelToolCalls", value], { cwd, env: { ...env, ...more } })
        const xdg = { XDG_CONFIG_HOME: join(cwd, "xdg") }
        yield* set("1", { ...xdg, DAYBOOK_SETTINGS: "here.json" })
        yield* set("2", xdg)
        yield* set("3", { XDG_CONFIG_HOME: "relative" })
        const at = (path: string) =>
          JSON.parse(readFileSync(join(cwd, path), "utf8"))["agent-loop"].maxParallelToolCalls
        assert.deepStrictEqual(
          ["here.json", "xdg/daybook/settings.json", ".config/daybook/settings.json"].map(at),
          [1, 2, 3]
        )
      }),
    patience
  )

  it.scopedLive(
    "has a help whose usage lines can be typed",
    () =>
      Effect.gen(function* () {
        const { settings } = yield* home
        for (const [words, usage] of [
          [[], "$ daybook settings"],
          [["get"], "$ daybook settings get [<PATH>]"],
          [["set"], "$ daybook settings set <PATH> <VALUE>"],
          [["unset"], "$ daybook settings unset <PATH>"]
        ] as const) {
          const { code, stdout } = yield* settings(...words, "--help")
          assert.strictEqual(code, 0)
          assert.include(lines(stdout), usage)
          assert.notMatch(stdout, /user-defined|true or false|setting is optional| $/m)
        }
        assert.match((yield* settings("--help")).stdout, /not in the\s+workspace on purpose/)
      }),
    patience
  )
})

describe("daybook run", () => {
  it.scopedLive(
    "L02: does not start with settings that are no good, and reading needs none",
    () =>
      Effect.gen(function* () {
        const { cwd, env, file, write } = yield* home
        const first = yield* run(["run", "--yes", "--session", "s", "Say hello"], { cwd, env })
        assert.strictEqual(first.code, 0, first.stderr)
        const before = yield* log("s", { cwd, env })
        write('{"agent-loop": {"maxParallelToolCalls": 0}}')
        for (const command of [
          ["run", "--yes", "--session", "s", "Say more"],
          ["repair", "s"]
        ]) {
          const { code, stderr } = yield* run(command, { cwd, env })
          assert.strictEqual(code, 1)
          assert.match(
            stderr,
            /^daybook: .*settings\.json: agent-loop\.maxParallelToolCalls must be a positive number, not 0\. [^\n]*\n$/
          )
        }
        assert.deepStrictEqual(yield* log("s", { cwd, env }), before)
        for (const command of ["sessions", "verify"])
          assert.strictEqual((yield* run([command], { cwd, env })).code, 0, command)
        assert.include(file, cwd)
      }),
    patience
  )

  it.scopedLive(
    "keeps the settings from the file tools, should they be in the workspace",
    () =>
      Effect.gen(function* () {
        const { cwd, env } = yield* home
        const place = { cwd, env: { ...env, DAYBOOK_SETTINGS: "mine.json" } }
        yield* run(["run", "--yes", "--session", "s", "Write mine.json: {}; then write other.json: {}"], place)
        assert.isFalse(existsSync(join(cwd, "mine.json")))
        assert.isTrue(existsSync(join(cwd, "other.json")))
      }),
    patience
  )
})

describe("a path of settings", () => {
  it("is a section and names in it, one with a dot in quotes", () => {
    const parse = (text: string) => Either.map(SettingsPath.parse(text), ({ path, section }) => [section.name, ...path])
    assert.deepStrictEqual(parse("retry"), Either.right(["retry"]))
    assert.deepStrictEqual(parse('retry.times."a.b \\" c"'), Either.right(["retry", "times", 'a.b " c']))
    assert.deepStrictEqual(parse("retry.times.a-b"), Either.right(["retry", "times", "a-b"]))
    for (const text of ["", ".", "retry.", "retry..a", 'retry."a', 'retry."a"b'])
      assert.isTrue(Either.isLeft(SettingsPath.parse(text)), text)
    const shown = SettingsPath.show(Either.getOrThrow(SettingsPath.parse('retry.times."a.b \\" c"')))
    assert.strictEqual(shown, 'retry.times."a.b \\" c"')
  })
})
