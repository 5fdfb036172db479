import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { cleaned, decode } from "../../src/cli/Prompt.ts"

describe("Prompt", () => {
  it("replaces NUL, halves of surrogate pairs and bytes that are not UTF-8, and says so", () => {
    assert.deepStrictEqual(cleaned("a\0b"), { text: "a\uFFFDb", replaced: true })
    assert.deepStrictEqual(cleaned("a\uD83Db\uDE00"), { text: "a\uFFFDb\uFFFD", replaced: true })
    assert.deepStrictEqual(decode(Uint8Array.of(0x61, 0xff, 0x62)), { text: "a\uFFFDb", replaced: true })
    assert.deepStrictEqual(decode(Uint8Array.of(0x61, 0, 0x62)), { text: "a\uFFFDb", replaced: true })
    // a surrogate, encoded as if it were a character
    assert.isTrue(decode(Uint8Array.of(0xed, 0xa0, 0xbd)).replaced)
  })

  it("takes a real U+FFFD for what it is", () => {
    assert.deepStrictEqual(decode(Buffer.from("a\uFFFDb")), { text: "a\uFFFDb", replaced: false })
  })

  it.prop("keeps every other text, byte for byte", { text: FastCheck.string({ unit: "grapheme" }) }, ({ text }) => {
    const expected = text.replaceAll("\0", "\uFFFD")
    // a byte order mark at the very beginning is no part of the text
    assert.strictEqual(decode(Buffer.from(text)).text, expected.replace(/^\uFEFF/, ""))
    assert.strictEqual(cleaned(text).text, expected)
  })
})
