/**
 * Places in a log on the command line.
 */
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Effect from "effect/Effect"
import * as Argv from "./Argv.ts"
import { brief } from "./Line.ts"

/** An option whose value is a seq: a whole number from 0 on. */
export const make = ({
  description,
  name
}: {
  readonly name: string
  readonly description: string
}): Options.Options<number> =>
  Argv.text(name).pipe(
    Options.withPseudoName("SEQ"),
    Options.withDescription(description),
    Options.mapEffect((text) =>
      /^\d+$/.test(text) && Number.isSafeInteger(Number(text))
        ? Effect.succeed(Number(text))
        : Effect.fail(
            ValidationError.invalidValue(
              HelpDoc.p(`--${name} takes a whole number from 0 on, and not "${brief(text, 40)}"`)
            )
          )
    )
  )
