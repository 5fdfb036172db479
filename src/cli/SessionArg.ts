/**
 * Session ids on the command line: an argument of most commands, an option of `run` and of `fork`.
 */
import * as Args from "@effect/cli/Args"
import * as HelpDoc from "@effect/cli/HelpDoc"
import type * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { SessionId } from "../domain/Ids.ts"
import * as Argv from "./Argv.ts"
import { brief } from "./Line.ts"

const decode = (text: string): Effect.Effect<SessionId, HelpDoc.HelpDoc> =>
  Effect.mapError(Schema.decode(SessionId)(text), () =>
    HelpDoc.p(
      `"${brief(text, 80)}" is no session id: that is 1 to 64 letters, digits, ".", "_" or "-", the first a letter or digit`
    )
  )

/** The session that is meant. */
export const argument: Args.Args<SessionId> = Args.text({ name: "ID" }).pipe(
  Args.withDescription("The session, as `daybook sessions` lists it."),
  Args.mapEffect(decode)
)

/** An option whose value is a session id. */
export const option = (said: Argv.OptionText): Options.Options<SessionId> =>
  Argv.reading({ ...said, value: "ID" }, decode)
