/**
 * Reading JSON of which nothing is known: what a server sends is what it likes.
 */
import * as Predicate from "effect/Predicate"

export type Fields = { readonly [key: string]: unknown }

/** An object, if it is one. */
export const fields = (value: unknown): Fields | undefined => (Predicate.isRecord(value) ? value : undefined)

/** The items of an array; none of anything else. */
export const list = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

/** A text that says something: empty and null mean the same as nothing. */
export const said = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined

/** A number that can be counted with. */
export const counted = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) ? value : undefined
