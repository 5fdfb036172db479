/**
 * The shapes of prompts, and a model that answers the last message by its first word.
 *
 * - Every call bears a tag that no other call of any life has.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import type { ChatChunk } from "../../src/domain/Chunk.ts"
import { textOf } from "../../src/domain/Message.ts"
import type { ChatRequest } from "../../src/domain/Request.ts"
import { ChatModel } from "../../src/model/ChatModel.ts"
import { call } from "../../src/model/ScriptedModel.ts"

/** What a tool of a life is told. */
export interface Args {
  readonly tag: string
  readonly millis?: number | undefined
}

const text = (words: string): ChatChunk => ({ type: "text", index: 0, text: words })
const stop: ChatChunk = { type: "finish", reason: "stop" }

/** An answer of so many deltas, each of so many words. */
const texts = (count: number, size: number): ReadonlyArray<ChatChunk> => [
  ...Array.from({ length: count }, (_, n) => text(`${n} ${"word ".repeat(size)}`)),
  stop
]

const calls = (...named: ReadonlyArray<readonly [name: string, args: Args]>): ReadonlyArray<ChatChunk> =>
  call(...named).flatMap((item) => (item._tag === "Send" ? item.chunks : []))

type Tag = () => string

const answers = {
  /** Text that takes its time, */
  talk: () => texts(24, 60),
  /** and text that takes none. */
  burst: () => texts(200, 100),
  /** Five megabytes of it. */
  flood: () => texts(5, 200_000),
  brief: (tag: Tag) => [text("This calls for one tool."), ...calls(["alone", { tag: tag() }])],
  /** Two calls beside each other, then one alone. */
  tools: (tag: Tag) =>
    calls(["beside", { tag: tag(), millis: 3 }], ["beside", { tag: tag() }], ["alone", { tag: tag(), millis: 5 }]),
  /** Calls that settle before the first one does. */
  early: (tag: Tag) =>
    calls(["beside", { tag: tag(), millis: 40 }], ["beside", { tag: tag() }], ["beside", { tag: tag() }]),
  /** Calls that somebody is asked about, who takes a while, beside one that nobody is. */
  questions: (tag: Tag) =>
    calls(["asked", { tag: tag(), millis: 20 }], ["beside", { tag: tag() }], ["asked", { tag: tag(), millis: 5 }]),
  /** A process of its own, */
  command: (tag: Tag) => calls(["command", { tag: tag(), millis: 20 }], ["beside", { tag: tag() }]),
  /** one whose call never returns, though it has ended, */
  hold: (tag: Tag) => calls(["beside", { tag: tag() }], ["hold", { tag: tag() }], ["beside", { tag: tag() }]),
  /** and one that would run for a quarter of an hour beside a body that waits to be told. */
  wait: (tag: Tag) => calls(["wait", { tag: tag() }], ["command", { tag: tag(), millis: 1_000_000 }])
} satisfies Record<string, (tag: Tag) => ReadonlyArray<ChatChunk>>

export type Shape = keyof typeof answers

const isShape = (word: string): word is Shape => Object.hasOwn(answers, word)

/** What the last message asks for, if it is a prompt that asks for anything. */
const asked = (request: ChatRequest): Shape | undefined => {
  const last = request.messages.at(-1)
  const [word = ""] = last?.role === "user" ? textOf(last).split(" ") : []
  return isShape(word) ? word : undefined
}

/** A model for one life. */
export const model = (life: number): Layer.Layer<ChatModel> => {
  let tags = 0
  const tag = () => `${life}.${++tags}`
  return Layer.succeed(ChatModel, {
    stream: (request) =>
      Stream.suspend(() => {
        const shape = asked(request)
        const chunks = Stream.fromIterable(
          shape === undefined ? [text("all of it is done"), stop] : answers[shape](tag)
        )
        return shape === "talk" ? Stream.tap(Stream.rechunk(chunks, 1), () => Effect.sleep(2)) : chunks
      })
  })
}
