import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SystemPrompt from "../../src/agent/SystemPrompt.ts"
import { say } from "../../src/model/ScriptedModel.ts"
import * as World from "../support/World.ts"

const section = (name: string, order: number, text: SystemPrompt.Section["text"]): SystemPrompt.Section => ({
  name,
  order,
  text
})
const whole = (name: string): SystemPrompt.Section => ({ ...section(name, 99, `all of ${name}`), complete: true })

const occasion: SystemPrompt.Occasion = { sessionId: World.id, created: 0, tools: ["look", "touch"] }

/** The prompt of these layers, the later over the earlier. */
const promptOf = (...layers: ReadonlyArray<Layer.Layer<SystemPrompt.SystemPrompt>>) =>
  Effect.gen(function* () {
    const { sections } = yield* SystemPrompt.SystemPrompt
    return yield* SystemPrompt.assemble(yield* sections, occasion)
  }).pipe(
    Effect.provide(
      layers.reduce(
        (below, above) => Layer.provide(above, below),
        SystemPrompt.edited(() => [])
      )
    )
  )

describe("the system prompt", () => {
  it.effect("P01: ascending by order, as they came where that is equal, empty ones dropped, a blank line between", () =>
    Effect.gen(function* () {
      const prompt = promptOf(
        SystemPrompt.layer([
          section("c", 20, "third\n"),
          section("a", 10, () => Effect.succeed("  first")),
          section("b", 10, "second"),
          section("d", 15, () => Effect.succeed(" \n "))
        ])
      )
      assert.strictEqual(yield* prompt, "first\n\nsecond\n\nthird")
      assert.strictEqual(yield* prompt, yield* prompt, "the same bytes each time")
    })
  )

  it.effect("P02: a section takes the place of one below with its name, which is not even asked", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      const telling = (name: string, text: string) =>
        section(name, 10, () =>
          Effect.sync(() => {
            asked.push(text)
            return text
          })
        )
      const below = SystemPrompt.layer([telling("date", "global date"), telling("place", "global place")])
      assert.strictEqual(
        yield* promptOf(below, SystemPrompt.layer([telling("date", "own date")])),
        "global place\n\nown date"
      )
      assert.deepStrictEqual(asked, ["global place", "own date"])
      assert.strictEqual(yield* promptOf(below), "global date\n\nglobal place", "others have what they had")
    })
  )

  it.effect("P05: what an edit returns is what counts, but a complete section is put back as the only one", () =>
    Effect.gen(function* () {
      const some = SystemPrompt.layer([section("a", 1, "a"), section("b", 2, "b")])
      const edit = SystemPrompt.edited((below) => [
        ...below.filter(({ name }) => name !== "a" && name !== "w"),
        section("c", 0, "c")
      ])
      assert.strictEqual(yield* promptOf(some, edit), "c\n\nb")
      assert.strictEqual(yield* promptOf(some, SystemPrompt.layer([whole("w")]), edit), "all of w")
      const changed = SystemPrompt.edited((below) => below.map((each) => ({ ...each, text: "changed" })))
      assert.strictEqual(yield* promptOf(some, SystemPrompt.layer([whole("w")]), changed), "all of w")
    })
  )

  it.scoped("P05: two complete sections fail: the turn ends as error and says which, and nothing is sent", () =>
    Effect.gen(function* () {
      const world = yield* World.make({
        scripts: [say("unused")],
        sections: Effect.succeed([section("a", 1, "a"), whole("v"), whole("w")])
      })
      const agent = yield* world.open()
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      const end = (yield* world.log).at(-1)
      assert.strictEqual(end?.type === "turn/end" ? end.data.reason.kind : "", "error")
      assert.include(JSON.stringify(end?.data), "sections v, w")
      assert.deepStrictEqual(yield* world.requests, [])
      assert.strictEqual((yield* agent.pending).length, 1, "the prompt still waits")
    })
  )
})
