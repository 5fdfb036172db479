/**
 * Models by name, as `--model` takes them: `PROVIDER/MODEL`. Which servers that means, and with which keys.
 *
 * - Who is asked is decided by the command line, else by the session's log, else it is the offline model.
 * - A key is read from the environment and from nowhere else, and is shown to nobody.
 */
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import type { HttpClient } from "@effect/platform/HttpClient"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import * as Hooks from "../agent/Hooks.ts"
import type { ModelConfig } from "../domain/Request.ts"
import { ChatError, ChatModel } from "../model/ChatModel.ts"
import * as OfflineModel from "../model/OfflineModel.ts"
import * as OpenAi from "../model/OpenAi.ts"
import type { Profile } from "../model/OpenAiWire.ts"
import * as RoutedModel from "../model/RoutedModel.ts"
import type { Settings } from "../settings/Settings.ts"
import * as Argv from "./Argv.ts"
import { UsageError } from "./Failure.ts"
import { brief } from "./Line.ts"

/** The route of a request. */
export type Route = Pick<ModelConfig, "provider" | "model">

/** What is asked where nothing else is said: it needs no network and no key. */
export const fallback: Route = { provider: OfflineModel.provider, model: OfflineModel.model }

/** The route of a name, or why there is none. */
export const parse = (name: string): Either.Either<Route, string> => {
  const slash = name.indexOf("/")
  const provider = slash === -1 ? name : name.slice(0, slash)
  const model = slash === -1 ? "" : name.slice(slash + 1)
  const there = [OfflineModel.provider, ...servers.map(({ profile }) => profile.provider)]
  if (!there.includes(provider))
    return Either.left(`there is no provider "${brief(provider, 40)}". There is: ${there.join(", ")}.`)
  if (provider !== OfflineModel.provider)
    return /^[!-~]{1,200}$/.test(model)
      ? Either.right({ provider, model })
      : Either.left(`it needs the name of a model: ${provider}/NAME.`)
  return slash === -1 || model === OfflineModel.model
    ? Either.right(fallback)
    : Either.left(`${provider} has no model "${brief(model, 40)}". It has: ${OfflineModel.model}.`)
}

/** What the command line says of models, and whether it means a session that is not there yet. */
export interface Given {
  readonly isNew: boolean
  readonly model: Option.Option<Route>
  readonly baseUrl: Option.Option<string>
}

/** The options of `run`. */
export const options = {
  model: Argv.text("model").pipe(
    Options.withPseudoName("PROVIDER/MODEL"),
    Options.withDescription(
      "Who answers: openai/NAME, deepseek/NAME or offline. Without it, whoever answered last in this session; in a new one offline, which needs no network and no key."
    ),
    Options.mapEffect((name) => Either.mapLeft(parse(name), (why) => ValidationError.invalidValue(HelpDoc.p(why)))),
    Options.optional
  ),
  baseUrl: Argv.text("base-url").pipe(
    Options.withPseudoName("URL"),
    Options.withDescription(
      "Another server that speaks the same, such as http://127.0.0.1:8080/v1. It is not kept with the session."
    ),
    Options.mapEffect((text) => Either.mapLeft(parseUrl(text), (why) => ValidationError.invalidValue(HelpDoc.p(why)))),
    Options.optional
  )
}

/** Who may be asked, and with which key. */
export interface Choice {
  /** Who is asked; without it, whoever the log names, else the fallback. */
  readonly route: Option.Option<Route>
  readonly servers: ReadonlyArray<ReadyServer>
}

/** What the command line and the environment choose. Fails where they choose a server that wants a key and has none. */
export const resolve = Effect.fn("Models.resolve")(function* (given: Given) {
  const route = Option.getOrUndefined(given.isNew ? Option.orElseSome(given.model, () => fallback) : given.model)
  if (Option.isSome(given.baseUrl) && route?.provider === OfflineModel.provider)
    return yield* new UsageError({
      message: "--base-url: the offline model asks no server. Nothing was changed. Name a model: --model openai/NAME."
    })
  const ready = yield* Effect.forEach(servers, (server) =>
    Effect.map(keyOf(server.variable), (key) => ({
      ...server,
      // it is meant for whoever is named, or for whoever the session asks
      baseUrl: Option.filter(given.baseUrl, () => route === undefined || route.provider === server.profile.provider),
      key
    }))
  )
  const problem = ready.find(({ profile }) => profile.provider === route?.provider)
  const why = problem === undefined ? undefined : keyProblem(problem)
  if (why !== undefined) return yield* new UsageError({ message: `${why} Nothing was changed.` })
  return { route: given.model, servers: ready } satisfies Choice
})

/** The model that asks whoever a request names. */
export const layer = ({ servers }: Choice): Layer.Layer<ChatModel, never, HttpClient | Settings> =>
  RoutedModel.layer({
    [OfflineModel.provider]: OfflineModel.layer,
    ...Object.fromEntries(servers.map((server) => [server.profile.provider, serverLayer(server)]))
  })

/** A session whose log names nobody asks the fallback. */
export const fallbackLayer: Layer.Layer<Hooks.Hooks> = Hooks.layer({
  request: (_place, config) =>
    Effect.succeed(config.provider === undefined && config.model === undefined ? { ...config, ...fallback } : config)
})

// internal

/** A provider with a server, and the variable that holds its key. */
interface Server {
  readonly profile: Profile
  readonly variable: string
}

interface ReadyServer extends Server {
  readonly baseUrl: Option.Option<string>
  readonly key: Option.Option<Redacted.Redacted>
}

const servers: ReadonlyArray<Server> = [
  { profile: OpenAi.openai, variable: "OPENAI_API_KEY" },
  { profile: OpenAi.deepseek, variable: "DEEPSEEK_API_KEY" }
]

const parseUrl = (text: string): Either.Either<string, string> => {
  const refuse = (why: string) => Either.left(`"${brief(text, 80)}" ${why}`)
  if (!URL.canParse(text)) return refuse("is no URL, such as http://127.0.0.1:8080/v1.")
  const url = new URL(text)
  if (url.protocol !== "http:" && url.protocol !== "https:") return refuse("is no http or https URL.")
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "")
    return Either.left("a base URL takes no user, password, query or fragment. A key comes from the environment.")
  return Either.right(`${url.origin}${url.pathname.replace(/\/+$/, "")}`)
}

/** A variable that is empty or cannot be read is one that is not set. */
const keyOf = (variable: string): Effect.Effect<Option.Option<Redacted.Redacted>> =>
  Effect.map(Effect.option(Config.string(variable)), (key) =>
    Option.map(
      Option.filter(key, (text) => text.trim() !== ""),
      (text) => Redacted.make(text.trim())
    )
  )

/** Why a server cannot be asked with the key that there is; undefined where it can. One's own server may want none. */
const keyProblem = ({ baseUrl, key, profile, variable }: ReadyServer): string | undefined => {
  if (Option.exists(key, (secret) => !/^[!-~]+$/.test(Redacted.value(secret))))
    return `${variable} holds characters that are in no key.`
  return Option.isSome(key) || Option.isSome(baseUrl)
    ? undefined
    : `${profile.provider} needs a key: set ${variable}, or name a server of your own with --base-url.`
}

const serverLayer = (server: ReadyServer): Layer.Layer<ChatModel, never, HttpClient | Settings> => {
  const problem = keyProblem(server)
  if (problem !== undefined)
    return Layer.succeed(ChatModel, {
      stream: () => Stream.fail(new ChatError({ reason: "AUTHENTICATION", message: problem }))
    })
  const baseUrl = Option.getOrElse(server.baseUrl, () => server.profile.baseUrl)
  return OpenAi.layer({
    profile: { ...server.profile, baseUrl },
    ...(Option.isSome(server.key) ? { apiKey: server.key.value } : {})
  })
}
