import { SystemError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Settings from "../../src/settings/Settings.ts"
import * as BuiltIn from "../../src/tool/BuiltIn.ts"
import * as Matches from "../../src/tool/Matches.ts"
import * as Pattern from "../../src/tool/Pattern.ts"
import * as Workspace from "../../src/tool/Workspace.ts"
import { inWorkspace, pipeline, run, start, textOf } from "./support.ts"

const search = (pattern: string, path?: string) =>
  Effect.map(run("search", JSON.stringify({ pattern, ...(path === undefined ? {} : { path }) })), textOf)

const put = Effect.fnUntraced(function* (root: string, files: Readonly<Record<string, string | Uint8Array>>) {
  const fs = yield* FileSystem.FileSystem
  for (const [path, content] of Object.entries(files)) {
    const target = `${root}/${path}`
    yield* fs.makeDirectory(target.slice(0, target.lastIndexOf("/")), { recursive: true })
    yield* fs.writeFile(target, typeof content === "string" ? new TextEncoder().encode(content) : content)
  }
})

const pattern = (source: string) => Either.getOrThrow(Pattern.parse(source))

describe("search", () => {
  it.live("shows matching lines in the order of paths and lines; in a folder, below it, or in one file", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        yield* put(root, {
          "b.ts": "\ufefffoo\r\nbar\r\nfoo bar\r\n",
          "b/x.ts": "no\n\nfoo",
          "b-c": "foo\n",
          "a/deep/é": "fóo\nfoo 😀\n",
          "two\nlines": "foo"
        })
        assert.deepStrictEqual((yield* search("foo")).split("\n"), [
          "a/deep/é:2: foo 😀",
          "b-c:1: foo",
          "b.ts:1: foo",
          "b.ts:3: foo bar",
          "b/x.ts:3: foo",
          '"two\\nlines":1: foo'
        ])
        assert.strictEqual(yield* search("^fo+$", "b.ts"), "b.ts:1: foo")
        assert.strictEqual(yield* search("foo", "b"), "b/x.ts:3: foo")
        assert.strictEqual(yield* search("^f.o$"), yield* search("^f[oó]o$"))
        assert.strictEqual(yield* search("nowhere"), "[nothing matches]")
        // unicode rules, and without them what only makes sense so
        assert.strictEqual(yield* search("^foo .$", "a"), "a/deep/é:2: foo 😀")
        assert.strictEqual(yield* search("\\p{Script=Latin}ó"), "a/deep/é:1: fóo")
        assert.strictEqual(yield* search("fo\\o b"), "b.ts:3: foo bar")
      })
    )
  )

  it.live("skips binary files, .git, node_modules, what is reserved, and links, cycles and ways out among them", () =>
    inWorkspace(
      (root) =>
        Effect.gen(function* () {
          const fs = yield* FileSystem.FileSystem
          const outside = yield* fs.makeTempDirectoryScoped()
          yield* put(outside, { secret: "foo" })
          yield* put(root, {
            "a/f": "foo",
            "a/.git/f": "foo",
            "node_modules/m/f": "foo",
            "own.db": "foo",
            binary: Uint8Array.of(0x66, 0x6f, 0x6f, 0)
          })
          yield* fs.symlink("..", `${root}/a/up`)
          yield* fs.symlink("f", `${root}/a/link`)
          yield* fs.symlink(outside, `${root}/out`)
          yield* fs.symlink(`${outside}/secret`, `${root}/secret`)
          yield* run("bash", '{"command":"mkfifo pipe"}')
          assert.deepStrictEqual((yield* search("foo")).split("\n"), [
            "a/f:1: foo",
            "[binary files that were not searched: 1]"
          ])
          // what is named is meant
          assert.strictEqual(yield* search("foo", "node_modules"), "node_modules/m/f:1: foo")
          assert.strictEqual(yield* search("foo", "a/link"), "a/f:1: foo")
          assert.match(yield* search("foo", "out"), /is outside the workspace/)
          assert.match(yield* search("foo", "own.db"), /keeps for itself/)
        }).pipe(Effect.scoped),
      { reserved: ["own.db"] }
    )
  )

  it.live("a bad pattern, a missing path and a pipe are clear errors", () =>
    inWorkspace(() =>
      Effect.gen(function* () {
        assert.match(
          yield* search("(", "."),
          /^Error: \. was not searched: the pattern is not valid: Invalid regular expression: .*Unterminated group\.$/
        )
        assert.strictEqual(yield* search("a", "none"), "Error: none was not searched: there is no such file or folder.")
        yield* run("bash", '{"command":"mkfifo pipe"}')
        assert.strictEqual(yield* search("a", "pipe"), "Error: pipe was not searched: it is no regular file.")
        assert.strictEqual((yield* run("search", '{"pattern":""}')).error?.code, "INVALID_ARGS")
      })
    )
  )

  it.live("a pattern that would take for ever is given up", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        yield* put(root, { f: `${"a".repeat(5000)}!\n` })
        assert.match(yield* search("^(a+)+$"), /^Error: \. was not searched: the pattern took more than 500 ms/)
        assert.match(yield* search("^a+!$"), /^f:1: a+…$/)
      })
    )
  )

  it.live("W27, O-O1: lines are cut between characters, around the match", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        for (const offset of [0, 1, 2, 3]) {
          yield* put(root, { f: `${"😀".repeat(400)}${"x".repeat(offset)}here${"😀".repeat(400)}` })
          const shown = yield* search("here")
          assert.match(shown, /^f:1: …(😀)+x*here(😀)+…$/u)
          assert.isBelow(shown.length, 320)
        }
      })
    )
  )

  it.live("is bounded in matches, and says that there are more", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        yield* put(root, { a: "x\n".repeat(200), b: "y\n" })
        assert.strictEqual((yield* search("x")).split("\n").length, 200)
        const lines = (yield* search(".")).split("\n")
        assert.deepStrictEqual(lines.slice(199), [
          "a:200: x",
          "[only the first 200 matches are shown; there are more; narrow the pattern or the path]"
        ])
      })
    )
  )

  it("is bounded in files and bytes, and in the length of a line, however the bytes come", () => {
    const bytes = new TextEncoder().encode(`${"a".repeat(70_000)}b\nb\n`)
    for (const size of [1000, 65_536, bytes.length]) {
      const matches = Matches.make(pattern("b"))
      const take = matches.begin("f")
      for (let at = 0; at < bytes.length; at += size)
        assert.deepStrictEqual(take?.(bytes.subarray(at, at + size)), Either.right(true))
      assert.deepStrictEqual(take?.(undefined), Either.right(false))
      assert.strictEqual(
        matches.text(),
        "f:2: b\n[of lines longer than 65536 characters only the beginning was searched]"
      )
    }

    const many = Matches.make(pattern("b"))
    for (let file = 0; file < 20_000; file++) assert.isDefined(many.begin(`f${file}`))
    assert.isUndefined(many.begin("last"))
    assert.match(many.text(), /^\[the search stopped after 20000 files, before last; narrow/)

    const long = Matches.make(pattern("b"))
    const take = long.begin("f")
    const mebibyte = new Uint8Array(1024 * 1024).fill(0x78).fill(10, -1)
    for (let i = 1; i < 256; i++) assert.deepStrictEqual(take?.(mebibyte), Either.right(true))
    assert.deepStrictEqual(take?.(mebibyte), Either.right(false))
    assert.match(long.text(), /^\[the search stopped after 268435456 bytes, in f;/)
    assert.isUndefined(long.begin("g"))
  })

  it("is bounded in the time that all blocks take together, and keeps what it found until then", () => {
    let spent = 0
    const slow: Pattern.Pattern = {
      places: (lines) => {
        spent += 490
        return Either.right(lines.map(() => 0))
      },
      spentMillis: () => spent
    }
    const matches = Matches.make(slow)
    const take = matches.begin("f")
    const block = new TextEncoder().encode("a\n")
    let blocks = 1
    while (Either.getOrThrow(take?.(block) ?? Either.right(false))) blocks++
    assert.strictEqual(blocks, Math.ceil(30_000 / 490))
    assert.isTrue(matches.isStopped())
    assert.match(matches.text(), /^f:1: a\n(f:\d+: a\n)+\[the search stopped after 30s of matching, in f; narrow/)
    // a real one counts the time that it takes
    const real = pattern("^(a+)+$")
    assert.strictEqual(real.spentMillis(), 0)
    real.places([`${"a".repeat(20)}!`])
    assert.isAbove(real.spentMillis(), 0)
  })

  it.scopedLive("a folder with 130,000 entries is searched; folders and what is in them are bounded", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const root = yield* Effect.flatMap(fs.makeTempDirectoryScoped(), fs.realPath)
      const folder = yield* fs.stat(root)
      const missing = new SystemError({ reason: "NotFound", module: "FileSystem", method: "readLink" })
      const wide = (entries: number): FileSystem.FileSystem => ({
        ...fs,
        readDirectory: (path) => Effect.succeed(path === root ? Array.from({ length: entries }, (_, i) => `${i}`) : []),
        readLink: () => missing,
        stat: () => Effect.succeed(folder)
      })
      const searching = (entries: number) =>
        Effect.provide(
          search("a"),
          pipeline(BuiltIn.layer).pipe(
            Layer.provide(Workspace.layer(root)),
            Layer.provide(Layer.succeed(FileSystem.FileSystem, wide(entries))),
            Layer.provide([NodePath.layer, Settings.layer])
          )
        )
      assert.strictEqual(yield* searching(130_000), "[nothing matches]")
      assert.strictEqual(
        yield* searching(200_001),
        "[the search stopped after 200000 entries of folders, before .; narrow the pattern or the path]"
      )
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.live("a cancel is heard between blocks", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        yield* put(root, { f: "x\n".repeat(4_000_000) })
        const { fiber, notes } = yield* start("search", '{"pattern":"y"}')
        while (!(yield* notes.started)) yield* Effect.yieldNow()
        assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(fiber)))
      })
    )
  )
})
