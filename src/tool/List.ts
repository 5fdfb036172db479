/**
 * The tool `list`: what is in a folder of the workspace.
 *
 * - Sorted by code unit, one entry a line; bounded, with a note of what was left out.
 * - What is kept from the tools is not there.
 */
import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { reasonOf } from "../internal/Refusal.ts"
import { failure, failureOf, infoOf } from "./FileFailed.ts"
import { oneLine, Workspace } from "./Workspace.ts"

const maxEntries = 1000

/** Lists a folder. */
export const tool = Tool.make("list", {
  description:
    `Lists a folder of the workspace: one entry a line, sorted, at most ${maxEntries}. A folder ends with a slash, a link ` +
    "is followed by where it leads.",
  parameters: {
    path: Schema.optional(
      Schema.NonEmptyString.annotations({
        title: "path",
        description: "A folder, relative to the workspace folder, which is what is listed by default."
      })
    )
  },
  success: Schema.String,
  failure
})
  .annotate(Tool.Readonly, true)
  .annotate(Tool.Idempotent, true)

/** Lists the folders of the workspace. */
export const layer = Toolkit.make(tool).toLayer(
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const workspace = yield* Workspace

    /** An entry as a line. One that is gone meanwhile, or cannot be looked at, is its name. */
    const shown = Effect.fnUntraced(function* (folder: string, name: string) {
      const target = paths.join(folder, name)
      const link = yield* Effect.option(fs.readLink(target))
      const info = yield* Effect.option(fs.stat(target))
      const slash = Option.exists(info, ({ type }) => type === "Directory") ? "/" : ""
      return Option.match(link, {
        onNone: () => `${oneLine(name)}${slash}`,
        onSome: (to) => `${oneLine(name)}${slash} -> ${oneLine(to)}`
      })
    })

    return {
      list: Effect.fnUntraced(function* ({ path = "." }) {
        const failed = failureOf(path, "listed")
        const target = yield* workspace.resolve(path, "read")
        const info = yield* infoOf(fs, target, failed)
        if (Option.isNone(info)) return yield* failed("there is no such folder")
        if (info.value.type !== "Directory") return yield* failed("it is no folder; the tool read shows files")
        const isReserved = yield* workspace.reserved
        const all = yield* Effect.mapError(fs.readDirectory(target), (error) => failed(reasonOf(error)))
        const names = all.filter((name) => !isReserved(paths.join(target, name))).toSorted()
        if (names.length === 0) return "[the folder is empty]"
        const lines = yield* Effect.forEach(names.slice(0, maxEntries), (name) => shown(target, name))
        const left = names.length - lines.length
        return [...lines, ...(left === 0 ? [] : [`[${left} more entries are left out]`])].join("\n")
      })
    }
  })
)
