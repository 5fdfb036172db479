/**
 * An edit: one occurrence of a text replaced in the bytes of a file.
 *
 * - Every byte around that occurrence stays as it is, a byte order mark and the line ends included: what is no well-formed
 *   UTF-8, and so would not survive, is refused.
 * - In a file whose lines all end with CRLF, a line end in the texts of the edit means CRLF as well.
 * - Pure and total.
 */
import * as Either from "effect/Either"

/** What to replace by what. */
export interface Replacement {
  readonly oldText: string
  readonly newText: string
}

/** Why there is nothing that such an edit could do, whatever the file. */
export const pointless = ({ newText, oldText }: Replacement): string | undefined => {
  if (oldText === "")
    return "oldText is empty; give the text to replace, with enough of the lines around it to be found once"
  if (oldText === newText) return "newText is the same as oldText, so there is nothing to change"
  return undefined
}

/** The bytes with the replacement made, and the line that it begins on; or why it cannot be made. */
export const apply = (
  bytes: Uint8Array,
  replacement: Replacement
): Either.Either<{ readonly bytes: Uint8Array; readonly line: number }, string> =>
  Either.flatMap(textOf(bytes), (text) => {
    const adapted = hasOnlyCrlf(text) ? withCrlf : same
    const oldText = adapted(replacement.oldText)
    const found = placesOf(text, oldText)
    const [at] = found
    if (at === undefined)
      return Either.left("oldText is not in it; read it again and copy the text exactly, spaces and line ends included")
    if (found.length > 1) return Either.left(ambiguous(text, found))
    const changed = text.slice(0, at) + adapted(replacement.newText) + text.slice(at + oldText.length)
    return Either.right({ bytes: new TextEncoder().encode(changed), line: lineAt(text, at) })
  })

// internal

const textOf = (bytes: Uint8Array): Either.Either<string, string> =>
  Either.try({
    try: () => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes),
    catch: () => "it is not well-formed UTF-8, so an edit would change more of it than was asked; use bash instead"
  })

const hasOnlyCrlf = (text: string): boolean => text.includes("\r\n") && !/(?<!\r)\n/.test(text)

const withCrlf = (text: string): string => text.replaceAll(/(?<!\r)\n/g, "\r\n")

const same = (text: string): string => text

/** More of them than anybody wants to be told of. */
const maxPlaces = 1000
const maxLines = 10

/** Where it stands, each place of it, one in another included. */
const placesOf = (text: string, part: string): ReadonlyArray<number> => {
  const places: Array<number> = []
  for (let at = text.indexOf(part); at !== -1 && places.length < maxPlaces; at = text.indexOf(part, at + 1))
    places.push(at)
  return places
}

const lineAt = (text: string, at: number): number => {
  let line = 1
  for (let end = text.indexOf("\n"); end !== -1 && end < at; end = text.indexOf("\n", end + 1)) line++
  return line
}

const ambiguous = (text: string, places: ReadonlyArray<number>): string => {
  const lines = [...new Set(places.slice(0, maxLines).map((at) => lineAt(text, at)))]
  const more = places.length > maxLines ? " and others" : ""
  const times = places.length < maxPlaces ? `${places.length}` : `at least ${maxPlaces}`
  const where = `${lines.length === 1 && more === "" ? "in line" : "in lines"} ${lines.join(", ")}${more}`
  return `oldText is in it ${times} times, ${where}; give more of the text around the one that is meant`
}
