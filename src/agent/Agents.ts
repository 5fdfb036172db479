/**
 * Agents: opening one on a session.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Scope } from "effect/Scope"
import type { SessionId } from "../domain/Ids.ts"
import type { ModelConfig } from "../domain/Request.ts"
import { asOne } from "../internal/AsOne.ts"
import { ChatModel } from "../model/ChatModel.ts"
import { type AcquireError, type AcquireOptions, Sessions } from "../session/Sessions.ts"
import { Settings } from "../settings/Settings.ts"
import { Pipeline } from "../tool/Pipeline.ts"
import { Tools } from "../tool/Tools.ts"
import * as Agent from "./Agent.ts"
import { Guard } from "./Guard.ts"
import { Hooks } from "./Hooks.ts"
import { SystemPrompt } from "./SystemPrompt.ts"

/** How to open an agent: its session, and the route and sampling of its first request. */
export interface OpenOptions extends AcquireOptions {
  readonly config?: Partial<ModelConfig>
}

export class Agents extends Context.Tag("daybook/agent/Agents")<
  Agents,
  {
    /**
     * Takes a session and drives it until the scope closes. What waited when its last owner left is parked: nothing runs by
     * itself. Fails as `Sessions.acquire` does.
     */
    readonly open: (id: SessionId, options: OpenOptions) => Effect.Effect<Agent.Agent, AcquireError, Scope>
  }
>() {}

/** Gives the agent to the scope, together with its session. */
const given = <E, R>(open: Effect.Effect<Agent.Made, E, R>) =>
  Effect.map(
    asOne(open, (close, made) => made.leave(close)),
    ({ agent }) => agent
  )

const make = Effect.gen(function* () {
  const sessions = yield* Sessions
  const guard = yield* Guard
  const services = {
    model: yield* ChatModel,
    tools: yield* Tools,
    pipeline: yield* Pipeline,
    settings: yield* Settings,
    hooks: yield* Hooks,
    prompt: yield* SystemPrompt
  }
  return {
    open: Effect.fn("Agents.open")(function* (id: SessionId, options: OpenOptions) {
      const session = yield* sessions.acquire(id, options)
      return yield* Agent.make({ ...services, session, config: options.config, guard: guard.make(session) })
    }, given)
  }
})

/** Agents over the services of the composition; hooks, guard and system prompt are the defaults unless a layer is provided to it. */
export const layer: Layer.Layer<Agents, never, Sessions | ChatModel | Tools | Pipeline | Settings> = Layer.effect(
  Agents,
  make
)
