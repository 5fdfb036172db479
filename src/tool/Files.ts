/**
 * The file tools, confined to the workspace: `read` and `write`.
 *
 * - `read` holds no more of a file in memory than it shows, and says what it left out.
 * - `write` is atomic: a reader, and whoever comes after a crash, sees the old file or the new one. A cancel lets it finish,
 *   so that its result tells which.
 */
import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Lines from "./Lines.ts"
import { OnCancel } from "./Tools.ts"
import { isMissing, OutsideWorkspace, ReservedPath, reasonOf, UnresolvedPath, Workspace } from "./Workspace.ts"

/** A file was not read or written, and is as it was. */
export class FileFailed extends Schema.TaggedError<FileFailed>()("FileFailed", {
  path: Schema.String,
  operation: Schema.Literal("read", "written"),
  detail: Schema.String
}) {
  override get message() {
    return `${this.path} was not ${this.operation}: ${this.detail}.`
  }
}

const failure = Schema.Union(OutsideWorkspace, ReservedPath, UnresolvedPath, FileFailed)
const maxBytes = 64_000
const defaultLimit = 2000

const filePath = Schema.NonEmptyString.annotations({
  title: "path",
  description: "A file, relative to the workspace folder."
})
const lines = (description: string) =>
  Schema.optional(Schema.Int.pipe(Schema.greaterThanOrEqualTo(1, { title: "lines", description })))

/** Shows the lines of a text file. */
export const read = Tool.make("read", {
  description:
    `Reads a text file of the workspace: from line \`offset\` on, at most \`limit\` lines and ${maxBytes} bytes. ` +
    "A last line in brackets tells if there is more.",
  parameters: {
    path: filePath,
    offset: lines("The first line to show; lines count from 1. 1 by default."),
    limit: lines(`How many lines to show at most. ${defaultLimit} by default.`)
  },
  success: Schema.String,
  failure
})
  .annotate(Tool.Readonly, true)
  .annotate(Tool.Idempotent, true)
  .annotate(Tool.Destructive, false)

/** Creates a text file or replaces one whole. */
export const write = Tool.make("write", {
  description:
    "Writes a text file of the workspace: creates it, and the folders above it, or replaces all that is in it.",
  parameters: { path: filePath, content: Schema.String.annotations({ description: "The whole text of the file." }) },
  success: Schema.String,
  failure
})
  .annotate(Tool.Idempotent, true)
  .annotate(Tool.Destructive, true)
  .annotate(OnCancel, "finish")

/** Reads and writes the files of the workspace. */
export const layer = Toolkit.make(read, write).toLayer(
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const workspace = yield* Workspace

    /** The mode of a regular file; none where nothing is. */
    const modeOf = Effect.fnUntraced(function* (target: string, failed: (detail: string) => FileFailed) {
      const info = yield* Effect.asSome(fs.stat(target)).pipe(
        Effect.catchIf(isMissing, () => Effect.succeedNone),
        Effect.mapError((error) => failed(reasonOf(error)))
      )
      if (Option.isNone(info)) return Option.none()
      if (info.value.type === "Directory") return yield* failed("it is a folder")
      if (info.value.type !== "File") return yield* failed("it is no regular file")
      return Option.some(info.value.mode & 0o7777)
    })

    /** Puts a file in place of another in one step, in a folder that exists. */
    const replace = Effect.fnUntraced(function* (target: string, bytes: Uint8Array, mode: Option.Option<number>) {
      const unique = (yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)).toString(36)
      const temporary = paths.join(paths.dirname(target), `.daybook-${unique}.tmp`)
      const options = Option.match(mode, { onNone: () => ({}), onSome: (mode) => ({ mode }) })
      yield* fs.writeFile(temporary, bytes, { flag: "wx", ...options }).pipe(
        Effect.zipRight(Option.match(mode, { onNone: () => Effect.void, onSome: (mode) => fs.chmod(temporary, mode) })),
        Effect.zipRight(fs.rename(temporary, target)),
        Effect.onError(() => Effect.ignore(fs.remove(temporary)))
      )
    }, Effect.uninterruptible)

    return {
      read: Effect.fnUntraced(function* ({ limit = defaultLimit, offset = 1, path }) {
        const failed = failureOf(path, "read")
        const target = yield* workspace.resolve(path)
        if (Option.isNone(yield* modeOf(target, failed))) return yield* failed("there is no such file")
        const window = yield* fs.stream(target).pipe(
          Stream.runFoldWhile(Lines.empty({ offset, limit, maxBytes }), (window) => !Lines.isDone(window), Lines.take),
          Effect.mapError((error) => failed(reasonOf(error)))
        )
        if (window.binary) return yield* failed("it is not a text file")
        return shown(window)
      }),
      write: Effect.fnUntraced(function* ({ content, path }) {
        const failed = failureOf(path, "written")
        const target = yield* workspace.resolve(path)
        const mode = yield* modeOf(target, failed)
        const bytes = new TextEncoder().encode(content)
        yield* fs.makeDirectory(paths.dirname(target), { recursive: true }).pipe(
          Effect.zipRight(replace(target, bytes, mode)),
          Effect.mapError((error) => failed(reasonOf(error)))
        )
        return `Wrote ${bytes.length} bytes to ${path}${Option.isNone(mode) ? ", a new file" : ""}.`
      })
    }
  })
)

// internal

const failureOf = (path: string, operation: FileFailed["operation"]) => (detail: string) =>
  new FileFailed({ path, operation, detail })

const shown = (window: Lines.Window): string => {
  const { offset } = window.range
  if (window.read === 0) return "[the file is empty]"
  const { lines, partial, text } = Lines.textOf(window)
  if (partial) return `${text}\n[line ${offset} goes on: only its first ${maxBytes} bytes are shown]`
  const note =
    window.full !== undefined
      ? `[lines ${offset} to ${offset + lines - 1}; there are more, go on with offset ${offset + lines}]`
      : lines === 0
        ? `[the file ends before line ${offset}]`
        : ""
  return note === "" || text === "" || text.endsWith("\n") ? `${text}${note}` : `${text}\n${note}`
}
