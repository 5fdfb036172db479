/**
 * Settings in tests: in memory and in a file, with what they warn of.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as Settings from "../../src/settings/Settings.ts"

/** A section with something of everything. */
export const Rich = Settings.section(
  "rich",
  Schema.Struct({
    size: Schema.optionalWith(Schema.Int.pipe(Schema.between(0, 100)), { default: () => 10 }),
    color: Schema.optionalWith(Schema.Literal("red", "green"), { default: () => "red" as const }),
    list: Schema.optionalWith(Schema.Array(Schema.Int), { default: () => [1, 2] }),
    box: Schema.optionalWith(Schema.Struct({ width: Schema.Int, note: Schema.String }), {
      default: () => ({ width: 1, note: "none" })
    }),
    byName: Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.Int }), {
      default: () => ({ zero: 0 })
    }),
    wait: Schema.optionalWith(Schema.DurationFromMillis, { default: () => Duration.seconds(1) }),
    maybe: Schema.optional(Schema.Boolean)
  })
)

/** What it is where nothing is set. */
export const defaults = {
  size: 10,
  color: "red",
  list: [1, 2],
  box: { width: 1, note: "none" },
  byName: { zero: 0 }
}

const host = Layer.merge(NodeFileSystem.layer, NodePath.layer)

/** A folder that is gone with the scope. */
export const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "daybook-settings-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** Settings of a file, until the scope closes. */
export const opened = (options: Settings.FileOptions) =>
  Effect.map(Layer.build(Layer.provide(Settings.layerFile(options), host)), Context.get(Settings.Settings))

/** The same as a layer, for a file that is known to be good. */
export const layerOf = (options: Settings.FileOptions) => Layer.orDie(Layer.provide(Settings.layerFile(options), host))

/** The same with nothing in the file, nor a file. */
export const openedNew = (composition: Settings.FileOptions["composition"] = {}) =>
  Effect.flatMap(folder, (path) => opened({ path: join(path, "settings.json"), composition }))

/** Settings in memory, until the scope closes. */
export const inMemory = (composition: Settings.FileOptions["composition"] = {}) =>
  Effect.map(Layer.build(Settings.layerMemory(composition)), Context.get(Settings.Settings))

/** A file that somebody wrote by hand. */
export const fileWith = (text: string) =>
  Effect.map(folder, (path) => {
    const file = join(path, "settings.json")
    writeFileSync(file, text)
    return file
  })

export const read = (file: string): string => readFileSync(file, "utf8")

/** What is warned of, in a list that grows and may be emptied. */
export const listening = <A, E, R>(effect: (warnings: Array<string>) => Effect.Effect<A, E, R>) => {
  const warnings: Array<string> = []
  const logger = Logger.make(({ message }) => {
    warnings.push(String(message))
  })
  return Effect.provide(
    Effect.suspend(() => effect(warnings)),
    Logger.replace(Logger.defaultLogger, logger)
  )
}
