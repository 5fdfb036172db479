/**
 * `daybook settings set` and `unset`: changes of the user's settings, checked before they are stored.
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { Settings } from "../settings/Settings.ts"
import * as SettingsPath from "./SettingsPath.ts"
import { say } from "./Stdio.ts"
import * as UserSettings from "./UserSettings.ts"

const where = "What it is about: a section, a field of one, or a name in what a field holds."

const setDescription = HelpDoc.blocks([
  HelpDoc.p(
    [
      "Sets a value in your settings file; the rest of the file and its comments stay as they are. A value that",
      "is refused changes nothing: exit code 2, with the reason. Programs that run use the new value from the",
      "next group of tools, command or request on."
    ].join("\n")
  ),
  HelpDoc.p(
    [
      "Examples:",
      "",
      "  daybook settings set agent-loop.maxParallelToolCalls 4",
      "  daybook settings set processes.leftOver report",
      `  daybook settings set approvals.rules '[{"tool": "bash", "command": "git", "decision": "ask"}]'`
    ].join("\n")
  )
])

const unsetDescription = HelpDoc.blocks([
  HelpDoc.p("Takes a value out of your settings file: what is built in is in force again."),
  HelpDoc.p(["Example:", "", "  daybook settings unset agent-loop.maxParallelToolCalls"].join("\n"))
])

/** `daybook settings set`: once it is stored it says so. */
export const set = Command.make(
  "set",
  {
    path: SettingsPath.argument(where),
    value: Args.text({ name: "VALUE" }).pipe(
      Args.withDescription("JSON. What is no JSON is taken as a text; a text that looks like JSON needs its quotes.")
    )
  },
  ({ path, value }) => Effect.provide(setting(path, value), UserSettings.layerUnchecked)
).pipe(Command.withDescription(setDescription))

/** `daybook settings unset`: once it is stored it says so. */
export const unset = Command.make("unset", { path: SettingsPath.argument(where) }, ({ path }) =>
  Effect.provide(unsetting(path), UserSettings.layerUnchecked)
).pipe(Command.withDescription(unsetDescription))

// internal

const setting = Effect.fnUntraced(function* (wanted: SettingsPath.SettingsPath, text: string) {
  const settings = yield* Settings
  const value = Either.getOrElse(
    Either.try((): unknown => JSON.parse(text)),
    () => text
  )
  yield* settings.edit(wanted.section, [{ type: "set", path: wanted.path, value }])
  yield* tell(wanted, "sets it")
})

const unsetting = Effect.fnUntraced(function* (wanted: SettingsPath.SettingsPath) {
  const settings = yield* Settings
  // where it fails something is wrong with the section: what is to be taken out may be that
  const before = yield* Effect.option(settings.inspect(wanted.section))
  if (Option.isSome(before) && SettingsPath.at(before.value.user, wanted.path) === undefined) {
    yield* SettingsPath.mustBeKnown(wanted)
    return yield* tell(wanted, "did not set it")
  }
  yield* settings.edit(wanted.section, [{ type: "unset", path: wanted.path }])
  yield* tell(wanted, "no longer sets it")
})

/** Says what is in force, and what the file has to do with it. */
const tell = Effect.fnUntraced(function* (wanted: SettingsPath.SettingsPath, what: string) {
  const { values } = yield* Effect.flatMap(Settings, ({ inspect }) => inspect(wanted.section))
  const value = JSON.stringify(SettingsPath.at(values, wanted.path)) ?? "not set"
  yield* say(`${SettingsPath.show(wanted)} is ${value}; ${yield* UserSettings.file} ${what}`)
})
