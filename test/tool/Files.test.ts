import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type { ToolOutcome } from "../../src/domain/Event.ts"
import * as AtomicFile from "../../src/internal/AtomicFile.ts"
import * as WorkspaceModule from "../../src/tool/Workspace.ts"
import { Workspace } from "../../src/tool/Workspace.ts"
import { interruptedAt, inWorkspace, node, run, textOf } from "./support.ts"

const read = (path: string, more: object = {}) => run("read", JSON.stringify({ path, ...more }))
const write = (path: string, content: string) => run("write", JSON.stringify({ path, content }))
const edit = (path: string, oldText: string, newText: string) => run("edit", JSON.stringify({ path, oldText, newText }))

const refused = (outcome: ToolOutcome, name: string) => {
  assert.isTrue(outcome.isError, textOf(outcome))
  assert.strictEqual(outcome.error?.name, name)
}

describe("Workspace", () => {
  it.live("a path is judged by where it leads, links, dangling links and linked parents of new files included", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const workspace = yield* Workspace
        const outside = yield* fs.makeTempDirectoryScoped()
        yield* fs.makeDirectory(`${root}/in/deep`, { recursive: true })
        yield* fs.writeFileString(`${outside}/secret`, "secret")
        yield* fs.symlink(outside, `${root}/out`)
        yield* fs.symlink(`${outside}/new`, `${root}/dangling`)
        yield* fs.symlink("in/deep", `${root}/deep`)
        yield* fs.symlink("../new", `${root}/in/up`)
        yield* fs.symlink("../../gone", `${root}/in/away`)
        yield* fs.symlink("loop", `${root}/loop`)
        const leads = (path: string) => workspace.resolve(path, "read")
        assert.strictEqual(yield* leads("."), root)
        assert.strictEqual(yield* leads("a/b/../c"), `${root}/a/c`)
        assert.strictEqual(yield* leads(`${root}/a`), `${root}/a`)
        assert.strictEqual(yield* leads("deep/x/y"), `${root}/in/deep/x/y`)
        assert.strictEqual(yield* leads("in/up"), `${root}/new`)
        for (const path of [
          "..",
          "../x",
          "/etc/passwd",
          "out",
          "out/secret",
          "out/new/x",
          "dangling",
          "in/away",
          `${root}x`
        ])
          assert.strictEqual((yield* Effect.flip(leads(path)))._tag, "OutsideWorkspace", path)
        for (const path of ["loop", "loop/x", "a\0b"])
          assert.strictEqual((yield* Effect.flip(leads(path)))._tag, "UnresolvedPath", path)
      }).pipe(Effect.scoped)
    )
  )

  it.live("law 7: the journal's own files are nobody's to read or write, by whatever path", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const root = yield* Effect.flatMap(fs.makeTempDirectoryScoped(), fs.realPath)
      yield* fs.makeDirectory(`${root}/.daybook`)
      yield* fs.symlink(".daybook", `${root}/alias`)
      const leads = (path: string, access: WorkspaceModule.Access = "read") =>
        Effect.provide(
          Effect.flatMap(Workspace, (workspace) => workspace.resolve(path, access)),
          WorkspaceModule.layer(root, {
            reserved: [`${root}/a.db`, ".daybook", ".daybook/outputs/own.db"],
            readable: [".daybook/outputs"]
          })
        )
      for (const path of ["a.db", "a.db-wal", ".daybook", ".daybook/daybook.db", "alias/daybook.db", "x/../a.db"])
        assert.strictEqual((yield* Effect.flip(leads(path)))._tag, "ReservedPath", path)
      // what is let through is so as a whole, but for what is reserved in it
      for (const path of [".daybook/outputsx", ".daybook/outputs/own.db", ".daybook/outputs/own.db-wal"])
        assert.strictEqual((yield* Effect.flip(leads(path)))._tag, "ReservedPath", path)
      assert.strictEqual(yield* leads("alias/outputs/a/b"), `${root}/.daybook/outputs/a/b`)
      assert.strictEqual(yield* leads("a.dbx"), `${root}/a.dbx`)
      // what was kept for reading stays as it is
      const refused = yield* Effect.flip(leads("alias/outputs/a/b", "write"))
      assert.strictEqual(refused._tag, "ReservedPath")
      assert.include(refused.message, "no tool may write it")
      assert.strictEqual(yield* leads("a.dbx", "write"), `${root}/a.dbx`)
    }).pipe(Effect.scoped, Effect.provide(node))
  )

  it.live("law 7: what is reserved stays so where it cannot be told where it leads", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const root = yield* Effect.flatMap(fs.makeTempDirectoryScoped(), fs.realPath)
      yield* fs.symlink("loop", `${root}/loop`)
      const workspace = yield* Effect.provide(Workspace, WorkspaceModule.layer(root, { reserved: ["loop"] }))
      const isReserved = yield* workspace.reserved
      assert.isTrue(isReserved(`${root}/loop`) && isReserved(`${root}/loop/x`))
      assert.isFalse(isReserved(`${root}/other`))
    }).pipe(Effect.scoped, Effect.provide(node))
  )

  it.live("a linked root is resolved; a root that is no folder is refused", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* Effect.flatMap(fs.makeTempDirectoryScoped(), fs.realPath)
      yield* fs.makeDirectory(`${folder}/real`)
      yield* fs.symlink("real", `${folder}/link`)
      yield* fs.writeFileString(`${folder}/file`, "")
      const root = (path: string) =>
        Effect.provide(
          Effect.map(Workspace, ({ root }) => root),
          WorkspaceModule.layer(path)
        )
      assert.strictEqual(yield* root(`${folder}/link`), `${folder}/real`)
      for (const path of [`${folder}/none`, `${folder}/file`])
        assert.strictEqual((yield* Effect.flip(root(path)))._tag, "WorkspaceNotFound")
    }).pipe(Effect.scoped, Effect.provide(node))
  )
})

describe("read", () => {
  it.live("shows a file as it is, or some of its lines, and says what is left out", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* fs.writeFileString(`${root}/a`, "one\ntwo\r\nthree")
        const shown = (more?: object) => Effect.map(read("a", more), textOf)
        assert.strictEqual(yield* shown(), "one\ntwo\r\nthree")
        assert.strictEqual(
          yield* shown({ limit: 2 }),
          "one\ntwo\r\n[lines 1 to 2; there are more, go on with offset 3]"
        )
        assert.strictEqual(yield* shown({ offset: 3 }), "three")
        assert.strictEqual(yield* shown({ offset: 2, limit: 2 }), "two\r\nthree")
        assert.strictEqual(yield* shown({ offset: 4 }), "[the file ends before line 4]")
        yield* fs.writeFileString(`${root}/empty`, "")
        assert.strictEqual(textOf(yield* read("empty")), "[the file is empty]")
        const thousands = Array.from({ length: 3000 }, (_, i) => `${i + 1}\n`)
        yield* fs.writeFileString(`${root}/b`, thousands.join(""))
        assert.strictEqual(
          textOf(yield* read("b")),
          `${thousands.slice(0, 2000).join("")}[lines 1 to 2000; there are more, go on with offset 2001]`
        )
        assert.strictEqual(textOf(yield* read("b", { offset: 2001 })), thousands.slice(2000).join(""))
      })
    )
  )

  it.live("reads in pieces: a window that ends where a piece ends knows that there is more", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        // pieces are of 64 KiB, so the 1024th of these lines ends the first one
        yield* fs.writeFileString(`${root}/pieces`, `${"x".repeat(63)}\n`.repeat(1025))
        const shown = (offset: number, limit: number) => Effect.map(read("pieces", { offset, limit }), textOf)
        assert.match(
          yield* shown(1000, 25),
          /^(x+\n){25}\[lines 1000 to 1024; there are more, go on with offset 1025\]$/
        )
        assert.match(yield* shown(1000, 26), /^(x+\n){26}$/)
        assert.match(yield* shown(1025, 1), /^x+\n$/)
      })
    )
  )

  it.live("W27, O-O1: bytes are bounded: whole lines, or whole characters of a line that is too long", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* fs.writeFileString(`${root}/lines`, `${"x".repeat(999)}\n`.repeat(100))
        const lines = textOf(yield* read("lines"))
        assert.strictEqual(lines.match(/x\n/g)?.length, 64)
        assert.match(lines, /\[lines 1 to 64; there are more, go on with offset 65\]$/)
        yield* fs.writeFileString(`${root}/long`, `first\na${"😀".repeat(20_000)}\nlast`)
        const long = textOf(yield* read("long", { offset: 2 }))
        assert.match(long, /^a(😀)+\n\[line 2 goes on: only its first 64000 bytes are shown\]$/u)
        assert.strictEqual(textOf(yield* read("long", { offset: 3 })), "last")
      })
    )
  )

  it.live("a folder, a missing file, a pipe, a binary file and a path outside are clear errors", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* fs.makeDirectory(`${root}/folder`)
        yield* fs.writeFile(`${root}/binary`, Uint8Array.of(1, 2, 0, 3))
        yield* run("bash", '{"command":"mkfifo pipe"}')
        for (const [path, why] of [
          ["folder", "it is a folder"],
          ["none", "there is no such file"],
          ["none/x", "there is no such file"],
          ["pipe", "it is no regular file"],
          ["binary", "it is not a text file"]
        ] as const) {
          const outcome = yield* read(path)
          refused(outcome, "FileFailed")
          assert.strictEqual(textOf(outcome), `Error: ${path} was not read: ${why}.`)
        }
        const outside = yield* read("../x")
        refused(outside, "OutsideWorkspace")
        assert.include(textOf(outside), "outside the workspace")
      })
    )
  )

  it.live("O-O4: what is no UTF-8 is replaced", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* fs.writeFile(`${root}/latin`, Uint8Array.of(0x63, 0x61, 0x66, 0xe9))
        assert.strictEqual(textOf(yield* read("latin")), "caf\ufffd")
      })
    )
  )
})

describe("write", () => {
  it.live("creates folders, replaces a file whole, keeps its mode, and leaves nothing beside it", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        assert.strictEqual(textOf(yield* write("a/b/c", "grüße\n")), "Wrote 8 bytes to a/b/c, a new file.")
        assert.strictEqual(yield* fs.readFileString(`${root}/a/b/c`), "grüße\n")
        yield* fs.chmod(`${root}/a/b/c`, 0o666)
        assert.strictEqual(textOf(yield* write("a/b/c", "x")), "Wrote 1 bytes to a/b/c.")
        assert.strictEqual(yield* fs.readFileString(`${root}/a/b/c`), "x")
        assert.strictEqual((yield* fs.stat(`${root}/a/b/c`)).mode & 0o7777, 0o666)
        assert.deepStrictEqual(yield* fs.readDirectory(`${root}/a/b`), ["c"])
      })
    )
  )

  it.live("a file that is protected against writing stays as it is, for write and for edit", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* write("kept", "as it was")
        yield* fs.chmod(`${root}/kept`, 0o444)
        for (const result of [yield* write("kept", "x"), yield* edit("kept", "was", "is")]) {
          assert.isTrue(result.isError)
          assert.include(textOf(result), "it is protected against writing")
        }
        assert.strictEqual(yield* fs.readFileString(`${root}/kept`), "as it was")
      })
    )
  )

  it.scopedLive("a file is synced before it takes its name, and its folder after; empty ones too", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const root = yield* fs.makeTempDirectoryScoped()
      const calls: Array<string> = []
      const note = <A, E>(what: string, call: Effect.Effect<A, E>) =>
        Effect.tap(call, () => Effect.sync(() => void calls.push(what)))
      const noted = (name: string) => (file: FileSystem.File) =>
        new Proxy(file, {
          get: (_, key) => {
            if (key === "sync") return note(`sync ${name}`, file.sync)
            if (key === "writeAll") return (bytes: Uint8Array) => note(`write ${name}`, file.writeAll(bytes))
            return Reflect.get(file, key, file)
          }
        })
      const noting: FileSystem.FileSystem = {
        ...fs,
        open: (path, options) => Effect.map(fs.open(path, options), noted(path === root ? "folder" : "file")),
        rename: (from, to) => note("rename", fs.rename(from, to))
      }
      const replace = (bytes: Uint8Array) =>
        Effect.flatMap(Path.Path, (paths) =>
          AtomicFile.replace({ fs: noting, paths }, `${root}/f`, bytes, Option.none())
        )
      yield* replace(Uint8Array.of(65))
      assert.deepStrictEqual(calls.splice(0), ["write file", "sync file", "rename", "sync folder"])
      assert.strictEqual(yield* fs.readFileString(`${root}/f`), "A")
      yield* replace(new Uint8Array())
      assert.deepStrictEqual(calls, ["sync file", "rename", "sync folder"])
      assert.strictEqual(yield* fs.readFileString(`${root}/f`), "")
    }).pipe(Effect.provide(node))
  )

  it.live("writes through a link that stays inside", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* fs.symlink("target", `${root}/link`)
        yield* write("link", "x")
        assert.strictEqual(yield* fs.readLink(`${root}/link`), "target")
        assert.strictEqual(yield* fs.readFileString(`${root}/target`), "x")
      })
    )
  )

  it.live("a folder, a file as a folder and a path outside are refused, and nothing changes", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* fs.makeDirectory(`${root}/folder`)
        yield* write("file", "x")
        refused(yield* write("folder", "y"), "FileFailed")
        assert.isTrue((yield* write("file/x", "y")).isError)
        refused(yield* write("../escaped", "y"), "OutsideWorkspace")
        assert.isFalse(yield* fs.exists(`${root}/../escaped`))
        assert.strictEqual(yield* fs.readFileString(`${root}/file`), "x")
        assert.deepStrictEqual((yield* fs.readDirectory(root)).sort(), ["file", "folder"])
      })
    )
  )

  it.live("R4 O-K5: a write that is cancelled finishes and says what it did, or has changed nothing", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const seen = { written: 0, nothing: 0 }
        for (let point = 1; ; point += 7) {
          const args = JSON.stringify({ path: "f", content: `${point}` })
          const { exit, fired } = yield* interruptedAt(point, "write", args)
          const files = yield* fs.readDirectory(root)
          seen[Exit.isSuccess(exit) ? "written" : "nothing"]++
          assert.deepStrictEqual(files, Exit.isSuccess(exit) ? ["f"] : [])
          if (Exit.isSuccess(exit)) assert.strictEqual(yield* fs.readFileString(`${root}/f`), `${point}`)
          yield* fs.remove(`${root}/f`, { force: true })
          if (!fired) break
        }
        // not counting the one that was left alone
        assert.isAbove(seen.written, 1)
        assert.isAbove(seen.nothing, 0)
      })
    )
  )
})
