/**
 * What a server of chat completions says of an error, whichever way it says it, and the reason behind it.
 *
 * - A code tells more than a type, a type more than a status: a 429 is a rate limit or an empty account.
 */
import type { ChatErrorReason } from "./ChatModel.ts"
import type { ServerEvent } from "./EventStream.ts"
import { fields, said } from "./Fields.ts"
import { excerpt, reasonOfStatus, type Told } from "./HttpFailure.ts"

/** The failure that an event of a stream tells of; none where it is part of an answer. `value` is its data, as JSON. */
export const toldBy = (event: ServerEvent, value: unknown): Told | undefined => {
  const frame = fields(value)
  const error = frame?.["error"]
  if (error !== undefined && error !== null && error !== false && error !== "")
    return told(error, { status: undefined, raw: event.data })
  const isError = event.name === "error" || frame?.["object"] === "error"
  return isError ? told(value, { status: undefined, raw: event.data }) : undefined
}

/** The failure behind a status and the body that came with it. */
export const refusedWith = (status: number, body: string): Told => {
  const value = parsed(body)
  const error = fields(value)?.["error"]
  if (error !== undefined && error !== null) return told(error, { status, raw: body })
  if (fields(value) !== undefined) return told(value, { status, raw: body })
  const words = excerpt(body)
  return {
    reason: reasonFor({ code: "", type: "", message: body }, status),
    message: words === "" ? `the server answered ${status} and said nothing` : `the server answered ${status}: ${words}`
  }
}

/** Why an answer with this finish reason is none; absent where it is one, also if the reason is not known (O-H14). */
export const finishedBadly = (finish: string): Told | undefined => badEndings.get(finish)

// internal

const badEndings: ReadonlyMap<string, Told> = new Map([
  ["content_filter", { reason: "CONTENT_FILTER", message: "the provider's content filter stopped the answer" }],
  [
    "insufficient_system_resource",
    { reason: "SERVER", message: "the provider ran out of resources while it answered" }
  ],
  ["error", { reason: "SERVER", message: "the server ended the answer with an error" }]
])

interface Words {
  readonly code: string
  readonly type: string
  readonly message: string
}

/** Codes and types that mean one thing, whatever the status. */
const exact: ReadonlyMap<string, ChatErrorReason> = new Map([
  ["insufficient_quota", "QUOTA"],
  ["billing_hard_limit_reached", "QUOTA"],
  ["billing_not_active", "QUOTA"],
  ["insufficient_balance", "QUOTA"],
  ["context_length_exceeded", "OVERFLOW"],
  ["exceed_context_size_error", "OVERFLOW"],
  ["string_above_max_length", "OVERFLOW"],
  ["content_filter", "CONTENT_FILTER"],
  ["content_policy_violation", "CONTENT_FILTER"],
  ["invalid_api_key", "AUTHENTICATION"],
  ["authentication_error", "AUTHENTICATION"],
  ["permission_error", "AUTHENTICATION"],
  ["rate_limit_exceeded", "RATE_LIMIT"],
  ["rate_limit_error", "RATE_LIMIT"],
  ["rate_limited", "RATE_LIMIT"],
  ["overloaded", "SERVER"],
  ["overloaded_error", "SERVER"],
  ["server_error", "SERVER"]
])

/** Compatible servers have no code for it. */
const overflow =
  /maximum context length|context (?:length|window|size)[^.]{0,40}exceed|exceeds?[^.]{0,60}context (?:length|window|size)/i

const reasonFor = ({ code, message, type }: Words, status: number | undefined): ChatErrorReason => {
  const known = exact.get(code) ?? exact.get(type)
  if (known !== undefined) return known
  const number = status ?? (/^[345]\d\d$/.test(code) ? Number(code) : undefined)
  const general =
    number === undefined ? (isInvalid(code) || isInvalid(type) ? "INVALID_REQUEST" : "SERVER") : reasonOfStatus(number)
  return (general === "INVALID_REQUEST" || general === "SERVER") && overflow.test(message) ? "OVERFLOW" : general
}

const isInvalid = (word: string): boolean => word.startsWith("invalid_") || word === "BadRequestError"

const word = (value: unknown): string => (typeof value === "string" || typeof value === "number" ? String(value) : "")

/** An error that is an object or a text. Where it has no message, what was received has to speak for itself. */
const told = (error: unknown, from: { readonly status: number | undefined; readonly raw: string }): Told => {
  const given = fields(error)
  const message = excerpt(said(given?.["message"]) ?? said(given?.["detail"]) ?? said(error) ?? from.raw)
  const reason = reasonFor({ code: word(given?.["code"]), type: word(given?.["type"]), message }, from.status)
  const wait = reason === "RATE_LIMIT" ? waitIn(message) : undefined
  return wait === undefined ? { reason, message } : { reason, message, retryAfterMillis: wait }
}

const units: ReadonlyMap<string, number> = new Map([
  ["ms", 1],
  ["s", 1000],
  ["m", 60_000],
  ["h", 3_600_000]
])

/** "Please try again in 1.3s", or "in 6m0s" (O-I6). */
const waitIn = (message: string): number | undefined => {
  const words = /try again in ((?:\d+(?:\.\d+)?(?:ms|h|m|s))+)/i.exec(message)?.[1]
  if (words === undefined) return undefined
  let millis = 0
  for (const [, amount, unit] of words.matchAll(/(\d+(?:\.\d+)?)(ms|h|m|s)/gi))
    millis += Number(amount) * (units.get(unit?.toLowerCase() ?? "") ?? 0)
  return Math.ceil(millis)
}

const parsed = (body: string): unknown => {
  try {
    return JSON.parse(body)
  } catch {
    return undefined
  }
}
