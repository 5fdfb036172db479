import * as Either from "effect/Either"
import { assert, describe, it } from "vitest"
import { examples, grammar, type Instruction, parse } from "../../src/model/OfflineGrammar.ts"

const read = (request: string): ReadonlyArray<Instruction> =>
  Either.getOrElse(parse(request), (part) => assert.fail(`not understood: ${part}`))

const test = (...folders: ReadonlyArray<string>): Instruction => ({ type: "test", folders })
const report = (file = "report.md"): Instruction => ({ type: "report", file })
const run = (parallel: boolean, ...commands: ReadonlyArray<string>): Instruction => ({
  type: "run",
  commands,
  parallel
})
const show = (...files: ReadonlyArray<string>): Instruction => ({ type: "read", files })
const write = (file: string, text: string): Instruction => ({ type: "write", file, text })
const say = (text: string): Instruction => ({ type: "say", text })

const understood: ReadonlyArray<readonly [string, ...ReadonlyArray<Instruction>]> = [
  ["Run the tests in a, b and c, then write report.md", test("a", "b", "c"), report()],
  ["please run the tests in a,b,c and write report.md.", test("a", "b", "c"), report()],
  ["Run the tests in a, b, and c. Then write the results to out/r.md.", test("a", "b", "c"), report("out/r.md")],
  ["run tests in a; write a report", test("a"), report()],
  [
    "Run the test suites in a and b in parallel, then save the report as 'my report.md'",
    test("a", "b"),
    report("my report.md")
  ],
  ["Run the tests in 'my folder', “x y” and packages/z", test("my folder", "x y", "packages/z")],
  ["Run the tests in a & b\nthen write report.md", test("a", "b"), report()],
  ["Run the tests in the folders a and b, thanks", test("a", "b")],
  ["Run the tests in packages and b", test("packages", "b")],
  ["Run the tests in src, test and lib and then write out.md", test("src", "test", "lib"), report("out.md")],
  ["Run the tests in run, write and then", test("run", "write", "then")],
  ["Run the tests in a, b, a", test("a", "b")],
  ["Run the tests in . and ../other/.", test(".", "../other/.")],
  ["Run the tests in größe, 日本 and -x", test("größe", "日本", "-x")],
  ['Run the tests in "it\'s" and "a, b and c"', test("it's", "a, b and c")],
  ["run the tests", test(".")],
  ["Run all tests in this folder and write report.md saying which failed and why", test("."), report()],
  ["Could you test a, b & c, then write report.md with the results please", test("a", "b", "c"), report()],
  ["Run `ls -la`", run(false, "ls -la")],
  ["Run `a; b`, `c` and 'd and then write x' in parallel", run(true, "a; b", "c", "d and then write x")],
  ["run in parallel `a` and `b`; run `c`", run(true, "a", "b"), run(false, "c")],
  ["Read a.txt and b.txt, then show me the file 'c d.txt'", show("a.txt", "b.txt"), show("c d.txt")],
  ["Write notes/a.md: # Title\n\nOne. And two, then three", write("notes/a.md", "# Title\n\nOne. And two, then three")],
  ["Write all tests are green to status.txt", write("status.txt", "all tests are green")],
  ["Write note: buy milk to todo.txt", write("todo.txt", "note: buy milk")],
  [
    'Write "run the tests; then say x" to a.txt and read a.txt',
    write("a.txt", "run the tests; then say x"),
    show("a.txt")
  ],
  ["write a.txt with the text hello there", write("a.txt", "hello there")],
  ["Say it's fine. Then read b.txt", say("it's fine."), show("b.txt")],
  ["Say first this, then that", say("first this, then that")],
  ["go on", { type: "continue" }]
]

const notUnderstood: ReadonlyArray<readonly [string, string]> = [
  ["", ""],
  ["hello", "hello"],
  ["Run ls", "Run ls"],
  ["Run the tests in a b c", "Run the tests in a b c"],
  ["Run the tests in a, then deploy", "Run the tests in a, then deploy"],
  ["Run the tests in a,, b", "Run the tests in a,, b"],
  ['Run the tests in ""', 'Run the tests in ""'],
  ["Say hi; run everything", "run everything"]
]

describe("OfflineGrammar", () => {
  it("reads every example that the help prints (done when 1)", () => {
    assert.isAbove(examples.length, 8)
    for (const example of examples) {
      assert.include(grammar.split("\n"), `  ${example}`)
      assert.isNotEmpty(read(example))
    }
    const kinds = new Set(examples.flatMap((example) => read(example).map((instruction) => instruction.type)))
    assert.deepStrictEqual([...kinds].sort(), ["continue", "read", "report", "run", "say", "test", "write"])
  })

  it("prints the grammar in lines that fit a terminal", () => {
    for (const line of grammar.split("\n")) assert.isAtMost(line.length, 100)
  })

  for (const [request, ...instructions] of understood)
    it(`reads ${JSON.stringify(request)}`, () => {
      assert.deepStrictEqual(read(request), instructions)
    })

  it.each(notUnderstood)("does not read %j and names the part", (request, part) => {
    assert.deepStrictEqual(parse(request), Either.left(part))
  })

  it("reads a request of a megabyte", () => {
    for (const part of ["word ", "\n", "a, ", "'", "“", " and then ", "to a "]) {
      const text = part.repeat(Math.ceil((1024 * 1024) / part.length))
      assert.isDefined(parse(text))
      assert.isDefined(parse(`Run the tests in a${text}`))
      assert.deepStrictEqual(read(`Write big.txt: "x${text.replaceAll('"', "")}"`)[0]?.type, "write")
    }
  })
})
