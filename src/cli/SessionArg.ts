/**
 * Session ids on the command line: an argument of the reading commands, an option of `run`.
 */
import * as Args from "@effect/cli/Args"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
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

/** The session to read. */
export const argument: Args.Args<SessionId> = Args.text({ name: "ID" }).pipe(
  Args.withDescription("The session, as `daybook sessions` lists it."),
  Args.mapEffect(decode)
)

/** The session to go on with. */
export const option: Options.Options<SessionId> = Argv.text("session").pipe(
  Options.withPseudoName("ID"),
  Options.withDescription("The session to go on with; it is created if there is none. Without it, a new session."),
  Options.mapEffect((text) => Effect.mapError(decode(text), ValidationError.invalidValue))
)
