/**
 * Sections over what a composition and a store say of them.
 *
 * - Changes are made one after the other, in the order in which they were called, each of what the one before left (L05).
 * - What is wrong with what is stored is warned of once, and what was in force before stays so (L02).
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { type Json, snapshot } from "../internal/Json.ts"
import * as Turnstile from "../internal/Turnstile.ts"
import * as Document from "./Document.ts"
import * as Live from "./Live.ts"
import * as Section from "./Section.ts"
import { type EditError, InvalidSetting, InvalidStoredSetting, type StartError } from "./SettingsError.ts"
import type { Change, Store, Stored } from "./Store.ts"

/** A change of a section: a value to be set at a path in it, or what is there to be taken out. No path is all of it. */
export type Edit =
  | { readonly type: "set"; readonly path: ReadonlyArray<string>; readonly value: unknown }
  | { readonly type: "unset"; readonly path: ReadonlyArray<string> }

/** What a composition says of sections, by their names. */
export type Values = Readonly<Record<string, Readonly<Record<string, unknown>>>>

/** A section, and who says what of it, as it is written. */
export interface Inspected {
  /** What is in force. */
  readonly values: Json
  readonly composition: Json | undefined
  readonly user: Json | undefined
}

/** Sections over a store. Once the scope has closed, watchers have their last value. */
export const make = Effect.fnUntraced(function* (store: Store, composition: Values) {
  const composed = copied(composition)
  const exclusively = Turnstile.make()
  const lives = new Map<Section.AnySection, Pick<Live.Live<unknown>, "unsafeEnd">>()
  let isClosed = false
  let seen: Stored | undefined

  const liveOf = <A, I>(section: Section.Section<A, I>): Live.Live<A> => {
    const known = lives.get(section) as Live.Live<A> | undefined // what is kept for a section was made of it
    if (known !== undefined) return known
    const live = Live.make(section, composed[section.name])
    if (isClosed) live.unsafeEnd()
    lives.set(section, live)
    return live
  }

  /** A section, up to date. */
  const look = <A, I>(section: Section.Section<A, I>): Effect.Effect<Live.Live<A>> =>
    Effect.suspend(() => {
      const live = liveOf(section)
      const stored = store.unsafeRead()
      const problem = live.unsafeSee(stored)
      // what is wrong with the whole is told of the first section alone
      const isTold = Either.isLeft(stored) && stored === seen
      seen = stored
      if (problem === undefined || isTold) return Effect.succeed(live)
      return Effect.as(Effect.logWarning(`${problem}; what was in force before stays so`), live)
    })

  const get = <A, I>(section: Section.Section<A, I>): Effect.Effect<A> =>
    Effect.map(look(section), (live) => live.unsafeLast().resolved.value)

  /** What comes after a value of a section. Where others write too, it is looked for from time to time. */
  const after = <A, I>(
    section: Section.Section<A, I>,
    link: Live.Link<A>
  ): Effect.Effect<Option.Option<Live.Link<A>>> => {
    const next = Deferred.await(link.next)
    const awaited = Option.match(store.pace, {
      onNone: () => next,
      onSome: (pace) =>
        Effect.flatMap(
          Effect.timeoutOption(next, pace),
          Option.match({ onNone: () => after(section, link), onSome: Effect.succeed })
        )
    })
    return Effect.zipRight(look(section), awaited)
  }

  const changes = <A, I>(section: Section.Section<A, I>): Stream.Stream<A> =>
    Stream.unfoldEffect(
      Effect.map(look(section), (live) => Option.some(live.unsafeLast())),
      Effect.map(Option.map((link) => [link.resolved.value, after(section, link)] as const))
    )

  const inspect = (section: Section.AnySection): Effect.Effect<Inspected, StartError> =>
    Effect.suspend(() =>
      Either.flatMap(store.unsafeRead(), ({ values }) => {
        const layers = { composition: composed[section.name], user: values[section.name] }
        return Either.mapBoth(Section.resolve(section, [layers.composition, layers.user]), {
          onLeft: (refusal) => new InvalidStoredSetting({ ...told(section, refusal), file: store.name }),
          onRight: ({ written }) => ({ values: written, ...layers })
        })
      })
    )

  const edit = <A, I>(section: Section.Section<A, I>, edits: ReadonlyArray<Edit>): Effect.Effect<A, EditError> => {
    // now, and not when their turn has come
    const taken = Either.all(edits.map((edit) => taking(section, edit)))
    const update = Effect.flatMap(taken, (steps) => store.update(changing(section, composed[section.name], steps)))
    return exclusively((restore) =>
      // whoever watches learns of it also where the caller is interrupted right then
      Effect.zipRight(Effect.ensuring(restore(update), look(section)), get(section))
    ).pipe(Effect.withSpan("Settings.edit", { attributes: { section: section.name }, captureStackTrace: false }))
  }

  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      isClosed = true
      for (const live of lives.values()) live.unsafeEnd()
    })
  )
  return {
    get,
    changes,
    inspect,
    edit,
    set: <A, I>(section: Section.Section<A, I>, fields: Partial<I>) =>
      edit(
        section,
        Object.entries(fields).map(([name, value]) => ({ type: "set", path: [name], value }))
      )
  }
})

// internal

/** A copy of what a composition says. Throws where JSON would lose some of it: the program is wrong. */
const copied = (composition: Values): Document.JsonObject => {
  const copy = Either.getOrThrowWith(snapshot(composition), (why) => new Error(`no composition of settings: ${why}`))
  return Section.isObject(copy) ? copy : {}
}

const told = (section: Section.AnySection, { detail, path }: Section.Refusal) => ({
  section: section.name,
  field: Section.dotted(path),
  detail
})

/** A step of a change: a path from the root, and the value that is to be there; without one, nothing. */
interface Step {
  readonly path: ReadonlyArray<string>
  readonly value?: Json
}

const taking = (section: Section.AnySection, edit: Edit): Either.Either<Step, InvalidSetting> => {
  const path = [section.name, ...edit.path]
  if (edit.type === "unset") return Either.right({ path })
  return Either.mapBoth(snapshot(edit.value), {
    onLeft: (why) => {
      const detail = `${Section.dotted(path)} must be JSON, and ${why}`
      return new InvalidSetting(told(section, { path: edit.path, detail }))
    },
    onRight: (value) => ({ path, value })
  })
}

/** The text that steps make, if the section is then one that its schema takes. */
const changing =
  (section: Section.AnySection, composed: Json | undefined, steps: ReadonlyArray<Step>): Change<InvalidSetting> =>
  (document) => {
    const text = steps.reduce(
      (text, { path, value }) =>
        value === undefined ? Document.without(text, path) : Document.withValue(text, path, value),
      document.text
    )
    const { values } = Either.getOrThrowWith(Document.parse(text), ({ reason }) => new Error(`a bad edit: ${reason}`))
    return Either.mapBoth(Section.resolve(section, [composed, values[section.name]]), {
      onLeft: (refusal) => new InvalidSetting(told(section, refusal)),
      onRight: () => text
    })
  }
