/**
 * What a live session tells besides its events: it is shown, never stored.
 */
import type { ChatChunk } from "./Chunk.ts"
import type { StoredEvent } from "./Event.ts"
import type { CallId, MessageId } from "./Ids.ts"
import type { CancelCause, Failure, TurnEnding } from "./TurnEnding.ts"

/** A call whose body may run. */
export interface RunningCall {
  readonly callId: CallId
  readonly name: string
  /** The time of its `tool/call`, in Unix milliseconds. */
  readonly since: number
}

/** What an agent does now. A turn that is being cancelled runs until it has settled, and `calls` hold it (R12). */
export type Status =
  | { readonly _tag: "Idle"; readonly parked: number }
  | {
      readonly _tag: "Running"
      readonly turn: number
      readonly cancelled: boolean
      readonly calls: ReadonlyArray<RunningCall>
    }
  | { readonly _tag: "Broken" }
  | { readonly _tag: "Disposed" }

export type Notice =
  | { readonly type: "status"; readonly status: Status }
  | { readonly type: "delta"; readonly turn: number; readonly step: number; readonly chunk: ChatChunk }
  | { readonly type: "claimed"; readonly turn: number; readonly ids: ReadonlyArray<MessageId> }
  /** Waiting messages were dropped by a cancel or a remove. */
  | { readonly type: "discarded"; readonly ids: ReadonlyArray<MessageId> }
  /** Prompts wait, and nothing runs them until the next waking send. */
  | { readonly type: "parked"; readonly count: number }
  | { readonly type: "cancel"; readonly turn: number; readonly cause: CancelCause }
  | { readonly type: "tool-progress"; readonly callId: CallId; readonly text: string }
  /** A turn failed; the log has the same failure. */
  | { readonly type: "error"; readonly turn: number; readonly failure: Failure }
  | { readonly type: "ended"; readonly turn: number; readonly ending: TurnEnding; readonly cause?: CancelCause }
  /** A write failed: what is stored up to `durableHead` is kept, what came after it is gone. */
  | { readonly type: "broken"; readonly durableHead: number; readonly message: string }
  /** This subscriber fell behind: notices were lost, events follow from the journal. */
  | { readonly type: "lagged" }

/** One thing that a subscriber sees: a durable event, after its commit, or a live notice. */
export type FeedItem = { readonly type: "event"; readonly event: StoredEvent } | Notice
