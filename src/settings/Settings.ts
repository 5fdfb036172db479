/**
 * Settings: sections with a schema each, read live.
 *
 * - Reading a section gives its schema's defaults, under the composition's values, under what was set since.
 * - A value that the schema refuses never becomes current.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"

/** A section: its name, and a schema that fills in what is not set. */
export interface Section<A, I> {
  readonly name: string
  readonly schema: Schema.Schema<A, I>
}

/** A section, its types inferred from its schema. */
export const section = <A, I>(name: string, schema: Schema.Schema<A, I>): Section<A, I> => ({ name, schema })

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

/** A value was refused; the section is as it was. */
export class InvalidSetting extends Schema.TaggedError<InvalidSetting>()("InvalidSetting", {
  section: Schema.String,
  detail: Schema.String
}) {
  override get message() {
    return `setting ${this.section} was not changed: ${this.detail}`
  }
}

type Values = Readonly<Record<string, Readonly<Record<string, unknown>>>>

export class Settings extends Context.Tag("daybook/settings/Settings")<
  Settings,
  {
    /** The section as it is now. */
    readonly get: <A, I>(section: Section<A, I>) => Effect.Effect<A>
    /** Sets fields of a section; the next `get` sees them. Fails, and changes nothing, where the schema refuses the result. */
    readonly set: <A, I>(section: Section<A, I>, fields: Partial<I>) => Effect.Effect<A, InvalidSetting>
  }
>() {}

const decode = <A, I>(section: Section<A, I>, values: Values): Either.Either<A, InvalidSetting> =>
  Either.mapLeft(
    Schema.decodeUnknownEither(section.schema)(values[section.name] ?? {}),
    (error) => new InvalidSetting({ section: section.name, detail: error.message })
  )

const make = (composition: Values): Effect.Effect<Context.Tag.Service<Settings>> =>
  Effect.map(Ref.make(composition), (current) => ({
    get: (section) =>
      Effect.flatMap(Ref.get(current), (values) =>
        // a stored value was checked when it was set; a composition that is wrong is a bug of the program
        Effect.orDie(decode(section, values))
      ),
    set: (section, fields) =>
      Effect.flatten(
        Ref.modify(current, (values) => {
          const next = { ...values, [section.name]: { ...values[section.name], ...fields } }
          const decoded = decode(section, next)
          return [decoded, Either.isRight(decoded) ? next : values]
        })
      )
  }))

/** Settings held in memory, over the composition's values. */
export const layerMemory = (composition: Values = {}): Layer.Layer<Settings> =>
  Layer.effect(Settings, make(composition))

/** The defaults of every section. */
export const layer: Layer.Layer<Settings> = layerMemory()
