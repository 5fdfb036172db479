/**
 * Consumed work: which turn last did something with what was sent, and whether anything was dropped unrun since.
 *
 * - A fold, one step an event. Only a session's own events count: what a fork inherited is its parent's (K08).
 * - A turn accounts for work if it ran steps (K01), or if it claimed and then ended without any, other than `completed` (K02).
 * - A drop counts from the moment on in which the last such turn began: what its own cancel dropped came after it (K04).
 */
import type { StoredEvent, StoredOf } from "./Event.ts"

export interface ConsumedWork {
  /** The end of the last turn that accounts for work. */
  readonly end?: StoredOf<"turn/end">
  /** Queued work was dropped since that turn began. */
  readonly droppedUnrun: boolean
  /** The turn that is open, as far as it has come. */
  readonly open?: { readonly ran: boolean; readonly claimed: boolean; readonly dropped: boolean }
}

/** Before the first event. */
export const empty: ConsumedWork = { droppedUnrun: false }

const splice = (work: ConsumedWork, { data }: StoredOf<"agent/inbox/spliced">): ConsumedWork => {
  if (data.removedCount === undefined) return work
  const { open } = work
  if (data.outcome !== "canceled") return open === undefined ? work : { ...work, open: { ...open, claimed: true } }
  // something that stands in its place is a replacement, and no drop (K05)
  if (data.inserted.length > 0) return work
  return { ...work, droppedUnrun: true, ...(open === undefined ? {} : { open: { ...open, dropped: true } }) }
}

const endTurn = ({ open, ...before }: ConsumedWork, event: StoredOf<"turn/end">): ConsumedWork => {
  if (open === undefined) return before
  const { kind } = event.data.reason
  const accounts = open.ran || (open.claimed && kind !== "completed" && kind !== "max-tokens")
  return accounts ? { end: event, droppedUnrun: open.dropped } : before
}

/** The fold after one more event of the session's own. */
export const apply = (work: ConsumedWork, event: StoredEvent): ConsumedWork => {
  switch (event.type) {
    case "turn/start":
      return { ...work, open: { ran: false, claimed: false, dropped: false } }
    case "step/start":
      return work.open === undefined || work.open.ran ? work : { ...work, open: { ...work.open, ran: true } }
    case "agent/inbox/spliced":
      return splice(work, event)
    case "turn/end":
      return endTurn(work, event)
    default:
      return work
  }
}

/** What these events show. The first `seedLength` are inherited by a fork. */
export const foldConsumedWork = (events: Iterable<StoredEvent>, seedLength = 0): ConsumedWork => {
  let work = empty
  for (const event of events) if (event.seq >= seedLength) work = apply(work, event)
  return work
}
