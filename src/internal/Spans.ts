/**
 * Spans around what a model and its tools say.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import type { SpanOptions } from "effect/Tracer"

/**
 * A span that tells a failure by its name alone, as the attribute `error`: the text of such an error may quote a message,
 * arguments or a path, and an exporter would send it on.
 */
export const quiet =
  (name: string, attributes: SpanOptions["attributes"] = {}) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.exit(effect).pipe(
      Effect.tap((exit) =>
        Exit.isFailure(exit) ? Effect.annotateCurrentSpan("error", nameOf(exit.cause)) : Effect.void
      ),
      Effect.withSpan(name, { attributes, captureStackTrace: false }),
      Effect.flatten
    )

// internal

const nameOf = (cause: Cause.Cause<unknown>): string => {
  if (Cause.isInterruptedOnly(cause)) return "interrupted"
  const error = Option.getOrElse(Cause.failureOption(cause), () => Cause.squash(cause))
  const reason = Predicate.hasProperty(error, "reason") && typeof error.reason === "string" ? ` ${error.reason}` : ""
  return `${Predicate.hasProperty(error, "_tag") ? String(error._tag) : "defect"}${reason}`
}
