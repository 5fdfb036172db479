import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { input, type Tools, talk } from "../support/OfflineTalk.ts"
import { bashText } from "../support/TestSuites.ts"

const sample = fileURLToPath(new URL("../../scratchpad/report", import.meta.url))

/** A copy of the sample workspace, gone when the scope closes. */
const copy = Effect.acquireRelease(
  Effect.sync(() => {
    const root = mkdtempSync(join(tmpdir(), "daybook-report-"))
    cpSync(sample, root, { recursive: true })
    return root
  }),
  (root) => Effect.sync(() => rmSync(root, { recursive: true, force: true }))
)

/** Tools that really do it. */
const toolsIn =
  (root: string): Tools =>
  (name, args) =>
    Effect.gen(function* () {
      if (name === "bash") return yield* bashText(String(args["command"]), root)
      const path = join(root, String(args["path"]))
      if (name === "read") return readFileSync(path, "utf8")
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, String(args["content"]))
      return "Wrote it."
    })

const row = (report: string, suite: string) => report.split("\n").find((line) => line.startsWith(`| ${suite} |`))

describe("the sample workspace", () => {
  it("holds three packages without dependencies and nothing else", () => {
    assert.deepStrictEqual(readdirSync(sample).sort(), ["a", "b", "c"])
    for (const folder of ["a", "b", "c"]) {
      assert.deepStrictEqual(readdirSync(join(sample, folder)).sort(), ["package.json", "src", "test"])
      const manifest: unknown = JSON.parse(readFileSync(join(sample, folder, "package.json"), "utf8"))
      assert.doesNotHaveAnyKeys(manifest, ["dependencies", "devDependencies"])
    }
  })

  it.live("one suite fails, and the report says which and why (done when 1)", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const root = yield* copy
        yield* talk(input([], "Run the tests in a, b and c, then write report.md"), toolsIn(root))
        const report = readFileSync(join(root, "report.md"), "utf8")
        assert.include(report, "2 of 3 suites passed. Failed: b.")
        assert.strictEqual(row(report, "a"), "| a | passed | 3 | 3 | 0 | 0 | 0 |")
        assert.strictEqual(row(report, "b"), "| b | failed | 4 | 3 | 1 | 0 | 1 |")
        assert.strictEqual(row(report, "c"), "| c | passed | 4 | 4 | 0 | 0 | 0 |")
        assert.include(report, "### split > loses no cent")
        assert.include(report, "the shares of 10.00 among 3 people must add up to 10.00")
        assert.include(report, "expected: 1000\nactual: 999")
        assert.strictEqual(report.match(/^### /gm)?.length, 1)
      })
    )
  )

  it.live("with the folders renamed, other suites broken and another sentence (done when 1)", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const root = yield* copy
        mkdirSync(join(root, "packages"))
        renameSync(join(root, "a"), join(root, "packages/roman"))
        renameSync(join(root, "b"), join(root, "my money"))
        renameSync(join(root, "c"), join(root, "it's csv"))
        const roman = join(root, "packages/roman/src/roman.js")
        writeFileSync(roman, readFileSync(roman, "utf8").replace('["IV", 4],', ""))
        const money = join(root, "my money/src/money.js")
        const fixed = "(_, index) => share + (index < cents % people ? 1 : 0)"
        writeFileSync(money, readFileSync(money, "utf8").replace("() => share", fixed))
        writeFileSync(join(root, "it's csv/src/csv.js"), "export const read = (\n")
        const words = `Please run the tests in packages/roman, 'my money', "it's csv" and "no such"; write the results to docs/r.md.`
        const { said } = yield* talk(input([], words), toolsIn(root))
        const report = readFileSync(join(root, "docs/r.md"), "utf8")
        assert.match(row(report, "packages/roman") ?? "", /\| failed \| 3 \| 1 \| 2 \| 0 \| 1 \|$/)
        assert.match(row(report, "my money") ?? "", /\| passed \| 4 \| 4 \| 0 \| 0 \| 0 \|$/)
        assert.match(row(report, "it's csv") ?? "", /\| failed \| 1 \| 0 \| 1 \| 0 \| 1 \|$/)
        assert.match(row(report, "no such") ?? "", /\| could not be run \| not known \| .* \| [12] \|$/)
        assert.include(report, "SyntaxError: Unexpected end of input")
        assert.include(report, "The folder cannot be entered")
        assert.include(said, "Suite packages/roman: failed. 2 of 3 tests failed.")
      })
    )
  )
})
