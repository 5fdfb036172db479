/**
 * A journal in memory whose writes a test can hold back or let fail.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { JournalError } from "../../src/domain/Errors.ts"
import * as Journal from "../../src/journal/Journal.ts"

export interface HeldJournal {
  readonly layer: Layer.Layer<Journal.Journal>
  /** Appends wait while this latch is closed. Open at first. */
  readonly gate: Effect.Latch
  /** Every append from now on fails with this, until `recover`. Nothing of it is stored. */
  readonly failWith: (error: JournalError) => void
  readonly recover: () => void
  /** How many appends were asked for. */
  readonly appends: () => number
}

export const make: Effect.Effect<HeldJournal> = Effect.map(Effect.makeLatch(true), (gate) => {
  let failure: Option.Option<JournalError> = Option.none()
  let appends = 0
  return {
    gate,
    failWith: (error) => {
      failure = Option.some(error)
    },
    recover: () => {
      failure = Option.none()
    },
    appends: () => appends,
    layer: Layer.map(Journal.layerMemory, (context) => {
      const real = Context.get(context, Journal.Journal)
      return Context.make(Journal.Journal, {
        ...real,
        append: (batches) =>
          Effect.suspend(() => {
            appends++
            return Effect.zipRight(
              gate.await,
              Effect.suspend(() => (Option.isSome(failure) ? Effect.fail(failure.value) : real.append(batches)))
            )
          })
      })
    })
  }
})
