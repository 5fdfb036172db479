/**
 * The arguments of a call: from the text that a model wrote to what a handler takes.
 *
 * - A strict reading of the whole text: nothing is guessed, completed or dropped, whatever the finish reason said (O-E3).
 * - Total: whatever the text is, the answer is the arguments or a problem that a model can act upon.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { identity } from "effect/Function"
import { type Json, snapshot, wellFormedValue } from "../internal/Json.ts"
import type { RegisteredTool } from "./Tools.ts"

/** Arguments that may be run: as JSON, for those who judge the call, and as the handler takes them. Both are frozen. */
export interface Decoded {
  readonly json: Json
  readonly decoded: unknown
}

/** Why arguments cannot be run. */
export interface Undecodable {
  readonly problem: string
}

/** Reads and decodes the arguments of a call, once. */
export const decode = (tool: RegisteredTool, raw: string): Effect.Effect<Decoded | Undecodable> =>
  Either.match(parse(raw), {
    onLeft: (problem) => Effect.succeed({ problem }),
    onRight: (json) =>
      Effect.suspend(() => tool.decode(json)).pipe(
        Effect.map((decoded): Decoded => ({ json, decoded: freezePlain(decoded) })),
        // a schema that throws has refused the arguments as well; no interrupt comes here, the pipeline shuts them out
        Effect.catchAllCause((cause) => Effect.succeed({ problem: messageOf(Cause.squash(cause)) }))
      )
  })

// internal

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const parse = (raw: string): Either.Either<Json, string> =>
  Either.flatMap(
    // all of it may throw: what is nested deeply enough overflows the stack of whoever walks it
    Either.try({ try: () => objectOf(JSON.parse(raw.trim() === "" ? "{}" : raw)), catch: messageOf }),
    identity
  )

const objectOf = (value: unknown): Either.Either<Json, string> =>
  value === null || typeof value !== "object" || Array.isArray(value)
    ? Either.left("they are not a JSON object")
    : // a model may write half a surrogate pair or a NUL as an escape (O-O2)
      Either.mapLeft(snapshot(wellFormedValue(value)), (loss) => `they are not lossless JSON: ${loss}`)

const isPlain = (value: object): boolean =>
  Array.isArray(value) || [Object.prototype, null].includes(Object.getPrototypeOf(value))

/** Freezes plain objects and arrays. What a schema made of them otherwise is its own: freezing a class can break it. */
const freezePlain = (value: unknown): unknown => {
  if (value === null || typeof value !== "object" || !isPlain(value) || Object.isFrozen(value)) return value
  Object.freeze(value)
  for (const item of Object.values(value)) freezePlain(item)
  return value
}
