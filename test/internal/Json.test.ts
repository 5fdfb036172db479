import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as fc from "effect/FastCheck"
import * as Schema from "effect/Schema"
import {
  canonical,
  deepFreeze,
  isObjectText,
  Json,
  snapshot,
  wellFormed,
  wellFormedValue
} from "../../src/internal/Json.ts"

const cycle: Record<string, unknown> = { a: { b: 1 } }
cycle["a"] = { back: cycle }

const loop: Array<unknown> = []
loop.push([loop])

const sparse = [1, 2, 3]
delete sparse[1]

class Point {
  readonly x = 1
}

/** What JSON would lose, and where it stands. */
const lossy: ReadonlyArray<readonly [name: string, value: unknown, detail: string]> = [
  ["undefined", undefined, "$ is undefined"],
  ["undefined in an object", { a: { b: undefined } }, "$.a.b is undefined"],
  ["undefined in an array", [1, undefined], "$[1] is undefined"],
  ["a function", { f: () => 1 }, "$.f is function"],
  ["a symbol", [Symbol("s")], "$[0] is symbol"],
  ["a bigint", { n: 1n }, "$.n is bigint"],
  ["NaN", { n: Number.NaN }, "$.n is NaN"],
  ["Infinity", [Number.NEGATIVE_INFINITY], "$[0] is -Infinity"],
  ["-0", { n: -0 }, "$.n is -0"],
  ["a Date", { at: new Date(0) }, "$.at is no plain object"],
  ["a Map", new Map([["a", 1]]), "$ is no plain object"],
  ["an Error", [new Error("x")], "$[0] is no plain object"],
  ["an instance of a class", { p: new Point() }, "$.p is no plain object"],
  ["a boxed string", Object("text"), "$ is no plain object"],
  ["a toJSON of its own", { toJSON: () => 1 }, "$.toJSON is function"],
  ["a cycle of objects", cycle, "$.a.back is a cycle"],
  ["a cycle of arrays", loop, "$[0][0] is a cycle"],
  ["a sparse array", { list: sparse }, "$.list is a sparse array"],
  ["an array of holes", new Array(2), "$ is a sparse array"]
]

/** Any JSON value, with keys that are hard to keep. */
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.oneof(
      fc.constant(null),
      fc.boolean(),
      fc.string16bits(),
      fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => (Object.is(n, -0) ? 0 : n))
    ),
    fc.array(tie("value"), { maxLength: 4 }),
    fc
      .array(
        fc.tuple(fc.oneof(fc.constantFrom("__proto__", "10", "9", "toJSON", "a", ""), fc.string16bits()), tie("value")),
        {
          maxLength: 5
        }
      )
      .map((entries) => Object.fromEntries(entries))
  )
})).value

const shuffled = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(shuffled)
  if (value === null || typeof value !== "object") return value
  const entries = Object.entries(value).map(([key, item]) => [key, shuffled(item)] as const)
  return Object.fromEntries(entries.reverse())
}

/** A value whose keys were put in one order by another hand than `canonical`. */
const sortOnce = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sortOnce)
  if (value === null || typeof value !== "object") return value
  const keys = Object.keys(value).sort()
  return Object.fromEntries(keys.map((key) => [key, sortOnce(Object.getOwnPropertyDescriptor(value, key)?.value)]))
}

/** The keys of each object in a JSON text, in the order in which they are written. */
const keysAsWritten = (text: string): ReadonlyArray<ReadonlyArray<string>> => {
  const found: Array<ReadonlyArray<string>> = []
  const at = (i: number) => text.charAt(i)
  const stringEnd = (start: number) => {
    let i = start + 1
    while (at(i) !== '"') i += at(i) === "\\" ? 2 : 1
    return i + 1
  }
  const skip = (start: number): number => {
    if (at(start) === '"') return stringEnd(start)
    if (at(start) !== "{" && at(start) !== "[") {
      let i = start
      while (i < text.length && !",]}".includes(at(i))) i++
      return i
    }
    const keys: Array<string> = []
    let i = start + 1
    while (at(i) !== "}" && at(i) !== "]") {
      if (at(start) === "{") {
        const end = stringEnd(i)
        keys.push(JSON.parse(text.slice(i, end)))
        i = end + 1
      }
      i = skip(i)
      if (at(i) === ",") i++
    }
    if (at(start) === "{") found.push(keys)
    return i + 1
  }
  skip(0)
  return found
}

describe("snapshot", () => {
  it.each(lossy)("I01: refuses %s and says where", (_, value, detail) => {
    assert.deepStrictEqual(snapshot(value), Either.left(detail))
    assert.isFalse(Schema.is(Json)(value))
  })

  it("I02: each part is read once, and what happens to the original later does not show", () => {
    let reads = 0
    const original = {
      list: [1],
      get next() {
        return ++reads
      }
    }
    const copy = Either.getOrThrow(snapshot(original))
    assert.strictEqual(reads, 1)
    original.list.push(2)
    assert.deepStrictEqual(copy, { list: [1], next: 1 })
    assert.deepStrictEqual(copy, { list: [1], next: 1 })
    assert.strictEqual(reads, 1)
  })

  it.prop("I02: the copy is equal, its own, and frozen to the bottom", { value: json }, ({ value }) => {
    const copy = Either.getOrThrow(snapshot(value))
    assert.strictEqual(JSON.stringify(copy), JSON.stringify(wellFormedValue(value)))
    const visit = (a: unknown, b: unknown): void => {
      if (a === null || typeof a !== "object") return
      assert.notStrictEqual(a, b)
      assert.isTrue(Object.isFrozen(a))
      for (const [key, item] of Object.entries(a)) visit(item, Object.getOwnPropertyDescriptor(b as object, key)?.value)
    }
    visit(copy, wellFormedValue(value))
  })

  it("I01: the same part in two places is no cycle", () => {
    const shared = { a: 1 }
    assert.deepStrictEqual(snapshot([shared, { shared }]), Either.right([{ a: 1 }, { shared: { a: 1 } }]))
    assert.isTrue(Either.isRight(snapshot(Object.assign(Object.create(null), { a: 1 }))))
  })

  it("I01: a key called __proto__ is a key like any other", () => {
    const value: unknown = JSON.parse('{"__proto__":{"admin":true},"a":1}')
    const copy = Either.getOrThrow(snapshot(value))
    assert.strictEqual(JSON.stringify(copy), '{"__proto__":{"admin":true},"a":1}')
    assert.isUndefined((copy as { readonly admin?: boolean }).admin)
  })
})

describe("canonical", () => {
  it.prop("law 1: one text for one value, whatever the order of its keys", { value: json }, ({ value }) => {
    const text = canonical(value)
    assert.strictEqual(canonical(shuffled(value)), text)
    assert.strictEqual(canonical(JSON.parse(text)), text)
    assert.strictEqual(canonical(Either.getOrThrow(snapshot(value))), canonical(wellFormedValue(value)))
    assert.strictEqual(JSON.stringify(sortOnce(JSON.parse(text))), JSON.stringify(sortOnce(value)))
  })

  it.prop("law 1: keys stand in the order of their code units at every depth", { value: json }, ({ value }) => {
    for (const keys of keysAsWritten(canonical(value))) assert.deepStrictEqual(keys, [...keys].sort())
  })

  it.prop("law 1: different values have different texts", { a: json, b: json }, ({ a, b }) => {
    assert.strictEqual(canonical(a) === canonical(b), JSON.stringify(sortOnce(a)) === JSON.stringify(sortOnce(b)))
  })

  it("law 1: what is absent and what is undefined are the same, numbers like keys too", () => {
    assert.strictEqual(canonical({ b: undefined, a: 1 }), '{"a":1}')
    assert.strictEqual(canonical({ b: 1, a: undefined, 10: 1, 9: 1 }), '{"10":1,"9":1,"b":1}')
    assert.strictEqual(canonical({ "\uFFFF": 1, "\u{10000}": 2 }), '{"\u{10000}":2,"\uFFFF":1}')
    assert.strictEqual(canonical([1, "a", null, true, []]), '[1,"a",null,true,[]]')
  })
})

/** Reads JSON as a strict reader does: bytes that are no UTF-8 and escaped half pairs are refused. */
const strictParse = (body: string): unknown => {
  const text = new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(body, "utf8"))
  assert.strictEqual(text, body)
  return JSON.parse(text, (key, value) => {
    assert.isTrue(key.isWellFormed())
    if (typeof value === "string") assert.isTrue(value.isWellFormed())
    return value
  })
}

describe("wellFormed", () => {
  it("O-O1: emoji cut at every length pass a strict reader", () => {
    const output = "ok 👩‍👩‍👧 é 😀😀 end"
    for (let from = 0; from <= output.length; from++)
      for (let to = from; to <= output.length; to++) {
        const cut = wellFormed(output.slice(from, to))
        assert.deepStrictEqual(strictParse(JSON.stringify({ cut })), { cut })
      }
  })

  it.prop("O-O1: any text survives UTF-8, unchanged where nothing was wrong", { raw: fc.string16bits() }, ({ raw }) => {
    const text = wellFormed(raw)
    assert.isTrue(text.isWellFormed())
    assert.isFalse(text.includes("\0"))
    assert.strictEqual(text.length, raw.length)
    assert.strictEqual(Buffer.from(text, "utf8").toString("utf8"), text)
    assert.strictEqual(wellFormed(text), text)
    if (raw.isWellFormed() && !raw.includes("\0")) assert.strictEqual(text, raw)
  })

  it("O-O3: NUL and half pairs become U+FFFD, other controls stay", () => {
    assert.strictEqual(wellFormed("a\0b\uD83Dc\u0007"), "a\uFFFDb\uFFFDc\u0007")
    assert.strictEqual(wellFormed("\uD83D\uDE00"), "😀")
  })

  it.prop("O-O2: every string of a value, keys included", { value: json }, ({ value }) => {
    const whole = wellFormedValue(value)
    strictParse(JSON.stringify(whole))
    assert.strictEqual(canonical(wellFormedValue(whole)), canonical(whole))
    if (canonical(value).isWellFormed() && !/\\u(d[89a-f]|0000)/.test(canonical(value)))
      assert.strictEqual(canonical(whole), canonical(value))
  })
})

describe("isObjectText", () => {
  it.each(["{}", ' { "a" : [1] } ', '{"a":"\\ud83d"}'])("%s is that of an object", (raw) => {
    assert.isTrue(isObjectText(raw))
  })
  it.each(["", " ", "[]", "null", "1", '"{}"', "{", "{}{}", "{a:1}", "\uFEFF{}", "{}\0"])("%j is not", (raw) => {
    assert.isFalse(isObjectText(raw))
  })
})

describe("deepFreeze", () => {
  it("I02: freezes all of a value, also below a part that was frozen before", () => {
    const value = Object.freeze({ shallow: { deep: [{ x: 1 }] } })
    assert.strictEqual(deepFreeze(value), value)
    assert.isTrue(Object.isFrozen(value.shallow))
    assert.isTrue(Object.isFrozen(value.shallow.deep))
    assert.isTrue(Object.isFrozen(value.shallow.deep[0]))
  })
})
