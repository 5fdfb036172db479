/**
 * Law 7 as a log shows it: what was accepted waits until it is claimed for a step, once, or dropped by an event that says so.
 *
 * - A message enters a step right after it was claimed: claim, `step/start` and input stand next to each other (R8). A
 *   claim that no step follows is a refusal.
 * - Only context may enter without having waited: a hook or a replacement gives it.
 */
import type { StoredEvent, StoredOf } from "./Event.ts"
import type { Say } from "./Violation.ts"

/** Filled in place by `take` and `lose`, and by nothing else. */
export interface Inbox {
  readonly seedLength: number
  readonly waiting: { readonly "next-turn": Array<string>; readonly "next-step": Array<string> }
  /** All ids that ever waited or entered. */
  readonly accepted: Set<string>
  readonly entered: Set<string>
  /** The ids of the claims that stand next to each other, and of the step that follows them; `next` is the seq that continues them. */
  run: { readonly ids: Set<string>; readonly next: number }
  open: "nothing" | "turn" | "step"
  isLost: boolean
}

/** Before the first event. What is spliced in the first `seedLength` events is the parent's, and not judged. */
export const make = (seedLength: number): Inbox => ({
  seedLength,
  waiting: { "next-turn": [], "next-step": [] },
  accepted: new Set(),
  entered: new Set(),
  run: { ids: new Set(), next: -1 },
  open: "nothing",
  isLost: false
})

/** An event is missing: what waits is not known any more. */
export const lose = (inbox: Inbox): void => {
  inbox.isLost = true
}

/** Takes the next event in. */
export const take = (inbox: Inbox, event: StoredEvent, say: Say): void => {
  if (inbox.isLost) return
  switch (event.type) {
    case "turn/start":
    case "step/end":
      inbox.open = "turn"
      return
    case "turn/end":
      inbox.open = "nothing"
      return
    case "step/start":
      inbox.open = "step"
      inbox.run = { ids: inbox.run.next === event.seq ? inbox.run.ids : new Set(), next: event.seq + 1 }
      return
    case "agent/inbox/spliced":
      if (event.seq >= inbox.seedLength) splice(inbox, event, say)
      return
    case "user/message":
      enter(inbox, event, say)
      return
    default:
      return
  }
}

// internal

const splice = (inbox: Inbox, { data, seq }: StoredOf<"agent/inbox/spliced">, say: Say): void => {
  const list = inbox.waiting[data.target]
  const count = data.removedCount ?? 0
  if (data.start + count > list.length)
    say(7, `it takes ${count} at ${data.start} of ${list.length} messages that wait for ${data.target}`)
  const inserted: ReadonlyArray<string> = data.inserted.map((message) => message.id)
  const removed = list.splice(data.start, count, ...inserted)
  for (const id of inserted) {
    if (inbox.accepted.has(id)) say(7, `message ${id} is accepted a second time`)
    inbox.accepted.add(id)
  }
  if (count === 0 || data.outcome === "canceled") return
  for (const id of inbox.open === "turn" ? [] : removed)
    say(7, `message ${id} leaves the inbox, neither claimed for a step nor canceled`)
  inbox.run = { ids: new Set([...(inbox.run.next === seq ? inbox.run.ids : []), ...removed]), next: seq + 1 }
}

const enter = (inbox: Inbox, { data, seq }: StoredOf<"user/message">, say: Say): void => {
  const { id } = data
  const isClaimed = inbox.run.next === seq && inbox.run.ids.has(id)
  if (inbox.run.next === seq) inbox.run = { ...inbox.run, next: seq + 1 }
  if (inbox.entered.has(id)) say(7, `message ${id} enters a second time`)
  else if (seq >= inbox.seedLength) {
    if (!inbox.accepted.has(id) && data.source.kind !== "context") say(7, `message ${id} was never accepted`)
    if (inbox.accepted.has(id) && !isClaimed) say(7, `message ${id} enters without a claim for this step`)
  }
  inbox.entered.add(id)
  inbox.accepted.add(id)
}
