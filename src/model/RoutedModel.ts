/**
 * One model out of several: each request goes to the provider that its config names.
 *
 * - A session may change its provider between any two requests: nothing is remembered here.
 * - A provider that is not there is a failure that says which there are, and no request is sent.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { Scope } from "effect/Scope"
import * as Stream from "effect/Stream"
import { ChatError, ChatModel } from "./ChatModel.ts"

/** The model that asks these, by the names of their providers. */
export const make = (models: ReadonlyMap<string, ChatModel["Type"]>): ChatModel["Type"] => ({
  stream: (request) =>
    Option.match(Option.fromNullable(models.get(request.config.provider)), {
      onNone: () => Stream.fail(unsupported(request.config.provider, [...models.keys()])),
      onSome: (model) => model.stream(request)
    })
})

/** The same as a layer, over one layer a provider. */
export const layer = <E, R>(models: {
  readonly [provider: string]: Layer.Layer<ChatModel, E, R>
}): Layer.Layer<ChatModel, E, Exclude<R, Scope>> =>
  Layer.scoped(
    ChatModel,
    Effect.gen(function* () {
      const built = new Map<string, ChatModel["Type"]>()
      for (const [provider, model] of Object.entries(models))
        built.set(provider, Context.get(yield* Layer.build(model), ChatModel))
      return make(built)
    })
  )

// internal

const unsupported = (provider: string, known: ReadonlyArray<string>) =>
  new ChatError({
    reason: "UNSUPPORTED",
    message: `there is no provider "${provider}" to ask. There is: ${known.join(", ")}.`
  })
