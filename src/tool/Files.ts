/**
 * The file tools, confined to the workspace: `read`, `write` and `edit`.
 *
 * - `read` holds no more of a file in memory than it shows, and says what it left out.
 * - `write` and `edit` are atomic: a reader, and whoever comes after a crash or a loss of power, sees the old file or the
 *   new one. A cancel lets them finish, so that the result tells which.
 * - `edit` changes only what its session has seen as it is now: `read`, `write` and `edit` count as seeing a file. The
 *   changes of one process are made one after another; another process may still come between the look and the change.
 */
import type { Hash } from "node:crypto"
import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AtomicFile from "../internal/AtomicFile.ts"
import { reasonOf } from "../internal/Refusal.ts"
import * as Turnstile from "../internal/Turnstile.ts"
import * as Edit from "./Edit.ts"
import { type FileFailed, failure, failureOf, infoOf } from "./FileFailed.ts"
import * as Lines from "./Lines.ts"
import { maxShown } from "./Outputs.ts"
import * as Seen from "./Seen.ts"
import { ToolCall } from "./ToolCall.ts"
import { Workspace } from "./Workspace.ts"

const dependencies = [ToolCall]
const defaultLimit = 2000

/** The largest file that is edited. Of a larger one nobody asks for a digest, so it is never read to its end for that. */
const maxEdited = 4 * 1024 * 1024

const filePath = Schema.NonEmptyString.annotations({
  title: "path",
  description: "A file, relative to the workspace folder."
})

const lines = (description: string) =>
  Schema.optional(Schema.Int.pipe(Schema.greaterThanOrEqualTo(1, { title: "lines", description })))

/** Shows the lines of a text file. */
export const read = Tool.make("read", {
  description:
    `Reads a text file of the workspace: from line \`offset\` on, at most \`limit\` lines and ${maxShown} bytes. ` +
    "A last line in brackets tells if there is more.",
  parameters: {
    path: filePath,
    offset: lines("The first line to show; lines count from 1. 1 by default."),
    limit: lines(`How many lines to show at most. ${defaultLimit} by default.`)
  },
  success: Schema.String,
  failure,
  dependencies
})
  .annotate(Tool.Readonly, true)
  .annotate(Tool.Idempotent, true)

/** Creates a text file or replaces one whole. */
export const write = Tool.make("write", {
  description:
    "Writes a text file of the workspace: creates it, and the folders above it, or replaces all that is in it.",
  parameters: { path: filePath, content: Schema.String.annotations({ description: "The whole text of the file." }) },
  success: Schema.String,
  failure,
  dependencies
})
  .annotate(Tool.Idempotent, true)
  .annotate(Tool.Destructive, true)

/** Replaces a part of a text file. */
export const edit = Tool.make("edit", {
  description:
    "Replaces one part of a text file of the workspace, which must have been read first. `oldText` must stand in the file " +
    "exactly once; everything else in it stays as it is.",
  parameters: {
    path: filePath,
    oldText: Schema.String.annotations({
      description: "The text to replace, exactly as it is in the file, with enough around it to be found once."
    }),
    newText: Schema.String.annotations({ description: "The text to put in its place." })
  },
  success: Schema.String,
  failure,
  dependencies
}).annotate(Tool.Destructive, true)

/** Reads, writes and edits the files of the workspace. */
export const layer = Toolkit.make(read, write, edit).toLayer(
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const workspace = yield* Workspace
    const seen = Seen.make()
    const turnstile = Turnstile.make()

    const perform = Effect.fnUntraced(function* ({ before, bytes, done, failed, target }: Change) {
      yield* fs.makeDirectory(paths.dirname(target), { recursive: true }).pipe(
        Effect.zipRight(AtomicFile.replace({ fs, paths }, target, bytes, before)),
        Effect.mapError((error) => failed(reasonOf(error)))
      )
      const { sessionId } = yield* ToolCall
      seen.remember({ session: sessionId, path: target, digest: Seen.digestOf(bytes) })
      return done
    })

    /** One change at a time. A cancel stops it while it is prepared, and lets it finish from then on (O-K5). */
    const changing = <E, R>(prepared: Effect.Effect<Change, E, R>) =>
      turnstile((restore) =>
        Effect.flatMap(ToolCall, ({ finish }) => Effect.flatMap(restore(prepared), (change) => finish(perform(change))))
      )

    return {
      read: Effect.fnUntraced(function* ({ limit = defaultLimit, offset = 1, path }) {
        const failed = failureOf(path, "read")
        const target = yield* workspace.resolve(path, "read")
        const info = yield* fileAt(fs, target, failed)
        if (Option.isNone(info)) return yield* failed("there is no such file")
        const none = Lines.empty({ offset, limit, maxBytes: maxShown })
        const { digest, window } = yield* fs.stream(target).pipe(
          Stream.runFoldWhile(looking(none, info.value), isLooking, look),
          Effect.mapError((error) => failed(reasonOf(error)))
        )
        if (window.binary) return yield* failed("it is not a text file")
        const { sessionId } = yield* ToolCall
        if (digest !== undefined) seen.remember({ session: sessionId, path: target, digest: digest.digest("base64") })
        return shown(window)
      }),
      write: Effect.fnUntraced(function* ({ content, path }) {
        const failed = failureOf(path, "written")
        const target = yield* workspace.resolve(path, "write")
        const before = yield* replaceableAt(fs, target, failed)
        const bytes = new TextEncoder().encode(content)
        const done = `Wrote ${bytes.length} bytes to ${path}${Option.isNone(before) ? ", a new file" : ""}.`
        return { target, bytes, before, done, failed }
      }, changing),
      edit: Effect.fnUntraced(function* ({ newText, oldText, path }) {
        const failed = failureOf(path, "edited")
        const pointless = Edit.pointless({ oldText, newText })
        if (pointless !== undefined) return yield* failed(pointless)
        const target = yield* workspace.resolve(path, "write")
        const before = yield* replaceableAt(fs, target, failed)
        if (Option.isNone(before)) return yield* failed("there is no such file; the tool write creates one")
        if (before.value.size > maxEdited)
          return yield* failed(`it is larger than the ${maxEdited} bytes that can be edited; use bash instead`)
        const known = seen.recall((yield* ToolCall).sessionId, target)
        if (known === undefined)
          return yield* failed("this session has not read it since the program was started; read it first")
        const bytes = yield* Effect.mapError(fs.readFile(target), (error) => failed(reasonOf(error)))
        if (Seen.digestOf(bytes) !== known)
          return yield* failed(
            "it has changed since this session last saw it; read it again, then edit what is there now"
          )
        const edited = yield* Either.mapLeft(Edit.apply(bytes, { oldText, newText }), failed)
        return { target, bytes: edited.bytes, before, done: `Edited ${path} at line ${edited.line}.`, failed }
      }, changing)
    }
  })
)

// internal

/** A change that is ready: nothing of it has happened. */
interface Change {
  readonly target: string
  readonly bytes: Uint8Array
  /** What is there now. */
  readonly before: Option.Option<FileSystem.File.Info>
  /** What is said of it once it is made, and how a failure of it is. */
  readonly done: string
  readonly failed: (detail: string) => FileFailed
}

/** A regular file; none where nothing is. Fails on anything else. */
const fileAt = Effect.fnUntraced(function* (
  fs: FileSystem.FileSystem,
  target: string,
  failed: (detail: string) => FileFailed
) {
  const info = yield* infoOf(fs, target, failed)
  if (Option.isNone(info)) return info
  if (info.value.type === "Directory") return yield* failed("it is a folder")
  if (info.value.type !== "File") return yield* failed("it is no regular file")
  return info
})

/** The same, of a file that may be replaced: a new one takes its name, so its own write protection would stop nobody. */
const replaceableAt = Effect.fnUntraced(function* (
  fs: FileSystem.FileSystem,
  target: string,
  failed: (detail: string) => FileFailed
) {
  const info = yield* fileAt(fs, target, failed)
  const isProtected = Option.exists(info, ({ mode }) => (mode & 0o222) === 0)
  if (isProtected) return yield* failed("it is protected against writing; somebody meant it to stay as it is")
  if (Option.isSome(info))
    yield* Effect.mapError(fs.access(target, { writable: true }), (error) => failed(reasonOf(error)))
  return info
})

/** A look at a file: the lines that are shown and, unless it is too large to be edited, the digest of all of it. */
interface Looking {
  readonly window: Lines.Window
  readonly digest: Hash | undefined
  readonly size: number
}

const looking = (window: Lines.Window, { size }: FileSystem.File.Info): Looking => ({
  window,
  digest: size <= maxEdited ? Seen.digest() : undefined,
  size: 0
})

const isLooking = ({ digest, window }: Looking): boolean =>
  !Lines.isDone(window) || (!window.binary && digest !== undefined)

const look = ({ digest, size, window }: Looking, bytes: Uint8Array): Looking => ({
  window: Lines.isDone(window) ? window : Lines.take(window, bytes),
  // it may have grown since
  digest: size + bytes.length <= maxEdited ? digest?.update(bytes) : undefined,
  size: size + bytes.length
})

const shown = (window: Lines.Window): string => {
  const { offset } = window.range
  if (window.read === 0) return "[the file is empty]"
  const { lines, partial, text } = Lines.textOf(window)
  if (partial) return `${text}\n[line ${offset} goes on: only its first ${maxShown} bytes are shown]`
  const note =
    window.full !== undefined
      ? `[lines ${offset} to ${offset + lines - 1}; there are more, go on with offset ${offset + lines}]`
      : lines === 0
        ? `[the file ends before line ${offset}]`
        : ""
  return note === "" || text === "" || text.endsWith("\n") ? `${text}${note}` : `${text}\n${note}`
}
