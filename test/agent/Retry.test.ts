/**
 * Retries on a virtual clock: when each request goes out, what the log has by then, and a cancel at each point of a wait.
 * Every world judges its log and its requests when it closes.
 */
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as TestClock from "effect/TestClock"
import type { HookPoints } from "../../src/agent/Hooks.ts"
import * as Journal from "../../src/journal/Journal.ts"
import { ChatErrorReason } from "../../src/model/ChatModel.ts"
import * as OpenAi from "../../src/model/OpenAi.ts"
import * as Retry from "../../src/model/Retry.ts"
import { call, fail, type Item, type Script, say, send, wait } from "../../src/model/ScriptedModel.ts"
import * as Settings from "../../src/settings/Settings.ts"
import { done, event, frame } from "../support/ChatServer.ts"
import { at, door, of, others } from "../support/Watching.ts"
import * as World from "../support/World.ts"

const lost = send({ type: "text", index: 0, text: "lost" })
const failing = (...item: Parameters<typeof fail>): Script => [lost, fail(...item)]

/** Waits that chance does not move. */
const exact = { retry: { jitter: 0 } }

const start = "in+ T<1 in- S<1 UM RH(initial)"

const retries = (world: World.World) => Effect.map(world.log, (log) => of(log, "request/retry").map(({ data }) => data))

const ending = (world: World.World) => Effect.map(world.log, (log) => of(log, "turn/end").at(-1)?.data.reason)

/** Opens a world, sends a prompt, and returns once nobody can go on without time. */
const prompted = Effect.fnUntraced(function* (options: World.Options) {
  const world = yield* World.make(options)
  const agent = yield* world.open()
  yield* agent.followup("go")
  yield* others
  return { agent, world }
})

const pass = (time: Parameters<typeof TestClock.adjust>[0]) => Effect.zipRight(TestClock.adjust(time), others)

const sent = (world: World.World) => Effect.map(world.requests, ({ length }) => length)

describe("a failed request", () => {
  it.scoped.each(ChatErrorReason.literals)(
    "O01 O03 O08: %s: tried again in its step after a wait that the log has before it, or the end of the turn",
    (reason) =>
      Effect.gen(function* () {
        const { agent, world } = yield* prompted({
          scripts: [failing(reason), [send({ type: "text", index: 0, text: "found" })], say("more")]
        })
        if (Retry.timesAfter(yield* world.settings.get(Retry.Policy), reason) === 0) {
          assert.strictEqual(yield* world.shorthand, `${start} ck S>1 T>(error)`)
          assert.deepStrictEqual(yield* ending(world), { kind: "error", error: { message: reason, code: reason } })
          assert.strictEqual(yield* sent(world), 1)
        } else {
          // no time has passed: whoever is killed from here on has this in the log
          assert.strictEqual(yield* world.shorthand, `${start} ck RR`)
          yield* pass(449)
          assert.strictEqual(yield* sent(world), 1)
          yield* pass(102)
          assert.strictEqual(yield* world.shorthand, `${start} ck RR ck AM S>1 T>(completed)`)
        }
        yield* agent.followup("and?")
        yield* others
        assert.notInclude(JSON.stringify((yield* world.requests).at(-1)), "lost")
      })
  )

  it.scoped("O02 O03: five times, each after its wait; then the last failure ends the turn, as it is", () =>
    Effect.gen(function* () {
      const scripts = Array.from({ length: 9 }, (_, index) => [fail("SERVER", `oops ${index + 1}`)])
      const { world } = yield* prompted({ scripts, settings: exact })
      for (const [index, millis] of [500, 1000, 2000, 4000, 8000].entries()) {
        assert.strictEqual(yield* sent(world), index + 1)
        yield* pass(millis - 1)
        assert.strictEqual(yield* sent(world), index + 1)
        yield* pass(1)
      }
      assert.deepStrictEqual(
        (yield* retries(world)).map(({ attempt, delayMillis, failure }) => [attempt, delayMillis, failure.message]),
        [1, 2, 3, 4, 5].map((attempt) => [attempt, 250 * 2 ** attempt, `oops ${attempt}`])
      )
      assert.strictEqual(yield* sent(world), 6)
      assert.deepStrictEqual(yield* ending(world), { kind: "error", error: { message: "oops 6", code: "SERVER" } })
    })
  )

  it.scoped("O03: chance moves the waits, the same way for the same seed", () =>
    Effect.gen(function* () {
      const waits = (seed: string) =>
        Effect.gen(function* () {
          const scripts = Array.from({ length: 6 }, () => [fail("SERVER")])
          const { world } = yield* prompted({ scripts, settings: { retry: { firstMillis: 100 } } })
          yield* pass("4 seconds")
          return (yield* retries(world)).map(({ delayMillis }) => delayMillis)
        }).pipe(Effect.withRandom(Random.make(seed)))
      const first = yield* waits("a")
      assert.deepStrictEqual(yield* waits("a"), first)
      assert.notDeepEqual(yield* waits("b"), first)
    })
  )

  it.scoped("O-I5: a server's wait is kept up to the cap, is in the log as asked for, and is never made shorter", () =>
    Effect.gen(function* () {
      for (const [asked, cap, millis] of [
        [2000, undefined, 2000],
        [100, undefined, 500],
        [14 * 86_400_000, 3000, 3000],
        [14 * 86_400_000, 100, 500]
      ] as const) {
        const { world } = yield* prompted({
          scripts: [failing("RATE_LIMIT", "slow down", asked), say("found")],
          settings: { retry: { jitter: 0, ...(cap === undefined ? {} : { maxAskedMillis: cap }) } }
        })
        const failure = { message: "slow down", code: "RATE_LIMIT", details: { retryAfterMillis: asked } }
        assert.deepStrictEqual(yield* retries(world), [{ turn: 1, step: 1, attempt: 1, delayMillis: millis, failure }])
        yield* pass(millis - 1)
        assert.strictEqual(yield* sent(world), 1)
        yield* pass(1)
        assert.deepStrictEqual(yield* ending(world), { kind: "completed" })
      }
    })
  )

  it.scoped("O-I7: Retry-After as seconds and as a date, from a server of chat completions", () =>
    Effect.gen(function* () {
      const refusal = (status: number, wait: string) =>
        new Response("busy", { status, headers: { "retry-after": wait } })
      const answers = [
        refusal(429, "1.5"),
        refusal(503, "Thu, 01 Jan 1970 00:00:04 GMT"),
        refusal(529, "-3"),
        new Response(`${event(frame({ content: "Done." }, "stop"))}${done}`)
      ]
      const client = HttpClient.make((request) =>
        Effect.sync(() => HttpClientResponse.fromWeb(request, answers.shift() ?? refusal(500, "")))
      )
      const model = yield* OpenAi.make({ profile: OpenAi.openai }).pipe(
        Effect.provide(Layer.merge(Settings.layer, Layer.succeed(HttpClient.HttpClient, client)))
      )
      const { world } = yield* prompted({ model, settings: exact })
      // a body is read in promises
      const settled = Effect.repeatN(others, 30)
      for (const [count, millis] of [
        [1, 1500],
        [2, 2500],
        [3, 2000]
      ] as const) {
        yield* settled
        yield* pass(millis - 1)
        assert.strictEqual(yield* sent(world), count)
        yield* Effect.zipRight(pass(1), settled)
        assert.strictEqual(yield* sent(world), count + 1)
      }
      assert.deepStrictEqual(
        (yield* retries(world)).map(({ delayMillis, failure }) => [failure.code, delayMillis]),
        [
          ["RATE_LIMIT", 1500],
          ["SERVER", 2500],
          ["SERVER", 2000]
        ]
      )
      assert.deepStrictEqual(yield* ending(world), { kind: "completed" })
    })
  )

  it.scoped("O02: the policy is read at each failure, as it is by then", () =>
    Effect.gen(function* () {
      const { world } = yield* prompted({ scripts: Array.from({ length: 9 }, () => [fail("SERVER")]), settings: exact })
      yield* pass(500)
      yield* world.settings.set(Retry.Policy, { jitter: 0, firstMillis: 7, times: { SERVER: 3 } })
      yield* pass("2 seconds")
      assert.deepStrictEqual(
        (yield* retries(world)).map(({ delayMillis }) => delayMillis),
        [500, 1000, 28]
      )
    })
  )

  it.scoped("O02: a hook's retries have an end as well", () =>
    Effect.gen(function* () {
      const nothing = Object.fromEntries(ChatErrorReason.literals.map((reason) => [reason, 0]))
      for (const [times, requests] of [
        [{}, 6],
        [{ ...nothing, CUT: 2 }, 3],
        [nothing, 1]
      ] as const) {
        const { world } = yield* prompted({
          scripts: Array.from({ length: 9 }, () => [fail("QUOTA")]),
          hooks: { requestError: () => Effect.succeed("retry") },
          settings: { retry: { times, firstMillis: 10 } }
        })
        yield* pass("1 second")
        assert.strictEqual(yield* sent(world), requests)
        assert.strictEqual((yield* ending(world))?.kind, "error")
      }
    })
  )

  it.scoped(
    "O09: a stream that ends with an abort of its own is a failure, which the policy may have tried again",
    () =>
      Effect.gen(function* () {
        const { world } = yield* prompted({
          scripts: [[lost, wait(Effect.interrupt)], say("found")],
          settings: { retry: { times: { UNKNOWN: 1 } } }
        })
        yield* pass("1 second")
        assert.strictEqual(yield* world.shorthand, `${start} ck RR ck AM S>1 T>(completed)`)
      })
  )

  it.scoped("O08 O-I3 O-I4: what a failed attempt said and called counts for nothing, what it cost is kept", () =>
    Effect.gen(function* () {
      const usage = { inputTokens: 7, outputTokens: 3 }
      const half: Script = [
        lost,
        send(
          { type: "tool-call", index: 1, id: "x", name: "touch", arguments: '{"id":"lost' },
          { type: "usage", usage }
        ),
        fail("TRANSPORT")
      ]
      const { world } = yield* prompted({ scripts: [half, call(["touch", { id: "a" }]), say("found")] })
      yield* pass("1 second")
      assert.match(yield* world.shorthand, /RH\(initial\) ck RR ck AM TC\(c0\) TR\(c0\) S>1 S<2 ck AM S>2 T>/)
      assert.deepStrictEqual((yield* retries(world))[0]?.usage, usage)
      for (const request of yield* world.requests) assert.notInclude(JSON.stringify(request), "lost")
    })
  )

  it.scoped("O08: the end of what a failed attempt said is stored together with its failure, not before it", () =>
    Effect.gen(function* () {
      const commits: Array<ReadonlyArray<string>> = []
      const journal = Layer.map(Journal.layerMemory, (context) => {
        const real = Context.get(context, Journal.Journal)
        return Context.make(Journal.Journal, {
          ...real,
          append: (batches) => {
            commits.push(...batches.map(({ events }) => events.map(({ type }) => type)))
            return real.append(batches)
          }
        })
      })
      const hook = yield* door
      const { agent, world } = yield* prompted({
        scripts: [failing("SERVER"), say("found")],
        hooks: { requestError: () => Effect.as(hook.pass, "policy") },
        journal
      })
      yield* hook.entered
      // however long the hook takes
      yield* pass("1 second")
      assert.strictEqual(yield* world.shorthand, start)
      yield* Effect.zipRight(hook.letGo, others)
      assert.deepStrictEqual(commits.at(-1), ["assistant/chunk", "request/retry"])
      yield* agent.cancel("user")
    })
  )
})

describe("a cancel around a wait", () => {
  /** What is waited for, the item that makes it so, and for how long. */
  interface Wait {
    readonly name: string
    readonly failures: ReadonlyArray<ReadonlyArray<Item>>
    readonly millis: number
    readonly decision?: "retry"
  }
  const waits: ReadonlyArray<Wait> = [
    { name: "the usual time", failures: [failing("SERVER")], millis: 500 },
    { name: "as long as a server asks", failures: [failing("RATE_LIMIT", "slow down", 2000)], millis: 2000 },
    { name: "as long as the cap lets it", failures: [failing("RATE_LIMIT", "no", 14 * 86_400_000)], millis: 3000 },
    { name: "because a hook wants it", failures: [failing("QUOTA")], millis: 500, decision: "retry" },
    { name: "after nothing was said", failures: [[fail("EMPTY_RESPONSE")]], millis: 500 },
    { name: "for the second time", failures: [failing("CUT"), failing("TIMEOUT")], millis: 1000 }
  ]

  const requestError = (
    passing: Effect.Effect<void>,
    { decision = "policy" }: { readonly decision?: "retry" | "policy" }
  ) => ({ requestError: () => Effect.as(passing, decision) }) satisfies Partial<HookPoints>

  /** Nothing of the failed attempts is an answer, and the next prompt works. */
  const cancelled = Effect.fnUntraced(function* (
    { agent, world }: Effect.Effect.Success<ReturnType<typeof prompted>>,
    log: RegExp
  ) {
    assert.deepInclude(yield* agent.cancel("user"), { _tag: "Settled", ending: { kind: "aborted" }, durable: true })
    assert.match(yield* world.shorthand, log)
    yield* agent.followup("next")
    yield* others
    assert.strictEqual((yield* ending(world))?.kind, "completed")
    assert.notInclude(JSON.stringify((yield* world.requests).at(-1)), "lost")
  })

  it.scoped.each(waits)("O03 O08 O-I5 law 3 law 5: $name: before it, in it, after it", (one) =>
    Effect.gen(function* () {
      const { failures, millis } = one
      const earlier = failures.length - 1
      const settings = { retry: { jitter: 0, maxAskedMillis: 3000 } }
      const options = { scripts: [...failures, say("well"), say("well")], settings }
      const toTheLast = earlier === 0 ? Effect.void : pass(500)

      // before: the hook decides about the last failure
      const hook = yield* door
      let asked = 0
      const passing = Effect.suspend(() => (asked++ < earlier ? Effect.void : hook.pass))
      const deciding = yield* prompted({ ...options, hooks: requestError(passing, one) })
      yield* Effect.zipRight(toTheLast, hook.entered)
      yield* cancelled(deciding, earlier === 0 ? /RH\(initial\)( ck)? S>1 T>\(aborted\)$/ : /RR ck S>1 T>\(aborted\)$/)

      // in it: at its beginning, in the middle, at its last moment
      for (const passed of [0, 1, millis / 2, millis - 1]) {
        const waiting = yield* prompted({ ...options, hooks: requestError(Effect.void, one) })
        yield* Effect.zipRight(toTheLast, pass(passed))
        assert.strictEqual(yield* sent(waiting.world), failures.length)
        yield* cancelled(waiting, /RR S>1 T>\(aborted\)$/)
      }

      // after it: the next attempt has said a word
      const answering = yield* door
      const scripts = [...failures, at(answering.pass), say("well")]
      const again = yield* prompted({ ...options, scripts, hooks: requestError(Effect.void, one) })
      yield* Effect.zipRight(toTheLast, pass(millis))
      yield* answering.entered
      yield* cancelled(again, /RR ck AM! S>1 T>\(aborted\)$/)
    })
  )
})
