/**
 * Outcomes: how a call that ran, or was refused, reads to a model.
 *
 * - Pure and total: whatever a handler or a hook fails with, there is a text, a name and a code (F15).
 * - What quotes someone else's text is bounded.
 */
import * as Predicate from "effect/Predicate"
import type { ToolOutcome } from "../domain/Event.ts"
import { type ToolCallBlock, text } from "../domain/Message.ts"
import type { ToolSpec } from "../domain/Request.ts"
import { failure } from "../domain/Results.ts"
import { clip } from "../internal/Cut.ts"
import { wellFormed } from "../internal/Json.ts"

/** The success of a body, as text. */
export const success = (output: string): ToolOutcome => ({ content: [text(output)], isError: false })

/** No tool of that name is shown (F18, O-E6). */
export const unknownTool = (name: string, specs: ReadonlyArray<ToolSpec>): ToolOutcome => {
  const known = specs.map((spec) => spec.name).join(", ")
  return failure(
    "UNKNOWN_TOOL",
    `Error: there is no tool "${clip(name, maxName)}". ${known === "" ? "There are no tools." : `The tools are: ${known}.`}`
  )
}

/** The arguments are no JSON object, or not what the tool takes. */
export const invalidArguments = (block: ToolCallBlock, problem: string): ToolOutcome =>
  failure(
    "INVALID_ARGS",
    `Error: the arguments of ${block.name} are not valid, so it did not run: ${clip(problem, maxQuoted)}\nThey were: ${clip(block.arguments, 200)}`
  )

/** A hook or an approval refused the call. */
export const denied = (reason: string): ToolOutcome => failure("TOOL_DENIED", `Error: ${reason}`, "ToolDenied")

/** Nobody could say whether the call is allowed. */
export const approvalFailed = (error: unknown): ToolOutcome =>
  denied(`the call could not be approved, so it did not run: ${messageOf(error)}`)

/** A hook refused the result of a call that ran. */
export const blocked = (feedback: string): ToolOutcome => failure("TOOL_DENIED", `Error: ${feedback}`, "ToolBlocked")

/** The hook before the tool broke. */
export const beforeHookFailed = (error: unknown): ToolOutcome =>
  hookFailed(`a hook before the tool failed, so the tool did not run: ${messageOf(error)}`)

/** The hook after the tool broke. */
export const afterHookFailed = (error: unknown): ToolOutcome =>
  hookFailed(`a hook after the tool failed, so its result is withheld: ${messageOf(error)}`)

/** The body failed or died. Its message is kept whole: it is shown like any result. */
export const bodyFailed = (error: unknown): ToolOutcome => {
  const { code, message, name } = describe(error)
  return { content: [text(`Error: ${message}`)], isError: true, error: { name, code } }
}

/** The body ran, and what it returned is not what its tool declares. */
export const invalidOutput = (error: unknown): ToolOutcome =>
  failure("INVALID_TOOL_OUTPUT", `Error: the tool ran, but its output is not what it declares: ${messageOf(error)}`)

/** An output as text: a text stays as it is, anything else becomes its JSON text. Throws on what JSON cannot hold. */
export const outputText = (output: unknown): string => {
  if (output === undefined) return ""
  if (typeof output === "string") return output
  const json = JSON.stringify(output, (key, value: unknown) => {
    if (typeof value === "number" && !Number.isFinite(value))
      throw new TypeError(`"${key}" is ${value}, which is no JSON`)
    return value
  })
  if (json === undefined) throw new TypeError(`a ${typeof output} is no JSON`)
  return json
}

/** What an error says of itself, bounded. */
export const messageOf = (error: unknown): string => clip(describe(error).message, maxQuoted)

// internal

/** How much of what somebody else says is quoted, and how long a name may be, in characters. */
const maxQuoted = 1000
const maxName = 100

const hookFailed = (message: string): ToolOutcome => failure("HOOK_FAILED", `Error: ${message}`, "ToolHookError")

/** What an error says of itself. It may be anything, and its getters may throw. */
const describe = (error: unknown): { readonly message: string; readonly name: string; readonly code: string } => {
  const name = textIn(error, "name") ?? textIn(error, "_tag") ?? "Error"
  return {
    message: wellFormed(textIn(error, "message") ?? (typeof error === "string" ? error : (shown(error) ?? name))),
    name: wellFormed(clip(name, maxName)),
    code: wellFormed(clip(textIn(error, "code") ?? "UNKNOWN", maxName))
  }
}

const textIn = (error: unknown, key: "name" | "_tag" | "message" | "code"): string | undefined => {
  try {
    const value = Predicate.hasProperty(error, key) ? error[key] : undefined
    return (typeof value === "string" && value !== "") || typeof value === "number" ? String(value) : undefined
  } catch {
    return undefined
  }
}

const shown = (error: unknown): string | undefined => {
  if (error instanceof Error) return undefined
  try {
    return clip(JSON.stringify(error) ?? String(error), maxQuoted)
  } catch {
    return undefined
  }
}
