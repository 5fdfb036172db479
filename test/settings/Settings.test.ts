import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Json } from "../../src/internal/Json.ts"
import { merged } from "../../src/settings/Section.ts"
import { AgentLoop, layerMemory, Processes, Settings } from "../../src/settings/Settings.ts"
import * as Explorer from "../../src/testing/Explorer.ts"
import { defaults, inMemory, openedNew, Rich } from "./support.ts"

type Service = Context.Tag.Service<Settings>

/** What somebody may say of the section `rich`: any part of it. */
const parts = FastCheck.record(
  {
    size: FastCheck.nat(100),
    color: FastCheck.constantFrom("red", "green"),
    list: FastCheck.array(FastCheck.integer(), { maxLength: 3 }),
    box: FastCheck.record({ width: FastCheck.integer(), note: FastCheck.string() }, { requiredKeys: [] }),
    byName: FastCheck.dictionary(FastCheck.constantFrom("zero", "one", "constructor"), FastCheck.integer()),
    maybe: FastCheck.boolean()
  },
  { requiredKeys: [] }
)

/** The law in other words than those of the code: the topmost layer that says something of a leaf decides. */
const layered = (...layers: ReadonlyArray<unknown>): unknown => {
  const said = layers.filter((layer) => layer !== undefined)
  const top = said.at(-1)
  const isPlain = (value: unknown): value is Record<string, unknown> =>
    typeof value === "object" && value !== null && !Array.isArray(value)
  if (!isPlain(top)) return top
  const from = said.findLastIndex((layer) => !isPlain(layer)) + 1
  const objects = said.slice(from).filter(isPlain)
  const keys = [...new Set(objects.flatMap((object) => Object.keys(object)))]
  return Object.fromEntries(
    keys.map((key) => [key, layered(...objects.map((o) => (Object.hasOwn(o, key) ? o[key] : undefined)))])
  )
}

const json = FastCheck.jsonValue({ maxDepth: 3 }) as FastCheck.Arbitrary<Json> // it generates nothing else

describe("layers", () => {
  it.prop("L01: objects are merged key by key, anything else is replaced whole", [json, json, json], ([a, b, c]) => {
    assert.deepStrictEqual(merged(a, b), layered(a, b))
    assert.deepStrictEqual(merged(merged(a, b), c), layered(a, b, c))
    assert.deepStrictEqual(merged({}, a), a)
  })
})

/** The laws of settings, whatever they are kept in. */
const suite = (
  name: string,
  open: (composition?: Record<string, Record<string, unknown>>) => Effect.Effect<Service, unknown, Scope.Scope>
) =>
  describe(`settings ${name}`, () => {
    it.scoped.prop(
      "L01: a section is its defaults, under the composition, under what is set",
      [parts, parts],
      ([composition, user]) =>
        Effect.gen(function* () {
          const settings = yield* open({ rich: composition })
          const edits = Object.entries(user).map(([key, value]) => ({ type: "set", path: [key], value }) as const)
          const returned = yield* settings.edit(Rich, edits)
          const value = yield* settings.get(Rich)
          assert.strictEqual(returned, value)
          assert.deepStrictEqual({ ...value, ...Object(layered(defaults, composition, user)) }, value)
          const inspected = yield* settings.inspect(Rich)
          assert.deepStrictEqual(inspected.composition, composition)
          assert.deepStrictEqual(inspected.user ?? {}, user)
        }),
      { fastCheck: { numRuns: 30 } }
    )

    it.scoped("L02: what the schema refuses is not stored, and the reason tells what would be right", () =>
      Effect.gen(function* () {
        const settings = yield* open({ rich: { size: 4 } })
        const refusal = (path: ReadonlyArray<string>, value: unknown) =>
          Effect.map(Effect.flip(settings.edit(Rich, [{ type: "set", path, value }])), (error) => {
            assert.strictEqual(error._tag, "InvalidSetting")
            return error.message
          })
        const nothing = ". Nothing was changed."
        assert.strictEqual(
          yield* refusal(["size"], 101),
          `rich.size must be a number between 0 and 100, not 101${nothing}`
        )
        assert.strictEqual(yield* refusal(["size"], "1"), `rich.size must be number, not "1"${nothing}`)
        assert.strictEqual(
          yield* refusal(["color"], "blue"),
          `rich.color must be "red" or "green", not "blue"${nothing}`
        )
        assert.strictEqual(
          yield* refusal(["list", "0"], 1),
          `rich.list must be ReadonlyArray<Int>, not {"0":1}${nothing}`
        )
        assert.strictEqual(
          yield* refusal(["byName", "a.b"], 0.5),
          `rich.byName."a.b" must be an integer, not 0.5${nothing}`
        )
        assert.strictEqual(yield* refusal([], 5), `rich must be an object, not 5${nothing}`)
        assert.match(yield* refusal(["siez"], 1), /^rich has no siez; it has "size" \| "color" \|/)
        assert.match(yield* refusal(["box", "depth"], 1), /^rich.box has no depth; it has "width" \| "note"/)
        assert.match(yield* refusal(["list"], [1, undefined]), /^rich.list must be JSON, and \$\[1\] is undefined/)
        assert.deepStrictEqual((yield* settings.inspect(Rich)).user, undefined)
        assert.strictEqual((yield* settings.get(Rich)).size, 4)
      })
    )

    it.scoped("L05: changes are made in the order of their calls, a refused or an interrupted one holds up none", () =>
      Effect.gen(function* () {
        const settings = yield* open()
        const values = [1, 2, -1, 3, 101, 4, 5]
        const fibers = yield* Effect.forEach(values, (size) => Effect.fork(settings.set(Rich, { size })))
        const cut = yield* Effect.fork(settings.set(Rich, { size: 77 }))
        const list = [1]
        const patch = settings.set(Rich, { list, size: 6 })
        // the change is what was given, not what became of it
        list.push(2)
        const last = yield* Effect.fork(patch)
        yield* Effect.yieldNow()
        yield* Fiber.interrupt(cut)
        const exits = yield* Effect.forEach(fibers, Fiber.await)
        assert.deepStrictEqual(exits.map(Exit.isSuccess), [true, true, false, true, false, true, true])
        const sizes = exits.flatMap((exit) => (Exit.isSuccess(exit) ? [exit.value.size] : []))
        assert.deepStrictEqual(sizes, [1, 2, 3, 4, 5])
        assert.deepInclude(yield* Fiber.join(last), { size: 6, list: [1] })
      })
    )

    it.scoped("L05: a change is made over what those before it left", () =>
      Effect.gen(function* () {
        const settings = yield* open()
        const names = Array.from({ length: 20 }, (_, index) => `n${index}`)
        yield* Effect.forEach(
          names,
          (name, value) => settings.edit(Rich, [{ type: "set", path: ["byName", name], value }]),
          { concurrency: "unbounded" }
        )
        const { byName } = yield* settings.get(Rich)
        assert.deepStrictEqual(byName, { zero: 0, ...Object.fromEntries(names.map((name, value) => [name, value])) })
      })
    )

    it.scoped("L08: edits set and take out at paths, all or none, and nothing else changes", () =>
      Effect.gen(function* () {
        const settings = yield* open({ rich: { box: { note: "theirs" } } })
        yield* settings.set(Rich, { size: 1, byName: { one: 1, two: 2 } })
        yield* settings.edit(Rich, [
          { type: "unset", path: ["byName", "one"] },
          { type: "set", path: ["box", "width"], value: 7 },
          { type: "unset", path: ["color"] }
        ])
        const user = { size: 1, byName: { two: 2 }, box: { width: 7 } }
        assert.deepStrictEqual((yield* settings.inspect(Rich)).user, user)
        assert.deepInclude(yield* settings.get(Rich), {
          size: 1,
          byName: { zero: 0, two: 2 },
          box: { width: 7, note: "theirs" }
        })
        yield* Effect.flip(
          settings.edit(Rich, [
            { type: "unset", path: ["size"] },
            { type: "set", path: ["list"], value: 1 }
          ])
        )
        assert.deepStrictEqual((yield* settings.inspect(Rich)).user, user)
        yield* settings.edit(Rich, [{ type: "unset", path: [] }])
        assert.deepStrictEqual((yield* settings.inspect(Rich)).user, undefined)
      })
    )

    it.scoped("L07 W34: watchers get what is, then each change once and in order; one that dies harms nobody", () =>
      Effect.gen(function* () {
        const settings = yield* open()
        const seen = yield* Queue.unbounded<number>()
        const ready = yield* Deferred.make<void>()
        const watch = (each: (size: number) => Effect.Effect<void>) =>
          Effect.fork(Stream.runForEach(settings.changes(Rich), ({ size }) => each(size)))
        const dying = yield* watch((size) => (size === 1 ? Effect.dieMessage("broken") : Effect.void))
        const slow = yield* watch(() => Deferred.await(ready))
        const good = yield* watch((size) => Queue.offer(seen, size))
        assert.strictEqual(yield* Queue.take(seen), 10)
        yield* settings.set(Rich, { size: 1 })
        assert.strictEqual(yield* Queue.take(seen), 1)
        // the same in other words, another section, a refused value: nothing for anybody
        yield* settings.edit(Rich, [{ type: "set", path: ["color"], value: "red" }])
        yield* settings.set(AgentLoop, { maxParallelToolCalls: 3 })
        yield* Effect.flip(settings.set(Rich, { size: -1 }))
        yield* Effect.forEach([2, 2, 3, 4], (size) => settings.set(Rich, { size }))
        assert.deepStrictEqual(yield* Effect.replicateEffect(Queue.take(seen), 3), [2, 3, 4])
        assert.isTrue(Exit.isFailure(yield* Fiber.await(dying)))
        // one that comes later begins with what is
        assert.deepStrictEqual(
          [...(yield* Stream.runCollect(Stream.take(settings.changes(Rich), 1)))].map(({ size }) => size),
          [4]
        )
        yield* Fiber.interrupt(slow)
        yield* Fiber.interrupt(good)
        assert.strictEqual(yield* Queue.size(seen), 0)
      })
    )

    it.scoped("W34: no watcher outlives the settings", () =>
      Effect.gen(function* () {
        const scope = yield* Scope.make()
        const settings = yield* Scope.extend(open(), scope)
        const watched = yield* Deferred.make<void>()
        const sizes = settings.changes(Rich).pipe(
          Stream.tap(() => Deferred.succeed(watched, undefined)),
          Stream.map(({ size }) => size),
          Stream.runCollect
        )
        const watching = yield* Effect.fork(sizes)
        yield* Deferred.await(watched)
        yield* settings.set(Rich, { size: 1 })
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual([...(yield* Fiber.join(watching))], [10, 1])
        assert.strictEqual((yield* sizes).length, 1)
        assert.strictEqual((yield* Stream.runCollect(settings.changes(Processes))).length, 1)
      })
    )

    it.scoped("L02: a composition that a schema refuses is a bug of the program", () =>
      Effect.gen(function* () {
        const settings = yield* open({ rich: { size: -1 } })
        const exit = yield* Effect.exit(settings.get(Rich))
        assert.include(
          Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "",
          "the composition of this program is wrong: rich.size"
        )
      })
    )
  })

suite("in memory", (composition) => inMemory(composition))
suite("in a file", (composition) => openedNew(composition))

describe("settings", () => {
  it("L03: a change that is interrupted at any step is made or not, and the next one is not held up by it", () => {
    const runAt = (at: ReadonlyArray<number>) =>
      Explorer.run(
        (controls) =>
          Effect.gen(function* () {
            const { get, set } = yield* Settings
            const fiber = yield* Effect.fork(
              Effect.zipRight(Effect.yieldNow(), set(AgentLoop, { maxParallelToolCalls: 3 }))
            )
            const other = yield* Effect.fork(Effect.zipRight(Effect.yieldNow(), set(Processes, { graceMillis: 5 })))
            controls.unsafeArm(() => controls.unsafeFork(Fiber.interrupt(fiber)))
            yield* Fiber.await(fiber)
            controls.unsafeDisarm()
            assert.include([3, 10], (yield* get(AgentLoop)).maxParallelToolCalls)
            assert.strictEqual((yield* Fiber.join(other)).graceMillis, 5)
            yield* set(AgentLoop, { maxParallelToolCalls: 4 })
            return (yield* get(AgentLoop)).maxParallelToolCalls
          }).pipe(Effect.provide(layerMemory())),
        { at }
      )
    const { steps } = runAt([])
    for (let step = 1; step <= steps; step++)
      assert.strictEqual(Exit.getOrElse(Option.getOrThrow(runAt([step]).exit), Cause.pretty), 4, `step ${step}`)
  })
})
