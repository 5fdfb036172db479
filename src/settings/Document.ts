/**
 * The text of a settings file: JSON with comments and trailing commas.
 *
 * - A text is a document, or one flaw with its place. A key that stands twice is a flaw: which of them counts is not told.
 * - An edit changes what stands at its path and nothing else: every other key, comment and blank stays as it is.
 */
import * as Either from "effect/Either"
import * as Jsonc from "jsonc-parser"
import { canonical, type Json, snapshot } from "../internal/Json.ts"

/** Keys and what they hold. */
export type JsonObject = { readonly [key: string]: Json }

/** A text, and what it says. */
export interface Document {
  readonly text: string
  readonly values: JsonObject
}

/** Why a text says nothing, and where: from 1. */
export interface Flaw {
  readonly line: number
  readonly column: number
  readonly reason: string
}

/** A document that says nothing. */
export const empty: Document = { text: "", values: {} }

/** Reads a text. One without any value says nothing. */
export const parse = (text: string): Either.Either<Document, Flaw> =>
  Either.getOrElse(
    // the library recurses
    Either.try({ try: () => read(text), catch: () => flawAt(text, 0, "it is nested too deeply") }),
    (flaw) => Either.left(flaw)
  )

/** The text with a value at a path; what stands in the way of the path is replaced. An empty path is the whole. */
export const withValue = (text: string, path: ReadonlyArray<string>, value: Json): string => {
  const style = styleOf(text)
  const root = rootOf(text)
  if (root === undefined) {
    const above = trimmed(text)
    return `${above}${above === "" ? "" : style.eol}${render(nested(path, value), "", style)}${style.eol}`
  }
  let depth = path.length
  let found = Jsonc.findNodeAtLocation(root, [...path])
  while (found === undefined) found = Jsonc.findNodeAtLocation(root, path.slice(0, --depth))
  const [key, ...below] = path.slice(depth)
  if (key !== undefined && found.type === "object")
    return Jsonc.applyEdits(text, inserted({ text, style, parent: found, key, value: nested(below, value) }))
  // what is there already stays as it is written
  if (key === undefined && canonical(Jsonc.getNodeValue(found)) === canonical(value)) return text
  const content = render(nested(path.slice(depth), value), indentAt(text, found.offset), style)
  return Jsonc.applyEdits(text, [{ offset: found.offset, length: found.length, content }])
}

/** The text without what stands at a path; the same text where nothing does. The path names a key. */
export const without = (text: string, path: ReadonlyArray<string>): string => {
  const root = rootOf(text)
  const property = root && Jsonc.findNodeAtLocation(root, [...path])?.parent
  return property?.parent === undefined ? text : Jsonc.applyEdits(text, removed(text, property, property.parent))
}

// internal: reading

const options: Jsonc.ParseOptions = { allowTrailingComma: true, allowEmptyContent: true }

const rootOf = (text: string): Jsonc.Node | undefined => Jsonc.parseTree(text, [], options)

const read = (text: string): Either.Either<Document, Flaw> => {
  const errors: Array<Jsonc.ParseError> = []
  const root = Jsonc.parseTree(text, errors, options)
  const [error] = errors
  if (error !== undefined) {
    // `CommaExpected`
    const reason = Jsonc.printParseErrorCode(error.error).replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
    return Either.left(flawAt(text, error.offset, reason.trim()))
  }
  if (root === undefined) return Either.right({ text, values: {} })
  if (root.type !== "object") return Either.left(flawAt(text, root.offset, "an object is expected"))
  const twice = repeated(root)
  if (twice !== undefined)
    return Either.left(flawAt(text, twice.offset, `${JSON.stringify(twice.value)} is there twice`))
  return Either.mapBoth(snapshot(Jsonc.getNodeValue(root)), {
    onLeft: (reason) => flawAt(text, root.offset, reason),
    // an object was read
    onRight: (values) => ({ text, values: values as JsonObject })
  })
}

/** A key that an object has already. */
const repeated = (node: Jsonc.Node): Jsonc.Node | undefined => {
  const keys = new Set<unknown>()
  for (const child of node.children ?? []) {
    const key = child.type === "property" ? child.children?.[0] : undefined
    if (key !== undefined && keys.has(key.value)) return key
    keys.add(key?.value)
    const below = repeated(child)
    if (below !== undefined) return below
  }
  return undefined
}

const flawAt = (text: string, offset: number, reason: string): Flaw => {
  const lines = text.slice(0, offset).split(/\r\n|\r|\n/)
  return { line: lines.length, column: (lines.at(-1) ?? "").length + 1, reason }
}

// internal: how a text is laid out

interface Style {
  readonly eol: string
  /** What a line has more before it than the one that holds it. */
  readonly unit: string
}

const styleOf = (text: string): Style => ({
  eol: /\r\n|\r|\n/.exec(text)?.[0] ?? "\n",
  unit: /^([ \t]+)"/m.exec(text)?.[1] ?? "  "
})

/** The blanks before the first character of the line that holds a place. */
const indentAt = (text: string, offset: number): string =>
  /^[ \t]*/.exec(
    text.slice(Math.max(text.lastIndexOf("\n", offset - 1), text.lastIndexOf("\r", offset - 1)) + 1)
  )?.[0] ?? ""

const render = (value: Json, indent: string, { eol, unit }: Style): string =>
  JSON.stringify(value, null, unit).replaceAll("\n", `${eol}${indent}`)

/** A text without the blanks at its end, as JSON counts them: others belong to a comment. */
const trimmed = (text: string): string => text.replace(/[ \t\r\n]+$/, "")

/** The place of the comma between two places, with nothing else between them but comments. */
const commaIn = (text: string, from: number, to: number): number | undefined => {
  let found: number | undefined
  const onSeparator = (separator: string, at: number) => {
    if (separator === "," && at >= from && at < to) found = at
  }
  Jsonc.visit(text, { onSeparator }, options)
  return found
}

const endOf = (node: Jsonc.Node): number => node.offset + node.length

// internal: editing

const nested = (path: ReadonlyArray<string>, value: Json): Json =>
  path.reduceRight<Json>((below, key) => Object.fromEntries([[key, below]]), value)

interface Insertion {
  readonly text: string
  readonly style: Style
  readonly parent: Jsonc.Node
  readonly key: string
  readonly value: Json
}

/** A key at the end of an object, after the comments that stand there. */
const inserted = ({ key, parent, style, text, value }: Insertion): Jsonc.EditResult => {
  const { eol, unit } = style
  const last = parent.children?.at(-1)
  const from = last === undefined ? parent.offset + 1 : endOf(last)
  const close = endOf(parent) - 1
  const at = from + trimmed(text.slice(from, close)).length
  const comma = { offset: from, length: 0, content: "," }
  const commas = last === undefined || commaIn(text, from, close) !== undefined ? [] : [comma]
  const name = `${JSON.stringify(key)}: `
  const isInline = !/[\r\n]/.test(text.slice(parent.offset, close))
  if (last !== undefined && isInline)
    return [...commas, { offset: at, length: 0, content: ` ${name}${JSON.stringify(value)}` }]
  const outer = indentAt(text, parent.offset)
  const indent = last === undefined ? `${outer}${unit}` : indentAt(text, last.offset)
  const line = `${eol}${indent}${name}${render(value, indent, style)}`
  return [
    ...commas,
    isInline
      ? { offset: at, length: close - at, content: `${line}${eol}${outer}` }
      : { offset: at, length: 0, content: line }
  ]
}

/** A key of an object, with one comma, and with its line where nothing else stands there. */
const removed = (text: string, property: Jsonc.Node, parent: Jsonc.Node): Jsonc.EditResult => {
  const siblings = parent.children ?? []
  const index = siblings.indexOf(property)
  const previous = siblings[index - 1]
  const end = endOf(property)
  const after = commaIn(text, end, siblings[index + 1]?.offset ?? endOf(parent) - 1)
  const before =
    after === undefined && previous !== undefined ? commaIn(text, endOf(previous), property.offset) : undefined
  const comma = after ?? before
  const to = after === end ? end + 1 : end
  const cut = widened(text, { from: property.offset, to, isLast: after === undefined })
  return [cut, ...(comma === undefined || comma === end ? [] : [{ offset: comma, length: 1, content: "" }])]
}

/** A cut with the blanks around it that would be left over. */
const widened = (
  text: string,
  { from, isLast, to }: { readonly from: number; readonly to: number; readonly isLast: boolean }
) => {
  const blanksBefore = /[ \t]*$/.exec(text.slice(0, from))?.[0].length ?? 0
  const blanksAfter = /^[ \t]*/.exec(text.slice(to))?.[0].length ?? 0
  const start = from - blanksBefore
  const rest = text.slice(to + blanksAfter)
  const lineEnd = /^(?:\r\n|\r|\n)/.exec(rest)?.[0]
  const isOwnLine = lineEnd !== undefined && /(?:^|[\r\n])$/.test(text.slice(0, start))
  if (isOwnLine) return { offset: start, length: to + blanksAfter + lineEnd.length - start, content: "" }
  return isLast
    ? { offset: start, length: to - start, content: "" }
    : { offset: from, length: to + blanksAfter - from, content: "" }
}
