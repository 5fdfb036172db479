/**
 * Places in a log on the command line.
 */
import * as HelpDoc from "@effect/cli/HelpDoc"
import type * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Argv from "./Argv.ts"
import { brief } from "./Line.ts"

/** An option whose value is a seq: a whole number from 0 on. */
export const make = (said: Argv.OptionText): Options.Options<number> =>
  Argv.reading({ ...said, value: "SEQ" }, (text) =>
    /^\d+$/.test(text) && Number.isSafeInteger(Number(text))
      ? Effect.succeed(Number(text))
      : Effect.fail(HelpDoc.p(`--${said.name} takes a whole number from 0 on, and not "${brief(text, 40)}"`))
  )
