/**
 * Where what a user sets is kept.
 *
 * - Reading waits for nothing: it is done between two groups of tools.
 * - A change is made of what is stored at that moment, while nobody else writes, and is stored whole or not at all.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Document from "./Document.ts"
import { type ReadError, SettingsBroken, type SettingsLocked } from "./SettingsError.ts"

/** What is stored, or why that cannot be told. */
export type Stored = Either.Either<Document.Document, ReadError>

/** What becomes of a document: a text, or why nothing. It may be asked again. */
export type Change<E> = (document: Document.Document) => Either.Either<string, E>

export interface Store {
  /** What errors call it. */
  readonly name: string
  /** What is stored now: the same object for as long as nothing changes. */
  readonly unsafeRead: () => Stored
  /** Stores what a change makes of what is stored; that is durable on return. What is refused leaves nothing behind. */
  readonly update: <E>(change: Change<E>) => Effect.Effect<void, E | ReadError | SettingsLocked>
  /** How often to look for what others wrote; none where there are no others. */
  readonly pace: Option.Option<Duration.Duration>
}

/** A store of this process alone, gone with it. */
export const makeMemory = (): Store => {
  let stored = read("memory", "")
  return {
    name: "memory",
    unsafeRead: () => stored,
    update: (change) =>
      Effect.suspend(() =>
        Either.map(Either.flatMap(stored, change), (text) => {
          stored = read("memory", text)
        })
      ),
    pace: Option.none()
  }
}

/** What a text says. */
export const read = (name: string, text: string): Stored =>
  Either.mapLeft(
    Document.parse(text),
    ({ column, line, reason }) => new SettingsBroken({ file: name, line, column, detail: reason })
  )
