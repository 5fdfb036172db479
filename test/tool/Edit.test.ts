import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as fc from "effect/FastCheck"
import type { ToolOutcome } from "../../src/domain/Event.ts"
import { SessionId } from "../../src/domain/Ids.ts"
import * as Edit from "../../src/tool/Edit.ts"
import * as Pipeline from "../../src/tool/Pipeline.ts"
import * as Seen from "../../src/tool/Seen.ts"
import { ToolCall } from "../../src/tool/ToolCall.ts"
import { block, interruptedAt, inWorkspace, newCall, run, textOf, unasked } from "./support.ts"

const read = (path: string, more: object = {}) => run("read", JSON.stringify({ path, ...more }))
const write = (path: string, content: string) => run("write", JSON.stringify({ path, content }))
const edit = (path: string, oldText: string, newText: string) => run("edit", JSON.stringify({ path, oldText, newText }))

const refused = (outcome: ToolOutcome, path: string, why: RegExp) => {
  assert.strictEqual(outcome.error?.name, "FileFailed", textOf(outcome))
  assert.match(textOf(outcome), why)
  assert.isTrue(textOf(outcome).startsWith(`Error: ${path} was not edited: `), textOf(outcome))
}

const bytesOf = (text: string) => new TextEncoder().encode(text)

describe("edit", () => {
  it.live("replaces the one occurrence, whatever characters are in it, and says where", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* fs.writeFileString(`${root}/a`, "one\ntwo $& 😀\nthree")
        yield* read("a")
        assert.strictEqual(textOf(yield* edit("a", "two $& 😀", "$1$$ 😎\nmore")), "Edited a at line 2.")
        assert.strictEqual(yield* fs.readFileString(`${root}/a`), "one\n$1$$ 😎\nmore\nthree")
        // what was edited was seen
        assert.strictEqual(textOf(yield* edit("a", "\nmore", "")), "Edited a at line 2.")
        assert.strictEqual(yield* fs.readFileString(`${root}/a`), "one\n$1$$ 😎\nthree")
      })
    )
  )

  it.live("keeps the mode, a byte order mark and the line ends, and leaves nothing beside the file", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* fs.writeFileString(`${root}/crlf`, "\ufeffone\r\ntwo\r\nthree\r\n")
        yield* fs.chmod(`${root}/crlf`, 0o751)
        yield* read("crlf")
        yield* edit("crlf", "one\ntwo", "1\n2\r\n2b")
        assert.deepStrictEqual(
          Uint8Array.from(yield* fs.readFile(`${root}/crlf`)),
          bytesOf("\ufeff1\r\n2\r\n2b\r\nthree\r\n")
        )
        assert.strictEqual((yield* fs.stat(`${root}/crlf`)).mode & 0o7777, 0o751)
        // where line ends are mixed nothing is guessed
        yield* write("mixed", "one\r\ntwo\nthree")
        refused(yield* edit("mixed", "one\ntwo", "x"), "mixed", /oldText is not in it/)
        yield* edit("mixed", "two\nthree", "2\n3")
        assert.strictEqual(yield* fs.readFileString(`${root}/mixed`), "one\r\n2\n3")
        assert.deepStrictEqual((yield* fs.readDirectory(root)).sort(), ["crlf", "mixed"])
      })
    )
  )

  it.live("refuses what is not there, is there more than once, is empty or changes nothing; the file stays", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const content = "a\nb\na\na a\n"
        yield* write("f", content)
        refused(yield* edit("f", "c", "d"), "f", /oldText is not in it; read it again/)
        refused(yield* edit("f", "a", "d"), "f", /oldText is in it 4 times, in lines 1, 3, 4; give more/)
        refused(yield* edit("f", "a a", "a a"), "f", /nothing to change/)
        refused(yield* edit("f", "", "d"), "f", /oldText is empty/)
        // two places that overlap are two
        yield* write("g", "aaa")
        refused(yield* edit("g", "aa", "b"), "g", /2 times, in line 1;/)
        yield* write("many", "x\n".repeat(5000))
        refused(
          yield* edit("many", "x", "y"),
          "many",
          /at least 1000 times, in lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and others/
        )
        assert.strictEqual(yield* fs.readFileString(`${root}/f`), content)
      })
    )
  )

  it.live("refuses a file that this session has not seen, or that has changed since, and goes on once it is read", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* fs.writeFileString(`${root}/f`, "one")
        yield* fs.symlink("f", `${root}/link`)
        refused(yield* edit("f", "one", "1"), "f", /has not read it since the program was started; read it first/)
        yield* read("link", { offset: 100 })
        // the same size, and the same time
        const { mtime } = yield* fs.stat(`${root}/f`)
        yield* fs.writeFileString(`${root}/f`, "two")
        const time = mtime._tag === "Some" ? mtime.value : 0
        yield* fs.utimes(`${root}/f`, time, time)
        refused(yield* edit("f", "two", "2"), "f", /has changed since this session last saw it; read it again/)
        yield* read("f")
        assert.isFalse((yield* edit("link", "two", "2")).isError)
        assert.strictEqual(yield* fs.readFileString(`${root}/f`), "2")

        const pipeline = yield* Pipeline.Pipeline
        const { call, notes } = yield* newCall("edit", { sessionId: SessionId.make("other") })
        const other = pipeline.run(block("edit", '{"path":"f","oldText":"2","newText":"3"}'), notes, unasked)
        refused(yield* Effect.provideService(other, ToolCall, call), "f", /read it first/)
        assert.strictEqual(yield* fs.readFileString(`${root}/f`), "2")
      })
    )
  )

  it.live("refuses what is no text, too large, no file, missing or outside", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const latin = Uint8Array.of(0x61, 0xe9, 0x62)
        yield* fs.writeFile(`${root}/latin`, latin)
        yield* read("latin")
        refused(yield* edit("latin", "a", "x"), "latin", /not well-formed UTF-8/)
        assert.deepStrictEqual(Uint8Array.from(yield* fs.readFile(`${root}/latin`)), latin)
        yield* fs.writeFileString(`${root}/large`, `a${"x".repeat(4 * 1024 * 1024)}`)
        yield* read("large")
        refused(yield* edit("large", "a", "b"), "large", /larger than the 4194304 bytes/)
        yield* fs.writeFileString(`${root}/largest`, `a${"x".repeat(4 * 1024 * 1024 - 1)}`)
        yield* read("largest")
        assert.isFalse((yield* edit("largest", "a", "b")).isError)
        yield* fs.makeDirectory(`${root}/folder`)
        refused(yield* edit("folder", "a", "b"), "folder", /it is a folder/)
        refused(yield* edit("none", "a", "b"), "none", /no such file; the tool write creates one/)
        assert.strictEqual((yield* edit("../x", "a", "b")).error?.name, "OutsideWorkspace")
      })
    )
  )

  it.live("R4 O-K5: an edit that is cancelled finishes and says so, or has changed nothing", () =>
    inWorkspace((root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* write("f", "0")
        const seen = { changed: 0, unchanged: 0 }
        for (let point = 1; ; point += 7) {
          const before = yield* fs.readFileString(`${root}/f`)
          const args = JSON.stringify({ path: "f", oldText: before, newText: `${point}` })
          const { exit, fired } = yield* interruptedAt(point, "edit", args)
          seen[Exit.isSuccess(exit) ? "changed" : "unchanged"]++
          assert.strictEqual(yield* fs.readFileString(`${root}/f`), Exit.isSuccess(exit) ? `${point}` : before)
          assert.deepStrictEqual(yield* fs.readDirectory(root), ["f"])
          if (!fired) break
        }
        // not counting the one that was left alone
        assert.isAbove(seen.changed, 1)
        assert.isAbove(seen.unchanged, 0)
      })
    )
  )

  it.prop(
    "changes nothing but the occurrence, whatever is around it",
    { before: fc.fullUnicodeString(), after: fc.fullUnicodeString(), text: fc.fullUnicodeString() },
    ({ after, before, text }) => {
      const [head, tail] = [before, after].map((part) => part.replaceAll(/[\n<>]/g, ""))
      const edited = Edit.apply(bytesOf(`${head}<old>${tail}`), { oldText: "<old>", newText: text })
      assert.deepStrictEqual(
        Either.map(edited, ({ bytes }) => bytes),
        Either.right(bytesOf(`${head}${text}${tail}`))
      )
    }
  )

  it("what was seen is forgotten beyond a limit, the longest unused first", () => {
    const session = SessionId.make("s")
    const seen = Seen.make(2)
    seen.remember({ session, path: "a", digest: "1" })
    seen.remember({ session, path: "b", digest: "2" })
    assert.strictEqual(seen.recall(session, "a"), "1")
    seen.remember({ session, path: "c", digest: "3" })
    assert.deepStrictEqual(
      ["a", "b", "c"].map((path) => seen.recall(session, path)),
      ["1", undefined, "3"]
    )
    assert.strictEqual(seen.recall(SessionId.make("t"), "a"), undefined)
  })
})
