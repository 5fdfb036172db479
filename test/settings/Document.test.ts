import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Jsonc from "jsonc-parser"
import type { Json } from "../../src/internal/Json.ts"
import * as Document from "../../src/settings/Document.ts"

/** Keys that are easy to get wrong, few enough to meet again. */
const names = FastCheck.constantFrom("a", "b", "c d", "", "__proto__", 'q"\\', "// no comment", "x.y")

/** Values that come back from JSON as they were. */
const leaves = FastCheck.oneof(
  FastCheck.constantFrom<Json>(null, true, false, "", "text, with a comma", "/* none */", "line\nbreak"),
  FastCheck.integer()
)

const { values } = FastCheck.letrec<{ values: Json; objects: Json }>((tie) => ({
  values: FastCheck.oneof(
    { depthSize: "small", withCrossShrink: true },
    leaves,
    FastCheck.array(tie("values"), { maxLength: 3 }),
    tie("objects")
  ),
  objects: FastCheck.dictionary(names, tie("values"), { maxKeys: 4 })
}))
const objects = FastCheck.dictionary(names, values, { maxKeys: 4 })
const paths = FastCheck.array(names, { minLength: 1, maxLength: 3 })

/** What may stand between two tokens. `#` becomes a number of its own, so that every comment can be told from the others. */
const gaps = FastCheck.array(
  FastCheck.constantFrom(
    "",
    " ",
    "\n",
    "\r\n\t",
    "\n    ",
    " /* # */ ",
    "/* #, */",
    " // # {\n",
    "\n// #: \u00a0\n",
    "\n\n"
  ),
  { minLength: 1, maxLength: 40 }
)

/** Writes a value with these gaps, in turn, and a trailing comma here and there. */
const written = (value: Json, gaps: ReadonlyArray<string>): string => {
  let at = 0
  const gap = () => (gaps[at++ % gaps.length] ?? "").replace("#", `comment ${at}`)
  const list = (open: string, items: ReadonlyArray<string>, close: string) =>
    `${open}${items.map((item) => `${gap()}${item}${gap()}`).join(",")}${items.length > 0 && at % 3 === 0 ? "," : ""}${gap()}${close}`
  const write = (value: Json): string => {
    if (Array.isArray(value)) return list("[", value.map(write), "]")
    if (typeof value !== "object" || value === null) return JSON.stringify(value)
    return list(
      "{",
      Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}${gap()}:${gap()}${write(item)}`),
      "}"
    )
  }
  return `${gap()}${write(value)}${gap()}`
}

const isObject = (value: Json | undefined): value is { readonly [key: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** What an edit means, without a text. */
const naively = (
  value: Json | undefined,
  [key, ...below]: ReadonlyArray<string>,
  to: Json | undefined
): Json | undefined => {
  if (key === undefined) return to
  const fields = new Map(isObject(value) ? Object.entries(value) : [])
  if (to === undefined && !fields.has(key)) return value
  const next = naively(fields.get(key), below, to)
  if (next === undefined) fields.delete(key)
  else fields.set(key, next)
  return Object.fromEntries(fields)
}

/** The comments of a text, but for those inside of a place. */
const commentsOf = (
  text: string,
  without?: { readonly offset: number; readonly length: number }
): ReadonlyArray<string> => {
  const found: Array<string> = []
  Jsonc.visit(text, {
    onComment: (offset, length) => {
      if (without === undefined || offset < without.offset || offset >= without.offset + without.length)
        found.push(text.slice(offset, offset + length).trimEnd())
    }
  })
  return found
}

const nodeAt = (text: string, path: ReadonlyArray<string>): Jsonc.Node | undefined => {
  const root = Jsonc.parseTree(text, [], { allowTrailingComma: true })
  return root && Jsonc.findNodeAtLocation(root, [...path])
}

/** The value that a new one takes the place of: at the path, or where the path ends early. */
const replacedBy = (text: string, path: ReadonlyArray<string>): Jsonc.Node | undefined => {
  for (let depth = path.length; depth > 0; depth--) {
    const found = nodeAt(text, path.slice(0, depth))
    if (found !== undefined) return depth < path.length && found.type === "object" ? undefined : found
  }
  return undefined
}

const valuesOf = (text: string) => Either.getOrThrow(Document.parse(text)).values

describe("the text of a settings file", () => {
  it.prop(
    "L09: is read for what it says, whatever comments, blanks and trailing commas it has",
    [objects, gaps],
    ([value, gaps]) => {
      assert.deepStrictEqual(valuesOf(written(value, gaps)), value)
    }
  )

  it.prop(
    "L08 L09: a value that is set is there, every other key and comment as well",
    [objects, gaps, paths, values],
    ([value, gaps, path, to]) => {
      const text = written(value, gaps)
      const next = Document.withValue(text, path, to)
      assert.deepStrictEqual(valuesOf(next), naively(value, path, to))
      assert.deepStrictEqual(commentsOf(next), commentsOf(text, replacedBy(text, path)))
      assert.strictEqual(Document.withValue(next, path, to), next)
    },
    { fastCheck: { numRuns: 300 } }
  )

  it.prop(
    "L08 L09: a value that is taken out is gone, every other key and comment is there",
    [objects, gaps, paths],
    ([value, gaps, path]) => {
      const text = written(value, gaps)
      const next = Document.without(text, path)
      assert.deepStrictEqual(valuesOf(next), naively(value, path, undefined))
      const property = nodeAt(text, path)?.parent
      assert.deepStrictEqual(commentsOf(next), commentsOf(text, property))
      if (property === undefined) assert.strictEqual(next, text)
    },
    { fastCheck: { numRuns: 300 } }
  )

  it("is laid out as what is there", () => {
    const set = (text: string, path: ReadonlyArray<string>, value: Json) => Document.withValue(text, path, value)
    assert.strictEqual(set("", ["a", "b"], 1), '{\n  "a": {\n    "b": 1\n  }\n}\n')
    assert.strictEqual(set("// mine\n", ["a"], [1]), '// mine\n{\n  "a": [\n    1\n  ]\n}\n')
    assert.strictEqual(
      set('{\n\t"a": 1 // one\n\t// last\n}\n', ["b"], 2),
      '{\n\t"a": 1, // one\n\t// last\n\t"b": 2\n}\n'
    )
    assert.strictEqual(set('{\r\n "a": 1,\r\n}', ["b", "c"], 2), '{\r\n "a": 1,\r\n "b": {\r\n  "c": 2\r\n }\r\n}')
    assert.strictEqual(set('{"a": {"b": 1}}', ["a", "c"], { d: 2 }), '{"a": {"b": 1, "c": {"d":2}}}')
    assert.strictEqual(set('{\n  "a": {}\n}', ["a", "b"], 1), '{\n  "a": {\n    "b": 1\n  }\n}')
    assert.strictEqual(set('{ "a": 1e3 }', ["a"], 1000), '{ "a": 1e3 }')
    const take = (text: string, ...path: ReadonlyArray<string>) => Document.without(text, path)
    assert.strictEqual(take('{\n  "a": 1, // one\n  "b": 2 // two\n}\n', "b"), '{\n  "a": 1 // one\n // two\n}\n')
    assert.strictEqual(
      take('{\n  // one\n  "a": 1,\n  // two\n  "b": 2\n}\n', "a"),
      '{\n  // one\n  // two\n  "b": 2\n}\n'
    )
    assert.strictEqual(take('{\n  "a": 1,\n}\n', "a"), "{\n}\n")
    assert.strictEqual(take('{ "a": 1, "b": 2 }', "a"), '{ "b": 2 }')
    assert.strictEqual(take('{ "a": 1, "b": 2 }', "b"), '{ "a": 1 }')
    assert.strictEqual(take('{ "a": { "b": 1 } }', "a", "b"), '{ "a": { } }')
  })

  it("L02: is broken at a line and a column, whatever is wrong with it", () => {
    const flaw = (text: string) => {
      const { column, line, reason } = Either.getOrThrow(Either.flip(Document.parse(text)))
      return `${line}:${column} ${reason}`
    }
    assert.strictEqual(flaw('{\n  "a": 1\n  "b": 2\n}'), "3:3 comma expected")
    assert.strictEqual(flaw('{"a": 1'), "1:8 close brace expected")
    assert.strictEqual(flaw('{\r\n"a": tru}'), "2:6 invalid symbol")
    assert.strictEqual(flaw("// nothing\n[1]"), "2:1 an object is expected")
    assert.strictEqual(flaw('{"a": 1,\n "b": {"c": 1, "c": 2}}'), '2:16 "c" is there twice')
    assert.strictEqual(flaw('{"a": 1e999}'), "1:1 $.a is Infinity")
    assert.strictEqual(flaw("[".repeat(100_000)), "1:1 it is nested too deeply")
    assert.deepStrictEqual(valuesOf(""), {})
    assert.deepStrictEqual(valuesOf("/* nothing */ "), {})
  })
})
