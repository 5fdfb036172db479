/**
 * The words of a request: its clauses, the names in a list, and what quotes protect.
 *
 * - Pure, and linear in the length of the text, which may be megabytes.
 */

const quoted = /`[^`]*`|"[^"]*"|“[^“”]*”|(?<!\w)'[^']*'(?!\w)/g

/** The same length, with the inside of quotes made opaque: nothing in quotes is read as part of the grammar. */
const masked = (request: string): string => request.replaceAll(quoted, (region) => "q".repeat(region.length))

const filler = "(?:please|and|then|after that|afterwards|finally|next|also|now)"

/** A place where the next instruction begins: a joint, and after it a verb that is followed by what it is about. */
const joint = new RegExp(
  `(?:[;\\n]|[,.!?](?=\\s)|\\s(?=(?:and|then)\\s))\\s{0,20}(?:${filler}[\\s,]\\s{0,20}){0,4}` +
    `(?=(?:run|execute|test|read|show|print|write|save|create|say)(?:\\s|:)\\s{0,20}(?!(?:and|or|then)\\b)[^\\s,;])`,
  "gi"
)

const lead = new RegExp(`^(?:(?:${filler}|hello|hi|ok|first|can you|could you|would you|i want you to)[\\s,]+)+`, "i")

/** The parts of a request, each meant to hold one instruction. */
export const clauses = (request: string): ReadonlyArray<string> => {
  const trimmed = request.trim().replace(lead, "")
  const parts: Array<string> = []
  let from = 0
  for (const match of masked(trimmed).matchAll(joint)) {
    const end = /^[.!?]/.test(match[0]) ? match.index + 1 : match.index
    parts.push(trimmed.slice(from, end))
    from = match.index + match[0].length
  }
  parts.push(trimmed.slice(from))
  return parts.map((part) => part.trim()).filter((part) => part !== "")
}

/** A clause without the punctuation and the politeness at its end, which belong to no name. */
export const bare = (clause: string): string =>
  clause
    .replace(/(?<=[^\s./])[.!?;,]+$/, "")
    .replace(/,?\s(?:please|thanks|thank you)$/i, "")
    .trim()

const item = /\s{0,20}(?:`([^`]+)`|"([^"]+)"|“([^“”]+)”|'([^']+)'|([^\s,;"'`“”]+))/y
const comma = /\s{0,20}(?:,\s{0,20}(?:and\s|&\s)?|\s(?:and|&)\s)/y
const noun = /^(?:the\s+)?(?:folders?|packages?|director(?:y|ies)|files?|commands?)\s+(?!(?:and|&)\s)(?=[^\s,])/i

/** A name of a list. */
export interface Name {
  readonly value: string
  readonly isQuoted: boolean
}

/** The names of a list such as `a, "b c" and d`, each once, or nothing if it is no such list. */
export const names = (list: string): ReadonlyArray<Name> | undefined => {
  const rest = list.trim().replace(noun, "")
  const found = new Map<string, Name>()
  let at = 0
  while (true) {
    item.lastIndex = at
    const match = item.exec(rest)
    const value = match?.slice(1).find((group) => group !== undefined)
    if (match === null || value === undefined || value.trim() === "") return undefined
    const isQuoted = match[5] === undefined
    if (!isQuoted && /^(?:and|&)$/i.test(value)) return undefined
    found.set(value, found.get(value) ?? { value, isQuoted })
    at = item.lastIndex
    if (at === rest.length) return [...found.values()]
    comma.lastIndex = at
    if (comma.exec(rest) === null) return undefined
    at = comma.lastIndex
  }
}

/** The names of a list as texts. */
export const values = (list: string): ReadonlyArray<string> | undefined => names(list)?.map((name) => name.value)

/** The one name that a text is, if it is one. */
export const oneName = (text: string): string | undefined => {
  const found = names(text)
  return found?.length === 1 ? found[0]?.value : undefined
}

const wholeQuote = /^(?:`([^`]+)`|"([^"]+)"|“([^“”]+)”|'([^']+)')$/

/** A text as it is meant: without the quotes, if one pair holds all of it. */
export const plain = (text: string): string =>
  wholeQuote
    .exec(text.trim())
    ?.slice(1)
    .find((group) => group !== undefined) ?? text
