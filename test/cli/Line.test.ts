import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import {
  brief,
  callLine,
  clip,
  elapsed,
  flattened,
  pad,
  printable,
  uncontrolled,
  verbatim
} from "../../src/cli/Line.ts"

/** Anything that moves a cursor, starts a line, or turns text around. */
const dangerous = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/

const anyText = FastCheck.string({ unit: "binary", maxLength: 300 })

describe("Line", () => {
  it.prop("holds no control character, whoever wrote the text (W27)", { text: anyText }, ({ text }) => {
    for (const line of [
      flattened(text),
      brief(text, 20),
      callLine(text, text),
      callLine("bash", JSON.stringify({ command: text }))
    ])
      assert.notMatch(line, dangerous)
  })

  it("leaves line breaks and tabs in text for a terminal, and nothing else that it would obey", () => {
    assert.strictEqual(printable("a\tb\n\u001b[2Jc\r\u009b1m"), "a\tb\n\uFFFD[2Jc\uFFFD\uFFFD1m")
  })

  it("shows what would turn text around on a terminal, and leaves it where there is none", () => {
    const turned = "a\u202ab\u202ec\u2066d\u2069e"
    assert.strictEqual(printable(turned), "a\uFFFDb\uFFFDc\uFFFDd\uFFFDe")
    assert.strictEqual(uncontrolled(turned), turned)
    // marks of direction turn nothing around
    assert.strictEqual(printable("a\u200e\u200f\u061c\u2065\u206a"), "a\u200e\u200f\u061c\u2065\u206a")
  })

  it("keeps the blanks and columns of a line, to the columns that there are", () => {
    assert.strictEqual(verbatim("    if x:  # no", 40), "    if x:  # no")
    assert.strictEqual(verbatim("a\tb", 40), "a       b")
    assert.strictEqual(verbatim("漢字\tb\t\tc", 40), "漢字    b               c")
    assert.strictEqual(verbatim("1%\r2%\u001b[0m\u0000", 40), "1%\uFFFD2%\uFFFD[0m\uFFFD")
    assert.strictEqual(verbatim("\t\t".repeat(1000), 5), "    …")
    assert.strictEqual(verbatim("x".repeat(8), 8), "x".repeat(8))
    assert.strictEqual(verbatim("\u{1f600}".repeat(1000), 5), "\u{1f600}\u{1f600}…")
    assert.strictEqual(verbatim("\u{10400}".repeat(6), 6), "\u{10400}".repeat(6))
  })

  it.prop(
    "clips to columns, between characters",
    { text: FastCheck.string({ unit: "grapheme", maxLength: 60 }), columns: FastCheck.integer({ min: 1, max: 40 }) },
    ({ columns, text }) => {
      const clipped = clip(text, columns)
      assert.isTrue(clipped.isWellFormed())
      if (clipped !== text) {
        assert.isTrue(clipped.endsWith("…"))
        assert.isTrue(text.startsWith(clipped.slice(0, -1)))
      }
      assert.isAtMost([...clipped].length, columns)
    }
  )

  it("counts an East Asian character as two columns", () => {
    assert.strictEqual(clip("漢字漢字", 8), "漢字漢字")
    assert.strictEqual(clip("漢字漢字", 7), "漢字漢…")
    assert.strictEqual(clip("漢字漢字", 6), "漢字…")
    assert.strictEqual(pad("漢字", 6), "漢字  ")
  })

  it("shows what a call is about, and its other arguments where they fit", () => {
    assert.strictEqual(callLine("bash", '{"command":"ls -a","parallel":true}'), "bash ls -a (parallel: true)")
    assert.strictEqual(callLine("write", JSON.stringify({ content: "x".repeat(200), path: "a.md" })), "write a.md")
    assert.strictEqual(callLine("odd", '{"n":1,"list":[1,2]}'), "odd n: 1, list: [1,2]")
    assert.strictEqual(callLine("bash", '{"command":'), 'bash {"command":')
    assert.strictEqual(callLine("bash", ""), "bash")
    assert.strictEqual([...callLine("bash", JSON.stringify({ command: "y".repeat(500) }))].length, 80)
  })

  it("tells durations as one reads them", () => {
    assert.deepStrictEqual([0, 49, 1950, 59_999, 60_000, 125_000, 3_900_000].map(elapsed), [
      "0.0 s",
      "0.0 s",
      "1.9 s",
      "59.9 s",
      "1 min 00 s",
      "2 min 05 s",
      "1 h 05 min"
    ])
  })
})
