/**
 * The built-in tools: `bash`, `read`, `write`, `edit`, `list` and `search`, in one workspace.
 */
import * as Toolkit from "@effect/ai/Toolkit"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Layer from "effect/Layer"
import type { Settings } from "../settings/Settings.ts"
import * as Bash from "./Bash.ts"
import * as Files from "./Files.ts"
import * as List from "./List.ts"
import * as Process from "./Process.ts"
import * as Search from "./Search.ts"
import * as Tools from "./Tools.ts"
import type { Workspace } from "./Workspace.ts"

/** All built-in tools. */
export const toolkit = Toolkit.make(Bash.tool, Files.read, Files.write, Files.edit, List.tool, Search.tool)

/** What runs them. */
export const handlers = Layer.mergeAll(Bash.layer, Files.layer, List.layer, Search.layer).pipe(
  Layer.provide(Process.layer)
)

/** The built-in tools as the registry; `Tools.merge` puts others beside them. */
export const layer: Layer.Layer<Tools.Tools, never, Workspace | Settings | FileSystem.FileSystem | Path.Path> =
  Layer.provide(Tools.layer(toolkit), handlers)
