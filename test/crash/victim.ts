/**
 * A host to be killed: one agent on a real journal, whose tools leave marks outside.
 *
 * At the moment that was asked for it says so and stands still, its event loop included, until it is killed.
 */
import { appendFileSync, closeSync, fsyncSync, openSync, writeSync } from "node:fs"
import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Agents, layer as agentsLayer } from "../../src/agent/Agents.ts"
import { MessageId, SessionId } from "../../src/domain/Ids.ts"
import * as Journal from "../../src/journal/Journal.ts"
import { ChatModel } from "../../src/model/ChatModel.ts"
import { call, say } from "../../src/model/ScriptedModel.ts"
import * as Reaper from "../../src/session/Reaper.ts"
import * as Repair from "../../src/session/Repair.ts"
import * as Sessions from "../../src/session/Sessions.ts"
import * as Settings from "../../src/settings/Settings.ts"
import * as Pipeline from "../../src/tool/Pipeline.ts"
import { ToolCall } from "../../src/tool/ToolCall.ts"
import * as Tools from "../../src/tool/Tools.ts"

/** What a killer asks of its victim. */
export interface Orders {
  readonly file: string
  readonly marks: string
  /** Stands still as the first act of the n-th body of this life, from 1; 0 for never. */
  readonly atBody: number
  /** Stands still once this send has returned. */
  readonly afterSend?: "followup" | "steer" | "inject"
  /** The id of the message that this life sends. */
  readonly message: string
  /** Barriers wait for nothing: the guard taken out. */
  readonly broken: boolean
}

const orders = JSON.parse(process.argv[2] ?? "{}") as Orders // the killer wrote it

/** Says a line, and stands still for good. */
const standStill = (line: string) =>
  Effect.sync(() => {
    writeSync(1, `${line}\n`)
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
  })

let bodies = 0

/** A mark that is on the disk before anything else happens. */
const mark = (callId: string) =>
  Effect.sync(() => {
    const file = openSync(orders.marks, "a")
    appendFileSync(file, `${callId}\n`)
    fsyncSync(file)
    closeSync(file)
  })

const shape = { parameters: { n: Schema.Number }, success: Schema.String, dependencies: [ToolCall] }
const toolkit = Toolkit.make(Tool.make("beside", shape).annotate(Tool.Readonly, true), Tool.make("alone", shape))

const body = ({ n }: { readonly n: number }) =>
  Effect.gen(function* () {
    yield* mark((yield* ToolCall).callId)
    if (++bodies === orders.atBody) yield* standStill("now")
    return `marked ${n}`
  })

/** Calls tools for a user's message, says something about results. */
const model = Layer.succeed(ChatModel, {
  stream: (request) => {
    const items =
      request.messages.at(-1)?.role === "user"
        ? call(["beside", { n: 1 }], ["beside", { n: 2 }], ["beside", { n: 3 }], ["alone", { n: 4 }])
        : say("all marked")
    return Stream.fromIterable(items.flatMap((item) => (item._tag === "Send" ? item.chunks : [])))
  }
})

/** A disk that takes its time, so that what does not wait for it runs ahead. */
const slowJournal = Layer.map(Journal.layerSqlite({ filename: orders.file }), (context) => {
  const real = Context.get(context, Journal.Journal)
  return Context.make(Journal.Journal, {
    ...real,
    append: (batches) => Effect.zipRight(Effect.sleep(2), real.append(batches))
  })
})

const sessions = Layer.map(Sessions.layer, (context) => {
  const real = Context.get(context, Sessions.Sessions)
  if (!orders.broken) return context
  return Context.make(Sessions.Sessions, {
    acquire: (id, options) =>
      Effect.map(real.acquire(id, options), (session) => ({
        ...session,
        barrier: Effect.void,
        durable: () => Effect.void
      }))
  })
})

const layer = agentsLayer.pipe(
  Layer.provide(Layer.mergeAll(sessions, model, Pipeline.layer)),
  Layer.provide(
    Layer.mergeAll(
      Layer.provide(Tools.layer(toolkit), toolkit.toLayer({ beside: body, alone: body })),
      Settings.layer,
      slowJournal,
      Repair.layer,
      Reaper.layerNone,
      NodeFileSystem.layer
    )
  )
)

const life = Effect.gen(function* () {
  const agents = yield* Agents
  const config = { provider: "victim", model: "victim" }
  const agent = yield* agents.open(SessionId.make("victim"), { cwd: "/", create: "if-absent", config })
  yield* agent[orders.afterSend ?? "followup"]({ id: MessageId.make(orders.message), text: orders.message })
  if (orders.afterSend !== undefined) yield* standStill("now")
  yield* agent.idle
})

Effect.runPromise(Effect.provide(Effect.scoped(life), layer)).then(
  () => writeSync(1, "ended\n"),
  (error: unknown) => {
    writeSync(1, `failed ${String(error)}\n`)
    process.exitCode = 1
  }
)
