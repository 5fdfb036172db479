import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { inWorkspace, run, textOf } from "./support.ts"

const list = (args: object = {}) => Effect.map(run("list", JSON.stringify(args)), textOf)

describe("list", () => {
  it.live("sorts by code unit, marks folders and links, and keeps each entry on a line of its own", () =>
    inWorkspace(
      (root) =>
        Effect.gen(function* () {
          const fs = yield* FileSystem.FileSystem
          for (const folder of ["b", ".daybook", "B", "a/deep"])
            yield* fs.makeDirectory(`${root}/${folder}`, { recursive: true })
          for (const file of ["a.ts", "é", "z", "two\nlines", "own.db", "own.db-wal"])
            yield* fs.writeFileString(`${root}/${file}`, "")
          yield* fs.symlink("b", `${root}/to-folder`)
          yield* fs.symlink("/etc/passwd", `${root}/away`)
          yield* fs.symlink("nothing", `${root}/dangling`)
          const all = [
            "B/",
            "a/",
            "a.ts",
            "away -> /etc/passwd",
            "b/",
            "dangling -> nothing",
            "to-folder/ -> b",
            '"two\\nlines"',
            "z",
            "é"
          ]
          assert.deepStrictEqual((yield* list()).split("\n"), all)
          assert.deepStrictEqual((yield* list({ path: "." })).split("\n"), all)
          assert.strictEqual(yield* list({ path: "a" }), "deep/")
          assert.strictEqual(yield* list({ path: "a/deep" }), "[the folder is empty]")
        }),
      { reserved: ["own.db", ".daybook"] }
    )
  )

  it.live("is bounded, and says how much is left out", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const names = Array.from({ length: 1003 }, (_, i) => `f${String(i).padStart(4, "0")}`)
        yield* run("bash", JSON.stringify({ command: `touch ${names.join(" ")}` }))
        const lines = (yield* list()).split("\n")
        assert.deepStrictEqual(lines, [...names.slice(0, 1000), "[3 more entries are left out]"])
        yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.remove(`${root}/f0000`))
      })
    )
  )

  it.live("a file, a missing folder, a reserved one and one outside are clear errors", () =>
    inWorkspace(
      (root) =>
        Effect.gen(function* () {
          const fs = yield* FileSystem.FileSystem
          yield* fs.writeFileString(`${root}/file`, "")
          yield* fs.makeDirectory(`${root}/kept`)
          yield* fs.symlink("..", `${root}/up`)
          assert.strictEqual(
            yield* list({ path: "file" }),
            "Error: file was not listed: it is no folder; the tool read shows files."
          )
          assert.strictEqual(yield* list({ path: "none" }), "Error: none was not listed: there is no such folder.")
          assert.match(yield* list({ path: "kept" }), /keeps for itself/)
          for (const path of ["..", "up", "/etc"]) assert.match(yield* list({ path }), /is outside the workspace/)
        }),
      { reserved: ["kept"] }
    )
  )
})
