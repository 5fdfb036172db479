import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { Agent } from "../../src/agent/Agent.ts"
import * as Agents from "../../src/agent/Agents.ts"
import type { StoredEvent } from "../../src/domain/Event.ts"
import { SessionId } from "../../src/domain/Ids.ts"
import { text } from "../../src/domain/Message.ts"
import type { ChatRequest } from "../../src/domain/Request.ts"
import type { SessionState } from "../../src/domain/SessionState.ts"
import * as Journal from "../../src/journal/Journal.ts"
import { ChatModel } from "../../src/model/ChatModel.ts"
import * as Reaper from "../../src/session/Reaper.ts"
import * as Repair from "../../src/session/Repair.ts"
import * as Sessions from "../../src/session/Sessions.ts"
import * as Settings from "../../src/settings/Settings.ts"
import * as Pipeline from "../../src/tool/Pipeline.ts"
import * as World from "../support/World.ts"

const id = SessionId.make("step")
const where = { cwd: "/", create: "if-absent" } as const

/** Agents whose sessions show their state through `seen`, over a model that notes its requests and says nothing. */
const agents = (seen: (state: SessionState) => SessionState = (state) => state) =>
  Effect.gen(function* () {
    const requests: Array<ChatRequest> = []
    const model = Layer.succeed(ChatModel, {
      stream: (request) => Stream.suspend(() => Stream.drain(Stream.make(requests.push(request))))
    })
    const sessions = Layer.map(Sessions.layer, (context) => {
      const { acquire } = Context.get(context, Sessions.Sessions)
      return Context.make(Sessions.Sessions, {
        acquire: (id, options) =>
          Effect.map(acquire(id, options), (session) => ({
            ...session,
            unsafeState: () => seen(session.unsafeState())
          }))
      })
    })
    const context = yield* Layer.build(
      Agents.layer.pipe(
        Layer.provide(Layer.mergeAll(sessions, model, Pipeline.layer, Settings.layerMemory())),
        Layer.provide(World.tools(Effect.succeed)),
        Layer.provideMerge(Layer.mergeAll(Journal.layerMemory, Repair.layer, Reaper.layerNone, NodeFileSystem.layer))
      )
    )
    const { read } = Context.get(context, Journal.Journal)
    return {
      open: Context.get(context, Agents.Agents).open,
      requests,
      log: Effect.map(read(id, { from: 0, limit: 1000 }), (events): ReadonlyArray<StoredEvent> => events)
    }
  })

const prompt = (agent: Agent, text: string) => Effect.zipRight(agent.followup(text), agent.idle)

describe("a step", () => {
  it.scoped(
    "law 1 W04 H03: a request that is not what the log says reaches no model, whatever stands in its place; the turn is an error",
    () =>
      Effect.gen(function* () {
        let isForged = false
        // the first message reads otherwise than when its step closed
        const { log, open, requests } = yield* agents((state) => {
          const [first, ...rest] = Chunk.toReadonlyArray(state.transcript.spans)
          if (!isForged || first === undefined) return state
          const messages = first.messages.map((message) => ({ ...message, content: [text("forged")] }))
          // only texts were changed
          const forged = { ...first, messages: messages as typeof first.messages }
          return { ...state, transcript: { spans: Chunk.fromIterable([forged, ...rest]) } }
        })
        const agent = yield* open(id, { ...where, config: World.config })
        yield* prompt(agent, "one")
        yield* prompt(agent, "two")
        assert.strictEqual(requests.length, 2)
        isForged = true
        const report = yield* prompt(agent, "three")
        assert.strictEqual(requests.length, 2)
        const ending = Option.getOrThrow(report.last).ending
        assert.include(ending.kind === "error" ? ending.error.message : "", "not what the log derives")
        assert.match(World.shorthand(yield* log), /S<1 UM S>1 T>\(error\)$/)
      })
  )

  it.scoped("P07 H09: without options the first request after a restore has the route of the restored log", () =>
    Effect.gen(function* () {
      const { open, requests } = yield* agents()
      const config = { provider: "scripted", model: "script", reasoningEffort: "high" }
      yield* Effect.scoped(Effect.flatMap(open(id, { ...where, config }), (agent) => prompt(agent, "one")))
      yield* Effect.scoped(Effect.flatMap(open(id, where), (agent) => prompt(agent, "two")))
      assert.deepStrictEqual(
        requests.map((request) => request.config),
        [config, config]
      )
    })
  )
})
