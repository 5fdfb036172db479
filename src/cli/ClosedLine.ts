/**
 * What there is to say of a turn that its owner left open, once it was closed.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { SessionId } from "../domain/Ids.ts"
import * as Repair from "../domain/Repair.ts"
import { Journal } from "../journal/Journal.ts"
import * as Pages from "./Pages.ts"

/** A line about the turn that the events of this part close; none where they close none, or there are none. */
export const closedLine = Effect.fnUntraced(function* (id: SessionId, { from, head }: Required<Pages.Part>) {
  if (from === head) return undefined
  const events = Stream.take(Pages.events(yield* Journal, id, { from, head }), head - from)
  const closing = [...(yield* Stream.runCollect(events))]
  const end = closing.find((event) => event.type === "turn/end" && event.data.reason.kind === "interrupted")
  if (end?.type !== "turn/end") return undefined
  const closed = `session ${id}: its turn ${end.data.turn} was interrupted, and is closed as that.`
  return [closed, ...Repair.fates(closing)].join(" ")
})
