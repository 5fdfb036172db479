/**
 * A settings file, which several processes read and write.
 *
 * - It is looked at each time with one system call, and read only where it is another one: whoever writes it puts a new file
 *   in its place. Both are synchronous on purpose: they take microseconds, of a small file, and nobody comes between.
 * - A writer takes the lock, reads again what is there, and puts a whole file in place: nobody ever reads a half, and what
 *   another process wrote meanwhile is kept (L09).
 * - Only its owner may read a file that is created here; one that is there keeps its mode, and a link stays a link.
 */
import { readFileSync, statSync } from "node:fs"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as AtomicFile from "../internal/AtomicFile.ts"
import { isMissing, reasonOf } from "../internal/Refusal.ts"
import * as Document from "./Document.ts"
import * as Lock from "./Lock.ts"
import { type ReadError, SettingsFailed, SettingsLocked } from "./SettingsError.ts"
import * as Store from "./Store.ts"

/** The store that a file is. The file need not exist, nor its folder: the first change creates them. */
export const make = Effect.fnUntraced(function* (
  path: string
): Effect.fn.Return<Store.Store, never, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  let seen: string | undefined
  let stored: Store.Stored = Either.right(Document.empty)
  return {
    name: path,
    unsafeRead: () => {
      // first what it is, then what it says: what comes between is seen the next time
      const now = stampOf(path)
      if (now !== seen) stored = readAt(path)
      seen = now
      return stored
    },
    update: <E>(change: Store.Change<E>) => update({ fs, paths }, path, change),
    pace: Option.some(pace)
  }
})

// internal: reading

/** How often a watcher looks at the file: a notice of the system would be missed where folders come, go or are links. */
const pace = Duration.millis(500)

/** The most that a settings file may hold, in bytes. */
const maxBytes = 1024 * 1024
const tooLarge = `more than ${maxBytes} bytes are no settings`

/** What tells a file from any that was there before it. */
const stampOf = (path: string): string =>
  Either.match(
    Either.try(() => statSync(path, { bigint: true, throwIfNoEntry: false })),
    {
      onLeft: (cause) => String(cause),
      onRight: (file) =>
        file === undefined ? "nothing" : [file.dev, file.ino, file.size, file.mtimeNs, file.ctimeNs].join(" ")
    }
  )

const readAt = (path: string): Store.Stored => {
  const failed = (detail: string) => new SettingsFailed({ file: path, operation: "read", detail })
  const attempt = <A>(step: () => A) => Either.try({ try: step, catch: (cause) => failed(whyOf(cause)) })
  return Either.flatMap(
    attempt(() => statSync(path, { throwIfNoEntry: false })),
    (file): Store.Stored => {
      if (file === undefined) return Either.right(Document.empty)
      // a pipe would be waited for
      if (!file.isFile()) return Either.left(failed("it is no file"))
      if (file.size > maxBytes) return Either.left(failed(tooLarge))
      return attempt(() => readFileSync(path)).pipe(
        Either.flatMap((bytes) =>
          Either.mapLeft(
            attempt(() => utf8.decode(bytes)),
            () => failed("it is no UTF-8 text")
          )
        ),
        Either.flatMap((text) => Store.read(path, text))
      )
    }
  )
}

/** What an error says, without the call and the path that the system was given. */
const whyOf = (cause: unknown): string =>
  (cause instanceof Error ? cause.message : String(cause)).replace(/, \w+ '.*'$/s, "")

/** Bytes that are no text would not be written back as they were. */
const utf8 = new TextDecoder("utf-8", { fatal: true })

// internal: writing

const update = <E>(
  host: AtomicFile.Host,
  path: string,
  change: Store.Change<E>
): Effect.Effect<void, E | ReadError | SettingsLocked> => {
  const changed = (stored: Store.Stored) =>
    Either.flatMap(stored, (document) =>
      Either.map(change(document), (text) => (text === document.text ? Option.none() : Option.some(text)))
    )
  const failed = (detail: string) => new SettingsFailed({ file: path, operation: "written", detail })
  const refused = Effect.mapError((error: PlatformError) => failed(reasonOf(error)))
  return Effect.gen(function* () {
    // what is refused, or changes nothing, needs no lock
    if (Option.isNone(yield* changed(readAt(path)))) return
    const target = yield* refused(prepared(host, path))
    yield* Effect.mapError(Lock.hold(`${target}.lock`), ({ cause, reason }) =>
      reason === "busy"
        ? new SettingsLocked({ file: path, patience: Lock.patience })
        : failed(`its lock ${target}.lock cannot be taken (${whyOf(cause)})`)
    )
    const text = yield* changed(readAt(path))
    if (Option.isNone(text)) return
    const bytes = new TextEncoder().encode(text.value)
    if (bytes.length > maxBytes) return yield* failed(tooLarge)
    yield* refused(replace(host, target, bytes))
  }).pipe(Effect.scoped)
}

/** Where the file is, or is to be, once links are followed; with its folder, and a lock that others can not read. */
const prepared = Effect.fnUntraced(function* ({ fs, paths }: AtomicFile.Host, path: string) {
  const target = yield* followed({ fs, paths }, paths.resolve(path))
  yield* fs.makeDirectory(paths.dirname(target), { recursive: true, mode: 0o700 })
  // never opened where it is there: to close it would let go what this process holds of it
  yield* Effect.ignore(fs.writeFileString(`${target}.lock`, "", { flag: "wx", mode: ownerOnly }))
  return target
})

/** Where a path leads, a link to nothing included. */
const followed = (host: AtomicFile.Host, path: string): Effect.Effect<string, PlatformError> =>
  Effect.catchIf(host.fs.realPath(path), isMissing, () =>
    Effect.flatMap(
      Effect.option(host.fs.readLink(path)),
      Option.match({
        onNone: () => Effect.succeed(path),
        onSome: (link) => followed(host, host.paths.resolve(host.paths.dirname(path), link))
      })
    )
  )

const replace = Effect.fnUntraced(function* (host: AtomicFile.Host, target: string, bytes: Uint8Array) {
  const there = yield* Effect.catchIf(Effect.asSome(host.fs.stat(target)), isMissing, () => Effect.succeedNone)
  // a rename would not ask for it
  if (Option.isSome(there)) yield* host.fs.access(target, { writable: true })
  const before = Option.orElseSome(there, () => ({ mode: ownerOnly }))
  yield* AtomicFile.replace(host, target, bytes, before)
})

const ownerOnly = 0o600
