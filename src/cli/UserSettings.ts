/**
 * The user's settings: in which file they are, and which sections this program has.
 *
 * - The file is not in the workspace: what an agent can write there must not loosen what it may do.
 */
import * as os from "node:os"
import * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as OpenAi from "../model/OpenAi.ts"
import * as Retry from "../model/Retry.ts"
import * as Settings from "../settings/Settings.ts"
import * as Approvals from "../tool/Approvals.ts"

/** Every section that this program has. */
export const sections: ReadonlyArray<Settings.AnySection> = [
  Settings.AgentLoop,
  Approvals.Rules,
  OpenAi.Patience,
  Settings.Processes,
  Retry.Policy
]

/** Where they are: DAYBOOK_SETTINGS, else the folder for configuration that the environment names, else `~/.config`. */
export const file: Effect.Effect<string, never, Path.Path> = Effect.gen(function* () {
  const path = yield* Path.Path
  const named = yield* variable("DAYBOOK_SETTINGS")
  if (Option.isSome(named)) return path.resolve(named.value)
  // a relative one is to be ignored, says who defines it
  const folder = Option.filter(yield* variable("XDG_CONFIG_HOME"), path.isAbsolute)
  return path.join(
    Option.getOrElse(folder, () => path.join(os.homedir(), ".config")),
    "daybook",
    "settings.json"
  )
})

/** What is set there. Fails where that is no good from the start. */
export const layer = Layer.unwrapEffect(Effect.map(file, (path) => Settings.layerFile({ path, sections })))

/** The same for those who look for what is wrong, or mend it. */
export const layerUnchecked = Layer.unwrapEffect(Effect.map(file, (path) => Settings.layerFile({ path })))

// internal

/** A variable that cannot be read is one that is not set. A `function`: `file`, above, is a value. */
function variable(name: string): Effect.Effect<Option.Option<string>> {
  return Effect.option(Config.nonEmptyString(name))
}
