/**
 * A tail: the end of a stream of bytes, as text.
 *
 * - Memory is bounded by the cap and work is linear in the stream, whatever its length and its pieces (O-O5, O-O6).
 * - A cut falls between characters (W27). Bytes that are no UTF-8 read as U+FFFD (O-O4), and so does NUL (O-O3).
 */
import { wellFormed } from "../internal/Json.ts"

/** What a tail holds now. */
export interface View {
  readonly text: string
  /** The bytes of the whole stream so far. */
  readonly total: number
  /** How many of them were cut off before `text`. */
  readonly cut: number
}

/** The last bytes of a stream that is still being written to. */
export interface Tail {
  readonly push: (bytes: Uint8Array) => void
  /** The bytes of the whole stream so far. */
  readonly total: () => number
  /** A copy of those that it keeps. */
  readonly bytes: () => Uint8Array
  /** The tail as it is now. A character of which only a part has come yet is left out, unless the stream has ended. */
  readonly view: (ended: boolean) => View
}

/** A tail of at most `cap` bytes, of which it keeps exactly the last; less only where a character would be cut. */
export const make = (cap: number): Tail => {
  // a ring: the byte at place n of the stream lies at n modulo cap
  const ring = new Uint8Array(cap)
  let total = 0
  const kept = () =>
    total <= cap ? ring.slice(0, total) : concat(ring.subarray(total % cap), ring.subarray(0, total % cap))
  return {
    total: () => total,
    bytes: kept,
    push: (bytes) => {
      const last = bytes.subarray(Math.max(0, bytes.length - cap))
      const at = (total + bytes.length - last.length) % cap
      const first = last.subarray(0, cap - at)
      ring.set(first, at)
      ring.set(last.subarray(first.length), 0)
      total += bytes.length
    },
    view: (ended) => {
      const bytes = kept()
      const start = total <= cap ? 0 : characterStart(bytes)
      const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(start), { stream: !ended })
      return { text: wellFormed(text), total, cut: total - bytes.length + start }
    }
  }
}

// internal

const concat = (a: Uint8Array, b: Uint8Array): Uint8Array => {
  const both = new Uint8Array(a.length + b.length)
  both.set(a, 0)
  both.set(b, a.length)
  return both
}

/** The place of the first byte that does not continue a character; a character has at most three that do. */
const characterStart = (bytes: Uint8Array): number => {
  let start = 0
  while (start < 3 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start++
  return start
}
