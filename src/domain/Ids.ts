/**
 * Identifiers.
 *
 * - A session id is a legal file name and shell word; a call id is legal on every provider's wire (providers.md).
 * - A call id is ours and tells turn, step and position; what a provider called it decides nothing.
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"

/** Names a session: 1 to 64 letters, digits, `.`, `_` or `-`, starting with a letter or digit. */
export const SessionId = Schema.String.pipe(
  Schema.pattern(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/),
  Schema.brand("SessionId")
)
export type SessionId = typeof SessionId.Type

/** Names a message within its session. */
export const MessageId = Schema.NonEmptyString.pipe(Schema.brand("MessageId"))
export type MessageId = typeof MessageId.Type

/** Names a tool call within its session, `t<turn>s<step>c<index>`: an idempotency key that survives a restart. */
export const CallId = Schema.String.pipe(Schema.pattern(/^t[1-9]\d*s[1-9]\d*c\d+$/), Schema.brand("CallId"))
export type CallId = typeof CallId.Type

/** A turn or step number: turns count from 1 in a session, steps from 1 in each turn. */
export const Ordinal = Schema.Int.pipe(Schema.positive())

/** A place in a session's log: counts from 0 without gaps. */
export const Seq = Schema.Int.pipe(Schema.nonNegative())

/** The id of the call at `index` (from 0) of the answer of that step. */
export const callId = (turn: number, step: number, index: number): CallId => CallId.make(`t${turn}s${step}c${index}`)

/** The id of the answer of that step. */
export const answerId = (turn: number, step: number): MessageId => MessageId.make(`t${turn}s${step}`)

const reserved = /^t\d+s\d+(c\d+(-context-\d+)?)?$/

/** Whether an id has the form of those that the log gives to answers, results and context: nobody else may choose it. */
export const isReserved = (id: MessageId): boolean => reserved.test(id)

const alphabet = "abcdefghijklmnopqrstuvwxyz234567"

const base32 = Effect.map(Effect.replicateEffect(Random.nextIntBetween(0, alphabet.length), 16), (digits) =>
  digits.map((digit) => alphabet.charAt(digit)).join("")
)

/** A new session id of 16 random base32 characters. */
export const makeSessionId: Effect.Effect<SessionId> = Effect.map(base32, (text) => SessionId.make(text))

/** A new message id of 16 random base32 characters, none that the log gives. */
export const makeMessageId: Effect.Effect<MessageId> = Effect.repeat(
  Effect.map(base32, (text) => MessageId.make(text)),
  { while: isReserved }
)
