import { execFileSync, spawnSync } from "node:child_process"
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { assert, describe, it } from "vitest"
import { checkCases, titlesOf } from "./cases.mjs"
import { checkRooms } from "./rooms.mjs"
import { read } from "./source.mjs"

const rooms = (files: Record<string, string>) => checkRooms(new Map(Object.entries(files)))
const service = "export const x = 1\n"

describe("reading source", () => {
  const code = (text: string) => read(text).tokens.map((token) => token.text)

  it("keeps comments, strings, templates and regular expressions apart from code", () => {
    assert.deepStrictEqual(code('a // "b"\n/* c */ d'), ["a", "d"])
    assert.deepStrictEqual(code("x = /[`\"']/g; y = a / b / c"), [
      "x",
      "=",
      "/[`\"']/g",
      ";",
      "y",
      "=",
      "a",
      "/",
      "b",
      "/",
      "c"
    ])
    assert.deepStrictEqual(code("`a${ { b: `c${d}e` } }f` + g"), [
      "`a${",
      "{",
      "b",
      ":",
      "`c${",
      "d",
      "}e`",
      "}",
      "}f`",
      "+",
      "g"
    ])
    assert.deepStrictEqual(code("#!/usr/bin/env node\na"), ["a"])
  })

  it("counts lines through comments and templates", () => {
    assert.deepStrictEqual(
      read("/* 1\n2 */\n`3\n4`\na").tokens.map(({ line, text }) => `${line} ${text}`),
      ["3 `3\n4`", "5 a"]
    )
  })
})

describe("the room table", () => {
  it("lets every room use itself, internal and what its row names", () => {
    const files = {
      "domain/A.ts": 'import { b } from "../internal/B.ts"\nexport const a = b',
      "internal/B.ts": "export const b = 1",
      "journal/C.ts":
        'import * as Effect from "effect/Effect"\nimport { a } from "../domain/A.ts"\nexport const c = Effect.succeed(a)',
      "journal/D.ts": 'import * as C from "./C.ts"\nexport const d = C.c',
      "cli/run.ts": 'import * as D from "../journal/D.ts"\nexport const run = D.d',
      "main.ts": 'import { run } from "./cli/run.ts"\nexport const main = run',
      "index.ts": '// the public face\nexport * as C from "./journal/C.ts"\nexport * as D from "./journal/D.ts"'
    }
    assert.deepStrictEqual(rooms(files), [])
  })

  const refused: ReadonlyArray<readonly [name: string, path: string, text: string, finding: string]> = [
    [
      "a room that its row does not name",
      "domain/A.ts",
      'import * as J from "../journal/J.ts"\nJ',
      "domain may not import journal"
    ],
    [
      "a type",
      "session/A.ts",
      'import type { T } from "../agent/T.ts"\nexport const a: T = 1',
      "session may not import agent"
    ],
    [
      "a type in an expression",
      "model/A.ts",
      'export const a: import("../tool/T.ts").T = 1',
      "model may not import tool"
    ],
    [
      "a re-export",
      "settings/A.ts",
      'export { x } from "../session/S.ts"\nexport const y = 1',
      "settings may not import session"
    ],
    [
      "a re-exported namespace",
      "view/A.ts",
      'export * as S from "../session/S.ts"\nexport const y = 1',
      "view may not import session"
    ],
    ["a dynamic import", "view/A.ts", 'export const a = () => import("../agent/A.ts")', "view may not import agent"],
    ["a side effect", "internal/A.ts", 'import "../domain/D.ts"\nexport const a = 1', "internal may not import domain"],
    ["the command line", "testing/A.ts", 'import { run } from "../cli/run.ts"\nrun()', "testing may not import cli"],
    [
      "the command line from the public face",
      "index.ts",
      'export * as Run from "./cli/run.ts"',
      "index.ts may not import cli"
    ],
    ["the public face", "agent/A.ts", 'import * as D from "../index.ts"\nD', "agent may not import index.ts"],
    ["something outside src", "agent/A.ts", 'import { x } from "../../test/support/x.ts"\nx', "which is outside src"],
    [
      "the package by its own name",
      "agent/A.ts",
      'import * as J from "daybook/journal/Journal"\nJ',
      "use a relative path"
    ],
    ["the barrel of effect", "agent/A.ts", 'import { Effect } from "effect"\nEffect', "imports the barrel effect;"],
    [
      "another barrel",
      "agent/A.ts",
      'import { Path } from "@effect/platform"\nPath',
      "imports the barrel @effect/platform;"
    ]
  ]
  for (const [name, path, text, finding] of refused) {
    it(`refuses to import ${name}`, () => {
      const found = rooms({ [path]: text })
      assert.strictEqual(found.length, 1)
      assert.include(found[0], `src/${path}:1 `)
      assert.include(found[0], finding)
    })
  }

  it("knows no other rooms and no deeper folders", () => {
    assert.deepStrictEqual(rooms({ "utils/A.ts": service }), ["src/utils/A.ts is in no room of the table"])
    assert.deepStrictEqual(rooms({ "other.ts": service }), ["src/other.ts is in no room of the table"])
    assert.deepStrictEqual(rooms({ "tool/built/A.ts": service }), ["src/tool/built/A.ts is more than one folder deep"])
  })

  it("finds a cycle between files, types included", () => {
    const files = {
      "tool/A.ts": 'import type { B } from "./B.ts"\nexport const a: B = 1',
      "tool/B.ts": 'import { c } from "./C.ts"\nexport type B = typeof c',
      "tool/C.ts": 'import { a } from "./A.ts"\nexport const c = a'
    }
    assert.deepStrictEqual(rooms(files), [
      "import cycle: src/tool/A.ts > src/tool/B.ts > src/tool/C.ts > src/tool/A.ts"
    ])
    assert.deepStrictEqual(rooms({ "tool/A.ts": 'import { a } from "./A.ts"\na' }), [
      "import cycle: src/tool/A.ts > src/tool/A.ts"
    ])
  })

  it("refuses a file that only forwards", () => {
    const only = (text: string) => rooms({ "tool/A.ts": text })
    const finding = ["src/tool/A.ts only re-exports"]
    assert.deepStrictEqual(only('/** Doc. */\nexport * from "./B.ts"\nexport { c, type D } from "./C.ts"'), finding)
    assert.deepStrictEqual(only('export type { B } from "./B.ts";\nexport * as C from "./C.ts";'), finding)
    assert.deepStrictEqual(only('import { b } from "./B.ts"\nexport { b }'), finding)
    assert.deepStrictEqual(only('export * from "./B.ts"\nexport const c = 1'), [])
    assert.deepStrictEqual(rooms({ "index.ts": 'export { b } from "./tool/B.ts"' }), [
      'src/index.ts holds more than "export * as Name from"'
    ])
    assert.deepStrictEqual(rooms({ "index.ts": 'export * as B from "./tool/B.ts"\nexport const c = 1' }).length, 1)
  })

  const reaches = [
    "new AbortController()",
    "new Promise((done) => done(1))",
    "new Date()",
    "Date.now()",
    "performance.now()",
    "process.hrtime.bigint()",
    "process.env.HOME",
    'console.log("a")',
    "Math.random()",
    "crypto.randomUUID()",
    "randomUUID()",
    "randomBytes(8)",
    "setTimeout(f, 1)",
    "globalThis.setInterval(f, 1)",
    "setImmediate(f)",
    "queueMicrotask(f)"
  ]
  for (const reach of reaches) {
    it(`wants a reason beside ${reach}`, () => {
      const file = (text: string) => rooms({ "tool/A.ts": text })
      const found = file(`export const a = 1\nexport const b = ${reach}`)
      assert.strictEqual(found.length, 1)
      assert.match(found[0] ?? "", /^src\/tool\/A\.ts:2 .+ without a comment "\/\/ edge: reason"$/)
      assert.strictEqual(file(`export const b = ${reach} // edge:`).length, 1)
      assert.strictEqual(file(`// edge: too far\n\nexport const b = ${reach}`).length, 1)
      assert.strictEqual(file(`export const c = 1 // edge: of another line\nexport const b = ${reach}`).length, 1)
      assert.deepStrictEqual(file(`export const b = ${reach} // edge: why`), [])
      assert.deepStrictEqual(file(`// edge: why,\n// at length\nexport const b = ${reach}`), [])
    })
  }

  it("does not take a comment, a string, a given date or a method for an edge", () => {
    const text =
      '// Date.now()\nexport const a = "process.env"\nexport const b = new Date(0)\nexport const c = d.setTimeout(1)'
    assert.deepStrictEqual(rooms({ "tool/A.ts": text }), [])
  })
})

describe("the case list", () => {
  const tests = (text: string) => new Map([["a.test.ts", text]])

  it("reads the titles of tests that run", () => {
    const text = `
      describe("one", () => {})
      it('two', () => { it("never" as string) })
      it.effect("three", () => x)
      it.layer(a(b))("four", (it) => {})
      it.each([1, 2])("five %s", () => {})
      it.prop("six " + "and more", [fc.nat()], () => true)
      it(\`seven \${x} rest\`, () => {})
      it.skip("eight", () => {})
      it.effect.todo("nine")
      // it("ten", () => {})
      other.it("eleven")
      it(title, () => {})
    `
    assert.deepStrictEqual(titlesOf(text), [
      "one",
      "two",
      "never",
      "three",
      "four",
      "five %s",
      "six and more",
      "seven "
    ])
  })

  it("finds an id that no title carries as a whole word", () => {
    const text = 'it("E11 E12: a", f)\nit("law 6, O-A1: b", f)\nit("law 11 O-A10", f)'
    assert.deepStrictEqual(checkCases("# c\nE11\nE12 # d\n\nlaw 6\nO-A1\nO-A10\n", tests(text)), [])
    assert.deepStrictEqual(checkCases("E11\nE10\nE1\nA10\nlaw 1\nE11", tests(text)), [
      "test/cases.txt:2 E10 is in no test title",
      "test/cases.txt:3 E1 is no case id",
      "test/cases.txt:4 A10 is in no test title",
      "test/cases.txt:5 law 1 is in no test title",
      "test/cases.txt:6 E11 is listed twice"
    ])
  })
})

describe("npm run check", () => {
  // A small project with one wrong file for each program that the check runs, checked by the very same scripts.
  const check = (files: Record<string, string>) => {
    const root = resolve(import.meta.dirname, "../..")
    const folder = mkdtempSync(join(tmpdir(), "daybook-check-"))
    try {
      for (const name of ["package.json", "tsconfig.json", ".biome.json", ".gitignore"])
        cpSync(join(root, name), join(folder, name))
      cpSync(join(root, "test/checks"), join(folder, "test/checks"), {
        recursive: true,
        filter: (name) => !name.endsWith(".test.ts")
      })
      symlinkSync(join(root, "node_modules"), join(folder, "node_modules"))
      execFileSync("git", ["init", "-q"], { cwd: folder })
      writeFileSync(join(folder, "test/cases.txt"), "")
      for (const [name, text] of Object.entries(files)) {
        mkdirSync(join(folder, name, ".."), { recursive: true })
        writeFileSync(join(folder, name), text)
      }
      const { status, stdout } = spawnSync(process.execPath, ["test/checks/main.mjs"], {
        cwd: folder,
        encoding: "utf8"
      })
      return { status, stdout }
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }
  const verdicts = (stdout: string) => [...stdout.matchAll(/^(?:ok {4}|FAILED) .*$/gm)].map(([line]) => line)

  it("passes what is right", () => {
    const { status, stdout } = check({ "src/domain/A.ts": "export const a = 1\n" })
    assert.strictEqual(status, 0, stdout)
    assert.lengthOf(verdicts(stdout), 5)
  })

  it("fails on each kind of finding", () => {
    const { status, stdout } = check({
      "src/domain/Format.ts": "export const a = 'a';\n",
      "src/domain/Lint.ts": "export const a = (b: any): unknown => b\n",
      "src/domain/Types.ts": "export const a: number = [1][0]\n",
      "src/domain/Rooms.ts": 'import { b } from "../journal/B.ts"\n\nexport const a = b\n',
      "src/journal/B.ts": "export const b = 1\n",
      "src/domain/Rules.ts": [
        'import * as Effect from "effect/Effect"',
        "",
        "export const a = Effect.gen(function* () {",
        '  Effect.log("floating")',
        "  try {",
        '    yield* Effect.fail("x")',
        "  } catch {",
        "    return Effect.void",
        "  }",
        "})",
        'export const b = Effect.fail("x") as Effect.Effect<void>',
        ""
      ].join("\n"),
      "test/cases.txt": "A01\n"
    })
    assert.strictEqual(status, 1)
    assert.deepStrictEqual(verdicts(stdout), [
      "FAILED format and lint",
      "FAILED types",
      "FAILED effect rules",
      "FAILED room table, cycles and edges",
      "FAILED case ids"
    ])
    const named = [
      "src/domain/Format.ts format",
      "noExplicitAny",
      "src/domain/Types.ts(1,14): error TS2322",
      "effect(floatingEffect)",
      "effect(tryCatchInEffectGen)",
      "effect(missingReturnYieldStar)",
      "effect(returnEffectInGen)",
      "effect(unsafeEffectTypeAssertion)",
      "src/domain/Rooms.ts:1 domain may not import journal",
      "test/cases.txt:1 A01 is in no test title"
    ]
    for (const name of named) assert.include(stdout, name)
  })
})
