/**
 * Session records: what is stored of a session beside its events, and what a writer asks to be stored.
 */
import type * as Option from "effect/Option"
import type { StoredEvent } from "../domain/Event.ts"
import type { SessionId } from "../domain/Ids.ts"
import type { Summary } from "../domain/SessionState.ts"

/** What stands beside a log and never changes. */
export interface SessionHeader {
  readonly id: SessionId
  /** The version of the format of its events. */
  readonly version: number
  /** The folder that the session works in. */
  readonly cwd: string
  /** Unix milliseconds. */
  readonly created: number
  readonly parent: Option.Option<SessionId>
  /** How many leading events were inherited from `parent` by a fork; 0 without one. */
  readonly seedLength: number
  /** 0 for a session of its own, its parent's depth and 1 for a delegated one. */
  readonly depth: number
}

/** The format version that this build writes. */
export const formatVersion = 1

/** Who holds a session. `token` is random: a pid and a start time can come again, a token does not. */
export interface Owner {
  readonly host: string
  readonly pid: number
  /** When the process started, in the host's own terms. */
  readonly processStart: string
  /** The boot and the pid namespace in which `pid` and `processStart` mean one process. */
  readonly bootId: string
  readonly token: string
  /** When it took the session, in Unix milliseconds. */
  readonly since: number
}

/** A session as it is stored, without its log. */
export interface SessionRecord {
  readonly header: SessionHeader
  readonly head: number
  /** Raised by every `take`. */
  readonly epoch: number
  readonly owner: Option.Option<Owner>
  /** When the lease ends, in Unix milliseconds; 0 without an owner. */
  readonly leaseExpires: number
  readonly summary: Summary
}

/** The events that a session begins with, from seq 0 on, and the summary after them. */
export interface Log {
  readonly events: ReadonlyArray<StoredEvent>
  readonly summary: Summary
}

/** New events of one session. They follow `head` without a gap, and all are written or none. */
export interface Append {
  readonly id: SessionId
  readonly head: number
  readonly epoch: number
  readonly events: ReadonlyArray<StoredEvent>
  /** The summary after these events, stored in the same transaction. */
  readonly summary: Summary
  /** When the lease ends now, in Unix milliseconds: a write is a sign of life. */
  readonly leaseExpires: number
}

/** Taking a session over, as it was read: at `head` and `epoch`, with a lease that ends at `leaseRead`. */
export interface Take extends Append {
  readonly owner: Owner
  readonly leaseRead: number
}

/** A session whose lease was renewed. */
export interface Held {
  readonly id: SessionId
  readonly epoch: number
}
