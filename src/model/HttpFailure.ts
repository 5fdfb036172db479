/**
 * What went wrong between us and a server, whatever its API: no answer, a status, a page instead of an answer.
 *
 * - A message tells what the server said, shortened, and never a key: neither one that we sent nor one that is quoted.
 */
import type { Headers } from "@effect/platform/Headers"
import type { HttpClientError } from "@effect/platform/HttpClientError"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import { wellFormed } from "../internal/Json.ts"
import type { ChatErrorReason } from "./ChatModel.ts"

/** The reason behind a status that is no success. */
export const reasonOfStatus = (status: number): ChatErrorReason => {
  switch (status) {
    case 401:
    case 403:
      return "AUTHENTICATION"
    case 402:
      return "QUOTA"
    case 408:
    case 504:
      return "TIMEOUT"
    case 413:
      return "OVERFLOW"
    case 429:
      return "RATE_LIMIT"
    // the server is in a state that passes
    case 409:
    case 425:
      return "SERVER"
    default:
      return status >= 300 && status < 500 ? "INVALID_REQUEST" : "SERVER"
  }
}

/** How long a server asks to wait: milliseconds, seconds or a date; none where it says nothing that makes sense (O-I7). */
export const retryAfterMillis = (headers: Headers, now: number): number | undefined => {
  const millis = positive(headers["retry-after-ms"])
  if (millis !== undefined) return millis
  const header = headers["retry-after"]
  const seconds = positive(header)
  if (seconds !== undefined) return Math.ceil(seconds * 1000)
  // a number is a date to `Date.parse` too
  const at = header === undefined || !/[a-z]/i.test(header) ? Number.NaN : Date.parse(header)
  return Number.isNaN(at) ? undefined : Math.max(0, at - now)
}

/** What went wrong, in words. */
export interface Told {
  readonly reason: ChatErrorReason
  readonly message: string
  /** How long the server asks to wait. */
  readonly retryAfterMillis?: number
}

/** The answer is elsewhere: it is not fetched from there, because what was asked was not meant for that server. */
export const redirect = (status: number, location: string | undefined): Told => {
  const to = location !== undefined && URL.canParse(location) ? ` to ${new URL(location).host}` : ""
  return {
    reason: "INVALID_REQUEST",
    message: `the server answered ${status}, a redirect${to}, which is not followed: ask the right address itself`
  }
}

/** No answer, or no more of it: the network, or a machine between. */
export const transport = (error: HttpClientError, host: string): Told => {
  const root = rootOf(error)
  const code = Predicate.hasProperty(root, "code") && typeof root.code === "string" ? root.code : ""
  const why = Predicate.isError(root) && root.message !== "" ? root.message : code
  return {
    reason: timeouts.has(code) ? "TIMEOUT" : "TRANSPORT",
    message: `no connection to ${host}: ${why === "" ? "it is not known why" : why}`
  }
}

/** Nothing came for too long. */
export const silence = (host: string, millis: number): Told => ({
  reason: "TIMEOUT",
  message: `${host} said nothing for ${Math.round(millis / 1000)} s`
})

/** The beginning of what a server said, in one line; of a page its title, or else its text. */
export const excerpt = (whole: string): string => {
  const text = whole.slice(0, 8 * maxExcerpt)
  const title = /<title[^>]*>([^<]{1,200})/i.exec(text)?.[1]
  const isPage = /^\s*</.test(text)
  const short = !isPage
    ? text
    : title === undefined
      ? text.replaceAll(/<[^>]*>/g, " ")
      : `a page titled "${title.trim()}"`
  const line = wellFormed(short).replaceAll(/\s+/g, " ").trim()
  return line.length > maxExcerpt ? `${wellFormed(line.slice(0, maxExcerpt))}…` : line
}

/** A text without the key, should a server quote it, and without what looks like one. */
export const withoutKey = (text: string, key: Option.Option<Redacted.Redacted>): string => {
  const exact = Option.match(key, {
    onNone: () => text,
    onSome: (secret) => text.replaceAll(Redacted.value(secret), "[key]")
  })
  return exact.replaceAll(/\bsk-[\w*.-]{6,}|(?<=\bBearer )[\w*.~+/=-]+/g, "[key]")
}

// internal

const maxExcerpt = 1000

const timeouts: ReadonlySet<string> = new Set([
  "ETIMEDOUT",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_BODY_TIMEOUT"
])

const positive = (header: string | undefined): number | undefined => {
  const number = header === undefined || header.trim() === "" ? Number.NaN : Number(header)
  return Number.isFinite(number) && number >= 0 ? number : undefined
}

/** The error below all others. Those above say less, and the one on top holds the request, and with it the key. */
const rootOf = (error: HttpClientError): unknown => {
  let root: unknown = error.cause ?? error.description ?? error.reason
  for (let depth = 0; depth < 10; depth++) {
    if (!Predicate.hasProperty(root, "cause") || root.cause === undefined || root.cause === null) break
    root = root.cause
  }
  return root
}
