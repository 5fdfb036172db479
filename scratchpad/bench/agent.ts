/**
 * An agent on a file, with a model that answers at once and tools that do nothing or never end.
 */
import { Tool, Toolkit } from "@effect/ai"
import {
  type Agent,
  Agents,
  ChatModel,
  type Chunk,
  Ids,
  Journal,
  Pipeline,
  Reaper,
  Repair,
  Sessions,
  Settings,
  Tools
} from "daybook"
import { Effect, Chunk as EffectChunk, Layer, Option, Schema, Stream } from "effect"

export const id = Ids.SessionId.make("bench")

const toolkit = Toolkit.make(
  Tool.make("noop", { success: Schema.String }).annotate(Tool.Readonly, true),
  Tool.make("hang", { success: Schema.String }).annotate(Tool.Readonly, true)
)

/** What the model answers to its request of that number, from 1; it is called when that request arrives. */
export type Answers = (request: number) => ReadonlyArray<Chunk.ChatChunk>

/** 64 deltas at a time, as those of a fast server arrive; `Stream.rechunk` would cost more than all that is measured. */
const paced = (answer: ReadonlyArray<Chunk.ChatChunk>): Stream.Stream<Chunk.ChatChunk> => {
  let sent = 0
  const next = Effect.suspend(() => {
    if (sent >= answer.length) return Effect.fail(Option.none())
    sent += 64
    return Effect.succeed(EffectChunk.unsafeFromArray(answer.slice(sent - 64, sent)))
  })
  return Stream.repeatEffectChunkOption(next)
}

const model = (answers: Answers) =>
  Layer.sync(ChatModel.ChatModel, () => {
    let requests = 0
    return { stream: () => Stream.suspend(() => paced([...answers(++requests), { type: "finish", reason: "stop" }])) }
  })

/** Sessions on a file. */
export const sessions = (filename: string) =>
  Layer.provide(Sessions.layer, [Journal.layerSqlite({ filename }), Repair.layer, Reaper.layerNone])

const agents = (filename: string, answers: Answers, hanging: Effect.Effect<void>) =>
  Agents.layer.pipe(
    Layer.provide([model(answers), Settings.layer]),
    Layer.provide(
      Layer.provideMerge(
        Pipeline.layer,
        Layer.provide(
          Tools.layer(toolkit),
          toolkit.toLayer({ noop: () => Effect.succeed("ok"), hang: () => Effect.zipRight(hanging, Effect.never) })
        )
      )
    ),
    Layer.provide(sessions(filename))
  )

/** Works with an agent on the session of that file. `hanging` runs in each body that never ends. */
export const withAgent = <A, E>(
  filename: string,
  answers: Answers,
  work: (agent: Agent.Agent) => Effect.Effect<A, E>,
  hanging: Effect.Effect<void> = Effect.void
) =>
  Effect.gen(function* () {
    const config = { provider: "bench", model: "bench" }
    return yield* work(yield* (yield* Agents.Agents).open(id, { cwd: "/", create: "if-absent", config }))
  }).pipe(Effect.scoped, Effect.provide(agents(filename, answers, hanging)))

/** One prompt, to idle. */
export const turn = (agent: Agent.Agent) => Effect.zipRight(agent.followup("go"), agent.idle)

/** So many deltas of 12 bytes. */
export const deltas = (count: number): ReadonlyArray<Chunk.ChatChunk> =>
  Array.from({ length: count }, () => ({ type: "text", index: 0, text: "twelve bytes" }))

/** So many calls of one tool. */
export const calls = (name: "noop" | "hang", count: number): ReadonlyArray<Chunk.ChatChunk> =>
  Array.from({ length: count }, (_, index) => ({ type: "tool-call", index, name, arguments: "{}" }))
