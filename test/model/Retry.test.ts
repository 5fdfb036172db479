import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { ChatErrorReason } from "../../src/model/ChatModel.ts"
import { reasonOfStatus } from "../../src/model/HttpFailure.ts"
import * as Retry from "../../src/model/Retry.ts"
import * as Settings from "../../src/settings/Settings.ts"

const policyOf = Schema.decodeSync(Retry.Policy.schema)
const usual = policyOf({})

/** The waits where chance is in the middle. */
const waits = (policy: Retry.Policy, count: number) =>
  Array.from({ length: count }, (_, index) =>
    Retry.delayMillis(policy, { attempts: index + 1, asked: undefined, chance: 0.5 })
  )

describe("the retry policy", () => {
  it("O01 O02: five retries of what passes, none of what stays", () => {
    const again = ChatErrorReason.literals.filter((reason) => Retry.timesAfter(usual, reason) > 0)
    assert.deepStrictEqual(again.toSorted(), ["CUT", "EMPTY_RESPONSE", "RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT"])
    for (const reason of again) assert.strictEqual(Retry.timesAfter(usual, reason), 5)
  })

  it("O-I7: 408, 409, 425, 429, 5xx and 529 share it", () => {
    for (const status of [408, 409, 425, 429, 500, 501, 502, 503, 504, 520, 524, 529, 599])
      assert.strictEqual(Retry.timesAfter(usual, reasonOfStatus(status)), 5, `${status}`)
    for (const status of [300, 400, 401, 402, 403, 404, 410, 413, 422, 451, 499])
      assert.strictEqual(Retry.timesAfter(usual, reasonOfStatus(status)), 0, `${status}`)
  })

  it("O03: half a second, doubled, up to ten seconds", () => {
    assert.deepStrictEqual(waits(usual, 7), [500, 1000, 2000, 4000, 8000, 10_000, 10_000])
    assert.deepStrictEqual(waits(policyOf({ firstMillis: 3, maxMillis: 10 }), 4), [3, 6, 10, 10])
    assert.deepStrictEqual(waits(policyOf({ firstMillis: 0 }), 1000).at(-1), 0)
    assert.deepStrictEqual(waits(usual, 1000).at(-1), 10_000)
  })

  it.prop(
    "O03 O-I5: chance moves a wait by a tenth at most; what a server asks for is kept, up to its cap",
    {
      attempts: FastCheck.integer({ min: 1, max: 1000 }),
      chance: FastCheck.double({ min: 0, max: 1, noNaN: true }),
      asked: FastCheck.oneof(
        FastCheck.constant(undefined),
        FastCheck.constantFrom(0, -1, Number.NaN, Number.POSITIVE_INFINITY, 14 * 86_400_000),
        FastCheck.integer({ min: 0, max: 20_000_000 }).map((tenths) => tenths / 10)
      )
    },
    ({ asked, attempts, chance }) => {
      const delay = Retry.delayMillis(usual, { asked, attempts, chance })
      const middle = Retry.delayMillis(usual, { asked: undefined, attempts, chance: 0.5 })
      const kept = asked === undefined || !(asked > 0) ? 0 : Math.min(asked, usual.maxAskedMillis)
      assert.isTrue(Number.isInteger(delay))
      assert.isAtLeast(delay, Math.max(middle * 0.9, kept))
      assert.isAtMost(delay, Math.max(middle * 1.1, kept) + 1)
    }
  )

  it.effect("each part of it can be set, and what makes no sense is refused", () =>
    Effect.gen(function* () {
      const settings = yield* Settings.Settings
      const set = yield* settings.set(Retry.Policy, { times: { QUOTA: 2, SERVER: 0 }, maxAskedMillis: 5 })
      assert.deepStrictEqual(
        [Retry.timesAfter(set, "QUOTA"), Retry.timesAfter(set, "SERVER"), Retry.timesAfter(set, "CUT")],
        [2, 0, 5]
      )
      assert.strictEqual(Retry.delayMillis(set, { attempts: 1, asked: 9999, chance: 0.5 }), 500)
      for (const wrong of [
        { times: { SERVER: -1 } },
        { times: { SERVER: 1.5 } },
        { times: { SERVER: 1001 } },
        { jitter: 1.1 },
        { jitter: Number.NaN },
        { firstMillis: -1 },
        { maxAskedMillis: 86_400_001 }
      ])
        assert.strictEqual((yield* Effect.flip(settings.set(Retry.Policy, wrong)))._tag, "InvalidSetting")
      assert.deepStrictEqual(yield* settings.get(Retry.Policy), set)
    }).pipe(Effect.provide(Settings.layer))
  )

  it("a hook that wants a retry gets as many as the most that any failure has", () => {
    assert.strictEqual(Retry.mostTimes(usual), 5)
    assert.strictEqual(Retry.mostTimes(policyOf({ times: { RATE_LIMIT: 9 } })), 9)
    const never = Object.fromEntries(ChatErrorReason.literals.map((reason) => [reason, 0]))
    assert.strictEqual(Retry.mostTimes(policyOf({ times: never })), 0)
  })
})
