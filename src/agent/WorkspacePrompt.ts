/**
 * The system prompt of an agent that works in a folder: where it works, since when, how its tools behave there, and what the
 * people of that folder ask of agents, in files named AGENTS.md.
 *
 * - The same bytes in every step of a session, so that a provider finds in its cache what it has read before: the date is
 *   that of the session's creation, and the files are read once, when the layer is built.
 * - A file that cannot be read fails nothing: that is logged. One that is too long is cut, and the text says so.
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { isMissing, reasonOf } from "../internal/Refusal.ts"
import { oneLine, Workspace } from "../tool/Workspace.ts"
import * as SystemPrompt from "./SystemPrompt.ts"

/** How much of one file is shown, in bytes. */
export const maxInstructionBytes = 64 * 1024

const make = Effect.gen(function* () {
  const { root } = yield* Workspace
  return SystemPrompt.layer([
    { name: "workspace", order: 20, text: `The workspace is ${oneLine(root)}.` },
    { name: "date", order: 25, text: ({ created }) => Effect.succeed(dateText(created)) },
    { name: "tools", order: 30, text: ({ tools }) => Effect.succeed(toolsText(tools)) },
    { name: "instructions", order: 40, text: instructionsText(yield* instructions(root)) }
  ])
})

/** The prompt below, and the sections of the workspace. */
export const layer: Layer.Layer<SystemPrompt.SystemPrompt, never, Workspace | FileSystem.FileSystem | Path.Path> =
  Layer.unwrapEffect(make)

// internal

/** A day, in a time zone that is the same everywhere. */
const dateText = (created: number): string =>
  Option.match(DateTime.make(created), {
    onNone: () => "",
    onSome: (time) => `This session began on ${DateTime.formatIsoDateUtc(time)} (UTC).`
  })

const fileTools = ["read", "write", "edit", "list", "search"]

/** What their own descriptions do not say. */
const toolsText = (tools: ReadonlyArray<string>): string => {
  if (tools.length === 0) return ""
  const files = tools.filter((name) => fileTools.includes(name))
  const hasBash = tools.includes("bash")
  const lines = [
    "calls of one answer that only read run side by side, others one after another, in your order",
    "what a cancelled call, or one whose outcome is unknown, was to do may have been done: look before you repeat it",
    ...(files.length === 0 ? [] : [`${files.join(", ")}: they reach what is inside the workspace, and nothing else`]),
    ...(hasBash ? ["bash: each command is a new shell that starts in the workspace; it is no sandbox"] : []),
    ...(hasBash && tools.includes("read")
      ? ["where a result names the file that has the whole of its output, read shows any part of that"]
      : [])
  ]
  return ["How the tools behave here:", ...lines.map((line) => `- ${line}`)].join("\n")
}

interface Instructions {
  readonly path: string
  readonly text: string
}

const instructionsText = (files: ReadonlyArray<Instructions>): string => {
  if (files.length === 0) return ""
  const intro =
    "What the people who work here ask of agents follows, file by file. It holds for the folder of the file and for all below it; where two files disagree, the later one counts."
  return [intro, ...files.map(({ path, text }) => `# ${oneLine(path)}\n\n${text}`)].join("\n\n")
}

/** What is in the folders from the top of the file system down to this one. */
const instructions = Effect.fnUntraced(function* (folder: string) {
  const path = yield* Path.Path
  const files = yield* Effect.forEach(downTo(path, folder), (each) => readIn(each))
  return files.flatMap(Option.toArray)
})

const downTo = (path: Path.Path, folder: string): ReadonlyArray<string> => {
  const above = path.dirname(folder)
  return above === folder ? [folder] : [...downTo(path, above), folder]
}

/** What a folder's own file says; none where there is none, where it is no file, and where it cannot be read. */
const readIn = Effect.fnUntraced(function* (folder: string) {
  const path = (yield* Path.Path).join(folder, "AGENTS.md")
  const read = Effect.catchAll(readFile(folder, path), (error) =>
    isMissing(error)
      ? Effect.succeedNone
      : Effect.as(
          Effect.logWarning(`${path} cannot be read: ${reasonOf(error)}. The agent works without it.`),
          Option.none<string>()
        )
  )
  return Option.map(
    Option.filter(yield* read, (text) => text.trim() !== ""),
    (text): Instructions => ({ path, text })
  )
})

/** A link may lead to another file of its folder, or below: what lies elsewhere is not for a model that was shown a folder. */
const readFile = Effect.fnUntraced(function* (
  folder: string,
  path: string
): Effect.fn.Return<Option.Option<string>, PlatformError, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const target = yield* fs.realPath(path)
  if ((yield* fs.stat(target)).type !== "File") return Option.none()
  const { isAbsolute, relative } = yield* Path.Path
  const within = relative(folder, target)
  if (isAbsolute(within) || /^\.\.(?:[/\\]|$)/.test(within)) {
    yield* Effect.logWarning(`${path} leads out of its folder, to ${target}: it is not read.`)
    return Option.none()
  }
  // a byte more tells whether there is more
  const bytes = yield* Stream.runFold(
    fs.stream(target, { bytesToRead: maxInstructionBytes + 1 }),
    Buffer.alloc(0),
    (before, more) => Buffer.concat([before, more])
  )
  if (bytes.length <= maxInstructionBytes) return Option.some(new TextDecoder().decode(bytes).trim())
  // half a character at the end is held back for what would come next
  const shown = new TextDecoder().decode(bytes.subarray(0, maxInstructionBytes), { stream: true })
  return Option.some(`${shown.trim()}\n\n[cut: only the first ${maxInstructionBytes} bytes of this file are shown]`)
})
