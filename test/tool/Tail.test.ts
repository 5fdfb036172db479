import { assert, describe, it } from "@effect/vitest"
import * as fc from "effect/FastCheck"
import * as Tail from "../../src/tool/Tail.ts"

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

const filled = (cap: number, pieces: ReadonlyArray<Uint8Array>): Tail.Tail => {
  const tail = Tail.make(cap)
  for (const piece of pieces) tail.push(piece)
  return tail
}

/** The bytes in pieces of these sizes, the last one taking what is left. */
const split = (bytes: Uint8Array, sizes: ReadonlyArray<number>): ReadonlyArray<Uint8Array> => {
  const pieces: Array<Uint8Array> = []
  let at = 0
  for (const size of sizes) {
    pieces.push(bytes.subarray(at, at + size))
    at += size
  }
  return [...pieces, bytes.subarray(Math.min(at, bytes.length))]
}

describe("Tail", () => {
  it("N07: keeps exactly the last bytes; at the cap nothing is cut", () => {
    assert.deepStrictEqual(filled(4, [bytesOf("abcd")]).view(true), { text: "abcd", total: 4, cut: 0 })
    assert.deepStrictEqual(filled(4, [bytesOf("abcde")]).view(true), { text: "bcde", total: 5, cut: 1 })
    assert.deepStrictEqual(filled(4, [bytesOf("ab"), bytesOf("cdefg"), bytesOf("h")]).view(true), {
      text: "efgh",
      total: 8,
      cut: 4
    })
    assert.deepStrictEqual(filled(4, []).view(true), { text: "", total: 0, cut: 0 })
  })

  it.prop(
    "N07, W27, O-O1: for any text, pieces and cap: a suffix in whole characters, at most three bytes short of the cap",
    {
      text: fc.string({ unit: "grapheme", maxLength: 60 }),
      sizes: fc.array(fc.nat(9), { maxLength: 20 }),
      cap: fc.integer({ min: 1, max: 50 })
    },
    ({ cap, sizes, text }) => {
      const bytes = bytesOf(text.replaceAll("\0", "."))
      const { cut, text: shown, total } = filled(cap, split(bytes, sizes)).view(true)
      const kept = bytes.subarray(cut)
      assert.strictEqual(total, bytes.length)
      assert.isTrue(kept.length <= cap)
      assert.isTrue(bytes.length <= cap ? cut === 0 : kept.length > cap - 4)
      assert.deepStrictEqual(bytesOf(shown), kept)
      assert.isTrue(shown.isWellFormed())
    }
  )

  it("W27: a character of which a part has come is left out until it is whole or the stream has ended", () => {
    const tail = filled(100, [bytesOf("a€").subarray(0, 3)])
    assert.strictEqual(tail.view(false).text, "a")
    assert.strictEqual(tail.view(true).text, "a\ufffd")
    tail.push(bytesOf("€").subarray(2))
    assert.strictEqual(tail.view(false).text, "a€")
  })

  it("O-O4: bytes of another code page read as replacement characters", () => {
    assert.strictEqual(filled(100, [Uint8Array.of(0xc4, 0xe3, 0x61)]).view(true).text, "\ufffd\ufffda")
    assert.strictEqual(filled(100, [Uint8Array.of(0x63, 0x61, 0x66, 0xe9)]).view(true).text, "caf\ufffd")
  })

  it("O-O3: NUL reads as a replacement character", () => {
    assert.strictEqual(filled(100, [bytesOf("a\0b")]).view(true).text, "a\ufffdb")
  })

  it("O-O5, O-O6: neither memory nor work grows with what was cut off", () => {
    const piece = new Uint8Array(1000).fill(97)
    const work = (pieces: number): number => {
      const start = performance.now()
      const tail = Tail.make(64_000)
      for (let i = 0; i < pieces; i++) tail.push(piece)
      assert.strictEqual(tail.view(true).text.length, 64_000)
      assert.strictEqual(tail.view(true).total, pieces * 1000)
      return performance.now() - start
    }
    work(20_000)
    const times = [10_000, 20_000, 40_000].map(work)
    // printed, not judged: a shared machine has its moods
    console.log(`10, 20, 40 MB through a tail: ${times.map((time) => `${time.toFixed(1)} ms`).join(", ")}`)
  })
})
