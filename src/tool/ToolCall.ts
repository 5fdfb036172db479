/**
 * The call that a tool body serves: its identity, and what the body may tell while it runs.
 *
 * - The harness provides it to every body; a handler asks for it with `yield* ToolCall`.
 * - What a body tells is kept beside it, in `CallNotes`: it outlives the body, however the body ends.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import type { SessionBroken } from "../domain/Errors.ts"
import type { EventOf } from "../domain/Event.ts"
import { type CallId, MessageId, type SessionId } from "../domain/Ids.ts"
import { text, type UserMessage } from "../domain/Message.ts"
import type { ToolSpec } from "../domain/Request.ts"
import { apart } from "../internal/Apart.ts"
import { type Json, wellFormed } from "../internal/Json.ts"

/** A process group as the journal keeps it: enough to find it again after a crash, and nothing else by mistake. */
export type ProcessIdentity = Omit<EventOf<"tool/process">["data"], "turn" | "step" | "callId">

export class ToolCall extends Context.Tag("daybook/tool/ToolCall")<
  ToolCall,
  {
    readonly sessionId: SessionId
    readonly turn: number
    readonly step: number
    /** An idempotency key: the same call has the same id after a restart. */
    readonly callId: CallId
    readonly name: string
    /** Shows a line of progress on the live feed; nothing is stored. */
    readonly progress: (text: string) => Effect.Effect<void>
    /** Says how to read the output so far: that is the result if the body is interrupted. */
    readonly onAbort: (partialOutput: () => string) => Effect.Effect<void>
    /**
     * The point of no return of a body that a cancel stops: from here on a cancel lets it finish. `effect` runs to its end,
     * apart from whoever is interrupted, and what it comes to is what a cancelled call came to (R4). The call is not over
     * before that, wherever in the body this was. A tool all of which is to finish says so by `Tools.OnCancel` instead.
     */
    readonly finish: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
    /** Leaves a text for the next step, as a message after this call's result. */
    readonly addContext: (text: string) => Effect.Effect<void>
    /** Asks that the turn end once the calls of this answer are done, if this call succeeds. */
    readonly conclude: Effect.Effect<void>
    /**
     * Puts a process group into the journal; durable on return. Call it while an inert guard holds the group back: only
     * after it may the command run.
     */
    readonly recordProcess: (identity: ProcessIdentity) => Effect.Effect<void, SessionBroken>
  }
>() {}

/** What hooks and approvals see of a call: its arguments as the model wrote them, parsed and frozen, not decoded. */
export interface PendingCall {
  readonly sessionId: SessionId
  readonly turn: number
  readonly step: number
  readonly callId: CallId
  readonly name: string
  readonly arguments: Json
  readonly annotations: ToolSpec["annotations"]
}

/** What a body has told so far. The pipeline reads it when the body is done, the scheduler when it was interrupted. */
export interface CallNotes {
  /** Whether the body was entered: before that a call was refused, or cut while a hook or an approval was asked. */
  readonly started: Effect.Effect<boolean>
  /** The pipeline's own: marks the body as entered. It is no effect, so that nothing comes between it and the body. */
  readonly unsafeStart: () => void
  /** What was left for the next step, in order, none of it empty. */
  readonly contexts: Effect.Effect<ReadonlyArray<UserMessage>>
  readonly concludes: Effect.Effect<boolean>
  /** What the body finished with, where it was past its point of no return: waits for that. */
  readonly finished: Effect.Effect<Option.Option<Exit.Exit<unknown, unknown>>>
  /** The output so far as the body reads it, well-formed; empty where it registered nothing, or where its reader throws. */
  readonly partialOutput: Effect.Effect<string>
}

/** What only the harness can give to a body. */
export type CallHost = Pick<
  Context.Tag.Service<ToolCall>,
  "sessionId" | "turn" | "step" | "callId" | "name" | "progress" | "recordProcess"
>

/** The service of one call, and the notes that it fills. */
export const make: (
  host: CallHost
) => Effect.Effect<{ readonly call: Context.Tag.Service<ToolCall>; readonly notes: CallNotes }> = Effect.fnUntraced(
  function* (host) {
    let started = false
    let finishing = Option.none<Deferred.Deferred<Exit.Exit<unknown, unknown>>>()
    const concludes = yield* Ref.make(false)
    const contexts = yield* Ref.make<ReadonlyArray<UserMessage>>([])
    const partial = yield* Ref.make<() => string>(() => "")
    const read = Effect.flatMap(Ref.get(partial), (partialOutput) => Effect.try(() => wellFormed(partialOutput())))
    return {
      call: {
        ...host,
        onAbort: (partialOutput) => Ref.set(partial, partialOutput),
        finish: (effect) =>
          Effect.uninterruptible(
            Effect.suspend(() => {
              const end = Deferred.unsafeMake<Exit.Exit<unknown, unknown>>(FiberId.none)
              finishing = Option.some(end)
              // in the fiber of its own: whoever waits here may be cut off from it
              return apart(Effect.onExit(effect, (exit) => Deferred.succeed(end, exit)))
            })
          ),
        addContext: (context) =>
          context.trim() === ""
            ? Effect.void
            : Ref.update(contexts, (before) => [...before, contextMessage(host.callId, before.length, context)]),
        conclude: Ref.set(concludes, true)
      },
      notes: {
        started: Effect.sync(() => started),
        unsafeStart: () => {
          started = true
        },
        finished: Effect.suspend(() => Effect.transposeMapOption(finishing, Deferred.await)),
        contexts: Ref.get(contexts),
        concludes: Ref.get(concludes),
        partialOutput: Effect.orElseSucceed(read, () => "")
      }
    }
  }
)

// internal

const contextMessage = (callId: CallId, index: number, context: string): UserMessage => ({
  id: MessageId.make(`${callId}-context-${index}`),
  role: "user",
  source: { kind: "context" },
  content: [text(wellFormed(context))]
})
