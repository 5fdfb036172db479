/**
 * Outputs: the whole of what is too long to be shown, as private files that the file tools can read.
 *
 * - A file is whole, or it is not there: one that cannot be written to its end is removed, and whoever wrote it learns why.
 * - Trouble here is a value: it ends no call, and makes no error of a success (F20, W28).
 * - Without a layer nothing is stored. Nothing is ever deleted: a transcript that names a file may be read at any time.
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { CallId, SessionId } from "../domain/Ids.ts"
import { type OutsideWorkspace, type ReservedPath, reasonOf, type UnresolvedPath, Workspace } from "./Workspace.ts"

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
   * is whole and durable then; on failure there is none.
   */
  readonly write: (
    origin: Origin,
    bytes: Stream.Stream<Uint8Array, OutputUnavailable>
  ) => Effect.Effect<string, OutputUnavailable>
}

/** Two streams of a command, each as long as it is kept, with room for what is said about them. */
const defaultInlineCap = 2 * 64_000 + 8000

const none: OutputStore = {
  inlineCap: defaultInlineCap,
  write: () => new OutputUnavailable({ detail: "this program keeps no outputs" })
}

/** The outputs of calls; without a layer they are not kept. */
export class Outputs extends Context.Reference<Outputs>()("daybook/tool/Outputs", {
  defaultValue: (): OutputStore => none
}) {}

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

  return {
    inlineCap,
    write: Effect.fn("Outputs.write")(
      function* ({ callId, name, sessionId }, bytes) {
        const base = yield* workspace.resolve(folder)
        const target = yield* workspace.resolve(paths.join(base, sessionId))
        yield* prepare(base)
        yield* fs.makeDirectory(target, { recursive: true, mode: 0o700 })
        const unique = (yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)).toString(36)
        const path = paths.join(target, `${callId}-${name}-${unique}.txt`)
        yield* Effect.scoped(
          Effect.flatMap(fs.open(path, { flag: "wx", mode: 0o600 }), (file) =>
            // to write nothing at all counts as a failure
            Stream.runForEach(bytes, (piece) => (piece.length === 0 ? Effect.void : file.writeAll(piece))).pipe(
              Effect.zipRight(file.sync),
              Effect.onError(() => Effect.ignore(fs.remove(path)))
            )
          )
        )
        return paths.relative(workspace.root, path)
      },
      Effect.mapError((error) => (error._tag === "OutputUnavailable" ? error : unavailable(error))),
      // a file that cannot be closed is a defect of the file system's: here it is one more thing that a disk may do
      Effect.catchAllDefect((defect) => Effect.fail(new OutputUnavailable({ detail: String(defect) })))
    )
  } satisfies OutputStore
})

/**
 * Keeps outputs in a folder of the workspace, one folder in it a session. Whatever is wrong with that folder is told when
 * an output is to be kept. `inlineCap` is 136,000 bytes by default.
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
