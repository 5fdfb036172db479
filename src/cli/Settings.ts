/**
 * `daybook settings`: the user's settings file, checked.
 */
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Effect from "effect/Effect"
import { UsageError } from "./Failure.ts"
import * as SettingsGet from "./SettingsGet.ts"
import * as SettingsSet from "./SettingsSet.ts"

const description = HelpDoc.blocks([
  HelpDoc.p(
    [
      "Shows and changes your settings. They are a file, DAYBOOK_SETTINGS, else daybook/settings.json in",
      "XDG_CONFIG_HOME or in ~/.config: JSON, in which comments and trailing commas are allowed. It is not in the",
      "workspace on purpose: what an agent can write there must not loosen what it may do."
    ].join("\n")
  ),
  HelpDoc.p(
    [
      "  get [PATH]      prints what is in force as JSON",
      "  set PATH VALUE  sets a value",
      "  unset PATH      takes one out",
      "",
      "PATH is SECTION or SECTION.FIELD, or longer where a field holds names."
    ].join("\n")
  ),
  HelpDoc.p(
    [
      "Exit codes: 0 done; 1 the file cannot be read, is no JSON, is locked by another process, or cannot be",
      "written; 2 there is no such section or field, or the value is refused."
    ].join("\n")
  )
])

/** `daybook settings`, which is nothing without one of its commands. */
export const command = Command.make("settings", {}, () =>
  Effect.fail(new UsageError({ message: "a command is missing after settings. See daybook settings --help." }))
).pipe(
  Command.withDescription(description),
  Command.withSubcommands([SettingsGet.command, SettingsSet.set, SettingsSet.unset])
)
