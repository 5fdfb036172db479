/**
 * The repair policy: which events close a log whose owner died. Pure; `Sessions` stores them together with ownership.
 */
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import type { SessionEvent } from "../domain/Event.ts"
import * as closing from "../domain/Repair.ts"
import type { SessionState } from "../domain/SessionState.ts"

export class Repair extends Context.Tag("daybook/session/Repair")<
  Repair,
  {
    /** The closing events, in order; none where the log balances. A function of its arguments alone. */
    readonly closers: (state: SessionState, report: closing.ReapReport) => ReadonlyArray<SessionEvent>
  }
>() {}

/** Closes with the fewest events (R13). */
export const layer: Layer.Layer<Repair> = Layer.succeed(Repair, { closers: closing.closers })

/** The same, but keeps what came of an answer that was cut off, as a cancel would have. */
export const layerSalvage: Layer.Layer<Repair> = Layer.succeed(Repair, { closers: closing.salvage })
