/**
 * The workspace: the folder that file tools are confined to.
 *
 * - A path is judged by where it leads once every link is resolved, a link to nothing included. What `resolve` returns has
 *   no links in it, so what was judged is what is opened; only somebody who moves folders meanwhile gets between the two.
 * - The root is resolved once, when the layer is built.
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { isMissing, reasonOf } from "../internal/Refusal.ts"
import { quiet } from "../internal/Spans.ts"

/** The path leads out of the workspace. Nothing was read or written. */
export class OutsideWorkspace extends Schema.TaggedError<OutsideWorkspace>()("OutsideWorkspace", {
  path: Schema.String,
  workspace: Schema.String
}) {
  override get message() {
    return `${this.path} is outside the workspace ${this.workspace}; only what is inside it can be read or written with this tool.`
  }
}

/** The path leads to a file that the program keeps for itself. Nothing was read or written. */
export class ReservedPath extends Schema.TaggedError<ReservedPath>()("ReservedPath", {
  path: Schema.String,
  access: Schema.Literal("read", "write")
}) {
  override get message() {
    return `${this.path} is what this program keeps for itself; no tool may ${this.access} it.`
  }
}

/** The path leads nowhere that can be told: too many links, no right to look, no path at all. */
export class UnresolvedPath extends Schema.TaggedError<UnresolvedPath>()("UnresolvedPath", {
  path: Schema.String,
  detail: Schema.String
}) {
  override get message() {
    return `${this.path} cannot be resolved: ${this.detail}.`
  }
}

/** There is no such folder to work in. */
export class WorkspaceNotFound extends Schema.TaggedError<WorkspaceNotFound>()("WorkspaceNotFound", {
  path: Schema.String,
  detail: Schema.String
}) {
  override get message() {
    return `the workspace ${this.path} cannot be used: ${this.detail}. Nothing was changed. Name a folder that exists.`
  }
}

export class Workspace extends Context.Tag("daybook/tool/Workspace")<
  Workspace,
  {
    /** The root folder, absolute and without links. */
    readonly root: string
    /** Where a path leads, relative to the root; the file itself and folders above it need not exist yet. */
    readonly resolve: (
      path: string,
      access: Access
    ) => Effect.Effect<string, OutsideWorkspace | ReservedPath | UnresolvedPath>
    /** Which paths no tool may read now: a check of paths as `resolve` gives them. */
    readonly reserved: Effect.Effect<(target: string) => boolean>
  }
>() {}

/** What is to be done with a path. */
export type Access = "read" | "write"

/** What a workspace keeps from the tools. */
export interface Kept {
  /** Files and folders: a database with what lies beside it under its name, a folder with all in it. */
  readonly reserved?: ReadonlyArray<string>
  /** What lies in one of these, and may be read all the same. */
  readonly readable?: ReadonlyArray<string>
}

const make = Effect.fnUntraced(function* (folder: string, { readable = [], reserved = [] }: Kept) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const root = yield* Effect.mapError(
    fs.realPath(folder),
    (error) => new WorkspaceNotFound({ path: folder, detail: reasonOf(error) })
  )
  const info = yield* Effect.mapError(
    fs.stat(root),
    (error) => new WorkspaceNotFound({ path: folder, detail: reasonOf(error) })
  )
  if (info.type !== "Directory") return yield* new WorkspaceNotFound({ path: folder, detail: "it is not a folder" })

  /** Where an absolute path leads. What does not exist is appended to where the folder above it leads. */
  const follow = (absolute: string, links: number): Effect.Effect<string, PlatformError | string> =>
    Effect.catchIf(fs.realPath(absolute), isMissing, () =>
      Effect.gen(function* () {
        const above = path.dirname(absolute)
        if (above === absolute) return absolute
        const parent = yield* follow(above, links)
        const target = yield* Effect.option(fs.readLink(absolute))
        if (Option.isNone(target)) return path.join(parent, path.basename(absolute))
        if (links === 0) return yield* Effect.fail("there are too many links on the way")
        return yield* follow(path.resolve(parent, target.value), links - 1)
      })
    )

  const inside = (target: string): boolean =>
    target === root || target.startsWith(root.endsWith(path.sep) ? root : `${root}${path.sep}`)

  /** Where a path leads; where that cannot be told, the path itself is kept from the tools. */
  const leadsTo = (given: string) => {
    const absolute = path.resolve(root, given)
    return Effect.orElseSucceed(follow(absolute, maxLinks), () => absolute)
  }

  // not remembered: a link that comes or goes changes where they lead
  const isReserved = Effect.gen(function* () {
    const keptPaths = yield* Effect.forEach(reserved, leadsTo)
    const open = yield* Effect.forEach(readable, leadsTo)
    const isOpen = (target: string, kept: string) =>
      open.some((folder) => isWithin(folder, kept) && isWithin(target, folder))
    return (target: string, access: Access) =>
      keptPaths.some((kept) => isKept(target, kept) && !(access === "read" && isOpen(target, kept)))
  })

  return Workspace.of({
    root,
    reserved: Effect.map(isReserved, (check) => (target) => check(target, "read")),
    resolve: Effect.fnUntraced(function* (given, access) {
      const target = yield* Effect.mapError(
        follow(path.resolve(root, given), maxLinks),
        (error) => new UnresolvedPath({ path: given, detail: typeof error === "string" ? error : reasonOf(error) })
      )
      if (!inside(target)) return yield* new OutsideWorkspace({ path: given, workspace: root })
      if ((yield* isReserved)(target, access)) return yield* new ReservedPath({ path: given, access })
      return target
    }, quiet("Workspace.resolve"))
  })
})

/** The workspace in that folder, but for what is kept from the tools. Fails where there is no such folder. */
export const layer = (
  folder: string,
  kept: Kept = {}
): Layer.Layer<Workspace, WorkspaceNotFound, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(Workspace, make(folder, kept))

/** A name or a path as one line: as JSON where a character in it would break the line. */
export const oneLine = (name: string): string => (/\p{Cc}/u.test(name) ? JSON.stringify(name) : name)

// internal

/** A reserved path itself, what is in it, and what SQLite keeps beside it. */
const isKept = (target: string, kept: string): boolean => isWithin(target, kept) || target.startsWith(`${kept}-`)

const isWithin = (target: string, folder: string): boolean => target === folder || target.startsWith(`${folder}/`)

/** As many as Linux follows. */
const maxLinks = 40
