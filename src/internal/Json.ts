/**
 * Canonical JSON and well-formed text.
 *
 * - `canonical` of equal values is equal, byte for byte: keys sorted by code unit, no white space, no `undefined`.
 * - A text that `wellFormed` returned survives UTF-8, SQLite and every strict JSON reader unchanged.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"

/** A value that JSON holds without loss. */
export type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [key: string]: Json }

const isPlainObject = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** What JSON would lose, and where: the path is put together on the way out. */
class Lossy {
  readonly why: string
  readonly path: string
  constructor(why: string, path = "") {
    this.why = why
    this.path = path
  }
  readonly within = (step: string): Lossy => new Lossy(this.why, `${step}${this.path}`)
}

const copyArray = (array: ReadonlyArray<unknown>, above: Array<object>): Json | Lossy => {
  const copy: Array<Json> = []
  for (let i = 0; i < array.length; i++) {
    if (!(i in array)) return new Lossy("a sparse array")
    const item = copyValue(array[i], above)
    if (item instanceof Lossy) return item.within(`[${i}]`)
    copy.push(item)
  }
  return Object.freeze(copy)
}

const copyObject = (object: object, above: Array<object>): Json | Lossy => {
  if (!isPlainObject(object)) return new Lossy("no plain object")
  const copy: Array<readonly [string, Json]> = []
  for (const [key, value] of Object.entries(object)) {
    const item = copyValue(value, above)
    if (item instanceof Lossy) return item.within(`.${key}`)
    copy.push([wellFormed(key), item])
  }
  // an assignment would lose a key called `__proto__`
  return Object.freeze(Object.fromEntries(copy))
}

const copyValue = (value: unknown, above: Array<object>): Json | Lossy => {
  switch (typeof value) {
    case "string":
      return wellFormed(value)
    case "boolean":
      return value
    case "number":
      if (Object.is(value, -0)) return new Lossy("-0")
      return Number.isFinite(value) ? value : new Lossy(String(value))
    case "object": {
      if (value === null) return null
      if (above.includes(value)) return new Lossy("a cycle")
      above.push(value)
      const copy = Array.isArray(value) ? copyArray(value, above) : copyObject(value, above)
      above.pop()
      return copy
    }
    default:
      return new Lossy(typeof value)
  }
}

/** A frozen copy of a value, each part read once and each text well-formed; or what JSON would lose, with the path to it (I01, I02). */
export const snapshot = (value: unknown): Either.Either<Json, string> => {
  const copy = copyValue(value, [])
  return copy instanceof Lossy ? Either.left(`$${copy.path} is ${copy.why}`) : Either.right(copy)
}

/** Any JSON value, refused when JSON would lose part of it. */
export const Json: Schema.Schema<Json> = Schema.declare(
  (value: unknown): value is Json => Either.isRight(snapshot(value)),
  {
    identifier: "Json"
  }
)

/** The one JSON text of a value: keys sorted by code unit, absent and `undefined` the same. */
export const canonical = (value: unknown): string => {
  if (value === null || typeof value !== "object") return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item ?? null)).join()}]`
  // written by hand: an object keeps keys that look like numbers in an order of its own
  const fields = value as { readonly [key: string]: unknown } // any object has its own fields by name
  let members = ""
  for (const key of Object.keys(fields).sort()) {
    const item = fields[key]
    if (item !== undefined) members += `${members === "" ? "" : ","}${JSON.stringify(key)}:${canonical(item)}`
  }
  return `{${members}}`
}

/**
 * Replaces NUL and lone surrogates by U+FFFD: SQLite and C readers cut at the one, strict JSON readers refuse the other.
 * Returns the same string where nothing is wrong.
 */
export const wellFormed = (text: string): string => {
  const whole = text.isWellFormed() ? text : text.toWellFormed()
  return whole.includes("\0") ? whole.replaceAll("\0", "\uFFFD") : whole
}

/** `wellFormed` applied to every string of a value, keys included; the same value where nothing is wrong. */
export const wellFormedValue = <A>(value: A): A => {
  const visit = (item: unknown): unknown => {
    if (typeof item === "string") return wellFormed(item)
    if (Array.isArray(item)) return item.map(visit)
    if (item !== null && typeof item === "object")
      return Object.fromEntries(Object.entries(item).map(([k, v]) => [wellFormed(k), visit(v)]))
    return item
  }
  // the shape is unchanged: only the contents of strings differ
  return visit(value) as A
}

/** Whether a text is that of a JSON object. */
export const isObjectText = (raw: string): boolean => {
  try {
    const value: unknown = JSON.parse(raw)
    return value !== null && typeof value === "object" && !Array.isArray(value)
  } catch {
    return false
  }
}

/** Freezes a JSON value and all that it holds, in place, and returns it. */
export const deepFreeze = <A>(value: A): A => {
  if (value !== null && typeof value === "object") {
    Object.freeze(value)
    for (const item of Object.values(value)) deepFreeze(item)
  }
  return value
}
