/**
 * What the file tools have in common: how a path fails them, and how a file is put in place.
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import { isMissing, OutsideWorkspace, ReservedPath, reasonOf, UnresolvedPath } from "./Workspace.ts"

/** A file tool did not do what it was asked to. Whatever is there is as it was. */
export class FileFailed extends Schema.TaggedError<FileFailed>()("FileFailed", {
  path: Schema.String,
  operation: Schema.Literal("read", "written", "edited", "listed", "searched"),
  detail: Schema.String
}) {
  override get message() {
    return `${this.path} was not ${this.operation}: ${this.detail}.`
  }
}

/** What a file tool fails with. */
export const failure = Schema.Union(OutsideWorkspace, ReservedPath, UnresolvedPath, FileFailed)

/** Failures of one operation on one path, from what there is to say. */
export const failureOf = (path: string, operation: FileFailed["operation"]) => (detail: string) =>
  new FileFailed({ path, operation, detail })

/** A file, relative to the workspace folder. */
export const filePath = Schema.NonEmptyString.annotations({
  title: "path",
  description: "A file, relative to the workspace folder."
})

/** A name or a path as one line: as JSON where a character in it would break the line. */
export const oneLine = (name: string): string => (/\p{Cc}/u.test(name) ? JSON.stringify(name) : name)

/** The file operations that more than one tool needs. */
export const make = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path

  /** What is there, as a path without links says; none where nothing is. */
  const infoOf = (target: string): Effect.Effect<Option.Option<FileSystem.File.Info>, PlatformError> =>
    Effect.catchIf(Effect.asSome(fs.stat(target)), isMissing, () => Effect.succeedNone)

  return {
    infoOf,
    /** A regular file; none where nothing is. Fails on anything else. */
    fileAt: Effect.fnUntraced(function* (target: string, failed: (detail: string) => FileFailed) {
      const info = yield* Effect.mapError(infoOf(target), (error) => failed(reasonOf(error)))
      if (Option.isNone(info)) return info
      if (info.value.type === "Directory") return yield* failed("it is a folder")
      if (info.value.type !== "File") return yield* failed("it is no regular file")
      return info
    }),
    /** Puts a file in place of another in one step, with that one's mode, in a folder that exists. */
    replace: Effect.fnUntraced(function* (
      target: string,
      bytes: Uint8Array,
      before: Option.Option<FileSystem.File.Info>
    ) {
      const unique = (yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)).toString(36)
      const temporary = paths.join(paths.dirname(target), `.daybook-${unique}.tmp`)
      const mode = Option.map(before, (info) => info.mode & 0o7777)
      const options = Option.match(mode, { onNone: () => ({}), onSome: (mode) => ({ mode }) })
      yield* fs.writeFile(temporary, bytes, { flag: "wx", ...options }).pipe(
        Effect.zipRight(Option.match(mode, { onNone: () => Effect.void, onSome: (mode) => fs.chmod(temporary, mode) })),
        Effect.zipRight(fs.rename(temporary, target)),
        Effect.onError(() => Effect.ignore(fs.remove(temporary)))
      )
    }, Effect.uninterruptible)
  }
})
