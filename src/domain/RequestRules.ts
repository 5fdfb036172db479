/**
 * The strict request checker: what the strictest provider refuses in a request (providers.md).
 *
 * - Pure; each rule has a name and a fixture that makes it fire. Tests run it on every request that any model is sent.
 */
import { isObjectText, wellFormed } from "../internal/Json.ts"
import { type AssistantBlock, type Message, type ToolMessage, toolCalls } from "./Message.ts"
import type { ChatRequest } from "./Request.ts"

export type Rule =
  | "no-messages"
  | "starts-with-user"
  | "ends-with-input"
  | "call-answered"
  | "answer-without-call"
  | "call-ids-unique"
  | "call-id-legal"
  | "message-ids-unique"
  | "no-empty-message"
  | "no-empty-text"
  | "arguments-are-an-object"
  | "call-name-legal"
  | "text-well-formed"

/** One rule that a request breaks. */
export interface RuleViolation {
  readonly rule: Rule
  /** The index of the message; -1 where the whole request is meant. */
  readonly at: number
  readonly detail: string
}

const legalId = /^[a-zA-Z0-9_-]{1,40}$/
const legalName = /^[a-zA-Z0-9_-]{1,64}$/

/** Whether every string in a value may stand in a strict JSON body. */
const isWhole = (value: unknown): boolean => {
  if (typeof value === "string") return wellFormed(value) === value
  if (value === null || typeof value !== "object") return true
  return Object.entries(value).every(([key, item]) => isWhole(key) && isWhole(item))
}

/** A block as wire bodies hold it: some hold the arguments of a call as text, some as an object. */
const onTheWire = (block: AssistantBlock): unknown =>
  block.type === "tool-call" && isObjectText(block.arguments) ? [block, JSON.parse(block.arguments)] : block

/** Rules that look at one message alone. */
const ofMessage = (message: Message, at: number): ReadonlyArray<RuleViolation> => {
  const found: Array<RuleViolation> = []
  const say = (rule: Rule, detail: string) => found.push({ rule, at, detail })
  if (message.content.length === 0) say("no-empty-message", message.role)
  for (const block of message.content as ReadonlyArray<AssistantBlock>) {
    if (block.type === "text" && block.text.trim() === "") say("no-empty-text", message.role)
    if (block.type !== "tool-call") continue
    if (!legalId.test(block.callId)) say("call-id-legal", block.callId)
    if (!legalName.test(block.name)) say("call-name-legal", block.name)
    if (!isObjectText(block.arguments)) say("arguments-are-an-object", block.callId)
  }
  if (!isWhole(message.content.map(onTheWire))) say("text-well-formed", message.id)
  return found
}

/** Each call is answered right after its message, exactly once, in model order; nothing else is answered. */
const pairing = (messages: ReadonlyArray<Message>): ReadonlyArray<RuleViolation> => {
  const found: Array<RuleViolation> = []
  let due: Array<string> = []
  const missed = (at: number) => {
    for (const id of due) found.push({ rule: "call-answered", at, detail: id })
    due = []
  }
  const answered = (message: ToolMessage, at: number) => {
    if (due[0] === message.callId) due.shift()
    else found.push({ rule: "answer-without-call", at, detail: message.callId })
  }
  for (const [at, message] of messages.entries()) {
    if (message.role === "tool") {
      answered(message, at)
      continue
    }
    missed(at)
    if (message.role === "assistant") due = toolCalls(message).map((block) => block.callId)
  }
  missed(messages.length)
  return found
}

const repeated = (rule: Rule, ids: ReadonlyArray<string>): ReadonlyArray<RuleViolation> =>
  ids.filter((id, index) => ids.indexOf(id) !== index).map((detail) => ({ rule, at: -1, detail }))

const ends = (messages: ReadonlyArray<Message>): ReadonlyArray<RuleViolation> => {
  const first = messages[0]
  const last = messages[messages.length - 1]
  if (first === undefined || last === undefined) return [{ rule: "no-messages", at: -1, detail: "" }]
  return [
    ...(first.role === "user" ? [] : [{ rule: "starts-with-user", at: 0, detail: first.role } as const]),
    ...(last.role === "assistant"
      ? [{ rule: "ends-with-input", at: messages.length - 1, detail: last.role } as const]
      : [])
  ]
}

/** What a strict provider would refuse of a header, whatever messages go with it. */
export const ofHeader = ({ system, tools }: Pick<ChatRequest, "system" | "tools">): ReadonlyArray<RuleViolation> =>
  isWhole([system, tools]) ? [] : [{ rule: "text-well-formed", at: -1, detail: "system or tools" }]

/** What it would refuse of messages that stand next to each other, wherever in a request that is. */
export const ofMessages = (messages: ReadonlyArray<Message>): ReadonlyArray<RuleViolation> => {
  const callIds = messages.flatMap((message) =>
    message.role === "assistant" ? toolCalls(message).map((block) => block.callId) : []
  )
  return [
    ...messages.flatMap(ofMessage),
    ...pairing(messages),
    ...repeated("call-ids-unique", callIds),
    ...repeated(
      "message-ids-unique",
      messages.map((message) => message.id)
    )
  ]
}

/** Everything that a strict provider would refuse in this request; empty when it is acceptable. */
export const violations = (request: ChatRequest): ReadonlyArray<RuleViolation> => [
  ...ends(request.messages),
  ...ofHeader(request),
  ...ofMessages(request.messages)
]
