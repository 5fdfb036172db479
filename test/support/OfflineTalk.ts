/**
 * A conversation with the offline model without a harness: its stream is assembled, its calls are answered by `tools`.
 *
 * Every request is checked by the strict checker, and a conversation that does not end within `maxSteps` fails.
 */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { assert } from "vitest"
import * as Answer from "../../src/domain/Answer.ts"
import { MessageId } from "../../src/domain/Ids.ts"
import {
  type AssistantMessage,
  type Message,
  type ToolCallBlock,
  text,
  textOf,
  toolCalls,
  type UserMessage
} from "../../src/domain/Message.ts"
import type { ChatRequest } from "../../src/domain/Request.ts"
import { violations } from "../../src/domain/RequestRules.ts"
import { ChatModel } from "../../src/model/ChatModel.ts"
import * as OfflineModel from "../../src/model/OfflineModel.ts"

/** What a tool answers: its text, or an error result. */
export type Reply = string | { readonly error: string }

export type Tools = (name: string, args: Readonly<Record<string, unknown>>) => Effect.Effect<Reply>

const maxSteps = 8

export const input = (
  messages: ReadonlyArray<Message>,
  words: string,
  kind: UserMessage["source"]["kind"] = "prompt"
): ReadonlyArray<Message> => [
  ...messages,
  { id: MessageId.make(`u${messages.length}`), role: "user", source: { kind }, content: [text(words)] }
]

export const requestOf = (messages: ReadonlyArray<Message>, tools: ReadonlyArray<string>): ChatRequest => ({
  config: { provider: OfflineModel.provider, model: OfflineModel.model },
  system: "You are a test.",
  tools: tools.map((name) => ({
    name,
    parameters: { type: "object" },
    annotations: { readonly: false, idempotent: false, destructive: false }
  })),
  messages
})

/** The model's answer as the harness would assemble it, in the turn that the transcript has reached. */
export const answerTo = (messages: ReadonlyArray<Message>, tools: ReadonlyArray<string> = ["bash", "read", "write"]) =>
  Effect.gen(function* () {
    const request = requestOf(messages, tools)
    assert.deepStrictEqual(violations(request), [])
    const chunks = Chunk.toReadonlyArray(yield* Stream.runCollect((yield* ChatModel).stream(request)))
    const assembly = Answer.make()
    for (const chunk of chunks) Answer.add(assembly, chunk)
    const { model, provider } = OfflineModel
    const message = Answer.message(assembly, { turn: 1, step: messages.length, provider, model })
    assert.strictEqual(assembly.finish, toolCalls(message).length > 0 ? "tool-calls" : "stop")
    assert.isTrue(chunks.every((chunk) => !("text" in chunk) || (chunk.text.length <= 25 && chunk.text.isWellFormed())))
    return message
  }).pipe(Effect.provide(OfflineModel.layer))

/** A result as a message. */
export const result = (call: ToolCallBlock, reply: Reply): Message => ({
  id: MessageId.make(`r-${call.callId}`),
  role: "tool",
  callId: call.callId,
  content: [text(typeof reply === "string" ? reply : reply.error)],
  isError: typeof reply !== "string"
})

export const argumentsOf = (call: ToolCallBlock): Readonly<Record<string, unknown>> => JSON.parse(call.arguments)

/** Answers the calls of an answer. */
export const withResults = (messages: ReadonlyArray<Message>, answer: AssistantMessage, tools: Tools) =>
  Effect.map(
    Effect.forEach(toolCalls(answer), (call) =>
      Effect.map(tools(call.name, argumentsOf(call)), (reply) => result(call, reply))
    ),
    (results): ReadonlyArray<Message> => [...messages, answer, ...results]
  )

/** Goes on until an answer without calls: the transcript, the calls of each answer, and what was said last. */
export const talk = (start: ReadonlyArray<Message>, tools: Tools, offered?: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    let messages = start
    const steps: Array<ReadonlyArray<ToolCallBlock>> = []
    for (let step = 0; step < maxSteps; step++) {
      const answer = yield* answerTo(messages, offered)
      const calls = toolCalls(answer)
      if (calls.length === 0)
        return { messages: [...messages, answer] as ReadonlyArray<Message>, steps, said: textOf(answer) }
      steps.push(calls)
      messages = yield* withResults(messages, answer, tools)
    }
    return assert.fail(`no end after ${maxSteps} steps`)
  })
