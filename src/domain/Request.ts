/**
 * The provider-neutral request, and the guard that it equals what the log derives.
 *
 * - `canonicalRequest` is the request's one text; a wire body is a pure function of the request (law 1).
 * - The guard compares a rolling digest: each message is hashed once, when it first appears in a request.
 */
import { createHash } from "node:crypto"
import * as Schema from "effect/Schema"
import { canonical, Json } from "../internal/Json.ts"
import type { Message } from "./Message.ts"

/** The route and the sampling of a request. Fields beyond these belong to the provider. */
export const ModelConfig = Schema.Struct({
  provider: Schema.String,
  model: Schema.String,
  maxTokens: Schema.optional(Schema.Int.pipe(Schema.positive())),
  temperature: Schema.optional(Schema.JsonNumber),
  stop: Schema.optional(Schema.Array(Schema.String)),
  reasoningEffort: Schema.optional(Schema.String)
})
export type ModelConfig = typeof ModelConfig.Type

/** The fields that are set: one that is `undefined` says nothing. */
export const fieldsSet = (config: Partial<ModelConfig>): Partial<ModelConfig> =>
  // what is left is as it was
  Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined)) as Partial<ModelConfig>

/** A tool as a model sees it. `parameters` is a JSON schema; the annotations also tell repair about a retry. */
export const ToolSpec = Schema.Struct({
  name: Schema.String,
  description: Schema.optional(Schema.String),
  parameters: Json,
  annotations: Schema.Struct({
    readonly: Schema.Boolean,
    idempotent: Schema.Boolean,
    destructive: Schema.Boolean
  })
})
export type ToolSpec = typeof ToolSpec.Type

/** What one request says, whoever the provider is. */
export interface ChatRequest {
  readonly config: ModelConfig
  readonly system: string
  readonly tools: ReadonlyArray<ToolSpec>
  readonly messages: ReadonlyArray<Message>
}

/** The request's one text. */
export const canonicalRequest = (request: ChatRequest): string => canonical(request)

/** The digest of a list of messages, extended by one message at a time. */
export type Digest = string

export const emptyDigest: Digest = ""

/** The digest of `before` and then `message`. */
export const extendDigest = (before: Digest, message: Message): Digest =>
  createHash("sha256").update(before).update(canonical(message)).digest("base64")

/** Messages whose digests are known: where those of a request begin like them, they are not hashed again. */
export interface GuardMemory {
  readonly messages: ReadonlyArray<Message>
  readonly digests: ReadonlyArray<Digest>
}

/**
 * The digest of a request's messages, hashing only those that are not the very same objects as those known.
 * Messages are frozen, so the same object is the same message.
 */
export const guardDigest = (
  memory: GuardMemory,
  messages: ReadonlyArray<Message>
): { readonly digest: Digest; readonly memory: GuardMemory } => {
  let same = 0
  while (same < messages.length && same < memory.messages.length && messages[same] === memory.messages[same]) same++
  const digests = memory.digests.slice(0, same)
  let digest = digests[same - 1] ?? emptyDigest
  for (const message of messages.slice(same)) {
    digest = extendDigest(digest, message)
    digests.push(digest)
  }
  return { digest, memory: { messages, digests } }
}
