import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import { normalize } from "../../src/cli/Argv.ts"
import { grammar } from "../../src/cli/Daybook.ts"
import { pathOf } from "../../src/cli/Grammar.ts"

const words = (...given: ReadonlyArray<string>) => Either.getOrThrow(normalize(grammar, given))
const problem = (...given: ReadonlyArray<string>) => Either.getOrThrow(Either.flip(normalize(grammar, given)))

describe("Argv", () => {
  it("knows the options of each command from the command itself", () => {
    assert.strictEqual(
      [...grammar.root.commands.keys()].join(),
      "events,export,fork,import,repair,request,run,sessions,settings,show,verify"
    )
    assert.deepStrictEqual(grammar.root.commands.get("run")?.args, ["PROMPT"])
    assert.strictEqual(grammar.root.commands.get("run")?.options.get("--session"), "value")
    assert.strictEqual(grammar.root.commands.get("run")?.options.get("--yes"), "switch")
    assert.strictEqual(grammar.root.options.get("--db"), "value")
    assert.deepStrictEqual(
      [grammar.root.commands.get("verify")?.args, grammar.root.commands.get("verify")?.required],
      [["ID"], 0]
    )
    assert.deepStrictEqual(words("verify"), ["verify"])
    assert.include(problem("verify", "a", "b"), '"b" is one word too many')
  })

  it("joins an option with its value, also where that is a command's name or begins with a dash", () => {
    assert.deepStrictEqual(words("--db", "events", "run", "x"), ["--db=events", "run", "x"])
    assert.deepStrictEqual(words("run", "x", "--workspace", "run"), ["run", "x", "--workspace=run"])
    assert.deepStrictEqual(words("events", "a", "--from", "-1"), ["events", "a", "--from=-1"])
    assert.deepStrictEqual(words("run", "--db=a=b", "x"), ["run", "--db=a=b", "x"])
  })

  it("takes standard input, prompts that begin with a dash and a space, and all that comes after -- as they are", () => {
    assert.deepStrictEqual(words("run", "-"), ["run", "-"])
    assert.deepStrictEqual(words("run", "- milk"), ["run", "- milk"])
    assert.deepStrictEqual(words("run", "-1 + 2"), ["run", "-1 + 2"])
    assert.deepStrictEqual(words("run", "--yes", "--", "--db"), ["run", "--yes", "--", "--db"])
    assert.deepStrictEqual(words("run", ""), ["run", ""])
  })

  it("carries a value that begins or ends with white space, or holds a line break, past what would change it", () => {
    assert.deepStrictEqual(words("sessions", "--db", "x.db "), ["sessions", "--db", "\0x.db \0"])
    assert.deepStrictEqual(words("sessions", "--db=\nx.db"), ["sessions", "--db", "\0\nx.db\0"])
    assert.deepStrictEqual(words("sessions", "--db", " "), ["sessions", "--db", "\0 \0"])
    assert.deepStrictEqual(words("sessions", "--db", "a\nb"), ["sessions", "--db", "\0a\nb\0"])
    assert.deepStrictEqual(words("sessions", "--db", "a b"), ["sessions", "--db=a b"])
  })

  it("has no wizard, and completions for the shells that there are", () => {
    assert.include(problem("--wizard"), "there is no option --wizard")
    assert.include(problem("run", "--wizard", "x"), "there is no option --wizard")
    assert.include(problem("--completions", "basic"), "--completions takes sh, bash, fish, zsh.")
    assert.include(problem("--completions="), "--completions takes sh, bash, fish, zsh.")
    assert.deepStrictEqual(words("--completions", "bash"), ["--completions", "bash"])
  })

  it("hears --help and its like, and nothing of what else is said: it would be taken for a prompt", () => {
    assert.deepStrictEqual(words("run", "--nope", "--help"), ["run", "--help"])
    assert.deepStrictEqual(words("run", "--yes", "-h", "x"), ["run", "--help"])
    assert.deepStrictEqual(words("settings", "set", "a.b", "--help"), ["settings", "set", "--help"])
    assert.deepStrictEqual(words("--db", "x", "--help", "run"), ["--help"])
    assert.deepStrictEqual(words("run", "--yes", "--version"), ["--version"])
  })

  it("never lets a mistyped option be a prompt", () => {
    assert.include(problem("run", "--sesion", "x"), "there is no option --sesion")
    assert.include(problem("run", "--yes=maybe", "x"), "--yes takes no value")
    assert.include(problem("run", "--session"), "--session needs a value")
    assert.include(problem("run", "--session", "--yes", "x"), "--session needs a value")
    assert.include(problem("run", "--session=", "x"), "--session needs a value")
    assert.include(problem("run", "--db", "a", "--db", "b", "x"), "--db is given twice")
    assert.include(problem("run", "--log-level", "loud", "x"), "--log-level takes all, trace")
  })

  it("counts arguments and knows the commands", () => {
    assert.include(problem(), "a command is missing")
    assert.include(problem("--db", "x"), "a command is missing")
    assert.include(
      problem("chat"),
      'there is no command "chat". The commands are: events, export, fork, import, repair, request, run, sessions, settings, show, verify.'
    )
    assert.include(problem("import"), "import needs FILE")
    // without one, a session may go on by itself
    assert.deepStrictEqual(words("run", "--session", "s", "--continue"), ["run", "--session=s", "--continue"])
    assert.include(problem("run", "do", "this"), '"this" is one word too many')
    assert.include(problem("run", "do", "--", "this"), '"this" is one word too many')
    assert.include(problem("sessions", "all"), 'sessions takes no argument, and "all" is one')
  })

  it("knows the commands of a command", () => {
    assert.strictEqual([...(grammar.root.commands.get("settings")?.commands.keys() ?? [])].join(), "get,set,unset")
    assert.deepStrictEqual(words("settings", "set", "a.b", "-1"), ["settings", "set", "a.b", "-1"])
    assert.deepStrictEqual(words("settings", "get"), ["settings", "get"])
    const commands = "The commands are: get, set, unset. See daybook settings --help."
    assert.strictEqual(problem("settings"), `a command is missing after settings. ${commands}`)
    assert.strictEqual(problem("settings", "show"), `there is no command "settings show". ${commands}`)
    assert.strictEqual(problem("settings", "set", "a.b"), "settings set needs VALUE. See daybook settings set --help.")
    assert.include(problem("settings", "get", "a", "b"), "settings get takes PATH alone")
    assert.include(problem("settings", "get", "--json"), "there is no option --json. See daybook settings get --help.")
    assert.deepStrictEqual(pathOf(grammar, ["--db", "x", "settings", "set", "a.b", "get"]), [
      "daybook",
      "settings",
      "set"
    ])
  })
})
