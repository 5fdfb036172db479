/**
 * Any server that speaks chat completions with streaming: OpenAI, DeepSeek, and those that are compatible.
 *
 * - An answer has come to its end if the server said so; whatever else ends it is one typed failure (O-H11).
 * - Interrupting it closes the connection. Every wait has its limit.
 * - A failure tells what the server said, and never the key.
 */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as HttpClient from "@effect/platform/HttpClient"
import type { HttpClientError } from "@effect/platform/HttpClientError"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Scope } from "effect/Scope"
import * as Stream from "effect/Stream"
import type { ChatChunk } from "../domain/Chunk.ts"
import type { ChatRequest } from "../domain/Request.ts"
import * as Settings from "../settings/Settings.ts"
import { ChatError, ChatModel } from "./ChatModel.ts"
import * as EventStream from "./EventStream.ts"
import * as HttpFailure from "./HttpFailure.ts"
import * as OpenAiFailure from "./OpenAiFailure.ts"
import * as Frames from "./OpenAiFrames.ts"
import * as Wire from "./OpenAiWire.ts"

/** OpenAI itself. With another `baseUrl`, any server that is compatible with it. */
export const openai: Wire.Profile = {
  provider: "openai",
  baseUrl: "https://api.openai.com/v1",
  replaysReasoning: false,
  maxTokensField: "max_completion_tokens"
}

/** DeepSeek. */
export const deepseek: Wire.Profile = {
  provider: "deepseek",
  baseUrl: "https://api.deepseek.com",
  replaysReasoning: true,
  maxTokensField: "max_tokens"
}

/** How long a server may be silent. */
export const Patience = Settings.section(
  "model-patience",
  Schema.Struct({
    /** Until the answer begins. */
    responseMillis: Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { default: () => 240_000 }),
    /** Between two parts of an answer; a comment that keeps the connection alive counts as one. */
    idleMillis: Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { default: () => 240_000 })
  })
)

/** Which server, and the key that it wants, if it wants one. */
export interface Options {
  readonly profile: Wire.Profile
  readonly apiKey?: Redacted.Redacted
}

/** The model behind a server. */
export const make = Effect.fnUntraced(function* (
  options: Options
): Effect.fn.Return<ChatModel["Type"], never, HttpClient.HttpClient | Settings.Settings> {
  const settings = yield* Settings.Settings
  const server: Server = {
    profile: options.profile,
    apiKey: Option.fromNullable(options.apiKey),
    host: hostOf(options.profile.baseUrl),
    // a connection lives as long as its answer; who traces what is nothing to tell a provider
    client: HttpClient.withScope(HttpClient.withTracerPropagation(yield* HttpClient.HttpClient, false))
  }
  return {
    stream: (request) =>
      Stream.unwrapScoped(Effect.flatMap(settings.get(Patience), (patience) => ask(server, patience, request)))
  }
})

/** The same as a layer. */
export const layer = (options: Options): Layer.Layer<ChatModel, never, HttpClient.HttpClient | Settings.Settings> =>
  Layer.effect(ChatModel, make(options))

// internal

interface Server {
  readonly profile: Wire.Profile
  readonly apiKey: Option.Option<Redacted.Redacted>
  readonly host: string
  readonly client: HttpClient.HttpClient.With<HttpClientError, Scope>
}

/** How long a finished answer waits for its usage, and one with its end marker for the end of the connection. */
const afterFinishMillis = 5000
const afterEndMillis = 100

/** How much of a refusal is read, in characters and in time. */
const maxRefusal = 64 * 1024
const refusalMillis = 5000

const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).host : url)

/** Sends a request; the answer as it comes. */
const ask = Effect.fnUntraced(function* (server: Server, patience: typeof Patience.schema.Type, request: ChatRequest) {
  const post = HttpClientRequest.post(`${server.profile.baseUrl}/chat/completions`).pipe(
    HttpClientRequest.bodyText(Wire.body(request, server.profile), "application/json"),
    HttpClientRequest.accept("text/event-stream")
  )
  const authorized = Option.match(server.apiKey, {
    onNone: () => post,
    onSome: (key) => HttpClientRequest.bearerToken(post, key)
  })
  const response = yield* server.client.execute(authorized).pipe(
    // what a redirect leads to was not asked for: it is a refusal like any other status
    Effect.provideService(FetchHttpClient.RequestInit, { redirect: "manual" }),
    Effect.mapError((error) => failed(server, HttpFailure.transport(error, server.host))),
    Effect.timeoutFail({
      duration: patience.responseMillis,
      onTimeout: () => failed(server, HttpFailure.silence(server.host, patience.responseMillis))
    })
  )
  if (response.status < 200 || response.status > 299) return yield* refused(server, response)
  return yield* answer(server, response, patience.idleMillis)
})

/** The body as text, cut wherever it was cut. */
const texts = (server: Server, response: HttpClientResponse.HttpClientResponse): Stream.Stream<string, ChatError> =>
  Stream.decodeText(
    Stream.mapError(response.stream, (error) => failed(server, HttpFailure.transport(error, server.host)))
  )

/** The same, each wait for more as long as `wait` says. */
const patiently = <A>(server: Server, stream: Stream.Stream<A, ChatError>, wait: Effect.Effect<number>) =>
  Effect.map(Stream.toPull(stream), (pull) =>
    Stream.repeatEffectChunkOption(
      Effect.flatMap(wait, (millis) =>
        Effect.timeoutFail(pull, {
          duration: millis,
          onTimeout: () => Option.some(failed(server, HttpFailure.silence(server.host, millis)))
        })
      )
    )
  )

/** An answer that is not yet whole may think for long. One that is waits for what is left to say, and not long. */
const waiting = (frames: Frames.Frames, idleMillis: number): Effect.Effect<number> => {
  let deadline = Number.POSITIVE_INFINITY
  return Effect.map(Clock.currentTimeMillis, (now) => {
    if (frames.stage === "open") return idleMillis
    deadline = Math.min(deadline, now + (frames.stage === "closed" ? afterEndMillis : afterFinishMillis))
    return Math.max(0, deadline - now)
  })
}

const answer = Effect.fnUntraced(function* (
  server: Server,
  response: HttpClientResponse.HttpClientResponse,
  idleMillis: number
) {
  const frames = Frames.make()
  const parser = EventStream.makeParser()
  const body = yield* patiently(server, texts(server, response), waiting(frames, idleMillis))
  const said = (read: Frames.Read): Stream.Stream<ChatChunk, ChatError> => {
    const chunks = Stream.fromChunk(Chunk.unsafeFromArray(read.chunks))
    return read.failure === undefined ? chunks : Stream.concat(chunks, Stream.fail(failed(server, read.failure)))
  }
  return body.pipe(
    // what breaks once the answer is whole takes nothing from it
    Stream.catchAll((error) => (frames.stage === "open" ? Stream.fail(error) : Stream.empty)),
    Stream.flatMap((text) => said(Frames.read(frames, parser.feed(text)))),
    Stream.concat(Stream.suspend(() => said(Frames.read(frames, parser.end())))),
    Stream.concat(Stream.suspend(() => said(Frames.end(frames))))
  )
})

const refused = Effect.fnUntraced(function* (server: Server, response: HttpClientResponse.HttpClientResponse) {
  let text = ""
  const beginning = Stream.takeUntil(texts(server, response), (part) => {
    text += part
    return text.length >= maxRefusal
  })
  // the status is known, whatever becomes of the words that come with it
  yield* Effect.ignore(Effect.timeout(Stream.runDrain(beginning), refusalMillis))
  const wait = HttpFailure.retryAfterMillis(response.headers, yield* Clock.currentTimeMillis)
  const isRedirect = response.status >= 300 && response.status < 400
  return yield* failed(server, {
    ...(isRedirect
      ? HttpFailure.redirect(response.status, response.headers["location"])
      : OpenAiFailure.refusedWith(response.status, text)),
    status: response.status,
    ...(wait === undefined ? {} : { retryAfterMillis: wait })
  })
})

/** The failure, without the key in it should the server have quoted it. */
const failed = (server: Server, told: HttpFailure.Told & { readonly status?: number }): ChatError =>
  new ChatError({ ...told, message: HttpFailure.withoutKey(told.message, server.apiKey) })
