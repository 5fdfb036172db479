/**
 * Hooks of the agent loop: where a composition may look in and decide.
 *
 * - A hook runs on the turn's fibers: a cancel interrupts it. One that fails or dies ends the turn as `error`, and no later
 *   one is asked.
 * - Layers add hooks to those below. At each point those below come first, and each sees what the ones before it left.
 * - The request hook may change the config only; the step itself runs the guard and calls the model after it.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { SessionId } from "../domain/Ids.ts"
import type { UserMessage } from "../domain/Message.ts"
import type { ModelConfig } from "../domain/Request.ts"
import type { ChatError } from "../model/ChatModel.ts"

/** A hook failed: the turn ends as `error` with this message. */
export class HookFailed extends Schema.TaggedError<HookFailed>()("HookFailed", {
  sessionId: SessionId,
  hook: Schema.Literal("pre-step", "request", "request-error", "stopping"),
  detail: Schema.String,
  cause: Schema.optional(Schema.Defect)
}) {
  override get message() {
    return `the ${this.hook} hook failed: ${this.detail}`
  }
}

/** Where the loop stands. */
export interface Place {
  readonly sessionId: SessionId
  readonly turn: number
  readonly step: number
}

/** Enter the step with these messages, in this order, or refuse: the turn then ends `blocked`. */
export type PreStep =
  | { readonly _tag: "Enter"; readonly messages: ReadonlyArray<UserMessage> }
  | { readonly _tag: "Reject"; readonly message: string }

/** What to do about a failed request: what the retry policy says, or this. A retry is bounded by what it has for any failure. */
export type RequestErrorDecision = "policy" | "retry" | "give-up"

/** What a composition may decide, each at its point of the loop. */
export interface HookPoints {
  /**
   * Before a step takes its input. Nothing is claimed yet: if the turn dies here, the input still waits (R8). A rejection is
   * the last word.
   */
  readonly preStep: (place: Place, offered: ReadonlyArray<UserMessage>) => Effect.Effect<PreStep, HookFailed>
  /** Before each request of a step, with the config it would use. */
  readonly request: (place: Place, config: Partial<ModelConfig>) => Effect.Effect<Partial<ModelConfig>, HookFailed>
  /** After a request failed, before the retry policy is asked. The first that says other than "policy" decides. */
  readonly requestError: (place: Place, error: ChatError) => Effect.Effect<RequestErrorDecision, HookFailed>
  /** When a turn would end. If next-step input waits afterwards, the turn goes on. */
  readonly stopping: (place: Place) => Effect.Effect<void, HookFailed>
}

const none: HookPoints = {
  preStep: (_place, messages) => Effect.succeed({ _tag: "Enter", messages }),
  request: (_place, config) => Effect.succeed(config),
  requestError: () => Effect.succeed("policy"),
  stopping: () => Effect.void
}

/** The hooks of the loop; without a layer they do nothing. */
export class Hooks extends Context.Reference<Hooks>()("daybook/agent/Hooks", {
  defaultValue: (): HookPoints => none
}) {}

/** The hooks below, and then these; a point that is left out does nothing. */
export const layer = (hooks: Partial<HookPoints>): Layer.Layer<Hooks> =>
  Layer.effect(
    Hooks,
    Effect.map(Hooks, (below) => inOrder(below, { ...none, ...hooks }))
  )

// internal

const inOrder = (first: HookPoints, second: HookPoints): HookPoints => ({
  preStep: (place, offered) =>
    Effect.flatMap(first.preStep(place, offered), (decision) =>
      decision._tag === "Reject" ? Effect.succeed(decision) : second.preStep(place, decision.messages)
    ),
  request: (place, config) => Effect.flatMap(first.request(place, config), (changed) => second.request(place, changed)),
  requestError: (place, error) =>
    Effect.flatMap(first.requestError(place, error), (decision) =>
      decision === "policy" ? second.requestError(place, error) : Effect.succeed(decision)
    ),
  stopping: (place) => Effect.zipRight(first.stopping(place), second.stopping(place))
})
