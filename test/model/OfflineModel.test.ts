import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { textOf } from "../../src/domain/Message.ts"
import { neverStarted, outcomeUnknown } from "../../src/domain/Transcript.ts"
import * as Grammar from "../../src/model/OfflineGrammar.ts"
import { testCommand } from "../../src/model/OfflinePlan.ts"
import { answerTo, argumentsOf, input, type Reply, type Tools, talk, withResults } from "../support/OfflineTalk.ts"

const passing = `TAP version 13
# Subtest: adds
ok 1 - adds
  ---
  duration_ms: 1.5
  ...
1..1
# tests 1
# suites 0
# pass 1
# fail 0
# cancelled 0
# skipped 0
# todo 0
# duration_ms 100`

const failing = `TAP version 13
# Subtest: adds
not ok 1 - adds
  ---
  duration_ms: 1.5
  location: '/w/b/b.test.mjs:3:1'
  failureType: 'testCodeFailure'
  error: |-
    Expected values to be strictly equal:

    1 !== 2

  code: 'ERR_ASSERTION'
  expected: 2
  actual: 1
  ...
1..1
# tests 1
# suites 0
# pass 0
# fail 1
# cancelled 0
# skipped 0
# todo 0
# duration_ms 100
[exit code 1]`

/** Tools that answer by the first part of the command or path that matches, and keep what was written. */
const fake = (replies: Readonly<Record<string, Reply>> = {}) => {
  const written = new Map<string, string>()
  const tools: Tools = (name, args) =>
    Effect.sync(() => {
      const main = String(args["command"] ?? args["path"])
      if (name === "write") written.set(main, String(args["content"]))
      const found = Object.entries(replies).find(([part]) => main.includes(part))
      return found?.[1] ?? (name === "bash" ? passing : name === "write" ? "Wrote it." : `content of ${main}`)
    })
  return { tools, written }
}

const prompt = (words: string) => input([], words)

describe("OfflineModel", () => {
  it.effect("runs the suites at once, then writes the report, then sums up (done when 1)", () =>
    Effect.gen(function* () {
      const { tools, written } = fake({ "./b ": failing })
      const { said, steps } = yield* talk(prompt("Run the tests in a, b and c, then write report.md"), tools)
      assert.deepStrictEqual(
        steps.map((calls) =>
          calls.map((call) => [call.name, argumentsOf(call)["command"] ?? argumentsOf(call)["path"]])
        ),
        [["a", "b", "c"].map((folder) => ["bash", testCommand(folder)]), [["write", "report.md"]]]
      )
      assert.isTrue(steps[0]?.every((call) => argumentsOf(call)["parallel"] === true))
      const report = written.get("report.md") ?? ""
      assert.include(report, "2 of 3 suites passed. Failed: b.")
      assert.include(report, "| a | passed | 1 | 1 | 0 | 0 | 0 |")
      assert.include(report, "| b | failed | 1 | 0 | 1 | 0 | 1 |")
      assert.include(report, "### adds")
      assert.include(report, "1 !== 2")
      assert.include(report, "expected: 2\nactual: 1")
      assert.include(report, "No language model")
      assert.include(said, "Suite a: passed. 1 test.\nSuite b: failed. 1 of 1 test failed.\n  adds: Expected values")
      assert.include(said, "The report is in report.md.")
      assert.include(said, "No language model was asked.")
    })
  )

  for (const example of Grammar.examples)
    it.effect(`comes to an end with ${JSON.stringify(example)} and repeats no call (done when 1)`, () =>
      Effect.gen(function* () {
        const { steps } = yield* talk(prompt(example), fake().tools)
        const calls = steps.flat().map((call) => call.name + call.arguments)
        assert.strictEqual(new Set(calls).size, calls.length)
      })
    )

  it.effect("gives the same answer to the same request", () =>
    Effect.gen(function* () {
      const messages = prompt("Say hi, then run `ls` and `pwd`")
      assert.deepStrictEqual(yield* answerTo(messages), yield* answerTo(messages))
    })
  )

  it.effect("says, reads, writes and runs in the order asked for", () =>
    Effect.gen(function* () {
      const words = 'Say "one 😀 two"; write a.txt: hello; read a.txt and b.txt; run `first` and `other`; say bye'
      const { messages, said, steps } = yield* talk(
        prompt(words),
        fake({ first: "out\n[exit code 3]", other: "(no output)" }).tools
      )
      assert.deepStrictEqual(
        steps.map((calls) => calls.map((call) => argumentsOf(call))),
        [
          [{ content: "hello", path: "a.txt" }],
          [{ path: "a.txt" }, { path: "b.txt" }],
          [{ command: "first" }, { command: "other" }]
        ]
      )
      assert.strictEqual(textOf(messages[1] ?? assert.fail("no answer")), "one 😀 two")
      assert.match(
        said,
        /Wrote a\.txt\..*content of a\.txt.*content of b\.txt.*\$ first\nexit code 3.*\$ other\nexit code 0.*bye/s
      )
      assert.notInclude(said, "😀")
    })
  )

  it.effect("answers a plain Say with nothing but the text", () =>
    Effect.gen(function* () {
      const { said } = yield* talk(prompt("Say hello"), fake().tools)
      assert.strictEqual(said, "hello")
    })
  )

  it.effect("says that it is no language model, what it can do, and what it did not understand", () =>
    Effect.gen(function* () {
      const { said, steps } = yield* talk(prompt("Run the tests in a; make me a sandwich"), fake().tools)
      assert.deepStrictEqual(steps, [])
      for (const part of ["no language model", "make me a sandwich", "I did nothing", Grammar.grammar, "openai/"])
        assert.include(said, part)
    })
  )

  it.effect("does nothing where a tool that it needs is not offered", () =>
    Effect.gen(function* () {
      const words = "Run the tests in a, then write report.md"
      const { said, steps } = yield* talk(prompt(words), fake().tools, ["bash", "read"])
      assert.deepStrictEqual(steps, [])
      assert.include(said, 'the tool "write", which is not offered here. I did nothing.')
    })
  )

  it.effect("quotes folders so that each is one word of the shell", () =>
    Effect.gen(function* () {
      const folders = ["my folder", "it's", "$(touch x)", "-rf", "a;b", "größe", "packages/x", "../up", "/abs", "~/x"]
      const words = `Run the tests in ${folders.map((folder) => `"${folder}"`).join(", ")}`
      const { steps } = yield* talk(prompt(words), fake().tools)
      assert.deepStrictEqual(
        steps[0]?.map((call) => String(argumentsOf(call)["command"]).split(" && ")[0]),
        [
          "cd './my folder'",
          "cd './it'\\''s'",
          "cd './$(touch x)'",
          "cd ./-rf",
          "cd './a;b'",
          "cd './größe'",
          "cd ./packages/x",
          "cd ../up",
          "cd /abs",
          "cd './~/x'"
        ]
      )
    })
  )

  const unfinished: ReadonlyArray<readonly [string, Reply, string]> = [
    ["aborted", { error: `Error: tool call aborted. Its output until then:\n${failing.slice(0, 300)}` }, "not known"],
    ["aborted before it began", { error: "Error: tool call aborted before dispatch" }, "not run"],
    ["never started", { error: neverStarted }, "not run"],
    ["of unknown outcome", { error: outcomeUnknown }, "not known"],
    ["denied", { error: "Error: the call was denied: no shell here" }, "not run"],
    ["refused", { error: "Error: bash: bad arguments" }, "could not be run"],
    [
      "timed out",
      `${passing.slice(0, 90)}\n[1 process left in the background, ended with the command]\n[timed out after 1000 ms]\n[signal SIGKILL]`,
      "timed out"
    ],
    ["killed", `${passing}\n[signal SIGKILL]`, "not known"],
    ["silent", "(no output)", "not known"],
    ["without node", "[stderr]\nenv: 'node': No such file or directory\n[exit code 127]", "could not be run"],
    ["in no folder", "[stderr]\nbash: line 1: cd: ./a: No such file or directory\n[exit code 1]", "could not be run"],
    ["empty", passing.replaceAll(/^# (tests|pass) 1$/gm, "# $1 0"), "no tests"],
    [
      "cut at its head",
      `[stdout is truncated: the first 180 of its 64180 bytes are left out]\n${failing.slice(180)}`,
      "failed"
    ],
    ["ended by a wrong exit code", `${passing}\n[exit code 7]`, "failed"]
  ]
  for (const [how, reply, status] of unfinished)
    it.effect(`reports a suite that is ${how} as ${status}, and never as passed`, () =>
      Effect.gen(function* () {
        const { tools, written } = fake({ "./a ": reply })
        const { said, steps } = yield* talk(prompt("Run the tests in a and b; write r.md"), tools)
        assert.deepStrictEqual(
          steps.map((calls) => calls.length),
          [2, 1]
        )
        assert.include(said, `Suite a: ${status}.`)
        assert.include(written.get("r.md"), `${status.slice(1)}: a.`)
        assert.include(written.get("r.md"), `| a | ${status} |`)
        assert.include(written.get("r.md"), "| b | passed |")
      })
    )

  it.effect("says how many failures it cannot name where the start of the output is cut off", () =>
    Effect.gen(function* () {
      const { tools, written } = fake({
        "./a ": `[stdout is truncated: the first 180 of its 64180 bytes are left out]\n${failing.slice(180)}`
      })
      yield* talk(prompt("Run the tests in a; write r.md"), tools)
      assert.include(written.get("r.md"), "1 of the failed tests cannot be named")
    })
  )

  it.effect("gives the report in its answer where it could not be written", () =>
    Effect.gen(function* () {
      const { said, steps } = yield* talk(
        prompt("Run the tests in a; write r.md"),
        fake({ "r.md": { error: "Error: EACCES: permission denied" } }).tools
      )
      assert.strictEqual(steps.length, 2)
      assert.include(said, "r.md was not written.")
      assert.include(said, "# Test report")
    })
  )

  it.effect("takes a new prompt instead of an interrupted one", () =>
    Effect.gen(function* () {
      const first = prompt("Run the tests in a, then write report.md")
      const { tools } = fake({ "./a ": { error: outcomeUnknown } })
      const interrupted = yield* withResults(first, yield* answerTo(first), tools)
      const { said, steps } = yield* talk(input(interrupted, "Say hello"), tools)
      assert.deepStrictEqual([said, steps.length], ["hello", 0])
    })
  )

  it.effect("continues: what never began or can do no harm is made again, once, and nothing else", () =>
    Effect.gen(function* () {
      const first = prompt("Run the tests in a and b; run `deploy` and `later`; write report.md")
      const tests = yield* withResults(first, yield* answerTo(first), fake({ "./a ": { error: outcomeUnknown } }).tools)
      const lost = fake({ deploy: { error: outcomeUnknown }, later: { error: neverStarted } })
      const cut = yield* withResults(tests, yield* answerTo(tests), lost.tools)
      const again = fake({ "./a ": failing, later: "done" })
      const { messages, said, steps } = yield* talk(input(cut, "Continue"), again.tools)
      assert.deepStrictEqual(
        steps.map((calls) => calls.map((call) => argumentsOf(call)["command"] ?? argumentsOf(call)["path"])),
        [[testCommand("a")], ["later"], ["report.md"]]
      )
      assert.include(said, "$ deploy\nnot known.")
      assert.include(again.written.get("report.md"), "| a | failed |")
      const once = yield* talk(input(messages, "continue"), again.tools)
      assert.deepStrictEqual(once.steps, [])
    })
  )

  it.effect("O-Q4: goes on after a turn that was cut off as if told to continue, and after a second one as well", () =>
    Effect.gen(function* () {
      const first = prompt("Run the tests in a; run `deploy`; say bye")
      const tests = yield* withResults(first, yield* answerTo(first), fake().tools)
      const lost = fake({ deploy: { error: outcomeUnknown }, "./a ": { error: outcomeUnknown } })
      const cut = yield* withResults(tests, yield* answerTo(tests), lost.tools)
      const resumed = input(cut, "Whatever this says.", "resume")
      const { said, steps } = yield* talk(resumed, fake().tools)
      assert.deepStrictEqual(steps, [])
      assert.match(said, /Suite a: passed.*\$ deploy\nnot known\..*bye/s)

      // cut off before anything came of it, and once more while it did something
      const early = input(input(first, "Go on.", "resume"), "Go on.", "resume")
      const again = yield* withResults(early, yield* answerTo(early), lost.tools)
      const rest = yield* talk(input(again, "Go on.", "resume"), fake().tools)
      assert.deepStrictEqual(
        rest.steps.map((calls) => calls.map((call) => argumentsOf(call)["command"])),
        [[testCommand("a")], ["deploy"]]
      )
      assert.match(rest.said, /Suite a: passed.*\$ deploy\nexit code 0.*bye/s)
    })
  )

  it.effect("takes what waited for the request that is continued, and a new prompt instead of it", () =>
    Effect.gen(function* () {
      const first = prompt("Run `first`")
      const { steps } = yield* talk(input(input(first, "Go on.", "resume"), "Say hello"), fake().tools)
      assert.deepStrictEqual(steps, [])
      const noted = input(input(first, "then run `second`", "inject"), "Go on.", "resume")
      const both = yield* talk(noted, fake().tools)
      assert.deepStrictEqual(
        both.steps.flat().map((call) => argumentsOf(call)["command"]),
        ["first", "second"]
      )
    })
  )

  it.effect("has nothing to continue in a new session", () =>
    Effect.gen(function* () {
      const { said, steps } = yield* talk(prompt("Continue"), fake().tools)
      assert.deepStrictEqual(steps, [])
      assert.include(said, "nothing to continue")
    })
  )

  it.effect("adds what is steered in after what is not done yet", () =>
    Effect.gen(function* () {
      const first = prompt("Run the tests in a, then write report.md")
      const { tools } = fake()
      const running = yield* withResults(first, yield* answerTo(first), tools)
      const steered = input(input(running, "then read a.txt", "steer"), "and be quick", "steer")
      const { said, steps } = yield* talk(input(steered, "Run `rm -rf x`", "context"), tools)
      assert.deepStrictEqual(
        steps.flat().map((call) => argumentsOf(call)["path"]),
        ["report.md", "a.txt"]
      )
      assert.include(said, 'I did not understand this part: "be quick"')
    })
  )

  it.effect("runs again what is asked again, and reports on the last results where a request has none", () =>
    Effect.gen(function* () {
      const { tools, written } = fake({ "./a ": failing })
      const one = yield* talk(prompt("Run the tests in a"), tools)
      const two = yield* talk(input(one.messages, "Run the tests in a"), tools)
      assert.strictEqual(two.steps.length, 1)
      const three = yield* talk(input(two.messages, "Write later.md"), tools)
      assert.strictEqual(three.steps.flat().length, 1)
      assert.include(written.get("later.md"), "| a | failed |")
      const none = yield* talk(prompt("Write later.md"), tools)
      assert.deepStrictEqual(none.steps, [])
      assert.include(none.said, "no tests or commands before it")
    })
  )
})
