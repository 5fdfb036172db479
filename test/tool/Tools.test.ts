import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Tools from "../../src/tool/Tools.ts"

const zeta = Tool.make("zeta", { description: "The last.", parameters: { n: Schema.optional(Schema.Int) } })
const Upper = Tool.make("Upper").annotate(Tool.Idempotent, true)
const look = Tool.make("look").annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(zeta, look, Upper)
const handlers = toolkit.toLayer({ zeta: () => Effect.void, look: () => Effect.void, Upper: () => Effect.void })
const layer = Tools.layer(toolkit).pipe(Layer.provide(handlers))

const built = <E>(tools: Layer.Layer<Tools.Tools, E>) =>
  Effect.scoped(Effect.map(Layer.build(tools), (context) => Context.get(context, Tools.Tools)))

const names = (tools: Context.Tag.Service<Tools.Tools>) => tools.specs.map((spec) => spec.name)

/** Whether a call of a tool with this annotation is parallel. */
const isParallel = (annotation: unknown, args: string) =>
  Effect.gen(function* () {
    // what a program in plain JavaScript could say
    const tool = Tool.make("probe").annotate(Tools.Parallel, annotation as boolean)
    const kit = Toolkit.make(tool)
    const tools = yield* built(Layer.provide(Tools.layer(kit), kit.toLayer({ probe: () => Effect.void })))
    return Option.getOrThrow(tools.find("probe")).isParallel(args)
  })

describe("Tools", () => {
  it.effect("P04: specs are sorted by name by code unit, and frozen", () =>
    Effect.gen(function* () {
      const tools = yield* built(layer)
      assert.deepStrictEqual(names(tools), ["Upper", "look", "zeta"])
      assert.isTrue(Object.isFrozen(tools.specs))
      assert.isTrue(Object.isFrozen(tools.specs[0]?.parameters))
      assert.strictEqual(
        (yield* Layer.build(layer).pipe(Effect.scoped, Effect.map(Context.get(Tools.Tools)))).specs.length,
        3
      )
    })
  )

  it.effect("F18: merged, two registries are one; a name that both have is the second's, and hidden stays hidden", () =>
    Effect.gen(function* () {
      const kit = Toolkit.make(Tool.make("look", { description: "Another." }), Tool.make("alpha"))
      const own = Layer.provide(Tools.layer(kit), kit.toLayer({ look: () => Effect.void, alpha: () => Effect.void }))
      const tools = yield* built(Tools.merge(layer, own))
      assert.deepStrictEqual(names(tools), ["Upper", "alpha", "look", "zeta"])
      assert.strictEqual(tools.specs[2]?.description, "Another.")
      assert.deepStrictEqual(tools.registered, ["Upper", "alpha", "look", "zeta"])
      const hidden = yield* built(Tools.merge(Tools.without("zeta")(layer), Tools.without("look")(own)))
      assert.deepStrictEqual(names(hidden), ["Upper", "alpha"])
      assert.isTrue(Option.isNone(hidden.find("look")))
      assert.deepStrictEqual(names(yield* built(Tools.ordered("zeta")(Tools.merge(layer, own)))), [
        "zeta",
        "Upper",
        "alpha",
        "look"
      ])
    })
  )

  it.effect(
    "P04: or they come in a given order, with a marker for the rest; an unknown name fails, a hidden one is absent",
    () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(names(yield* built(Tools.ordered("zeta")(layer))), ["zeta", "Upper", "look"])
        assert.deepStrictEqual(names(yield* built(Tools.ordered(Tools.rest, "Upper")(layer))), [
          "look",
          "zeta",
          "Upper"
        ])
        const error = yield* Effect.flip(built(Tools.ordered("zeta", "nope")(layer)))
        assert.strictEqual(error._tag, "ToolNotRegistered")
        assert.include(error.message, "nope")
        const hidden = layer.pipe(Tools.without("zeta"), Tools.ordered("zeta", "look"))
        assert.deepStrictEqual(names(yield* built(hidden)), ["look", "Upper"])
      })
  )

  it.effect("P04: a spec is the tool's JSON schema, description and annotations", () =>
    Effect.gen(function* () {
      const tools = yield* built(layer)
      assert.deepStrictEqual(tools.specs[2], {
        name: "zeta",
        description: "The last.",
        parameters: {
          type: "object",
          required: [],
          properties: { n: { type: "integer", description: "an integer", title: "int" } },
          additionalProperties: false
        },
        annotations: { readonly: false, idempotent: false, destructive: true }
      })
      assert.deepStrictEqual(tools.specs[0]?.annotations, { readonly: false, idempotent: true, destructive: true })
      assert.deepStrictEqual(tools.specs[1]?.annotations, { readonly: true, idempotent: false, destructive: false })
    })
  )

  it.effect("E08: a tool without annotation is parallel exactly if it only reads", () =>
    Effect.gen(function* () {
      const tools = yield* built(layer)
      assert.isTrue(Option.getOrThrow(tools.find("look")).isParallel("{}"))
      assert.isFalse(Option.getOrThrow(tools.find("zeta")).isParallel("{}"))
    })
  )

  it.effect(
    "E08: only exactly true is parallel; a predicate that throws or returns something else means exclusive",
    () =>
      Effect.gen(function* () {
        assert.isTrue(yield* isParallel(true, "{}"))
        for (const annotation of [false, 1, "true", null, undefined, {}])
          assert.isFalse(yield* isParallel(annotation, "{}"), String(annotation))
        assert.isTrue(yield* isParallel((args: { readonly a: number }) => args.a === 1, '{"a":1}'))
        assert.isFalse(yield* isParallel((args: { readonly a: number }) => args.a, '{"a":1}'))
        assert.isFalse(yield* isParallel(() => "yes", "{}"))
        const thrower = () => {
          throw new Error("no")
        }
        assert.isFalse(yield* isParallel(thrower, "{}"))
      })
  )

  it.effect("E08: a predicate sees empty arguments as {}, and is not asked about what is no JSON", () =>
    Effect.gen(function* () {
      assert.isTrue(yield* isParallel((args: object) => Object.keys(args).length === 0, ""))
      assert.isFalse(yield* isParallel(() => true, '{"a":'))
    })
  )

  it.effect("E08: the mode is asked anew each time", () =>
    Effect.gen(function* () {
      let mode = false
      const kit = Toolkit.make(Tool.make("probe").annotate(Tools.Parallel, () => mode))
      const tools = yield* built(Layer.provide(Tools.layer(kit), kit.toLayer({ probe: () => Effect.void })))
      const tool = Option.getOrThrow(tools.find("probe"))
      assert.isFalse(tool.isParallel("{}"))
      mode = true
      assert.isTrue(tool.isParallel("{}"))
    })
  )

  it.effect("F18: a hidden tool is in no spec and is not found", () =>
    Effect.gen(function* () {
      for (const restricted of [Tools.only("look")(layer), Tools.without("zeta", "Upper")(layer)]) {
        const tools = yield* built(restricted)
        assert.deepStrictEqual(names(tools), ["look"])
        assert.isTrue(Option.isNone(tools.find("zeta")))
        assert.isTrue(Option.isSome(tools.find("look")))
      }
      assert.strictEqual((yield* Effect.flip(built(Tools.without("zetta")(layer))))._tag, "ToolNotRegistered")
    })
  )

  it.effect("names of Object's own are no tools", () =>
    Effect.gen(function* () {
      const tools = yield* built(layer)
      for (const name of ["toString", "__proto__", "constructor"]) assert.isTrue(Option.isNone(tools.find(name)))
    })
  )

  it.effect("a cancel stops a tool, unless its annotation lets it finish", () =>
    Effect.gen(function* () {
      const kit = Toolkit.make(Tool.make("a"), Tool.make("b").annotate(Tools.OnCancel, "finish"))
      const run = kit.toLayer({ a: () => Effect.void, b: () => Effect.void })
      const tools = yield* built(Layer.provide(Tools.layer(kit), run))
      assert.strictEqual(Option.getOrThrow(tools.find("a")).onCancel, "stop")
      assert.strictEqual(Option.getOrThrow(tools.find("b")).onCancel, "finish")
    })
  )

  it.effect("a name that no provider takes is a defect when the registry is built", () =>
    Effect.gen(function* () {
      const kit = Toolkit.make(Tool.make("a b"))
      const exit = yield* Effect.exit(built(Layer.provide(Tools.layer(kit), kit.toLayer({ "a b": () => Effect.void }))))
      assert.strictEqual(exit._tag, "Failure")
    })
  )
})
