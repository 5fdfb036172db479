/**
 * Where a command works: its workspace and its database, from the command line and the environment.
 *
 * - Looking changes nothing. Only a database at its default place may get a folder, and only when it is about to be written.
 */
import * as Options from "@effect/cli/Options"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { reasonOf } from "../internal/Refusal.ts"
import * as Argv from "./Argv.ts"
import { UsageError } from "./Failure.ts"

/** No journal lies at a place that is to have one. */
export class NoJournal extends Data.TaggedError("NoJournal")<{ readonly source: string; readonly db: string }> {
  override get message() {
    return `${this.source}: there is no journal at ${this.db}. Nothing was read. Name the file of one with --db.`
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
  if (Option.isSome(given)) return { workspace, db: path.resolve(given.value), dbFrom: "--db" } satisfies Place
  // a variable that cannot be read is one that is not set
  const variable = yield* Effect.option(Config.nonEmptyString("DAYBOOK_DB"))
  if (Option.isSome(variable))
    return { workspace, db: path.resolve(variable.value), dbFrom: "DAYBOOK_DB" } satisfies Place
  return { workspace, db: path.join(workspace, folderName, fileName), dbFrom: "default" } satisfies Place
})

/** Checks that the database can be read or created there, without touching it. */
export const check = Effect.fn("Place.check")(function* (place: Place, to: "read" | "write") {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const source = sourceOf(place)
  const file = yield* Effect.option(fs.stat(place.db))
  if (Option.isSome(file) && file.value.type === "Directory")
    return yield* usage(`${source}: ${place.db} is a folder, and no database. Nothing was changed. Name a file.`)
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

/** Creates the folder of a database at its default place, for its owner alone and hidden from git. */
export const prepare = Effect.fn("Place.prepare")(function* (place: Place) {
  if (place.dbFrom !== "default") return
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const parent = path.dirname(place.db)
  const failed = (error: PlatformError) =>
    new UsageError({
      message: `${parent} cannot be created: ${reasonOf(error)}. Nothing was changed. Name a database with --db.`
    })
  if (yield* Effect.mapError(fs.exists(parent), failed)) return
  // another process may be creating it at the same moment
  yield* Effect.catchIf(fs.makeDirectory(parent, { mode: 0o700 }), alreadyExists, () => Effect.void).pipe(
    Effect.mapError(failed)
  )
  yield* Effect.mapError(fs.writeFileString(path.join(parent, ".gitignore"), "*\n"), failed)
})

// internal

const folderName = ".daybook"
const fileName = "daybook.db"

const sourceOf = ({ dbFrom }: Place): string => (dbFrom === "default" ? "the database" : dbFrom)

const usage = (message: string) => new UsageError({ message })

const alreadyExists = (error: PlatformError): boolean =>
  error._tag === "SystemError" && error.reason === "AlreadyExists"

/** A folder that can be read, absolute and without links. */
const folder = Effect.fnUntraced(function* (given: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const refuse = (why: string) =>
    usage(
      `the workspace ${path.resolve(given)} cannot be used: ${why}. Nothing was changed. Name a folder with --workspace.`
    )
  const failed = (error: PlatformError) => refuse(reasonOf(error))
  const real = yield* Effect.mapError(fs.realPath(path.resolve(given)), failed)
  const info = yield* Effect.mapError(fs.stat(real), failed)
  if (info.type !== "Directory") return yield* refuse("it is not a folder")
  yield* Effect.mapError(fs.access(real, { readable: true }), failed)
  return real
})
