/**
 * The registry: which tools there are, what a model is shown of them, and how a call of one is run.
 *
 * - One visibility: a tool that is hidden is in no spec and is not found (F18).
 * - Specs are computed once, frozen, and sorted by name by code unit unless an order was asked for (P04).
 * - A call is exclusive unless its tool says exactly `true` (E08).
 */
import * as Tool from "@effect/ai/Tool"
import type * as Toolkit from "@effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { ParseError } from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type { ToolSpec } from "../domain/Request.ts"
import { deepFreeze, type Json } from "../internal/Json.ts"
import type { ToolCall } from "./ToolCall.ts"

/** A restriction or an order names a tool that is not registered. */
export class ToolNotRegistered extends Schema.TaggedError<ToolNotRegistered>()("ToolNotRegistered", {
  name: Schema.String,
  registered: Schema.Array(Schema.String)
}) {
  override get message() {
    return `there is no tool "${this.name}" to show, hide or place. The tools are: ${this.registered.join(", ")}.`
  }
}

/**
 * Annotation: whether a call may run beside others. A predicate sees the arguments as JSON. Without it a `Tool.Readonly`
 * tool may and any other may not.
 */
export class Parallel extends Context.Tag("daybook/tool/Tools/Parallel")<
  Parallel,
  boolean | ((args: Json) => boolean)
>() {}

/** Annotation: whether a cancel stops a running body, or lets it finish and keeps its result. */
export class OnCancel extends Context.Reference<OnCancel>()("daybook/tool/Tools/OnCancel", {
  defaultValue: (): "stop" | "finish" => "stop"
}) {}

/** What a handler failed with, whatever that is. */
export class HandlerFailed extends Data.TaggedError("HandlerFailed")<{ readonly error: unknown }> {}

/** A tool that can be called. */
export interface RegisteredTool {
  readonly spec: ToolSpec
  /** Whether this call may run beside others. Total and cheap; ask again whenever it matters, it is never remembered. */
  readonly isParallel: (argumentsText: string) => boolean
  readonly onCancel: "stop" | "finish"
  /** Arguments from JSON to what the handler takes. To be done once a call (O-E9). */
  readonly decode: (args: Json) => Effect.Effect<unknown, ParseError>
  /** Runs the handler. `entering` is called right before it is, in the same step. */
  readonly handle: (args: unknown, entering: () => void) => Effect.Effect<unknown, HandlerFailed, ToolCall>
  /** A success to what its schema stores. Fails where the success is not what the tool declared. */
  readonly encode: (success: unknown) => Effect.Effect<unknown, ParseError>
}

export class Tools extends Context.Tag("daybook/tool/Tools")<
  Tools,
  {
    /** What a model is shown, in order. */
    readonly specs: ReadonlyArray<ToolSpec>
    /** A tool that is shown. */
    readonly find: (name: string) => Option.Option<RegisteredTool>
    /** The name of every tool, hidden ones included, sorted. */
    readonly registered: ReadonlyArray<string>
  }
>() {}

/** What the handlers of a toolkit ask for with each call, besides the call itself. */
type RequestRequirements<T extends Record<string, Tool.Any>> = Exclude<Tool.Requirements<T[keyof T]>, ToolCall>

/** The tools of a toolkit. Handlers come from the context, as `toolkit.toLayer` makes them. */
export const layer = <T extends Record<string, Tool.Any>>(
  toolkit: Toolkit.Toolkit<T>
): Layer.Layer<Tools, never, Tool.HandlersFor<T> | RequestRequirements<T>> =>
  Layer.effect(
    Tools,
    Effect.gen(function* () {
      const context = yield* Effect.context<Tool.HandlersFor<T> | RequestRequirements<T>>()
      const tools = yield* Effect.forEach(Object.values<Tool.Any>(toolkit.tools), (tool) => register(tool, context))
      return arranged(tools.toSorted(byName), tools.map(nameOf).toSorted())
    })
  )

/** The tools of two registries in one, sorted by name. Of two with one name that of the second is meant. */
export const merge = <E, R, E2, R2>(
  self: Layer.Layer<Tools, E, R>,
  that: Layer.Layer<Tools, E2, R2>
): Layer.Layer<Tools, E | E2, R | R2> =>
  Layer.zipWith(self, that, (first, second) => {
    const [a, b] = [Context.get(first, Tools), Context.get(second, Tools)]
    const kept = shownOf(a).filter((tool) => !b.registered.includes(nameOf(tool)))
    const registered = new Set([...a.registered, ...b.registered])
    return Context.make(Tools, arranged([...kept, ...shownOf(b)].toSorted(byName), [...registered].toSorted()))
  })

/** Only these tools are seen and run. */
export const only = (...names: ReadonlyArray<string>) =>
  changed(names, (tools) => tools.filter((tool) => names.includes(nameOf(tool))))

/** These tools are neither seen nor run. */
export const without = (...names: ReadonlyArray<string>) =>
  changed(names, (tools) => tools.filter((tool) => !names.includes(nameOf(tool))))

/** Stands, in an order, for every tool that it does not name. */
export const rest = "..."

/** Tools are shown in this order; those it does not name come sorted where `rest` stands, or else last. */
export const ordered = (...names: ReadonlyArray<string>) => {
  const order = names.includes(rest) ? names : [...names, rest]
  const place = (tool: RegisteredTool): number => {
    const at = order.indexOf(nameOf(tool))
    return at === -1 ? order.indexOf(rest) : at
  }
  return changed(
    names.filter((name) => name !== rest),
    (tools) => tools.toSorted((a, b) => place(a) - place(b) || byName(a, b))
  )
}

// internal

const nameOf = (tool: RegisteredTool): string => tool.spec.name

const byName = (a: RegisteredTool, b: RegisteredTool): number =>
  nameOf(a) < nameOf(b) ? -1 : nameOf(a) > nameOf(b) ? 1 : 0

const arranged = (
  tools: ReadonlyArray<RegisteredTool>,
  registered: ReadonlyArray<string>
): Context.Tag.Service<Tools> => {
  const byKey = new Map(tools.map((tool) => [nameOf(tool), tool]))
  return {
    specs: Object.freeze(tools.map((tool) => tool.spec)),
    find: (name) => Option.fromNullable(byKey.get(name)),
    registered: Object.freeze(registered)
  }
}

const shownOf = ({ find, specs }: Context.Tag.Service<Tools>): ReadonlyArray<RegisteredTool> =>
  specs.flatMap((spec) => Option.toArray(find(spec.name)))

const changed =
  (names: ReadonlyArray<string>, change: (tools: ReadonlyArray<RegisteredTool>) => ReadonlyArray<RegisteredTool>) =>
  <E, R>(self: Layer.Layer<Tools, E, R>): Layer.Layer<Tools, E | ToolNotRegistered, R> =>
    Layer.flatMap(self, (context) => {
      const tools = Context.get(context, Tools)
      const { registered } = tools
      const unknown = names.find((name) => !registered.includes(name))
      if (unknown !== undefined) return Layer.fail(new ToolNotRegistered({ name: unknown, registered }))
      return Layer.succeedContext(Context.add(context, Tools, arranged(change(shownOf(tools)), registered)))
    })

/** What every provider takes as the name of a tool. */
const legalName = /^[a-zA-Z0-9_-]{1,64}$/

const register = <R>(tool: Tool.Any, context: Context.Context<R>): Effect.Effect<RegisteredTool> => {
  if (!legalName.test(tool.name)) return Effect.dieMessage(`no provider takes "${tool.name}" as the name of a tool`)
  const handler = handlerOf(tool, context)
  if (handler === undefined) return Effect.dieMessage(`the tool "${tool.name}" has no handler`)
  // What schemas and handlers need comes with the layer; what the call brings itself is newer and wins.
  const provide = <A, E, N>(effect: Effect.Effect<A, E, N>): Effect.Effect<A, E, N> =>
    Effect.mapInputContext(effect, (call: Context.Context<N>) =>
      Context.merge(Context.merge(context, handler.context), call)
    )
  const decode = Schema.decodeUnknown(closed(tool.parametersSchema), { onExcessProperty: "error" })
  const encode = Schema.encodeUnknown(closed(tool.successSchema))
  const handle = (args: unknown, entering: () => void): Effect.Effect<unknown, HandlerFailed, ToolCall> =>
    Effect.mapError(
      Effect.suspend(() => {
        entering()
        // a handler fails with whatever it likes; this is where that gets a name
        // @effect-diagnostics-next-line anyUnknownInErrorContext:off
        return handler.handler(args)
      }),
      (error: unknown) => new HandlerFailed({ error })
    )
  return Effect.sync(() => ({
    spec: specOf(tool),
    isParallel: (argumentsText) => isParallel(tool, argumentsText),
    onCancel: Context.get(tool.annotations, OnCancel),
    decode: (args) => provide(decode(args)),
    handle: (args, entering) => provide(handle(args, entering)),
    encode: (success) => provide(encode(success))
  }))
}

const handlerOf = <R>(tool: Tool.Any, context: Context.Context<R>): Tool.Handler<string> | undefined =>
  // `toLayer` keeps each handler under the id of its tool, which is no tag
  context.unsafeMap.get(tool.id)

/** A schema whose services are provided from outside. Its own types are lost in `Tool.Any` already. */
const closed = (schema: Schema.Schema.Any | Tool.AnyParametersSchema): Schema.Schema<unknown, unknown> =>
  schema as Schema.Schema<unknown, unknown>

const specOf = (tool: Tool.Any): ToolSpec => {
  const description = tool.description ?? Tool.getDescriptionFromSchemaAst(tool.parametersSchema.ast)
  const readonly = Context.get(tool.annotations, Tool.Readonly)
  // a copy: a schema may hold objects of its author's, and these are frozen
  const parameters: Json = JSON.parse(JSON.stringify(Tool.getJsonSchemaFromSchemaAst(tool.parametersSchema.ast)))
  return deepFreeze({
    name: tool.name,
    ...(description === undefined ? {} : { description }),
    parameters,
    annotations: {
      readonly,
      idempotent: Context.get(tool.annotations, Tool.Idempotent),
      // the annotation's default is true, which would be wrong of a tool that only reads
      destructive: !readonly && Context.get(tool.annotations, Tool.Destructive)
    }
  })
}

const isParallel = (tool: Tool.Any, argumentsText: string): boolean => {
  const annotation = Context.getOption(tool.annotations, Parallel)
  if (Option.isNone(annotation)) return Context.get(tool.annotations, Tool.Readonly) === true
  const mode = annotation.value
  if (typeof mode !== "function") return mode === true
  // a predicate is anyone's code, and arguments are anyone's text: whatever goes wrong means exclusive
  try {
    return mode(JSON.parse(argumentsText.trim() === "" ? "{}" : argumentsText)) === true
  } catch {
    return false
  }
}
