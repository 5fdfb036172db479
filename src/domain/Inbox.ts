/**
 * Input that waits: prompts for turns to come, and messages for the next step.
 *
 * - A fold of the splices; a splice that does not fit the lists is a violation.
 * - A message id waits in one place only (B08).
 */
import * as Either from "effect/Either"
import type { EventOf, InboxTarget, SessionEvent } from "./Event.ts"
import type { MessageId } from "./Ids.ts"
import type { UserMessage } from "./Message.ts"

export interface Inbox {
  readonly "next-turn": ReadonlyArray<UserMessage>
  readonly "next-step": ReadonlyArray<UserMessage>
}

export const empty: Inbox = { "next-turn": [], "next-step": [] }

/** Every waiting message, next-step input first: the order in which a turn takes them. */
export const pending = (inbox: Inbox): ReadonlyArray<UserMessage> => [...inbox["next-step"], ...inbox["next-turn"]]

export const isPending = (inbox: Inbox, id: MessageId): boolean => {
  const isIt = (message: UserMessage) => message.id === id
  return inbox["next-step"].some(isIt) || inbox["next-turn"].some(isIt)
}

/** Whether something waits that may open a turn: a prompt, or a steering message. */
export const wakes = (inbox: Inbox): boolean =>
  inbox["next-turn"].length > 0 || inbox["next-step"].some((message) => message.source.kind === "steer")

/** What a step may take: all next-step input, and at a turn's first boundary one prompt (B05). */
export const offer = (inbox: Inbox, boundary: "first" | "inner"): ReadonlyArray<UserMessage> => [
  ...inbox["next-step"],
  ...(boundary === "first" ? inbox["next-turn"].slice(0, 1) : [])
]

/** The inbox after a splice, or why the splice does not fit. */
export const splice = (inbox: Inbox, data: EventOf<"agent/inbox/spliced">["data"]): Either.Either<Inbox, string> => {
  const list = inbox[data.target]
  const removed = data.removedCount ?? 0
  if (data.start + removed > list.length)
    return Either.left(
      `a splice of ${removed} at ${data.start} does not fit ${list.length} messages for ${data.target}`
    )
  const rest = { ...inbox, [data.target]: list.toSpliced(data.start, removed) }
  const ids = data.inserted.map((message) => message.id)
  if (new Set(ids).size < ids.length || ids.some((id) => isPending(rest, id)))
    return Either.left("a message waits twice")
  return Either.right({ ...rest, [data.target]: rest[data.target].toSpliced(data.start, 0, ...data.inserted) })
}

/** The event that puts messages at the end of a list. */
export const inserted = (inbox: Inbox, target: InboxTarget, messages: ReadonlyArray<UserMessage>): SessionEvent => ({
  type: "agent/inbox/spliced",
  data: { target, start: inbox[target].length, inserted: messages }
})

/** The events that take these messages out, one a run of neighbours, next-step first; `canceled` if they are dropped. */
export const removed = (
  inbox: Inbox,
  ids: ReadonlySet<MessageId>,
  outcome?: "canceled"
): ReadonlyArray<SessionEvent> => {
  const events: Array<SessionEvent> = []
  for (const target of ["next-step", "next-turn"] as const) {
    let list = inbox[target]
    for (;;) {
      const start = list.findIndex((message) => ids.has(message.id))
      if (start === -1) break
      const stop = list.findIndex((message, index) => index > start && !ids.has(message.id))
      const removedCount = (stop === -1 ? list.length : stop) - start
      events.push({
        type: "agent/inbox/spliced",
        data: { target, start, removedCount, inserted: [], ...(outcome === undefined ? {} : { outcome }) }
      })
      list = list.toSpliced(start, removedCount)
    }
  }
  return events
}
