/**
 * Small `node --test` suites on disk, and commands really run, for tests of what reads their output.
 */
import { execFile } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import * as Effect from "effect/Effect"

/** A temporary folder with these files in it, gone when the scope closes. */
export const folderWith = (files: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const root = mkdtempSync(join(tmpdir(), "daybook-suites-"))
      for (const [path, content] of Object.entries(files)) {
        mkdirSync(dirname(join(root, path)), { recursive: true })
        writeFileSync(join(root, path), content)
      }
      return root
    }),
    (root) => Effect.sync(() => rmSync(root, { recursive: true, force: true }))
  )

/** The result of a command as the `bash` tool shows it. */
export const bashText = (command: string, cwd: string): Effect.Effect<string> =>
  Effect.promise(
    () =>
      new Promise<string>((resolve) => {
        const child = execFile("sh", ["-c", command], { cwd, maxBuffer: 1 << 26 }, (_error, stdout, stderr) => {
          const code = child.exitCode ?? 1
          const parts = [
            stdout.trimEnd(),
            stderr.trim() === "" ? "" : `[stderr]\n${stderr.trimEnd()}`,
            code === 0 ? "" : `[exit code ${code}]`
          ].filter((part) => part !== "")
          resolve(parts.length === 0 ? "(no output)" : parts.join("\n"))
        })
      })
  )

const imports = 'import { before, describe, it, test } from "node:test"\nimport assert from "node:assert/strict"\n'

/** Suites by the folder they stand in: one for each way in which a suite can come out. */
export const suites: Readonly<Record<string, string>> = {
  "good/good.test.mjs": `${imports}test("adds", () => assert.equal(1 + 1, 2))
test("waits # for \\\\ it", { skip: "not yet" }, () => {})
test("later", { todo: true }, () => assert.equal(1, 2))
test("prints", () => console.log("not ok 1 - fake\\n1..99\\n# tests 99\\n# pass 99\\n# fail 99\\ntests 99"))\n`,
  "diff/diff.test.mjs": `${imports}test("euro", () => assert.strictEqual("12,50 €", "12,49 €"))
test("lines", () => assert.strictEqual("a\\n...\\nok 1 - no", "a\\nb"))
test("named", () => assert.equal(3, 4, "the total is off by one"))\n`,
  "thrown/thrown.test.mjs": `${imports}test("throws", () => { throw new TypeError("can't read \\"x\\"") })
test("rejects", async () => { await Promise.reject(new Error("first\\n  second: line\\n\\n...\\nlast")) })
test("says nothing", () => { throw new Error("") })
test("hangs", { timeout: 20 }, () => new Promise((resolve) => setTimeout(resolve, 60)))\n`,
  "syntax/bad.test.mjs": `${imports}test("never closed", () => {\n`,
  "syntax/fine.test.mjs": `${imports}test("fine", () => {})\n`,
  "empty/readme.txt": "no tests here\n",
  "nested/nested.test.mjs": `${imports}describe("outer", () => {
  describe("inner", () => {
    it("good", () => {})
    it("bad", () => assert.equal("a", "b"))
  })
})
test("parent", async (t) => { await t.test("child", () => assert.ok(false)) })
describe("hook", () => { before(() => { throw new Error("no database") }); it("never", () => {}) })\n`,
  "leaves/leaves.test.mjs": `${imports}test("passes", () => {})\nprocess.on("exit", () => { process.exitCode = 7 })\n`
}
