/**
 * Models by name, as `--model` takes them: `PROVIDER/MODEL`.
 */
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Either from "effect/Either"
import type { ModelConfig } from "../domain/Request.ts"
import * as OfflineModel from "../model/OfflineModel.ts"
import { brief } from "./Line.ts"

/** The route of a request. */
export type Route = Pick<ModelConfig, "provider" | "model">

/** What is asked where nothing else is said: it needs no network and no key. */
export const fallback: Route = { provider: OfflineModel.provider, model: OfflineModel.model }

/** The models of each provider; a provider's name alone means the first. */
const providers: ReadonlyMap<string, readonly [string, ...ReadonlyArray<string>]> = new Map([
  [OfflineModel.provider, [OfflineModel.model]]
])

/** The route of a name, or why there is none. */
export const parse = (name: string): Either.Either<Route, string> => {
  const slash = name.indexOf("/")
  const provider = slash === -1 ? name : name.slice(0, slash)
  const models = providers.get(provider)
  const there = [...providers.keys()].join(", ")
  if (models === undefined) return Either.left(`there is no provider "${brief(provider, 40)}". There is: ${there}.`)
  const model = slash === -1 ? models[0] : name.slice(slash + 1)
  if (models.includes(model)) return Either.right({ provider, model })
  return Either.left(`${provider} has no model "${brief(model, 40)}". It has: ${models.join(", ")}.`)
}

/** The option of `run`. */
export const option: Options.Options<Route> = Options.text("model").pipe(
  Options.withPseudoName("PROVIDER/MODEL"),
  Options.withDescription("Who answers. Without it: offline, which needs no network and no key."),
  Options.mapEffect((name) => Either.mapLeft(parse(name), (why) => ValidationError.invalidValue(HelpDoc.p(why))))
)
