/**
 * Cutting text between characters.
 */

/** The last place at or before `at` where a text can be cut without cutting a surrogate pair. */
export const boundary = (text: string, at: number): number =>
  isHigh(text.charCodeAt(at - 1)) && isLow(text.charCodeAt(at)) ? at - 1 : at

/** A text of at most `max` code units, cut between characters, and marked where it was cut. */
export const clip = (text: string, max: number): string =>
  text.length <= max ? text : `${text.slice(0, boundary(text, max))}…`

// internal

const isHigh = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff
