import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as fc from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { text } from "../../src/domain/Message.ts"
import {
  type OutputStore,
  Outputs,
  OutputUnavailable,
  layer as outputsLayer,
  patience
} from "../../src/tool/Outputs.ts"
import * as Preview from "../../src/tool/Preview.ts"
import { After, type ToolHookPoints } from "../../src/tool/ToolHooks.ts"
import * as Workspace from "../../src/tool/Workspace.ts"
import * as Cli from "../support/Cli.ts"
import { hi, inWorkspace, node, pipeline, probing, run, start, textOf } from "./support.ts"

const probe = run("probe", hi)
const long = `begin ${"grüße 😀 ".repeat(20_000)}end`
const size = (text: string) => new TextEncoder().encode(text).length

/** A tool that says this, in a workspace that keeps what is longer than the cap. */
const saying = <A, E, R>(
  output: string,
  body: (root: string) => Effect.Effect<A, E, R>,
  options: { readonly inlineCap?: number; readonly hooks?: Partial<ToolHookPoints> } = {}
) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const root = yield* Effect.flatMap(fs.makeTempDirectoryScoped({ prefix: "daybook-ws-" }), fs.realPath)
    const store = Layer.provide(outputsLayer("outputs", options), Workspace.layer(root))
    const tools = pipeline(
      probing(() => Effect.succeed(output)),
      options
    )
    return yield* Effect.provide(body(root), Layer.provide(tools, store))
  }).pipe(Effect.scoped, Effect.provide(node))

/** The same with a store of the test's own. */
const storing = (output: string, store: OutputStore) =>
  Effect.provide(probe, Layer.provide(pipeline(probing(() => Effect.succeed(output))), Layer.succeed(Outputs, store)))

describe("outputs", () => {
  it.live("F20: a result above the cap is kept whole in a private file, and shown as head, notice and tail", () =>
    saying(long, (root) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const outcome = yield* probe
        assert.isFalse(outcome.isError)
        const shown = textOf(outcome)
        assert.isAtMost(size(shown), 32_000)
        const [, head, left, total, path, tail] =
          /^(begin .*)\n\[(\d+) of (\d+) bytes are left out here; the whole of it is in (\S+)\]\n(.* end)$/.exec(
            shown
          ) ?? []
        assert.isTrue(long.startsWith(head ?? "?") && long.endsWith(tail ?? "?"))
        assert.strictEqual(Number(total), size(long))
        assert.strictEqual(Number(left), size(long) - size(head ?? "") - size(tail ?? ""))
        assert.strictEqual(yield* fs.readFileString(`${root}/${path}`), long)
        assert.strictEqual((yield* fs.stat(`${root}/${path}`)).mode & 0o777, 0o600)
        assert.strictEqual((yield* fs.stat(`${root}/outputs/session`)).mode & 0o777, 0o700)
        assert.strictEqual(yield* fs.readFileString(`${root}/outputs/.gitignore`), "*\n")
        // the same call once more is another file, and git was told once
        yield* probe
        assert.strictEqual((yield* fs.readDirectory(`${root}/outputs/session`)).length, 2)
      })
    )
  )

  it.live("F20: at the cap nothing is kept and nothing is cut; a cap is in bytes", () =>
    Effect.gen(function* () {
      const exact = "é".repeat(500)
      const [whole, folder] = yield* saying(exact, (root) => Effect.zip(probe, Effect.option(folderOf(root))), {
        inlineCap: 1000
      })
      assert.deepStrictEqual(whole, { content: [text(exact)], isError: false })
      assert.isTrue(Option.isNone(folder))
      const shown = yield* saying(`${exact}e`, () => probe, { inlineCap: 1000 })
      assert.match(textOf(shown), /^é+\n\[\d+ of 1001 bytes are left out here; /)
      assert.isAtMost(size(textOf(shown)), 1000)
    })
  )

  it.live("F20: where it cannot be kept, or the notice alone is too long, the result stays inline, a success", () =>
    Effect.gen(function* () {
      const inline = { content: [text(long)], isError: false }
      const failing = new OutputUnavailable({ detail: "the disk is full" })
      const breaking: ReadonlyArray<OutputStore["write"]> = [
        () => failing,
        () => Effect.dieMessage("broken"),
        () => {
          throw new Error("broken")
        },
        () => Effect.interrupt,
        (_, bytes) => Effect.zipRight(Stream.runDrain(Stream.take(bytes, 1)), Effect.dieMessage("broken"))
      ]
      for (const write of breaking) assert.deepStrictEqual(yield* storing(long, { inlineCap: 1000, write }), inline)
      assert.deepStrictEqual(
        yield* storing(long, { inlineCap: 1000, write: () => Effect.succeed("x".repeat(1000)) }),
        inline
      )
      assert.deepStrictEqual(yield* Effect.provide(probe, pipeline(probing(() => Effect.succeed(long)))), inline)
      // the folder is no folder
      const blocked = saying(long, (root) =>
        Effect.flatMap(FileSystem.FileSystem, (fs) => Effect.zipRight(fs.writeFileString(`${root}/outputs`, ""), probe))
      )
      assert.deepStrictEqual(yield* blocked, inline)
      // the workspace is gone, and is not made again
      const gone = saying(long, (root) =>
        Effect.gen(function* () {
          const fs = yield* FileSystem.FileSystem
          yield* fs.remove(root, { recursive: true })
          const outcome = yield* probe
          assert.isFalse(yield* fs.exists(root))
          yield* fs.makeDirectory(root)
          return outcome
        })
      )
      assert.deepStrictEqual(yield* gone, inline)
    })
  )

  it.live(
    "F20: the after hook judges all of it; what it shows instead, and failures, are finalized like any result",
    () =>
      Effect.gen(function* () {
        const seen: Array<number> = []
        const twice = yield* saying(long, () => probe, {
          hooks: {
            after: (_, outcome) =>
              Effect.sync(() => {
                seen.push(textOf(outcome).length)
                return After.Replace({ content: [text(long), text(long)] })
              })
          }
        })
        assert.deepStrictEqual(seen, [long.length])
        assert.include(textOf(twice), ` of ${2 * size(long) + 1} bytes are left out here`)
        const blocked = yield* saying("short", () => probe, {
          hooks: { after: () => Effect.succeed(After.Block({ feedback: long })) }
        })
        assert.isTrue(blocked.isError)
        assert.strictEqual(blocked.error?.code, "TOOL_DENIED")
        assert.match(textOf(blocked), /^Error: begin .*\n\[\d+ of/)
      })
  )

  it.live("O-O5: 100 MiB of a tool's own are kept piece by piece, and a few thousand bytes are shown", () =>
    Effect.gen(function* () {
      let largest = 0
      let total = 0
      const store: OutputStore = {
        inlineCap: 136_000,
        write: (_, bytes) =>
          Effect.as(
            Stream.runForEach(bytes, (piece) =>
              Effect.sync(() => {
                largest = Math.max(largest, piece.length)
                total += piece.length
              })
            ),
            "a/file"
          )
      }
      const outcome = yield* storing("0123456789abcde\n".repeat(6_553_600), store)
      assert.strictEqual(total, 104_857_600)
      assert.isAtMost(largest, 65_537)
      assert.isAtMost(size(textOf(outcome)), 32_000)
    })
  )

  it.effect(
    "law 4, F20, W28: a store that hangs holds up a result, and a cancel, for a limited time, and loses none",
    () =>
      Effect.gen(function* () {
        for (const hanging of [Effect.never, Effect.uninterruptible(Effect.never)]) {
          const layer = Layer.provide(
            pipeline(probing(() => Effect.succeed(long))),
            Layer.succeed(Outputs, { inlineCap: 1000, write: () => hanging })
          )
          yield* Effect.gen(function* () {
            const { fiber } = yield* start("probe", hi)
            yield* TestClock.adjust(Duration.subtract(patience, Duration.millis(1)))
            yield* Fiber.interruptFork(fiber)
            yield* TestClock.adjust(0)
            assert.isTrue(Option.isNone(yield* Fiber.poll(fiber)))
            yield* TestClock.adjust(1)
            assert.deepStrictEqual(yield* Fiber.join(fiber), { content: [text(long)], isError: false })
          }).pipe(Effect.provide(layer))
        }
      })
  )

  it.live("W27: a text is kept in pieces that are cut between characters", () =>
    saying(`x${"😀".repeat(200_000)}`, (root) =>
      Effect.gen(function* () {
        const path = / is in (\S+)\]$/m.exec(textOf(yield* probe))?.[1]
        const kept = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(`${root}/${path}`))
        assert.isTrue(kept === `x${"😀".repeat(200_000)}`)
      })
    )
  )

  it.live(
    "the program keeps long outputs where its own tools can read them, hidden from git; its journal stays closed",
    () =>
      Effect.gen(function* () {
        const cwd = yield* Cli.folder
        for (const db of [[], ["--db", "own.db"]]) {
          const daybook = (prompt: string) => Cli.run(["run", "--yes", ...db, "--session", "notes", prompt], { cwd })
          assert.strictEqual((yield* daybook("Run `seq 1 100000`, then say done")).code, 0)
          const fs = yield* FileSystem.FileSystem
          const [name = "none", ...more] = (yield* fs.readDirectory(`${cwd}/.daybook/outputs/notes`)).sort().reverse()
          assert.strictEqual(yield* fs.readFileString(`${cwd}/.daybook/outputs/notes/${name}`), numbers)
          assert.strictEqual(more.length, db.length === 0 ? 0 : 1)
          const shown = yield* daybook(`Show .daybook/outputs/notes/${name}`)
          assert.include(shown.stdout, "\n2000\n")
          assert.strictEqual(yield* fs.readFileString(`${cwd}/.daybook/.gitignore`), "*\n")
        }
        const refused = yield* Cli.run(["run", "--yes", "--session", "notes", "Show .daybook/daybook.db"], { cwd })
        assert.include(refused.stdout + refused.stderr, "keeps for itself")
      }).pipe(Effect.scoped, Effect.provide(node))
  )

  it.live("two streams of bash that are as long as they get are shown with all that is said of them", () =>
    inWorkspace(() =>
      Effect.gen(function* () {
        const command = "yes é | head -c 200001; yes | head -c 100000 >&2; sleep 1000 & exit 7"
        const shown = textOf(yield* run("bash", JSON.stringify({ command })))
        assert.match(shown, /^\[stdout is truncated/)
        assert.match(shown, /\n\[stderr\]\n\[stderr is truncated/)
        assert.match(shown, /\n\[1 process left[^\n]*\n\[exit code 7\]$/)
      })
    )
  )

  it.prop(
    "F20, W27: for any text and limit a preview is no longer than that, and tells what it left out",
    { parts: fc.array(fc.fullUnicodeString({ minLength: 1 }), { minLength: 1 }), limit: fc.nat({ max: 200 }) },
    ({ limit, parts }) => {
      const whole = parts
        .join("")
        .padEnd(limit + 1, "😀é")
        .toWellFormed()
      const shown = Preview.make(whole, limit, (left) => `<${left} left>`)
      if (Option.isNone(shown)) return assert.isBelow(limit, size(`<${size(whole)} left>`) + 2)
      assert.isAtMost(size(shown.value), limit)
      const [head = "?", left, tail = "?"] = shown.value.split(/\n<(\d+) left>\n/)
      assert.isTrue(whole.startsWith(head) && whole.endsWith(tail))
      assert.strictEqual(Number(left), size(whole) - size(head) - size(tail))
    }
  )
})

const numbers = Array.from({ length: 100_000 }, (_, i) => `${i + 1}\n`).join("")

const folderOf = (root: string) => Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readDirectory(`${root}/outputs`))
