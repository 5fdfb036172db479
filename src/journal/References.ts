/**
 * Texts by reference: what a row leaves out because a row that its event cites holds it.
 *
 * - Where an answer's text, reasoning or arguments are those of its cited chunks, its row has the number of their block in
 *   place of the text. Where a result's content is that of its cited `tool/settled`, its row has the seq of that.
 * - A place that holds a number is a reference, and nothing else is: every such place holds a text or a list.
 * - `restore` gives back what `shorten` was given, byte for byte. What is not equal to what it cites is stored whole.
 */
import * as Either from "effect/Either"
import type { Range, Sources, StoredEvent } from "../domain/Event.ts"

/** An event, or a row whose data was parsed and not yet decoded. */
export interface Parsed {
  readonly seq: number
  readonly type: string
  readonly data: unknown
}

/** The range that holds every seq that a citation names; an empty range for none. */
export const rangeOf = (sources: Sources | undefined): Range => {
  if (sources !== undefined && "from" in sources) return sources
  return (sources ?? []).reduce(({ from, to }, seq) => ({ from: Math.min(from, seq), to: Math.max(to, seq) }), {
    from: Number.POSITIVE_INFINITY,
    to: -1
  })
}

/** Those of these that a citation names. */
export const citedOf = <A extends Parsed>(sources: Sources | undefined, parsed: ReadonlyArray<A>): ReadonlyArray<A> => {
  if (sources === undefined) return []
  if ("from" in sources) return parsed.filter(({ seq }) => seq >= sources.from && seq <= sources.to)
  const named = new Set(sources)
  return parsed.filter(({ seq }) => named.has(seq))
}

/** Whether `shorten` may find something to leave out. */
export const mayShorten = (event: StoredEvent): boolean =>
  event.sourceEventSeqs !== undefined && (event.type === "assistant/message" || event.type === "tool/result")

/** The data that a row keeps of an event, given the events that it cites; those that are missing are not referred to. */
export const shorten = (event: StoredEvent, cited: ReadonlyArray<Parsed>): unknown => {
  if (event.type === "assistant/message") return shortAnswer(event.data, blocksOf(cited))
  if (event.type === "tool/result") return shortResult(event.data, cited)
  return event.data
}

/** Whether data of a row leaves something out. */
export const isShort = ({ data, type }: Parsed): boolean => {
  if (type === "tool/result") return typeof field(field(data, "message"), "content") === "number"
  return type === "assistant/message" && contentOf(data).some((block) => referenceIn(block) !== undefined)
}

/** Where what a short row refers to is found: the chunks that it cites, or its one `tool/settled`. */
export const referredTo = ({ data, sources, type }: Parsed & { readonly sources: Sources | undefined }): Sources => {
  const settled = field(field(data, "message"), "content")
  return type === "tool/result" && typeof settled === "number" ? [settled] : (sources ?? [])
}

/** The whole data, given what its row cites; or what is missing. */
export const restore = ({ data, type }: Parsed, cited: ReadonlyArray<Parsed>): Either.Either<unknown, string> =>
  type === "tool/result" ? wholeResult(data, cited) : wholeAnswer(data, blocksOf(cited))

/** The data of a short row without what it refers to: for whoever will not look at it. */
export const blank = ({ data, type }: Parsed): unknown =>
  withMessage(data, {
    content:
      type === "tool/result"
        ? []
        : contentOf(data).map((block) => {
            const key = referenceIn(block)
            return key === undefined ? block : { ...(block as object), [key]: "" } // a block with a reference has fields
          })
  })

// internal

type Fields = { readonly [key: string]: unknown }

const isFields = (value: unknown): value is Fields => value !== null && typeof value === "object"

const field = (value: unknown, key: string): unknown => (isFields(value) ? value[key] : undefined)

/** The blocks of an answer as its row has them. */
const contentOf = (data: unknown): ReadonlyArray<unknown> => {
  const content = field(field(data, "message"), "content")
  return Array.isArray(content) ? content : []
}

/** Where a block has its text. */
const textFields = ["text", "arguments"] as const

/** The field of a block that holds a reference. */
const referenceIn = (block: unknown): (typeof textFields)[number] | undefined =>
  textFields.find((key) => typeof field(block, key) === "number")

/** The text of each block of these chunks, in order of first appearance. */
const blocksOf = (cited: ReadonlyArray<Parsed>): ReadonlyMap<number, string> => {
  const parts = new Map<number, Array<string>>()
  for (const { data, type } of cited) {
    if (type !== "assistant/chunk") continue
    const chunk = field(data, "chunk")
    const index = field(chunk, "index")
    const text = field(chunk, "text") ?? field(chunk, "arguments")
    if (typeof index !== "number" || typeof text !== "string") continue
    const block = parts.get(index)
    if (block === undefined) parts.set(index, [text])
    else block.push(text)
  }
  return new Map(Array.from(parts, ([index, texts]) => [index, texts.join("")]))
}

const shortAnswer = (
  data: Extract<StoredEvent, { readonly type: "assistant/message" }>["data"],
  blocks: ReadonlyMap<number, string>
): unknown => {
  const short = (block: object, key: (typeof textFields)[number], text: string): object => {
    if (text !== "") for (const [index, whole] of blocks) if (whole === text) return { ...block, [key]: index }
    return block
  }
  const content = data.message.content.map((block) => {
    switch (block.type) {
      case "text":
      case "reasoning":
        return short(block, "text", block.text)
      case "tool-call":
        return short(block, "arguments", block.arguments)
      case "blob":
        return block
      default:
        return block satisfies never
    }
  })
  return { ...data, message: { ...data.message, content } }
}

const wholeAnswer = (data: unknown, blocks: ReadonlyMap<number, string>): Either.Either<unknown, string> => {
  const content: Array<unknown> = []
  for (const block of contentOf(data)) {
    const key = referenceIn(block)
    const index = key === undefined ? undefined : field(block, key)
    if (key === undefined || typeof index !== "number" || !isFields(block)) {
      content.push(block)
      continue
    }
    const text = blocks.get(index)
    if (text === undefined) return Either.left(`the chunks of its block ${index} are missing`)
    content.push({ ...block, [key]: text })
  }
  return Either.right(withMessage(data, { content }))
}

const withMessage = (data: unknown, fields: Fields): unknown => {
  const message = field(data, "message")
  return isFields(data) && isFields(message) ? { ...data, message: { ...message, ...fields } } : data
}

/** What the `tool/settled` of that seq says the call put out. */
const settledContent = (cited: ReadonlyArray<Parsed>, isMeant: (seq: number) => boolean) => {
  const settled = cited.find(({ seq, type }) => type === "tool/settled" && isMeant(seq))
  const content = field(field(settled?.data, "outcome"), "content")
  return settled === undefined || content === undefined ? undefined : { seq: settled.seq, content }
}

const shortResult = (
  data: Extract<StoredEvent, { readonly type: "tool/result" }>["data"],
  cited: ReadonlyArray<Parsed>
): unknown => {
  const settled = settledContent(cited, () => true)
  const isSame = settled !== undefined && JSON.stringify(settled.content) === JSON.stringify(data.message.content)
  return isSame ? { ...data, message: { ...data.message, content: settled.seq } } : data
}

const wholeResult = (data: unknown, cited: ReadonlyArray<Parsed>): Either.Either<unknown, string> => {
  const named = field(field(data, "message"), "content")
  const settled = settledContent(cited, (seq) => seq === named)
  return settled === undefined
    ? Either.left(`the tool/settled that it refers to is missing`)
    : Either.right(withMessage(data, { content: settled.content }))
}
