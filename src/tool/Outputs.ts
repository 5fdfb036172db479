/**
 * Outputs: the whole of what is too long to be shown, as private files that the file tools can read.
 *
 * - A file is whole, or it is not there: one that cannot be written to its end is removed, and whoever wrote it learns why.
 * - Trouble here is a value: it ends no call, and makes no error of a success (F20, W28). A store that breaks or hangs is
 *   no exception: `keep` is how a call uses one.
 * - Without a layer nothing is stored. Nothing is ever deleted: a transcript that names a file may be read at any time.
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import type { CallId, SessionId } from "../domain/Ids.ts"
import { apart } from "../internal/Apart.ts"
import * as AtomicFile from "../internal/AtomicFile.ts"
import { reasonOf } from "../internal/Refusal.ts"
import { type OutsideWorkspace, type ReservedPath, type UnresolvedPath, Workspace } from "./Workspace.ts"

/** There is no file with the whole of an output. */
export class OutputUnavailable extends Schema.TaggedError<OutputUnavailable>()("OutputUnavailable", {
  detail: Schema.String
}) {
  override get message() {
    return `the whole of it is in no file: ${this.detail}`
  }
}

/** What put an output out. */
export interface Origin {
  readonly sessionId: SessionId
  readonly callId: CallId
  /** Which output of the call, as a part of a file name. */
  readonly name: string
}

/** Where long outputs are kept. */
export interface OutputStore {
  /** The longest result that is shown whole, in bytes; at least a few hundred. */
  readonly inlineCap: number
  /**
   * Keeps a stream of bytes, piece by piece as it comes, and gives the path of its file as the file tools take it. The file
   * is whole and durable then, its name as far as the host syncs folders; on failure there is none.
   */
  readonly write: (
    origin: Origin,
    bytes: Stream.Stream<Uint8Array, OutputUnavailable>
  ) => Effect.Effect<string, OutputUnavailable>
}

/** The most that a tool shows of one text, in bytes: of a stream of a command, of a file. */
export const maxShown = 64_000

/** Two streams of a command, each as long as it is shown, with room for what is said about them. */
export const defaultInlineCap = 2 * maxShown + 8000

/** How long an output that has ended may take to be kept. A hung disk holds a call, and its cancel, up no longer. */
export const patience = Duration.seconds(10)

const none: OutputStore = {
  inlineCap: Number.POSITIVE_INFINITY,
  write: () => new OutputUnavailable({ detail: "this program keeps no outputs" })
}

/** The outputs of calls; without a layer they are not kept. */
export class Outputs extends Context.Reference<Outputs>()("daybook/tool/Outputs", {
  defaultValue: (): OutputStore => none
}) {}

/**
 * Keeps an output of a call in a store. Not interrupted with its caller, and bounded: a store that dies, or is not done
 * `patience` after the bytes have `ended`, keeps nothing. It is told to stop then, and not waited for.
 */
export const keep = (
  store: OutputStore,
  origin: Origin,
  bytes: Stream.Stream<Uint8Array, OutputUnavailable>,
  ended: Effect.Effect<void> = Effect.void
): Effect.Effect<string, OutputUnavailable> => {
  const late = new OutputUnavailable({ detail: `it was not written within ${Duration.format(patience)}` })
  return Effect.suspend(() => store.write(origin, bytes)).pipe(
    Effect.disconnect,
    Effect.raceFirst(Effect.zipRight(Effect.zipRight(ended, Effect.sleep(patience)), late)),
    apart,
    // nobody else can interrupt it: a store that interrupts itself is broken like one that dies
    Effect.catchAllCause((cause) =>
      Option.match(Cause.failureOption(cause), {
        onNone: () =>
          Effect.zipRight(
            Effect.logWarning("a store of outputs broke", cause),
            new OutputUnavailable({ detail: "what keeps outputs broke" })
          ),
        onSome: Effect.fail
      })
    )
  )
}

const make = Effect.fnUntraced(function* (folder: string, inlineCap: number) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const workspace = yield* Workspace

  /** Creates a folder of the workspace, for its owner alone. The topmost one that is new is hidden from git. */
  const prepare = Effect.fnUntraced(function* (target: string) {
    let at = workspace.root
    let hidden = false
    for (const name of paths.relative(workspace.root, target).split(paths.sep)) {
      at = paths.join(at, name)
      if (yield* fs.exists(at)) continue
      // another call may be creating it at the same moment
      yield* Effect.catchIf(fs.makeDirectory(at, { mode: 0o700 }), isThere, () => Effect.void)
      if (!hidden) yield* fs.writeFileString(paths.join(at, ".gitignore"), "*\n")
      hidden = true
    }
  })

  /** Makes the name of a folder, and of each above it in the workspace, durable, and what is in them. */
  const syncUp = (folder: string): Effect.Effect<void> =>
    Effect.zipRight(
      AtomicFile.syncFolder(fs, folder),
      folder === workspace.root ? Effect.void : Effect.suspend(() => syncUp(paths.dirname(folder)))
    )

  return {
    inlineCap,
    write: Effect.fn("Outputs.write")(
      function* ({ callId, name, sessionId }, bytes) {
        const base = yield* workspace.resolve(folder, "read")
        const target = yield* workspace.resolve(paths.join(base, sessionId), "read")
        yield* prepare(base)
        yield* fs.makeDirectory(target, { recursive: true, mode: 0o700 })
        const path = paths.join(target, `${callId}-${name}-${yield* AtomicFile.unique}.txt`)
        yield* Effect.scoped(
          Effect.flatMap(fs.open(path, { flag: "wx", mode: 0o600 }), (file) =>
            Effect.onError(AtomicFile.writeAll(file, bytes), () => Effect.ignore(fs.remove(path)))
          )
        )
        yield* syncUp(target)
        return paths.relative(workspace.root, path)
      },
      Effect.mapError((error) => (error._tag === "OutputUnavailable" ? error : unavailable(error)))
    )
  } satisfies OutputStore
})

/**
 * Keeps outputs in a folder of the workspace, one folder in it a session. Whatever is wrong with that folder is told when
 * an output is to be kept. `inlineCap` is `defaultInlineCap` unless it is given.
 */
export const layer = (
  folder: string,
  options: { readonly inlineCap?: number } = {}
): Layer.Layer<Outputs, never, Workspace | FileSystem.FileSystem | Path.Path> =>
  Layer.effect(Outputs, make(folder, options.inlineCap ?? defaultInlineCap))

// internal

const isThere = (error: PlatformError): boolean => error._tag === "SystemError" && error.reason === "AlreadyExists"

const unavailable = (error: PlatformError | OutsideWorkspace | ReservedPath | UnresolvedPath): OutputUnavailable =>
  new OutputUnavailable({
    detail: error._tag === "SystemError" || error._tag === "BadArgument" ? reasonOf(error) : error.message
  })
