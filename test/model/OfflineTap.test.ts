import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { testCommand } from "../../src/model/OfflinePlan.ts"
import * as Tap from "../../src/model/OfflineTap.ts"
import { bashText, folderWith, suites } from "../support/TestSuites.ts"

const readings = Effect.gen(function* () {
  const root = yield* folderWith(suites)
  const folders = [...new Set(Object.keys(suites).map((path) => path.split("/")[0] ?? ""))]
  const texts = yield* Effect.forEach(folders, (folder) => bashText(testCommand(folder), root), { concurrency: 2 })
  return new Map(folders.map((folder, index) => [folder, texts[index] ?? ""]))
})

const brief = (reading: Tap.TapReading) => reading.failures.map((failure) => [failure.path.join(" > "), failure.error])

describe("OfflineTap", () => {
  it.live("reads what node prints of suites that pass, fail, throw, hang, nest, or do not load (done when 1)", () =>
    Effect.gen(function* () {
      const texts = yield* Effect.scoped(readings)
      const of = (folder: string) => Tap.read(texts.get(folder) ?? "")

      assert.deepStrictEqual(of("good").counts, { tests: 4, pass: 2, fail: 0, cancelled: 0, skipped: 1, todo: 1 })
      assert.deepStrictEqual(of("good").failures, [])
      assert.deepStrictEqual(of("good").seen, { pass: 2, fail: 0 })

      const diff = of("diff")
      assert.strictEqual(diff.counts?.fail, 3)
      assert.deepStrictEqual(
        diff.failures.map((failure) => failure.path),
        [["euro"], ["lines"], ["named"]]
      )
      assert.strictEqual(diff.failures[0]?.expected, "'12,49 €'")
      assert.strictEqual(diff.failures[0]?.actual, "'12,50 €'")
      assert.include(diff.failures[0]?.error, "+ '12,50 €'\n- '12,49 €'")
      assert.strictEqual(diff.failures[1]?.actual, "a\n...\nok 1 - no")
      assert.match(diff.failures[2]?.error ?? "", /^the total is off by one/)
      assert.match(diff.failures[2]?.location ?? "", /diff\.test\.mjs:5:1$/)

      assert.deepStrictEqual(brief(of("thrown")), [
        ["throws", `can't read "x"`],
        ["rejects", "first\n  second: line\n\n...\nlast"],
        ["says nothing", ""],
        ["hangs", "test timed out after 20ms"]
      ])
      assert.deepStrictEqual([of("thrown").counts?.fail, of("thrown").counts?.cancelled], [3, 1])

      const syntax = of("syntax")
      assert.strictEqual(syntax.counts?.pass, 1)
      assert.match(syntax.failures[0]?.path.join() ?? "", /bad\.test\.mjs$/)
      assert.include(syntax.failures[0]?.printed, "SyntaxError: Unexpected end of input")

      assert.deepStrictEqual(of("empty"), {
        isTap: true,
        counts: { tests: 0, pass: 0, fail: 0, cancelled: 0, skipped: 0, todo: 0 },
        seen: { pass: 0, fail: 0 },
        failures: []
      })

      const nested = of("nested")
      assert.deepStrictEqual(
        nested.failures.map((failure) => failure.path.join(" > ")),
        ["outer > inner > bad", "parent > child", "hook > never", "hook"]
      )
      assert.strictEqual(nested.failures[3]?.error, "no database")
      assert.strictEqual(nested.seen.fail, (nested.counts?.fail ?? 0) + (nested.counts?.cancelled ?? 0))
    })
  )

  it.live("reads every beginning and every end of an output without inventing anything", () =>
    Effect.gen(function* () {
      const texts = yield* Effect.scoped(readings)
      for (const folder of ["nested", "diff"]) {
        const text = texts.get(folder) ?? ""
        const whole = Tap.read(text)
        const known = new Set(whole.failures.map((failure) => failure.path[failure.path.length - 1]))
        // tests that failed through what is inside them stand for it where it is cut off
        for (const name of ["outer", "inner", "parent"]) known.add(name)
        for (let at = 0; at <= text.length; at++) {
          const end = Tap.read(text.slice(at))
          const start = Tap.read(text.slice(0, at))
          if (at < text.length - 200) assert.deepStrictEqual(end.counts, whole.counts)
          for (const { failures, seen } of [start, end]) {
            assert.isAtMost(seen.pass + seen.fail, whole.seen.pass + whole.seen.fail)
            for (const { path } of failures) {
              const name = path[path.length - 1] ?? ""
              assert.isTrue(
                known.has(name) || [...known].some((full) => full?.startsWith(name)) || name === "(no name)"
              )
            }
          }
        }
      }
    })
  )

  it.live("runs the tests even where it is itself run by a test of node", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const root = yield* folderWith(suites)
        const text = yield* bashText(`export NODE_TEST_CONTEXT=child-v8; ${testCommand("diff")}`, root)
        assert.strictEqual(Tap.read(text).counts?.tests, 3)
      })
    )
  )

  it("is no TAP", () => {
    for (const text of ["", "(no output)", "sh: 1: cd: can't cd to ./x", "✔ adds (1ms)\nℹ tests 1\nℹ pass 1\nℹ fail 0"])
      assert.deepStrictEqual(Tap.read(text), { isTap: false, seen: { pass: 0, fail: 0 }, failures: [] })
  })
})
