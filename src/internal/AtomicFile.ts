/**
 * Files that are whole, whenever somebody looks: also after the power was lost.
 *
 * - A file is written and synced under another name before it takes its own, so a name never holds a part of a file.
 * - The name itself is durable once its folder is synced, on a host that syncs folders.
 */
import type { PlatformError } from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"

/** Where files are. */
export interface Host {
  readonly fs: FileSystem.FileSystem
  readonly paths: Path.Path
}

/**
 * Puts bytes in place of what was at a path `before`, in one step, with the mode of that, in a folder that exists. On failure
 * what was there still is. Where nothing was, `before` may still say which mode the new file gets.
 */
export const replace = Effect.fnUntraced(function* (
  { fs, paths }: Host,
  target: string,
  bytes: Uint8Array,
  before: Option.Option<Pick<FileSystem.File.Info, "mode">>
) {
  const folder = paths.dirname(target)
  const temporary = paths.join(folder, `.daybook-${yield* unique}.tmp`)
  const mode = Option.map(before, (info) => info.mode & 0o7777)
  const written = fs
    .open(temporary, { flag: "wx", ...Option.match(mode, { onNone: () => ({}), onSome: withMode }) })
    .pipe(
      // what a new file gets is less what the umask says
      Effect.tap(() => Option.match(mode, { onNone: () => Effect.void, onSome: (mode) => fs.chmod(temporary, mode) })),
      Effect.flatMap((file) => writeAll(file, Stream.make(bytes))),
      Effect.scoped
    )
  yield* Effect.zipRight(written, fs.rename(temporary, target)).pipe(
    Effect.onError(() => Effect.ignore(fs.remove(temporary)))
  )
  yield* syncFolder(fs, folder)
}, Effect.uninterruptible)

/** Writes pieces to a file as they come, and syncs it. */
export const writeAll = <E>(
  file: FileSystem.File,
  bytes: Stream.Stream<Uint8Array, E>
): Effect.Effect<void, E | PlatformError> =>
  // to write nothing at all counts as a failure
  Effect.zipRight(
    Stream.runForEach(bytes, (piece) => (piece.length === 0 ? Effect.void : file.writeAll(piece))),
    file.sync
  )

/** Makes the names in a folder durable, where the host can. */
export const syncFolder = (fs: FileSystem.FileSystem, folder: string): Effect.Effect<void> =>
  Effect.ignore(Effect.scoped(Effect.flatMap(fs.open(folder, { flag: "r" }), (opened) => opened.sync)))

/** A part of a file name that no other file has. */
export const unique: Effect.Effect<string> = Effect.map(Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER), (n) =>
  n.toString(36)
)

// internal

const withMode = (mode: number) => ({ mode })
