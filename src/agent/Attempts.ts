/**
 * Attempts at an answer: the same request, sent until it is answered or given up.
 *
 * - Nothing is sent before all that is in the log is durable and the guard has let it pass (R3).
 * - That an attempt failed is durable before the wait for the next one begins: whoever is killed in it finds that in the log.
 * - The last failure is the step's, as it is (O02).
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import type { SessionBroken } from "../domain/Errors.ts"
import type { ChatRequest } from "../domain/Request.ts"
import { quiet } from "../internal/Spans.ts"
import { type ChatError, toFailure } from "../model/ChatModel.ts"
import * as Retry from "../model/Retry.ts"
import * as Attempt from "./Attempt.ts"
import type { RequestRefused } from "./Guard.ts"
import type { HookFailed, Place } from "./Hooks.ts"
import type * as LiveTurn from "./LiveTurn.ts"
import type { Loop } from "./Loop.ts"

/** Why there is no answer. */
export type AttemptsError = ChatError | HookFailed | RequestRefused | SessionBroken

/** Asks the model until it answers or is given up on. The answer is in the log on return. */
export const run = Effect.fnUntraced(function* (
  loop: Loop,
  live: LiveTurn.LiveTurn,
  place: Place,
  request: ChatRequest
): Effect.fn.Return<void, AttemptsError> {
  const { turn, step } = place
  const { model, provider } = request.config
  for (let tries = 1; ; tries++) {
    const attempt = Attempt.make({ turn, step, provider, model })
    yield* loop.session.barrier
    yield* loop.guard(request)
    live.attempt = attempt
    const failure = yield* Attempt.receive(loop.session, attempt, loop.model.stream(request)).pipe(
      Effect.ensuring(Effect.suspend(() => Effect.annotateCurrentSpan({ ...attempt.assembly.usage }))),
      quiet("ChatModel.stream", { provider, model, attempt: tries }),
      Effect.as(Option.none<ChatError>()),
      Effect.catchTag("ChatError", (error) => Effect.succeedSome(error))
    )
    if (Option.isNone(failure)) {
      yield* loop.session.append((state) => {
        live.attempt = undefined
        return Attempt.answered(attempt, state)
      })
      return
    }
    attempt.hasFailed = true
    const delay = yield* delayAfter(loop, place, failure.value, tries)
    // what is pending of it joins the log with the end of its step
    if (Option.isNone(delay)) return yield* failure.value
    yield* loop.session.append(() => {
      live.attempt = undefined
      return Attempt.retried(attempt, { attempt: tries, delayMillis: delay.value, failure: toFailure(failure.value) })
    })
    yield* loop.session.barrier
    yield* Effect.sleep(delay.value)
  }
})

// internal

/**
 * How long to wait after a failed attempt, in milliseconds; none where it was the last one. The hook is asked first, then the
 * policy as it is set by then. A hook that wants a retry gets as many as the policy has for any failure at all.
 */
const delayAfter = Effect.fnUntraced(function* (loop: Loop, place: Place, error: ChatError, attempts: number) {
  const decision = yield* loop.hooks.requestError(place, error)
  const policy = yield* loop.settings.get(Retry.Policy)
  const most = decision === "retry" ? Retry.mostTimes(policy) : Retry.timesAfter(policy, error.reason)
  if (decision === "give-up" || attempts > most) return Option.none<number>()
  const chance = yield* Random.next
  return Option.some(Retry.delayMillis(policy, { attempts, asked: error.retryAfterMillis, chance }))
})
