/**
 * The repair policy: which events close a log whose owner died. Pure; `Sessions` stores them together with ownership.
 */
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import type { SessionEvent } from "../domain/Event.ts"
import type { ReapReport } from "../domain/Repair.ts"
import * as closing from "../domain/Repair.ts"
import type { SessionState } from "../domain/SessionState.ts"

export class Repair extends Context.Tag("daybook/session/Repair")<
  Repair,
  {
    /** The closing events, in order; none where the log balances. A function of its arguments alone. */
    readonly closers: (state: SessionState, report: ReapReport) => ReadonlyArray<SessionEvent>
  }
>() {}

/** Closes with the fewest events (R13). */
export const layer: Layer.Layer<Repair> = Layer.succeed(Repair, { closers: (state) => closing.closers(state) })
