/**
 * The tool `search`: the lines of text files that a regular expression matches.
 *
 * - In the order of paths by code unit, and of lines. What is found is bounded, as `Matches` says.
 * - No link is followed, so nothing is searched twice and nothing outside the workspace is.
 * - A cancel is heard between any two blocks of a file. `Pattern` sees to it that a block takes no longer than it may, and
 *   `Matches` that all of them together do not.
 */
import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { reasonOf } from "../internal/Refusal.ts"
import { failure, failureOf, infoOf } from "./FileFailed.ts"
import * as Matches from "./Matches.ts"
import * as Pattern from "./Pattern.ts"
import { oneLine, Workspace } from "./Workspace.ts"

/** How much of a file is matched at once. */
const blockBytes = 65_536
/** Folders that hold what others made. They are searched when they are named. */
const skipped = [".git", "node_modules"]

/** Searches text files. */
export const tool = Tool.make("search", {
  description:
    "Searches the text files of a folder and of all below it, or one file, for a JavaScript regular expression, line by " +
    `line, and shows at most ${Matches.maxMatches} matching lines as \`path:line: text\`. Binary files, links, .git and node_modules ` +
    "are skipped.",
  parameters: {
    pattern: Schema.NonEmptyString.annotations({
      title: "pattern",
      description: "A JavaScript regular expression without slashes and flags; it is matched against each line alone."
    }),
    path: Schema.optional(
      Schema.NonEmptyString.annotations({
        title: "path",
        description: "A folder or a file, relative to the workspace folder, which is what is searched by default."
      })
    )
  },
  success: Schema.String,
  failure
})
  .annotate(Tool.Readonly, true)
  .annotate(Tool.Idempotent, true)

/** Searches the files of the workspace. */
export const layer = Toolkit.make(tool).toLayer(
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const workspace = yield* Workspace

    /** What there is to search in a folder, the first one last. What is gone meanwhile is left out. */
    const entriesOf = Effect.fnUntraced(function* (
      folder: string,
      names: ReadonlyArray<string>,
      isReserved: (target: string) => boolean
    ) {
      const found: Array<Entry> = []
      for (const name of names) {
        const target = paths.join(folder, name)
        if (skipped.includes(name) || isReserved(target)) continue
        if (Option.isSome(yield* Effect.option(fs.readLink(target)))) continue
        const info = yield* Effect.option(fs.stat(target))
        const type = Option.getOrUndefined(info)?.type
        if (type === "Directory") found.push({ target, key: `${name}/`, isFolder: true })
        if (type === "File") found.push({ target, key: name, isFolder: false })
      }
      return found.toSorted((a, b) => (a.key < b.key ? 1 : -1))
    })

    /** Searches what a path leads to, and all that is below it. Fails with what is wrong with the pattern. */
    const searchAll = Effect.fnUntraced(function* (first: Entry, matches: Matches.Matches) {
      const isReserved = yield* workspace.reserved
      const waiting = [first]
      const lookAt = Effect.fnUntraced(function* ({ isFolder, target }: Entry, name: string) {
        if (!isFolder) {
          const take = matches.begin(name)
          return take === undefined ? undefined : yield* readAll(fs, target, take)
        }
        const names = yield* fs.readDirectory(target)
        // one by one: a call cannot take as many arguments as a folder may have entries
        if (matches.enter(name, names.length))
          for (const entry of yield* entriesOf(target, names, isReserved)) waiting.push(entry)
      })
      for (let entry = waiting.pop(); entry !== undefined && !matches.isStopped(); entry = waiting.pop()) {
        const name = oneLine(paths.relative(workspace.root, entry.target) || ".")
        yield* Effect.catchAll(lookAt(entry, name), (problem) =>
          typeof problem === "string" ? Effect.fail(problem) : Effect.sync(() => matches.skip(name, reasonOf(problem)))
        )
      }
    })

    return {
      search: Effect.fnUntraced(function* ({ path = ".", pattern }) {
        const failed = failureOf(path, "searched")
        const parsed = yield* Either.mapLeft(Pattern.parse(pattern), (why) =>
          failed(`the pattern is not valid: ${why}`)
        )
        const target = yield* workspace.resolve(path, "read")
        const info = yield* infoOf(fs, target, failed)
        if (Option.isNone(info)) return yield* failed("there is no such file or folder")
        const { type } = info.value
        if (type !== "Directory" && type !== "File") return yield* failed("it is no regular file")
        const matches = Matches.make(parsed)
        yield* Effect.mapError(searchAll({ target, key: "", isFolder: type === "Directory" }, matches), failed)
        return matches.text()
      })
    }
  })
)

// internal

/** Hands over the bytes of a file until no more are wanted. Fails with what is wrong with the pattern. */
const readAll = Effect.fnUntraced(function* (fs: FileSystem.FileSystem, target: string, take: Matches.Take) {
  const file = yield* fs.open(target)
  let wanted = true
  while (wanted) wanted = yield* take(Option.getOrUndefined(yield* file.readAlloc(blockBytes)))
}, Effect.scoped)

interface Entry {
  readonly target: string
  /** What it is sorted by: a folder stands where its files do. */
  readonly key: string
  readonly isFolder: boolean
}
