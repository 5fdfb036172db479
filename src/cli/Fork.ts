/**
 * `daybook fork`: a child of a session, which begins with what stands in its parent's log.
 */
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { makeSessionId, type SessionId } from "../domain/Ids.ts"
import { Journal } from "../journal/Journal.ts"
import * as Fork from "../session/Fork.ts"
import { UsageError, untouched } from "./Failure.ts"
import { count } from "./Line.ts"
import * as Place from "./Place.ts"
import { asItStands } from "./Reading.ts"
import { root } from "./Root.ts"
import * as SeqOption from "./SeqOption.ts"
import * as SessionArg from "./SessionArg.ts"
import { Stdio, say } from "./Stdio.ts"
import { writing } from "./Writing.ts"

const config = {
  ...Place.options,
  at: SeqOption.make({
    name: "at",
    description: "The events before this one are the child's. No turn may be open there. Without it, as many as can be."
  }).pipe(Options.optional),
  as: SessionArg.option({ name: "as", description: "The id of the child. Without it, a new one." }).pipe(
    Options.optional
  ),
  id: SessionArg.argument
}

const description = HelpDoc.blocks([
  HelpDoc.p(
    [
      "Makes a child of a session: it has the parent's events up to a place where no turn is open, works in the",
      "same folder, and goes on by itself from there; the parent stays as it is. Prints the child's id. What",
      "waits in the parent does not wait in the child. The parent may run meanwhile."
    ].join("\n")
  ),
  HelpDoc.p(["Examples:", "", "  daybook fork ID", "  daybook fork ID --at 21 --as another-way"].join("\n"))
])

/** `daybook fork`: prints the id of the child, once it is stored. */
export const command = Command.make("fork", config, (own) =>
  Effect.flatMap(root, (given) => writing(own, fork({ ...own, place: Place.again(own, given) }), notMade))
).pipe(Command.withDescription(description))

// internal

const notMade = "no child was made"

const fork = Effect.fnUntraced(function* (wanted: {
  readonly id: SessionId
  readonly at: Option.Option<number>
  readonly as: Option.Option<SessionId>
  /** The options that name its place. */
  readonly place: string
}) {
  const stdio = yield* Stdio
  const child = yield* Option.match(wanted.as, { onNone: () => makeSessionId, onSome: Effect.succeed })
  const { header, parentHead } = yield* Fork.fork({
    parent: wanted.id,
    child,
    ...Option.match(wanted.at, { onNone: () => ({}), onSome: (at) => ({ at }) })
  }).pipe(
    untouched(wanted.id, notMade),
    Effect.catchTag("NoBoundary", (error) => Effect.flatMap(refused(error, wanted.place), Effect.fail))
  )
  yield* stdio.out(`${child}\n`)
  if (Option.isNone(wanted.at) && header.seedLength < parentHead)
    yield* say(`session ${wanted.id} has an open turn: ${child} has the ${count(header.seedLength, "event")} before it`)
})

/** Why there is no child, and what would help where no turn has ended yet. */
const refused = Effect.fnUntraced(function* (error: Fork.NoBoundary, place: string) {
  if (error.nearest.length > 0) return error
  const id = error.sessionId
  const journal = yield* Journal
  const { owner, summary } = yield* Effect.flatMap(journal.find(id), asItStands)
  const isCut = summary.open && Option.isNone(owner)
  const next = isCut ? `\`daybook repair ${id}${place}\` ends the one that was interrupted.` : "Try again once one has."
  return new UsageError({ message: `${error.message} ${next}` })
})
