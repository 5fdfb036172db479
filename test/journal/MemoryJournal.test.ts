import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Journal from "../../src/journal/Journal.ts"
import { header, id, suite } from "../contract/journal.ts"

suite("the journal in memory", Journal.layerMemory)

describe("a journal in memory", () => {
  it.effect("is new for each build of its layer", () =>
    Effect.gen(function* () {
      const create = Effect.flatMap(Journal.Journal, (journal) => journal.create(header({ id })))
      assert.isTrue(yield* Effect.provide(create, Journal.layerMemory))
      assert.isTrue(yield* Effect.provide(create, Journal.layerMemory))
    })
  )
})
