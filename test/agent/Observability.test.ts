import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import * as Metrics from "../../src/internal/Metrics.ts"
import * as ScriptedModel from "../../src/model/ScriptedModel.ts"
import * as World from "../support/World.ts"

const words = "prompt thought answer argument output failure".split(" ").map((what) => `secret-${what}`)

/** A tracer that keeps every span in memory. */
const collecting = () => {
  const spans: Array<Tracer.Span> = []
  const native = Tracer.make({
    span: (name, parent, context, links, startTime, kind, options) => {
      const attributes = new Map<string, unknown>(Object.entries(options?.attributes ?? {}))
      let status: Tracer.SpanStatus = { _tag: "Started", startTime }
      const span: Tracer.Span = {
        _tag: "Span",
        name,
        spanId: `${spans.length + 1}`,
        traceId: Option.match(parent, { onNone: () => `trace-${spans.length + 1}`, onSome: (above) => above.traceId }),
        parent,
        context,
        links,
        kind,
        sampled: true,
        attributes,
        get status() {
          return status
        },
        attribute: (key, value) => attributes.set(key, value),
        event: (event, _time, more) => attributes.set(`event:${event}`, more),
        addLinks: () => {},
        end: (endTime, exit) => {
          status = { _tag: "Ended", startTime, endTime, exit }
        }
      }
      spans.push(span)
      return span
    },
    context: (run) => run()
  })
  return { native, spans }
}

/** What an exporter tells of how a span ended. */
const failureIn = ({ status }: Tracer.Span): string =>
  status._tag === "Ended" && Exit.isFailure(status.exit) ? Cause.pretty(status.exit.cause) : ""

const above = (span: Tracer.Span): string =>
  Option.match(span.parent, { onNone: () => "", onSome: (parent) => (parent._tag === "Span" ? parent.name : "?") })

/** Two steps: a tool that succeeds beside one that fails, then an answer; thoughts, usage, and a failed attempt first. */
const scripts: ReadonlyArray<ScriptedModel.Script> = [
  [ScriptedModel.fail("SERVER", "the server is busy")],
  [
    ScriptedModel.send(
      { type: "reasoning", index: 0, text: "secret-thought" },
      { type: "tool-call", index: 1, name: "look", arguments: '{"id":"secret-argument"}' },
      { type: "tool-call", index: 2, name: "look", arguments: '{"id":"fail"}' },
      { type: "usage", usage: { inputTokens: 7, outputTokens: 3 } },
      { type: "finish", reason: "tool-calls" }
    )
  ],
  ScriptedModel.say("secret-answer")
]

describe("observability", () => {
  it.live("a turn is one trace of named spans, counters tell what happened, and no text of a message is in them", () =>
    Effect.gen(function* () {
      const { native, spans } = collecting()
      const counters = [Metrics.deltas, Metrics.events, Metrics.commits, Metrics.barriers, Metrics.barrierMillis]
      const read = Effect.map(Effect.all(counters.map(Metric.value)), (states) => states.map((state) => state.count))
      const before = yield* read
      const log = yield* Effect.gen(function* () {
        const world = yield* World.make({
          scripts,
          body: (id) => (id === "fail" ? Effect.fail("secret-failure") : Effect.succeed("secret-output"))
        })
        yield* Effect.scoped(
          Effect.gen(function* () {
            const agent = yield* world.open()
            yield* agent.followup("secret-prompt")
            yield* agent.idle
          })
        )
        return yield* world.log
      }).pipe(Effect.scoped, Effect.withTracer(native))

      const nested = new Set(spans.map((span) => `${above(span)} > ${span.name}`))
      for (const due of [
        " > Agent.turn",
        "Agent.turn > Agent.step",
        "Agent.step > ChatModel.stream",
        "Agent.step > Pipeline.run",
        "Agent.step > Session.barrier",
        "Agents.open > Sessions.acquire",
        "Sessions.acquire > Sessions.take",
        "Sessions.take > Journal.take",
        "Agent.followup > Session.barrier"
      ])
        assert.include([...nested], due)
      for (const name of ["Journal.append", "Journal.create", "Journal.find", "Journal.release", "Agent.idle"])
        assert.isTrue(
          spans.some((span) => span.name === name),
          name
        )
      assert.isTrue(
        spans.every((span) => span.status._tag === "Ended"),
        "every span ends"
      )

      const turn = spans.find((span) => span.name === "Agent.turn")
      assert.deepStrictEqual(Object.fromEntries(turn?.attributes ?? []), {
        sessionId: World.id,
        turn: 1,
        ending: "completed"
      })
      const attempts = spans.filter((span) => span.name === "ChatModel.stream")
      assert.deepStrictEqual(
        attempts.map((span) => span.attributes.get("attempt")),
        [1, 2, 1]
      )
      const ofTurn = spans.filter((span) => span.traceId === turn?.traceId)
      assert.deepStrictEqual(
        attempts.map((span) => span.attributes.get("inputTokens")),
        [undefined, 7, undefined]
      )
      assert.deepStrictEqual(
        ofTurn.flatMap((span) => (span.name === "Pipeline.run" ? [span.attributes.get("callId")] : [])).sort(),
        ["t1s1c0", "t1s1c1"]
      )

      const told = JSON.stringify(spans.map((span) => [span.name, [...span.attributes], failureIn(span)]))
      for (const word of words) assert.notInclude(told, word)
      assert.include(JSON.stringify(log), "secret-output", "the texts are in the log")

      const [deltas, events, commits, barriers, waited] = (yield* read).map(
        (count, index) => count - (before[index] ?? 0)
      )
      assert.strictEqual(deltas, 4)
      assert.strictEqual(events, log.length)
      assert.isAtLeast(commits ?? 0, 5)
      assert.isAtLeast(barriers ?? 0, 5)
      assert.isAbove(waited ?? 0, 0)
    })
  )
})
