/**
 * How a path fails a file tool: what each of them can fail with, and how it says so.
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { isMissing, reasonOf } from "../internal/Refusal.ts"
import { OutsideWorkspace, ReservedPath, UnresolvedPath } from "./Workspace.ts"

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

/** What is there, as a path without links says; none where nothing is. */
export const infoOf = (
  fs: FileSystem.FileSystem,
  target: string,
  failed: (detail: string) => FileFailed
): Effect.Effect<Option.Option<FileSystem.File.Info>, FileFailed> =>
  Effect.asSome(fs.stat(target)).pipe(
    Effect.catchIf(isMissing, () => Effect.succeedNone),
    Effect.mapError((error) => failed(reasonOf(error)))
  )
