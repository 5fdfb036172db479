/**
 * `daybook settings get`: what is in force, and what of it the user has set.
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Json } from "../internal/Json.ts"
import { dotted, isObject } from "../settings/Section.ts"
import { Settings } from "../settings/Settings.ts"
import * as SettingsPath from "./SettingsPath.ts"
import { Stdio, say } from "./Stdio.ts"
import * as UserSettings from "./UserSettings.ts"

const config = {
  path: SettingsPath.argument("A section, or a field of one. Without it, all of them.").pipe(Args.optional)
}

const description = HelpDoc.blocks([
  HelpDoc.p(
    [
      "Prints the settings that are in force as JSON, and says on standard error which of them your file sets.",
      "Fails with exit code 1 where the file is no JSON, or holds a value that is refused."
    ].join("\n")
  ),
  HelpDoc.p(
    ["Examples:", "", "  daybook settings get", "  daybook settings get agent-loop.maxParallelToolCalls"].join("\n")
  )
])

/** `daybook settings get`: prints values as JSON. */
export const command = Command.make("get", config, ({ path }) =>
  Option.match(path, {
    onNone: () => Effect.provide(getAll, UserSettings.layer),
    onSome: (path) => Effect.provide(getOne(path), UserSettings.layerUnchecked)
  })
).pipe(Command.withDescription(description))

// internal

const getAll = Effect.gen(function* () {
  const settings = yield* Settings
  const all = yield* Effect.forEach(UserSettings.sections, (section) =>
    Effect.map(settings.inspect(section), (inspected) => ({ name: section.name, ...inspected }))
  )
  yield* print(Object.fromEntries(all.map(({ name, values }) => [name, values])))
  yield* tellSet(all.flatMap(({ name, user }) => leavesOf({ path: [name], value: user })))
})

const getOne = Effect.fnUntraced(function* (wanted: SettingsPath.SettingsPath) {
  yield* SettingsPath.mustBeKnown(wanted)
  const settings = yield* Settings
  const { path, section } = wanted
  const { user, values } = yield* settings.inspect(section)
  const value = SettingsPath.at(values, path)
  if (value === undefined) return yield* say(`${SettingsPath.show(wanted)} is not set`)
  yield* print(value)
  yield* tellSet(leavesOf({ path: [section.name, ...path], value: SettingsPath.at(user, path) }))
})

const print = (value: Json) =>
  Effect.flatMap(Stdio, (stdio) => stdio.out(`${JSON.stringify(value, null, 2)}\n`, "json"))

/** Says which of what was printed is the user's. */
const tellSet = (set: ReadonlyArray<string>) =>
  Effect.flatMap(UserSettings.file, (file) =>
    say(set.length === 0 ? `${file} sets nothing of this` : `${file} sets ${set.join(", ")}`)
  )

interface At {
  readonly path: ReadonlyArray<string>
  readonly value: Json | undefined
}

/** The paths of all that is set at a place and below it. */
const leavesOf = ({ path, value }: At): ReadonlyArray<string> => {
  if (value === undefined) return []
  if (!isObject(value)) return [dotted(path)]
  return Object.entries(value).flatMap(([key, below]) => leavesOf({ path: [...path, key], value: below }))
}
