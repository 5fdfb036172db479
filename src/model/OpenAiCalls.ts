/**
 * Calls out of the deltas of a chat completion.
 *
 * - A delta belongs to one call: by index and id, else by what it lacks and by its position (O-H1 to O-H6).
 */
import type { ChatChunk } from "../domain/Chunk.ts"
import { isObjectText } from "../internal/Json.ts"
import { type Fields, fields, said } from "./Fields.ts"

/** A call as far as the stream has told of it. */
export interface Call {
  readonly block: number
  index: number | undefined
  id: string | undefined
  name: string | undefined
  /** The arguments so far, and whether the last of them could be their end. */
  raw: string
  mayBeWhole: boolean
}

/** What the deltas that came together say, of the calls so far or of new ones. `newBlock` numbers those. */
export const read = (
  calls: Array<Call>,
  deltas: ReadonlyArray<unknown>,
  newBlock: () => number
): ReadonlyArray<ChatChunk> => {
  const items = deltas.map(fields).filter((item) => item !== undefined)
  const taken = new Set<Call>()
  return items.map((item, position) => {
    const one = deltaOf(item)
    let call = known(calls, one, { position, count: items.length, taken })
    if (call === undefined) {
      call = { block: newBlock(), index: one.index, id: undefined, name: undefined, raw: "", mayBeWhole: false }
      calls.push(call)
    }
    taken.add(call)
    call.index ??= one.index
    call.id ??= one.id
    call.name ??= one.name
    call.raw += one.arguments
    if (one.arguments !== "") call.mayBeWhole = one.arguments.endsWith("}")
    return {
      type: "tool-call",
      index: call.block,
      ...(one.id === undefined ? {} : { id: one.id }),
      ...(one.name === undefined ? {} : { name: one.name }),
      arguments: one.arguments
    }
  })
}

// internal

interface Delta {
  readonly index: number | undefined
  readonly id: string | undefined
  readonly name: string | undefined
  readonly arguments: string
}

const deltaOf = (item: Fields): Delta => {
  const named = fields(item["function"])
  const raw = named?.["arguments"]
  return {
    index: typeof item["index"] === "number" ? item["index"] : undefined,
    // empty and null both mean that nothing is said (O-H1, O-H2)
    id: said(item["id"]),
    name: said(named?.["name"]),
    arguments: typeof raw === "string" ? raw : fields(raw) === undefined ? "" : JSON.stringify(raw)
  }
}

/** Whether a delta without an id begins a call of its own rather than repeat the name of this one. */
const beginsAnother = (call: Call, { name }: Delta): boolean =>
  name !== undefined && call.name !== undefined && (name !== call.name || (call.mayBeWhole && isObjectText(call.raw)))

/** The last call of an index; without one, the call in that place whose index was never told. */
const at = (calls: ReadonlyArray<Call>, index: number): Call | undefined =>
  calls.findLast((call) => call.index === index) ?? (calls[index]?.index === undefined ? calls[index] : undefined)

/** The call that a delta goes on with; none where it begins one. `others` are those of the deltas beside it. */
const known = (
  calls: ReadonlyArray<Call>,
  delta: Delta,
  others: { readonly position: number; readonly count: number; readonly taken: ReadonlySet<Call> }
): Call | undefined => {
  const { id, index } = delta
  if (id !== undefined) {
    const same = calls.findLast(
      (call) => call.id === id && (index === undefined || call.index === undefined || call.index === index)
    )
    if (same !== undefined) return same
    // the id may come after the first delta; a new one on a used index is a new call (O-H4)
    const last = index === undefined ? calls.at(-1) : at(calls, index)
    return last === undefined || last.id !== undefined || beginsAnother(last, delta) ? undefined : last
  }
  if (index !== undefined) {
    const call = at(calls, index)
    return call === undefined || beginsAnother(call, delta) ? undefined : call
  }
  // neither: by position, several beside each other as they stand, a single one at the end (O-H6)
  const call = others.count > 1 ? calls[calls.length - others.count + others.position] : calls.at(-1)
  if (delta.name !== undefined && call !== undefined && (others.taken.has(call) || beginsAnother(call, delta)))
    return undefined
  return call
}
