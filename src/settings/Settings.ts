/**
 * Settings: sections with a schema each, read live.
 *
 * - Reading a section gives its schema's defaults, under the composition's values, under the user's, as they are now: a
 *   change of another process counts from the next reading on.
 * - A value that the schema refuses is never stored from here. One that was stored otherwise fails the start where its
 *   section is named then; later it is warned of, and what was in force before stays so.
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import { type AnySection, type Section, section } from "./Section.ts"
import * as Sections from "./Sections.ts"
import type { EditError, StartError } from "./SettingsError.ts"
import * as SettingsFile from "./SettingsFile.ts"
import * as Store from "./Store.ts"

export { type AnySection, type Section, section } from "./Section.ts"
export type { Edit, Inspected, Values } from "./Sections.ts"

/** How the agent loop behaves. */
export const AgentLoop = section(
  "agent-loop",
  Schema.Struct({
    /** How many calls of one tool group run at once, at most. Read when a group starts. */
    maxParallelToolCalls: Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { default: () => 10 })
  })
)

/** The longest grace that may be set: who cancels waits for it. */
export const maxGraceMillis = 10 * 60 * 1000

/** How the processes of tools are ended. */
export const Processes = section(
  "processes",
  Schema.Struct({
    /** How long they may take to stop once asked to; then they are killed. Read when a command starts. */
    graceMillis: Schema.optionalWith(Schema.Int.pipe(Schema.between(0, maxGraceMillis)), { default: () => 2000 }),
    /**
     * What becomes of those that a host left running when it was killed, once its session is taken over: they are ended, or
     * looked for and reported alone, or left without a look.
     */
    leftOver: Schema.optionalWith(Schema.Literal("end", "report", "leave"), { default: () => "end" as const })
  })
)

export class Settings extends Context.Tag("daybook/settings/Settings")<
  Settings,
  {
    /** The section as it is now. Waits for nothing. */
    readonly get: <A, I>(section: Section<A, I>) => Effect.Effect<A>
    /**
     * The section as it is now, then each change of it, once and in order; one of another process within half a second. Ends
     * with the scope of the settings.
     */
    readonly changes: <A, I>(section: Section<A, I>) => Stream.Stream<A>
    /** Who says what of a section. Fails where what is stored is refused, or cannot be told. */
    readonly inspect: (section: AnySection) => Effect.Effect<Sections.Inspected, StartError>
    /**
     * Makes edits of a section, all or none, of what is stored once their turn has come; what they do not name stays as it
     * is. They are copied when this is called, and durable on return. Fails, and changes nothing, where the schema refuses
     * what would come of it.
     */
    readonly edit: <A, I>(section: Section<A, I>, edits: ReadonlyArray<Sections.Edit>) => Effect.Effect<A, EditError>
    /** Sets fields of a section: an edit of each. */
    readonly set: <A, I>(section: Section<A, I>, fields: Partial<I>) => Effect.Effect<A, EditError>
  }
>() {}

/** Settings of this process alone, over the composition's values. */
export const layerMemory = (composition: Sections.Values = {}): Layer.Layer<Settings> =>
  Layer.scoped(
    Settings,
    Effect.suspend(() => Sections.make(Store.makeMemory(), composition))
  )

/** The defaults of every section. */
export const layer: Layer.Layer<Settings> = layerMemory()

/** Where the file is, what it is laid over, and what is checked of it at the start. */
export interface FileOptions {
  readonly path: string
  readonly composition?: Sections.Values
  /** Sections that must be right when the layer is built. With some, others that the file holds are warned of. */
  readonly sections?: ReadonlyArray<AnySection>
}

/** Settings that a user keeps in a file, over the composition's values. It need not exist: the first change creates it. */
export const layerFile = ({
  composition = {},
  path,
  sections = []
}: FileOptions): Layer.Layer<Settings, StartError, FileSystem.FileSystem | Path.Path> =>
  Layer.scoped(
    Settings,
    Effect.gen(function* () {
      const store = yield* SettingsFile.make(path)
      const settings = yield* Sections.make(store, composition)
      const stored = yield* store.unsafeRead()
      yield* Effect.forEach(sections, settings.inspect, { discard: true })
      const unknown = Object.keys(stored.values).filter((name) => sections.every((known) => known.name !== name))
      if (sections.length > 0 && unknown.length > 0)
        yield* Effect.logWarning(`${path}: nothing here is called ${unknown.join(", ")}; it is kept, and means nothing`)
      return settings
    })
  )
