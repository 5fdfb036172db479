/**
 * A model whose answers are a value: chunks, pauses and failures, one script an answer.
 *
 * - Deterministic: the n-th request gets the n-th answer, whatever it says. One request too many fails and says so.
 */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { ChatChunk } from "../domain/Chunk.ts"
import type { ChatRequest } from "../domain/Request.ts"
import { ChatError, type ChatErrorReason, ChatModel } from "./ChatModel.ts"

/** One thing that an answer does: sends chunks at once, waits, or fails. */
export type Item =
  | { readonly _tag: "Send"; readonly chunks: ReadonlyArray<ChatChunk> }
  | { readonly _tag: "Wait"; readonly until: Effect.Effect<unknown> }
  | { readonly _tag: "Fail"; readonly error: ChatError }
  | { readonly _tag: "Die"; readonly defect: unknown }

/** What one request is answered with. */
export type Script = ReadonlyArray<Item>

/** Sends chunks, all at once. */
export const send = (...chunks: ReadonlyArray<ChatChunk>): Item => ({ _tag: "Send", chunks })

/** Waits until the effect has succeeded: a latch, a sleep, or `Effect.never`. */
export const wait = (until: Effect.Effect<unknown>): Item => ({ _tag: "Wait", until })

/** Fails the request. A server may have asked to wait before the next one. */
export const fail = (reason: ChatErrorReason, message: string = reason, retryAfterMillis?: number): Item => ({
  _tag: "Fail",
  error: new ChatError({ reason, message, ...(retryAfterMillis === undefined ? {} : { retryAfterMillis }) })
})

/** Breaks the stream with a defect. */
export const die = (defect: unknown): Item => ({ _tag: "Die", defect })

/** An answer of text. */
export const say = (text: string): Script => [
  send({ type: "text", index: 0, text }, { type: "finish", reason: "stop" })
]

/** An answer that calls tools, each with arguments that become JSON; a string stays as it is. */
export const call = (...calls: ReadonlyArray<readonly [name: string, args: unknown]>): Script => [
  send(
    ...calls.map(
      ([name, args], index): ChatChunk => ({
        type: "tool-call",
        index,
        id: `call_${index}`,
        name,
        arguments: typeof args === "string" ? args : JSON.stringify(args)
      })
    ),
    { type: "finish", reason: "tool-calls" }
  )
]

/** A scripted model, and the requests that it was sent, in order. */
export interface ScriptedModel {
  readonly model: ChatModel["Type"]
  readonly requests: Effect.Effect<ReadonlyArray<ChatRequest>>
}

const play = (item: Item): Stream.Stream<ChatChunk, ChatError> => {
  switch (item._tag) {
    case "Send":
      return Stream.fromChunk(Chunk.fromIterable(item.chunks))
    case "Wait":
      return Stream.execute(item.until)
    case "Fail":
      return Stream.fail(item.error)
    case "Die":
      return Stream.die(item.defect)
    default:
      return item satisfies never
  }
}

const exhausted = new ChatError({ reason: "UNSUPPORTED", message: "the script has no answer to this request" })

/** The model of these scripts. */
export const make = (scripts: ReadonlyArray<Script>): Effect.Effect<ScriptedModel> =>
  Effect.sync(() => {
    const requests: Array<ChatRequest> = []
    return {
      model: {
        stream: (request) =>
          Stream.suspend(() => {
            const script = Option.fromNullable(scripts[requests.length])
            requests.push(request)
            return Option.match(script, {
              onNone: () => Stream.fail(exhausted),
              onSome: (items) => Stream.concatAll(Chunk.fromIterable(items.map(play)))
            })
          })
      },
      requests: Effect.sync(() => [...requests])
    }
  })

/** The model of these scripts as a layer. */
export const layer = (scripts: ReadonlyArray<Script>): Layer.Layer<ChatModel> =>
  Layer.effect(
    ChatModel,
    Effect.map(make(scripts), ({ model }) => model)
  )
