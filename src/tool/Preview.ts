/**
 * A preview: the head and the tail of a text that is too long, and a notice between them.
 *
 * - Cut between characters (W27), and in bytes never longer than it may be.
 */
import * as Option from "effect/Option"
import * as Tail from "./Tail.ts"

/** How many bytes a text has as UTF-8. */
export const sizeOf = (text: string): number => Buffer.byteLength(text)

/**
 * A preview of at most `limit` bytes, of a well-formed text that is longer; none where the notice alone is. `notice` is
 * given how many bytes are left out.
 */
export const make = (text: string, limit: number, notice: (left: number) => string): Option.Option<string> => {
  const total = sizeOf(text)
  // no number of bytes left out is longer than that of all, and there are two line ends
  const room = limit - sizeOf(notice(total)) - 2
  if (room < 0) return Option.none()
  const tailRoom = Math.floor(room / 2)
  const head = headOf(text, room - tailRoom)
  const tail = tailOf(text, tailRoom)
  return Option.some(`${head}\n${notice(total - sizeOf(head) - sizeOf(tail))}\n${tail}`)
}

// internal

const headOf = (text: string, bytes: number): string =>
  text.slice(0, new TextEncoder().encodeInto(text.slice(0, bytes + 1), new Uint8Array(bytes)).read)

const tailOf = (text: string, bytes: number): string => {
  if (bytes === 0) return ""
  const tail = Tail.make(bytes)
  // a character has at least a byte, so these are enough; half of one at their start is cut off with what is too much
  tail.push(new TextEncoder().encode(text.slice(-bytes)))
  return tail.view(true).text
}
