/**
 * Settings by name, as the command line takes them: `SECTION`, or `SECTION.FIELD` and on into what a field holds.
 */
import * as Args from "@effect/cli/Args"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { Json } from "../internal/Json.ts"
import { dotted, fieldsOf, isObject } from "../settings/Section.ts"
import type { AnySection } from "../settings/Settings.ts"
import { UsageError } from "./Failure.ts"
import { brief } from "./Line.ts"
import * as UserSettings from "./UserSettings.ts"

/** What is meant: a section, and a path in it; none is all of it. */
export interface SettingsPath {
  readonly section: AnySection
  readonly path: ReadonlyArray<string>
}

/** The path of a text, or why there is none. */
export const parse = (text: string): Either.Either<SettingsPath, string> => {
  const parts = [...text.matchAll(/("(?:[^"\\]|\\.)*"|[^".]+)(?:\.(?=.)|$)/gy)]
  const [name, ...path] = parts.map(([, part = ""]) => (part.startsWith('"') ? unquoted(part) : part))
  if (name === undefined || parts.map(([part]) => part).join("") !== text)
    return Either.left(`"${brief(text, 80)}" is no path, such as agent-loop.maxParallelToolCalls`)
  const section = UserSettings.sections.find((known) => known.name === name)
  const known = UserSettings.sections.map((section) => section.name).join(", ")
  return section === undefined
    ? Either.left(`there is no section "${brief(name, 40)}". There is: ${known}`)
    : Either.right({ section, path })
}

/** The argument PATH. */
export const argument = (description: string): Args.Args<SettingsPath> =>
  Args.text({ name: "PATH" }).pipe(
    Args.withDescription(description),
    Args.mapEffect((text) => Effect.mapError(parse(text), HelpDoc.p))
  )

/** A path as it is written. */
export const show = ({ path, section }: SettingsPath): string => dotted([section.name, ...path])

/** What stands at a path, if anything does. */
export const at = (value: Json | undefined, [key, ...below]: ReadonlyArray<string>): Json | undefined => {
  if (key === undefined) return value
  return isObject(value) && Object.hasOwn(value, key) ? at(value[key], below) : undefined
}

/** Fails where a path begins with a field that its section does not have. */
export const mustBeKnown = ({ path: [field], section }: SettingsPath): Effect.Effect<void, UsageError> => {
  const fields = fieldsOf(section)
  return field === undefined || fields.includes(field)
    ? Effect.void
    : Effect.fail(
        new UsageError({
          message: `${section.name} has no "${brief(field, 40)}"; it has ${fields.join(", ")}. Nothing was changed.`
        })
      )
}

// internal

const unquoted = (part: string): string =>
  Either.getOrElse(
    Either.try((): string => JSON.parse(part)),
    () => part
  )
