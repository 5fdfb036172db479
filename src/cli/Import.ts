/**
 * `daybook import`: a session from a file.
 *
 * - Nothing is created before the file was read to its end and found good; then all of it is stored at once, or nothing.
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { SessionExists } from "../domain/Errors.ts"
import { reasonOf } from "../internal/Refusal.ts"
import { Journal } from "../journal/Journal.ts"
import { Composition } from "./Composition.ts"
import { notDone, UsageError, untouched } from "./Failure.ts"
import { count } from "./Line.ts"
import * as Place from "./Place.ts"
import { root } from "./Root.ts"
import * as SessionFile from "./SessionFile.ts"
import { Stdio, say } from "./Stdio.ts"

const config = {
  ...Place.options,
  file: Args.text({ name: "FILE" }).pipe(
    Args.withDescription("A file that `daybook export` wrote. - reads it from standard input, which may be a pipe.")
  )
}

const description = HelpDoc.blocks([
  HelpDoc.p(
    [
      "Stores the session of a file that `daybook export` wrote, under its own id, and prints that. A file that is",
      "damaged, of another version or none of ours is refused whole, with the line that is wrong; so is a session",
      "whose id is taken. A turn that was open when it was exported counts as interrupted."
    ].join("\n")
  ),
  HelpDoc.p(["Examples:", "", "  daybook import ID.jsonl", "  daybook import --db copy.db - < ID.jsonl"].join("\n"))
])

/** `daybook import`: prints the id of the session, once it is stored. */
export const command = Command.make("import", config, (own) =>
  Effect.gen(function* () {
    const given = yield* root
    const place = yield* Place.resolve(own, given)
    yield* Place.check(place, "write")
    const read = yield* readFile(own.file)
    yield* Place.prepare(place)
    const composition = yield* Composition
    const unstored = notDone(read.header.id, notStored)
    const opened = Layer.mapError(composition.sessions(place), unstored)
    yield* Effect.provide(store(read, Place.again(own, given)), opened)
  })
).pipe(Command.withDescription(description))

// internal

const notStored = "it was not stored"

const readFile = Effect.fnUntraced(function* (name: string) {
  const { input } = yield* Stdio
  const fs = yield* FileSystem.FileSystem
  const file = name === "-" ? "standard input" : name
  const refuse = (why: string, next = "Name a file that `daybook export` wrote.") =>
    new UsageError({ message: `${file === "" ? '""' : file} cannot be read: ${why}. Nothing was imported. ${next}` })
  const found = name === "-" ? Option.none() : yield* Effect.option(fs.stat(name))
  const type = Option.map(found, (info) => info.type)
  if (Option.contains(type, "Directory")) return yield* refuse("it is a folder")
  // opening what nobody writes to would never return, and hear no signal
  if (Option.isSome(type) && type.value !== "File")
    return yield* refuse("it is no regular file", "Name one, or - for standard input.")
  const bytes =
    name === "-"
      ? Stream.catchAllCause(input, (cause) => Stream.fail(refuse(String(Cause.squash(cause)))))
      : Stream.mapError(fs.stream(name), (error) => refuse(reasonOf(error)))
  const reading = SessionFile.start(file)
  yield* Stream.runForEach(bytes, (chunk) => SessionFile.take(reading, chunk))
  return yield* SessionFile.end(reading)
})

const store = Effect.fnUntraced(function* ({ header, log, wakes }: SessionFile.Held, place: string) {
  const { id } = header
  const journal = yield* Journal
  const stdio = yield* Stdio
  if (!(yield* untouched(id, notStored)(journal.create(header, log))))
    return yield* new SessionExists({ sessionId: id })
  yield* stdio.out(`${id}\n`)
  const { open, turns, waiting = 0 } = log.summary
  const told = [
    ...(open ? [`its turn ${turns} was interrupted`] : []),
    ...(waiting > 0 ? [`${count(waiting, "message")} ${waiting === 1 ? "waits" : "wait"}`] : [])
  ]
  if (told.length === 0) return
  const next = open || wakes ? `. To go on: daybook run --session ${id} --continue${place}` : ""
  yield* say(`session ${id}: ${told.join(", ")}${next}`)
})
