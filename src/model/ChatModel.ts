/**
 * The model port: one method. An answer is a stream of chunks, a failure is one typed error.
 *
 * - A model never sees the journal. What it is sent is the request, byte for byte (law 1).
 * - Tool arguments stay raw text: bad JSON or an invented name is the tool pipeline's to answer, never a dead turn.
 */
import * as Context from "effect/Context"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import type { ChatChunk } from "../domain/Chunk.ts"
import type { ChatRequest } from "../domain/Request.ts"
import type { Failure } from "../domain/TurnEnding.ts"

/** What went wrong, by what can be done about it. */
export const ChatErrorReason = Schema.Literal(
  "AUTHENTICATION",
  "QUOTA",
  "RATE_LIMIT",
  "OVERFLOW",
  "CONTENT_FILTER",
  "INVALID_REQUEST",
  "SERVER",
  "TRANSPORT",
  "TIMEOUT",
  "CUT",
  "EMPTY_RESPONSE",
  "MALFORMED",
  "UNSUPPORTED",
  "UNKNOWN"
)
export type ChatErrorReason = typeof ChatErrorReason.Type

/** A request failed. `message` is what the provider said, without secrets. */
export class ChatError extends Schema.TaggedError<ChatError>()("ChatError", {
  reason: ChatErrorReason,
  message: Schema.String,
  status: Schema.optional(Schema.Int),
  retryAfterMillis: Schema.optional(Schema.Number),
  cause: Schema.optional(Schema.Defect)
}) {}

/** The failure as the log keeps it. */
export const toFailure = ({ message, reason, retryAfterMillis, status }: ChatError): Failure => {
  const details = {
    ...(status === undefined ? {} : { status }),
    // what is no finite number is in no log
    ...(retryAfterMillis !== undefined && Number.isFinite(retryAfterMillis) ? { retryAfterMillis } : {})
  }
  return { message, code: reason, ...(Object.keys(details).length === 0 ? {} : { details }) }
}

export class ChatModel extends Context.Tag("daybook/model/ChatModel")<
  ChatModel,
  {
    /**
     * The answer to a request as it comes. A stream that ends without a `finish` chunk ended with `stop`. Interrupting it
     * ends the request at once; nothing of it lives afterwards.
     */
    readonly stream: (request: ChatRequest) => Stream.Stream<ChatChunk, ChatError>
  }
>() {}
