/**
 * Sections: what can be set under a name, and what is meant by it.
 *
 * - A value is layered: the schema's defaults, then what the composition says, then what the user says; deep-merged, arrays
 *   replaced whole (L01).
 * - What a schema does not know is refused, not ignored: a misspelt field must not look as if it were obeyed.
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import { clip } from "../internal/Cut.ts"
import { canonical, type Json, snapshot } from "../internal/Json.ts"

/** A section: its name, and a schema that fills in what is not set. What it is written as is JSON. */
export interface Section<A, I> {
  readonly name: string
  readonly schema: Schema.Schema<A, I>
}

/** A section of whatever type. */
export interface AnySection {
  readonly name: string
  readonly schema: Schema.Schema.AnyNoContext
}

/** A section, its types inferred from its schema. */
export const section = <A, I>(name: string, schema: Schema.Schema<A, I>): Section<A, I> => ({ name, schema })

/** What layers say together. */
export interface Resolved<A> {
  readonly value: A
  /** The same as it is written, defaults filled in. */
  readonly written: Json
}

/** Why a value is refused: the path below the section's name, and a sentence without its full stop that begins with it all. */
export interface Refusal {
  readonly path: ReadonlyArray<string>
  readonly detail: string
}

/** The value of a section under layers, the lowest first; what is `undefined` says nothing. */
export const resolve = <A, I>(
  section: Section<A, I>,
  layers: ReadonlyArray<Json | undefined>
): Either.Either<Resolved<A>, Refusal> => {
  const written = layers.reduce<Json>(
    (under, over) => (over === undefined ? under : merged(under, over)),
    defaultsOf(section)
  )
  return Either.mapBoth(Schema.decodeUnknownEither(section.schema, { onExcessProperty: "error" })(written), {
    onLeft: (error) => refusalOf(section.name, error),
    onRight: (value) => ({ value, written: Option.getOrElse(writtenAs(section, value), () => written) })
  })
}

/** Whether two say the same. */
export const isSame = (a: Resolved<unknown>, b: Resolved<unknown>): boolean =>
  canonical(a.written) === canonical(b.written)

/** A value over another one: objects key by key, anything else as a whole. */
export const merged = (under: Json, over: Json): Json => {
  if (!isObject(under) || !isObject(over)) return over
  const all = new Map(Object.entries(under))
  for (const [key, value] of Object.entries(over)) {
    const below = all.get(key)
    all.set(key, below === undefined ? value : merged(below, value))
  }
  return Object.fromEntries(all)
}

/** The names of a section's fields; none where its schema is no struct. */
export const fieldsOf = (section: AnySection): ReadonlyArray<string> => {
  const written = SchemaAST.encodedAST(section.schema.ast)
  return SchemaAST.isTypeLiteral(written) ? written.propertySignatures.map(({ name }) => String(name)) : []
}

/** Whether a value has keys. */
export const isObject = (value: Json | undefined): value is { readonly [key: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** A path as a person writes it: names joined with dots, one that would be misread in quotes. */
export const dotted = (path: ReadonlyArray<string>): string =>
  path.map((name) => (/^[^\s."]+$/.test(name) ? name : JSON.stringify(name))).join(".")

// internal

const writtenAs = <A, I>(section: Section<A, I>, value: A): Option.Option<Json> =>
  Option.flatMap(Schema.encodeOption(section.schema)(value), (written) => Option.getRight(snapshot(written)))

/** What a section is where nothing is set; a schema that fills in only some of it gives nothing to begin with. */
const defaultsOf = <A, I>(section: Section<A, I>): Json =>
  Schema.decodeUnknownOption(section.schema)({}).pipe(
    Option.flatMap((value) => writtenAs(section, value)),
    Option.getOrElse(() => ({}))
  )

/** The first thing that is wrong, with all that would have been right. */
const refusalOf = (name: string, error: ParseResult.ParseError): Refusal => {
  const all = ParseResult.ArrayFormatter.formatErrorSync(error)
  // that it may be left out helps nobody who set it
  const told = all.filter(({ message }) => !message.startsWith("Expected undefined, "))
  const first = told[0] ?? all[0]
  const path = (first?.path ?? []).map(String)
  const messages = told
    .filter((issue) => issue.path.map(String).join("\0") === path.join("\0"))
    .map(({ message }) => message)
  if (first?._tag === "Unexpected") {
    const known = first.message.replace(/^.*?expected: /, "")
    return { path, detail: `${dotted([name, ...path.slice(0, -1)])} has no ${path.at(-1)}; it has ${known}` }
  }
  return { path, detail: `${dotted([name, ...path])} ${judgement(messages)}` }
}

/** Messages on one value as the end of a sentence: `must be "a" or "b", not "c"`. */
const judgement = (messages: ReadonlyArray<string>): string => {
  const parts = messages.map((message) => /^Expected (.+?), actual (.*)$/s.exec(message))
  const expected = parts.flatMap((part) => part?.[1] ?? [])
  if (expected.length === 0 || expected.length < messages.length) return messages.join("; ")
  const wanted = expected.map((what) => (/ \((Encoded|Type) side\)$/.test(what) ? "an object" : what))
  return `must be ${wanted.join(" or ")}, not ${clip(parts[0]?.[2] ?? "", 60)}`
}
