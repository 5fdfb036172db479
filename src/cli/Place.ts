/**
 * Where a command works: its workspace and its database, from the command line and the environment.
 *
 * - Looking changes nothing. Only a database at its default place may get a folder, and only when it is about to be written.
 */
import * as Options from "@effect/cli/Options"
import type { PlatformError, SystemErrorReason } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as AtomicFile from "../internal/AtomicFile.ts"
import { isMissing, reasonOf } from "../internal/Refusal.ts"
import * as Argv from "./Argv.ts"
import { UsageError } from "./Failure.ts"

/** No journal lies at a place that is to have one. */
export class NoJournal extends Data.TaggedError("NoJournal")<{ readonly source: string; readonly db: string }> {
  override get message() {
    return `${this.source}: there is no journal at ${this.db}. Nothing was read. Name the file of one with --db.`
  }
}

/** What a database at its default place needs cannot be created. No session was changed. */
export class PlaceFailed extends Data.TaggedError("PlaceFailed")<{
  readonly what: string
  readonly cause: PlatformError
}> {
  override get message() {
    const why = reasonOf(this.cause)
    return `${this.what}: ${why}. No session was changed. Once that is mended, try again; or name a database with --db.`
  }
}

/** What is declared on the root and on every command. */
export const options = {
  workspace: Argv.text("workspace").pipe(
    Options.withPseudoName("DIR"),
    Options.withDescription("The folder to work in. Without it, the current folder."),
    Options.optional
  ),
  db: Argv.text("db").pipe(
    Options.withPseudoName("FILE"),
    Options.withDescription(
      "The database with the journal. Without it, DAYBOOK_DB, or .daybook/daybook.db in the workspace."
    ),
    Options.optional
  )
}

/** What one of them was given. */
export interface Given {
  readonly workspace: Option.Option<string>
  readonly db: Option.Option<string>
}

/** A workspace that can be worked in, and the file of a database, which may not exist yet. */
export interface Place {
  /** Absolute, without links. */
  readonly workspace: string
  /** Absolute. */
  readonly db: string
  /** Who named the database. */
  readonly dbFrom: "--db" | "DAYBOOK_DB" | "default"
}

/** The place that a command means: its own options, else the root's, else the defaults. */
export const resolve = Effect.fn("Place.resolve")(function* (own: Given, root: Given) {
  const path = yield* Path.Path
  const workspace = yield* folder(
    Option.getOrElse(
      Option.orElse(own.workspace, () => root.workspace),
      () => "."
    )
  )
  const given = Option.orElse(own.db, () => root.db)
  if (Option.isSome(given)) return { workspace, db: yield* absolute(given.value), dbFrom: "--db" } satisfies Place
  // a variable that cannot be read is one that is not set
  const variable = yield* Effect.option(Config.nonEmptyString("DAYBOOK_DB"))
  if (Option.isSome(variable))
    return { workspace, db: yield* absolute(variable.value), dbFrom: "DAYBOOK_DB" } satisfies Place
  return { workspace, db: path.join(workspace, folderName, fileName), dbFrom: "default" } satisfies Place
})

/** What names the same place to another command as these options do, with a space before it; nothing where none is needed. */
export const again = (own: Given, root: Given): string => {
  const option = (name: keyof Given) =>
    Option.match(
      Option.orElse(own[name], () => root[name]),
      { onNone: () => "", onSome: (given) => ` --${name} ${quoted(given)}` }
    )
  return option("workspace") + option("db")
}

/** Checks that the database can be read or created there, without touching it. */
export const check = Effect.fn("Place.check")(function* (place: Place, to: "read" | "write") {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const source = sourceOf(place)
  const file = yield* Effect.option(fs.stat(place.db))
  if (Option.isSome(file) && file.value.type !== "File") {
    const what = file.value.type === "Directory" ? "a folder" : "no regular file"
    return yield* usage(`${source}: ${place.db} is ${what}, and no database. Nothing was changed. Name a file.`)
  }
  if (Option.isSome(file) || to === "read") return
  const parent = path.dirname(place.db)
  const above = yield* Effect.option(fs.stat(parent))
  if (Option.isSome(above) && above.value.type !== "Directory")
    return yield* usage(`${source}: ${parent} is no folder. Nothing was changed. Name another file with --db.`)
  if (Option.isNone(above) && place.dbFrom !== "default")
    return yield* usage(
      `${source}: the folder ${parent} does not exist, and none is created for a database that was named. Nothing was changed.`
    )
})

/** Fails where there is no file, or an empty one. What else is wrong with it, opening it tells. */
export const mustExist = Effect.fn("Place.mustExist")(function* (place: Place) {
  const fs = yield* FileSystem.FileSystem
  const isThere = yield* fs.stat(place.db).pipe(
    Effect.map(({ size }) => size > 0),
    Effect.catchAll((error) => Effect.succeed(error._tag !== "SystemError" || error.reason !== "NotFound"))
  )
  if (!isThere) return yield* new NoJournal({ source: sourceOf(place), db: place.db })
})

/** Sees to the folder of a database at its default place: for its owner alone, where it is new, and hidden from git. */
export const prepare = Effect.fn("Place.prepare")(function* (place: Place) {
  if (place.dbFrom !== "default") return
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const parent = paths.dirname(place.db)
  const failed = (what: string) => (cause: PlatformError) => new PlaceFailed({ what, cause })
  yield* fs.makeDirectory(parent, { mode: 0o700 }).pipe(
    Effect.catchIf(
      (error) => isReason(error, "AlreadyExists"),
      () => Effect.void
    ),
    Effect.mapError(failed(`${parent} cannot be created`))
  )
  // whoever created the folder may not have come this far
  const ignore = paths.join(parent, ".gitignore")
  const isHidden = yield* Effect.orElseSucceed(
    Effect.map(fs.stat(ignore), ({ size }) => size > 0),
    () => false
  )
  if (isHidden) return
  yield* AtomicFile.replace({ fs, paths }, ignore, Buffer.from("*\n"), Option.none()).pipe(
    Effect.mapError(failed(`${ignore} cannot be written`))
  )
})

/** Whether no folder is there. What cannot be looked at is not taken for gone. */
export const isGone = (folder: string): Effect.Effect<boolean, never, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.stat(folder)).pipe(
    Effect.map(({ type }) => type !== "Directory"),
    // a bad resource: what stands above it is no folder, or its links go round
    Effect.catchAll((error) => Effect.succeed(isMissing(error) || isReason(error, "BadResource")))
  )

// internal

const folderName = ".daybook"
const fileName = "daybook.db"

const sourceOf = ({ dbFrom }: Place): string => (dbFrom === "default" ? "the database" : dbFrom)

const usage = (message: string) => new UsageError({ message })

const isReason = (error: PlatformError, reason: SystemErrorReason): boolean =>
  error._tag === "SystemError" && error.reason === reason

/** A word as a shell takes it for one. */
const quoted = (word: string): string =>
  /^[\w@%+=:,./][\w@%+=:,./-]*$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`

/** A name as a whole path: only what is named by less needs the current folder. */
const absolute = Effect.fnUntraced(function* (given: string) {
  const path = yield* Path.Path
  const where = "Go to another one, or name the workspace with --workspace, and files by whole paths."
  return yield* Effect.try({
    try: () => path.resolve(given),
    catch: () => usage(`the current folder is gone or out of reach. Nothing was changed. ${where}`)
  })
})

/** A folder that can be read, absolute and without links. */
const folder = Effect.fnUntraced(function* (given: string) {
  const fs = yield* FileSystem.FileSystem
  const named = yield* absolute(given)
  const refuse = (why: string) =>
    usage(`the workspace ${named} cannot be used: ${why}. Nothing was changed. Name a folder with --workspace.`)
  const failed = (error: PlatformError) => refuse(reasonOf(error))
  const real = yield* Effect.mapError(fs.realPath(named), failed)
  const info = yield* Effect.mapError(fs.stat(real), failed)
  if (info.type !== "Directory") return yield* refuse("it is not a folder")
  yield* Effect.mapError(fs.access(real, { readable: true }), failed)
  return real
})
