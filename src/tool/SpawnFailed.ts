/**
 * Starting a program: what can be started, and why something was not.
 */
import { accessSync, constants, statSync } from "node:fs"
import { delimiter, resolve } from "node:path"
import * as Schema from "effect/Schema"

/** A command was not started. Nothing of it ran. */
export class SpawnFailed extends Schema.TaggedError<SpawnFailed>()("SpawnFailed", {
  program: Schema.String,
  folder: Schema.String,
  reason: Schema.Literal("no-folder", "no-program", "too-long", "no-resources", "other"),
  /** The host's own word, `ENOENT` for one. */
  code: Schema.String,
  cause: Schema.optional(Schema.Defect)
}) {
  override get message() {
    const why = {
      "no-folder": `there is no folder ${this.folder}`,
      "no-program": "there is no such program",
      "too-long": "the command is longer than this host allows",
      "no-resources": "this host has no room for another process now",
      other: this.cause instanceof Error ? this.cause.message : String(this.cause)
    }
    return `${this.program} was not started: ${why[this.reason]} (${this.code})`
  }
}

/** What was to be started, and where. */
export interface Attempt {
  readonly program: string
  readonly cwd: string
}

/** The error of a start that failed. */
export const notStarted = (plan: Attempt, reason: SpawnFailed["reason"], code: string, cause?: unknown): SpawnFailed =>
  new SpawnFailed({ program: plan.program, folder: plan.cwd, reason, code, ...(cause === undefined ? {} : { cause }) })

/** The error of a start that node refused. */
export const refused = (plan: Attempt, cause: unknown): SpawnFailed => {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "UNKNOWN"
  if (code === "E2BIG") return notStarted(plan, "too-long", code, cause)
  if (["EAGAIN", "ENOMEM", "EMFILE", "ENFILE"].includes(code)) return notStarted(plan, "no-resources", code, cause)
  return notStarted(plan, "other", code, cause)
}

/** The path of a program, looked up as a shell would from that folder; none if there is none that may be run. */
export const which = (program: string, cwd: string, env: NodeJS.ProcessEnv): string | undefined => {
  const folders = program.includes("/") ? [""] : (env["PATH"] ?? "").split(delimiter)
  return folders.map((folder) => resolve(cwd, folder, program)).find(isProgram)
}

/** Whether a path is that of a folder. */
export const isFolder = (path: string): boolean => {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

// internal

const isProgram = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}
