/**
 * The reaper port: ends what a dead owner left running, before its session is taken over.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { StoredOf } from "../domain/Event.ts"

/** A process group that the log shows as started by a call without a result. */
export type LeftOver = StoredOf<"tool/process">["data"]

/** What became of each: `ended` by the reaper, `gone` before it came, or `alive` still. */
export type ReapReport = ReadonlyArray<{ readonly process: LeftOver; readonly found: "ended" | "gone" | "alive" }>

export class Reaper extends Context.Tag("daybook/session/Reaper")<
  Reaper,
  {
    /** Ends the groups that still run, waits until they are gone, and tells what it found. */
    readonly reap: (processes: ReadonlyArray<LeftOver>) => Effect.Effect<ReapReport>
  }
>() {}

/** Looks for nothing: for hosts that run no processes, and for tests. */
export const layerNone: Layer.Layer<Reaper> = Layer.succeed(Reaper, { reap: () => Effect.succeed([]) })
