/**
 * What a log shows against the laws: a fold that goes on after a violation.
 *
 * - It takes any events in any order, also those of a log that no owner can open: `SessionState` refuses what does not fit,
 *   this tells what and where.
 * - It judges laws 1 (each request that was sent, and the next one after repair), 2, 3, 6, 7 and 8. A turn that is open at
 *   the end is no violation: it runs, or repair will close it.
 * - An event costs its own length; a replacement what is visible then. It is filled in place by `add` and `skip`, and by
 *   nothing else.
 */
import type { Sources, StoredEvent } from "./Event.ts"
import type { Summary } from "./SessionState.ts"
import * as VerifiedInbox from "./VerifiedInbox.ts"
import * as VerifiedRequests from "./VerifiedRequests.ts"
import * as VerifiedTurns from "./VerifiedTurns.ts"
import type { Say, Violation } from "./Violation.ts"

export interface Verification {
  /** The seq that is due. */
  next: number
  /** The time of the last event. */
  time: number
  readonly turns: VerifiedTurns.Turns
  readonly inbox: VerifiedInbox.Inbox
  readonly requests: VerifiedRequests.Requests
}

/** A verification before the first event. The first `seedLength` events are inherited by a fork. */
export const make = (seedLength = 0): Verification => ({
  next: 0,
  time: 0,
  turns: VerifiedTurns.make(),
  inbox: VerifiedInbox.make(seedLength),
  requests: VerifiedRequests.make(seedLength)
})

/** Takes the next event in: what it breaks, or shows to be broken. */
export const add = (verification: Verification, event: StoredEvent): ReadonlyArray<Violation> => {
  const found: Array<Violation> = []
  const say: Say = (law, detail, seq = event.seq) => {
    found.push({ seq, law, detail })
  }
  if (event.seq !== verification.next) {
    const due = `${event.type} stands where seq ${verification.next} is due`
    say(8, `${due}: from here on no inbox and no request is judged`)
    skip(verification, event.seq - 1)
  }
  if (event.time < verification.time) say(8, "its time is before that of the event before it")
  if (event.sourceEventSeqs !== undefined && reaches(event.sourceEventSeqs, event.seq))
    say(8, "it cites an event that does not stand before it")
  VerifiedTurns.take(verification.turns, event, verification.time, say)
  VerifiedInbox.take(verification.inbox, event, say)
  VerifiedRequests.take(verification.requests, event, say)
  verification.next = event.seq + 1
  verification.time = event.time
  return found
}

/**
 * Says that the event at `seq` cannot be read. The turn that it may belong to is not judged any more, and neither are the
 * inbox and the requests of all that follows: they depend on every event.
 */
export const skip = (verification: Verification, seq: number): void => {
  verification.next = seq + 1
  VerifiedTurns.lose(verification.turns)
  VerifiedInbox.lose(verification.inbox)
  VerifiedRequests.lose(verification.requests)
}

/** Where the log stands: the turn that is open, and its summary, if it could be read so far. */
export const standing = ({
  requests,
  turns
}: Verification): { readonly openTurn: number | undefined; readonly summary: Summary | undefined } => ({
  openTurn: turns.isLost ? undefined : turns.open?.turn,
  summary: requests.state?.summary
})

/** What the whole log shows: whether its repair only completes it, and what the next request would be. Changes nothing. */
export const end = (verification: Verification): ReadonlyArray<Violation> => {
  const found: Array<Violation> = []
  VerifiedRequests.end(verification.requests, (law, detail, seq = verification.next) => {
    found.push({ seq, law, detail })
  })
  return found
}

/** Everything that these events break, in the order of the log. */
export const verify = (events: Iterable<StoredEvent>, seedLength = 0): ReadonlyArray<Violation> => {
  const verification = make(seedLength)
  const found: Array<Violation> = []
  for (const event of events) found.push(...add(verification, event))
  return [...found, ...end(verification)].toSorted((a, b) => a.seq - b.seq)
}

// internal

/** Whether a citation names this seq or a later one. A damaged range may be of any length: only its bounds are looked at. */
const reaches = (cited: Sources, seq: number): boolean =>
  "from" in cited ? Math.max(cited.from, cited.to) >= seq : cited.some((each) => each >= seq)
