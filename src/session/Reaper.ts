/**
 * The reaper port: ends what a dead owner left running, before its session is taken over.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { LeftOver, ReapReport } from "../domain/Repair.ts"

export class Reaper extends Context.Tag("daybook/session/Reaper")<
  Reaper,
  {
    /** Ends the groups that still run, or does what its policy says, and tells what it found once that is done. */
    readonly reap: (processes: ReadonlyArray<LeftOver>) => Effect.Effect<ReapReport>
    /** Tells what still runs, and ends nothing. */
    readonly look: (processes: ReadonlyArray<LeftOver>) => Effect.Effect<ReapReport>
  }
>() {}

const nothing = () => Effect.succeed([])

/** Looks for nothing: for hosts that run no processes, and for tests. */
export const layerNone: Layer.Layer<Reaper> = Layer.succeed(Reaper, { reap: nothing, look: nothing })
