import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { MessageId } from "../../src/domain/Ids.ts"
import { text, type UserMessage } from "../../src/domain/Message.ts"
import * as Approvals from "../../src/tool/Approvals.ts"
import { Judgement } from "../../src/tool/Approvals.ts"
import { ToolCall } from "../../src/tool/ToolCall.ts"
import { After, ToolHookError } from "../../src/tool/ToolHooks.ts"
import * as Tools from "../../src/tool/Tools.ts"
import {
  type Args,
  type Body,
  callId,
  echo,
  hi,
  pipeline,
  probe,
  probing,
  run,
  startCancelled,
  textOf
} from "./support.ts"

describe("the tool pipeline", () => {
  it.effect("F01: lookup, before hook, approval, body, after hook; the outcome is frozen", () => {
    const seen: Array<string> = []
    const note = (what: string) => Effect.sync(() => void seen.push(what))
    const tools = probing(({ text }) => Effect.as(note("body"), text))
    const layer = pipeline(tools, {
      hooks: {
        before: (call) => Effect.as(note(`before ${call.name} ${call.callId}`), Judgement.Allow()),
        after: (_, outcome) => Effect.as(note(`after ${textOf(outcome)}`), After.Accept())
      },
      approvals: { judge: () => Effect.as(note("approval"), Approvals.Judgement.Allow()) }
    })
    return Effect.gen(function* () {
      const outcome = yield* run("probe", hi)
      assert.deepStrictEqual(seen, [`before probe ${callId}`, "approval", "body", "after hi"])
      assert.deepStrictEqual(outcome, { content: [text("hi")], isError: false })
      assert.isTrue(Object.isFrozen(outcome) && Object.isFrozen(outcome.content) && Object.isFrozen(outcome.content[0]))
    }).pipe(Effect.provide(layer))
  })

  it.effect("F02: a denial runs no approval and no body; the after hook sees it", () => {
    const seen: Array<string> = []
    const layer = pipeline(
      probing(() => Effect.sync(() => String(seen.push("body")))),
      {
        hooks: {
          before: () => Effect.succeed(Judgement.Deny({ reason: "not on Sundays" })),
          after: (_, outcome) => Effect.sync(() => void seen.push(textOf(outcome))).pipe(Effect.as(After.Accept()))
        },
        approvals: {
          judge: () => Effect.sync(() => void seen.push("approval")).pipe(Effect.as(Approvals.Judgement.Allow()))
        }
      }
    )
    return Effect.gen(function* () {
      const outcome = yield* run("probe", hi)
      assert.deepStrictEqual(seen, ["Error: not on Sundays"])
      assert.strictEqual(outcome.error?.code, "TOOL_DENIED")
      assert.isTrue(outcome.isError)
    }).pipe(Effect.provide(layer))
  })

  it.effect(
    "F02: a before hook that fails, dies or throws gives HOOK_FAILED; nothing runs, and the after hook is skipped",
    () =>
      Effect.gen(function* () {
        const failing = [
          () => Effect.fail(new ToolHookError({ message: "broken" })),
          () => Effect.die(new Error("broken")),
          () => {
            throw new Error("broken")
          }
        ]
        for (const before of failing) {
          const seen: Array<string> = []
          const layer = pipeline(
            probing(() => Effect.sync(() => String(seen.push("body")))),
            {
              hooks: { before, after: () => Effect.sync(() => void seen.push("after")).pipe(Effect.as(After.Accept())) }
            }
          )
          const outcome = yield* Effect.provide(run("probe", hi), layer)
          assert.deepStrictEqual(seen, [])
          assert.strictEqual(outcome.error?.code, "HOOK_FAILED")
          assert.include(textOf(outcome), "broken")
        }
      })
  )

  it.effect("F02, F15: what a hook or an approval breaks with is quoted in part, whole names and codes are not", () =>
    Effect.gen(function* () {
      const huge = Object.assign(new Error("x".repeat(1_000_000)), { name: "N".repeat(1000), code: "C".repeat(1000) })
      const broken = [
        { hooks: { before: () => Effect.die(huge) } },
        { hooks: { after: () => Effect.die(huge) } },
        { approvals: { judge: () => Effect.die(huge) } }
      ]
      for (const options of broken)
        assert.isBelow(textOf(yield* Effect.provide(run("probe", hi), pipeline(echo, options))).length, 1200)
      const failed = yield* Effect.provide(run("probe", hi), pipeline(probing(() => Effect.die(huge))))
      assert.isBelow(`${failed.error?.name}${failed.error?.code}`.length, 250)
      // what a body says is a result like any other
      assert.strictEqual(textOf(failed).length, 1_000_007)
    })
  )

  it.effect("F02: an approval that denies is seen by the after hook; one that dies denies as well, and says so", () =>
    Effect.gen(function* () {
      let bodies = 0
      const tools = probing(() => Effect.sync(() => String(++bodies)))
      const seen: Array<string> = []
      const after = (_: unknown, outcome: Parameters<typeof textOf>[0]) =>
        Effect.sync(() => void seen.push(textOf(outcome))).pipe(Effect.as(After.Accept()))
      const decisions = [Effect.succeed(Approvals.Judgement.Deny({ reason: "no" })), Effect.die(new Error("no screen"))]
      for (const decision of decisions) {
        const layer = pipeline(tools, { hooks: { after }, approvals: { judge: () => decision } })
        const outcome = yield* Effect.provide(run("probe", hi), layer)
        assert.strictEqual(outcome.error?.code, "TOOL_DENIED")
      }
      assert.strictEqual(bodies, 0)
      assert.strictEqual(seen[0], "Error: no")
      assert.include(seen[1], "no screen")
    })
  )

  it.effect("F11: a cancelled call with bad arguments is still told so, and nobody is asked", () => {
    const asked: Array<string> = []
    const layer = pipeline(echo, {
      hooks: { before: () => Effect.sync(() => void asked.push("before")).pipe(Effect.as(Judgement.Allow())) }
    })
    return Effect.gen(function* () {
      const bad = yield* startCancelled("probe", '{"text":1e999}')
      assert.strictEqual((yield* Fiber.join(bad.fiber)).error?.code, "INVALID_ARGS")
      const good = yield* startCancelled("probe", hi)
      assert.isTrue(Exit.isInterrupted(yield* Fiber.await(good.fiber)))
      assert.isFalse(yield* good.notes.started)
      assert.deepStrictEqual(asked, [])
    }).pipe(Effect.provide(layer))
  })

  it.effect("F11: the body sees the arguments frozen as they were, whoever tries to change them", () => {
    let given: Args | undefined
    const layer = pipeline(
      probing((args) =>
        Effect.sync(() => {
          given = args
          return "ok"
        })
      ),
      {
        hooks: {
          before: (call) =>
            Effect.sync(() => {
              assert.throws(() => Object.assign(call.arguments as object, { text: "other" }))
              assert.throws(() => Object.assign(call, { arguments: {} }))
              return Judgement.Allow()
            })
        }
      }
    )
    return Effect.gen(function* () {
      const outcome = yield* run("probe", '{"text":"hi","items":[1,2]}')
      assert.strictEqual(textOf(outcome), "ok")
      assert.deepStrictEqual(given, { text: "hi", items: [1, 2] })
      assert.isTrue(Object.isFrozen(given) && Object.isFrozen(given?.items))
    }).pipe(Effect.provide(layer))
  })

  it.effect("F15: a failure or a defect of the body is an error result with its message, name and code", () =>
    Effect.gen(function* () {
      class Broken extends Data.TaggedError("Broken")<{ readonly message: string; readonly code: string }> {}
      const hostile = {
        get message(): string {
          throw new Error("no")
        }
      }
      const cases: ReadonlyArray<readonly [Effect.Effect<never, unknown>, string, string, string]> = [
        [Effect.fail(new Broken({ message: "it broke", code: "E42" })), "Error: it broke", "Broken", "E42"],
        [Effect.die(new TypeError("no function")), "Error: no function", "TypeError", "UNKNOWN"],
        [Effect.fail("plain"), "Error: plain", "Error", "UNKNOWN"],
        [Effect.fail({ _tag: "Odd", detail: 1 }), 'Error: {"_tag":"Odd","detail":1}', "Odd", "UNKNOWN"],
        [Effect.fail(hostile), "Error: Error", "Error", "UNKNOWN"],
        [Effect.fail(undefined), "Error: undefined", "Error", "UNKNOWN"],
        [
          Effect.sync(() => {
            throw Object.assign(new Error("gone"), { code: "ENOENT" })
          }),
          "Error: gone",
          "Error",
          "ENOENT"
        ]
      ]
      for (const [failing, message, name, code] of cases) {
        let seen = ""
        const layer = pipeline(
          probing(() => failing),
          {
            hooks: {
              after: (_, outcome) =>
                Effect.sync(() => {
                  seen = textOf(outcome)
                }).pipe(Effect.as(After.Accept()))
            }
          }
        )
        const outcome = yield* Effect.provide(run("probe", hi), layer)
        assert.deepStrictEqual(outcome, { content: [text(message)], isError: true, error: { name, code } })
        assert.strictEqual(seen, message)
      }
    })
  )

  it.effect("F15: a body of which one branch failed and the others were interrupted has failed", () =>
    Effect.gen(function* () {
      const body = Effect.all([Effect.fail("one"), Effect.never], { concurrency: "unbounded" })
      const outcome = yield* Effect.provide(run("probe", hi), pipeline(probing(() => Effect.as(body, ""))))
      assert.strictEqual(textOf(outcome), "Error: one")
    })
  )

  it.effect("F15: also where its cause tells both", () =>
    Effect.gen(function* () {
      const cause = Cause.parallel(Cause.interrupt(FiberId.none), Cause.die(new Error("one")))
      const outcome = yield* Effect.provide(run("probe", hi), pipeline(probing(() => Effect.failCause(cause))))
      assert.strictEqual(textOf(outcome), "Error: one")
    })
  )

  it.effect("F15: a body or a hook that interrupts itself has failed: nobody cancelled the call", () =>
    Effect.gen(function* () {
      const own = "it was interrupted from inside: nobody cancelled the call"
      const inner = yield* Effect.fork(Effect.never)
      yield* Fiber.interrupt(inner)
      for (const interruption of [Effect.interrupt, Fiber.join(inner)]) {
        const body = yield* Effect.provide(run("probe", hi), pipeline(probing(() => interruption)))
        assert.strictEqual(textOf(body), `Error: ${own}`)
        const before = pipeline(
          probing(() => Effect.succeed("")),
          { hooks: { before: () => interruption } }
        )
        assert.deepInclude(yield* Effect.provide(run("probe", hi), before), {
          error: { name: "ToolHookError", code: "HOOK_FAILED" }
        })
      }
    })
  )

  it.effect("F16: arguments or output that their schema refuses", () =>
    Effect.gen(function* () {
      let bodies = 0
      const kit = Toolkit.make(
        Tool.make("count", {
          parameters: { n: Schema.Int },
          success: Schema.Struct({ n: Schema.Int, of: Schema.String })
        }),
        Tool.make("date", { success: Schema.DateFromString }),
        Tool.make("odd", { success: Schema.Unknown })
      )
      // what a handler in plain JavaScript could return
      const odd = (value: unknown) =>
        Effect.sync(() => {
          bodies++
          return value as never
        })
      let oddity: unknown
      const layer = pipeline(
        Layer.provide(
          Tools.layer(kit),
          kit.toLayer({
            count: ({ n }) => odd(n < 0 ? { n } : { n, of: "x" }),
            date: () => odd("today"),
            odd: () => odd(oddity)
          })
        )
      )
      const call = (name: string, args: string) => Effect.provide(run(name, args), layer)
      assert.strictEqual(textOf(yield* call("count", '{"n":1}')), '{"n":1,"of":"x"}')
      assert.strictEqual((yield* call("count", '{"n":-1}')).error?.code, "INVALID_TOOL_OUTPUT")
      assert.strictEqual((yield* call("date", "")).error?.code, "INVALID_TOOL_OUTPUT")
      const cycle: Record<string, unknown> = {}
      cycle["self"] = cycle
      for (oddity of [cycle, 1n, { a: Number.NaN }, () => 1])
        assert.strictEqual((yield* call("odd", "")).error?.code, "INVALID_TOOL_OUTPUT", String(oddity))
      const before = bodies
      const refused = yield* call("count", '{"n":1.5}')
      assert.strictEqual(refused.error?.code, "INVALID_ARGS")
      assert.include(textOf(refused), '"n"')
      assert.strictEqual(bodies, before)
    })
  )

  it.effect("F16: what a schema encodes is what a model reads; a success without a value is empty", () =>
    Effect.gen(function* () {
      const kit = Toolkit.make(
        Tool.make("when", { success: Schema.Date }),
        Tool.make("nothing"),
        Tool.make("partly", { success: Schema.Struct({ a: Schema.optional(Schema.String) }) })
      )
      const layer = pipeline(
        Layer.provide(
          Tools.layer(kit),
          kit.toLayer({
            when: () => Effect.succeed(new Date(0)),
            nothing: () => Effect.void,
            partly: () => Effect.succeed({ a: undefined })
          })
        )
      )
      const call = (name: string) => Effect.map(Effect.provide(run(name, ""), layer), textOf)
      assert.strictEqual(yield* call("when"), "1970-01-01T00:00:00.000Z")
      assert.strictEqual(yield* call("nothing"), "")
      assert.strictEqual(yield* call("partly"), "{}")
    })
  )

  it.effect("F17: an after hook may replace the content; a failure stays one", () =>
    Effect.gen(function* () {
      const hooks = { after: () => Effect.succeed(After.Replace({ content: [text("shown")] })) }
      assert.deepStrictEqual(yield* Effect.provide(run("probe", hi), pipeline(echo, { hooks })), {
        content: [text("shown")],
        isError: false
      })
      const failed = yield* Effect.provide(
        run("probe", hi),
        pipeline(
          probing(() => Effect.fail("x")),
          { hooks }
        )
      )
      assert.deepStrictEqual(failed, {
        content: [text("shown")],
        isError: true,
        error: { name: "Error", code: "UNKNOWN" }
      })
    })
  )

  it.effect(
    "F17: what a body left for the next step is kept, also if it failed; a block or a failing hook drops it",
    () =>
      Effect.gen(function* () {
        const leaving =
          (end: Effect.Effect<string, unknown>): Body =>
          () =>
            Effect.flatMap(ToolCall, (call) => Effect.zipRight(call.addContext("by the way"), end))
        const context: ReadonlyArray<UserMessage> = [
          {
            id: MessageId.make(`${callId}-context-0`),
            role: "user",
            source: { kind: "context" },
            content: [text("by the way")]
          }
        ]
        const call = (end: Effect.Effect<string, unknown>, after?: Effect.Effect<After, ToolHookError>) =>
          Effect.provide(
            run("probe", hi),
            pipeline(probing(leaving(end)), { hooks: after === undefined ? {} : { after: () => after } })
          )
        assert.deepStrictEqual((yield* call(Effect.succeed("ok"))).context, context)
        assert.deepStrictEqual((yield* call(Effect.fail("no"))).context, context)
        const blocked = yield* call(Effect.succeed("ok"), Effect.succeed(After.Block({ feedback: "leaks a key" })))
        assert.isTrue(blocked.isError)
        assert.strictEqual(textOf(blocked), "Error: leaks a key")
        assert.isUndefined(blocked.context)
        const failed = yield* call(Effect.succeed("secret"), Effect.fail(new ToolHookError({ message: "broken" })))
        assert.strictEqual(failed.error?.code, "HOOK_FAILED")
        assert.notInclude(textOf(failed), "secret")
        assert.isUndefined(failed.context)
      })
  )

  it.effect("A16: a call that asks to conclude the turn does so only if it succeeds", () =>
    Effect.gen(function* () {
      const asking =
        (end: Effect.Effect<string, unknown>): Body =>
        () =>
          Effect.flatMap(ToolCall, (call) => Effect.zipRight(call.conclude, end))
      const done = yield* Effect.provide(run("probe", hi), pipeline(probing(asking(Effect.succeed("ok")))))
      assert.deepStrictEqual(done.meta, { concludes: true })
      const failed = yield* Effect.provide(run("probe", hi), pipeline(probing(asking(Effect.fail("no")))))
      assert.isUndefined(failed.meta)
    })
  )

  it.effect(
    "F18, O-E6: a tool that is hidden or does not exist is unknown; the answer lists those that there are",
    () =>
      Effect.gen(function* () {
        let bodies = 0
        const other = Toolkit.make(probe, Tool.make("look"))
        const handlers = other.toLayer({ probe: () => Effect.sync(() => String(++bodies)), look: () => Effect.void })
        const layer = pipeline(Tools.layer(other).pipe(Layer.provide(handlers), Tools.without("probe")))
        for (const name of ["probe", "execute_python", "toString", "x".repeat(5000)]) {
          const outcome = yield* Effect.provide(run(name, hi), layer)
          assert.strictEqual(outcome.error?.code, "UNKNOWN_TOOL")
          assert.match(textOf(outcome), /The tools are: look\.$/)
          assert.isBelow(textOf(outcome).length, 300)
        }
        assert.strictEqual(bodies, 0)
      })
  )

  it.effect("E17, O-E4: empty arguments mean {}, where the schema takes that", () =>
    Effect.gen(function* () {
      const kit = Toolkit.make(probe, Tool.make("look"))
      const handlers = kit.toLayer({ probe: ({ text }) => Effect.succeed(text), look: () => Effect.void })
      const layer = pipeline(Layer.provide(Tools.layer(kit), handlers))
      assert.include(textOf(yield* Effect.provide(run("look", "[]"), layer)), "not a JSON object")
      for (const empty of ["", "  "]) {
        assert.isFalse((yield* Effect.provide(run("look", empty), layer)).isError)
        const refused = yield* Effect.provide(run("probe", empty), layer)
        assert.strictEqual(refused.error?.code, "INVALID_ARGS")
        assert.include(textOf(refused), '["text"]')
      }
    })
  )

  it.effect("E17, O-E1, O-E2, O-E3, O-E7: what is no whole JSON object runs nothing and is shown to nobody", () => {
    const asked: Array<string> = []
    const note = (what: string) => Effect.sync(() => void asked.push(what))
    const layer = pipeline(
      probing(() => Effect.as(note("body"), "")),
      {
        hooks: {
          before: () => Effect.as(note("before"), Judgement.Allow()),
          after: () => Effect.as(note("after"), After.Accept())
        },
        approvals: { judge: () => Effect.as(note("approval"), Approvals.Judgement.Allow()) }
      }
    )
    const bad = [
      '{"text":"rm -rf build',
      '{"text":"rm -rf build"',
      '{"text":"a"} trailing',
      "[]",
      '"text"',
      "null",
      "12",
      "rm -rf build",
      '{"text":-0}',
      '{"text":"a","unknown":1}',
      `{"text":${"[".repeat(200_000)}`,
      `{"text":"a","items":${"[".repeat(50_000)}${"]".repeat(50_000)}}`
    ]
    return Effect.gen(function* () {
      for (const raw of bad) {
        const outcome = yield* run("probe", raw)
        assert.strictEqual(outcome.error?.code, "INVALID_ARGS", raw.slice(0, 50))
        assert.include(textOf(outcome), `They were: ${raw.slice(0, 20)}`)
        assert.isBelow(textOf(outcome).length, 1500)
      }
      assert.deepStrictEqual(asked, [])
    }).pipe(Effect.provide(layer))
  })

  it.effect("O-E5: an argument of the wrong type is an error result that names it", () =>
    Effect.gen(function* () {
      const outcome = yield* Effect.provide(run("probe", '{"text":1}'), pipeline(echo))
      assert.strictEqual(outcome.error?.code, "INVALID_ARGS")
      assert.match(textOf(outcome), /\["text"\][\s\S]*Expected string, actual 1/)
    })
  )

  it.effect("O-E9: arguments are decoded exactly once; hooks and approvals see them as the model wrote them", () => {
    let decodings = 0
    const Counted = Schema.transform(Schema.String, Schema.Number, {
      strict: true,
      decode: (text) => {
        decodings++
        return Number(text)
      },
      encode: String
    })
    const kit = Toolkit.make(Tool.make("double", { parameters: { n: Counted }, success: Schema.NumberFromString }))
    const seen: Array<unknown> = []
    const layer = pipeline(Layer.provide(Tools.layer(kit), kit.toLayer({ double: ({ n }) => Effect.succeed(n * 2) })), {
      hooks: { before: (call) => Effect.sync(() => void seen.push(call.arguments)).pipe(Effect.as(Judgement.Allow())) },
      approvals: {
        judge: (call) => Effect.sync(() => void seen.push(call.arguments)).pipe(Effect.as(Approvals.Judgement.Allow()))
      }
    })
    return Effect.gen(function* () {
      assert.strictEqual(textOf(yield* run("double", '{"n":"21"}')), "42")
      assert.strictEqual(decodings, 1)
      assert.deepStrictEqual(seen, [{ n: "21" }, { n: "21" }])
    }).pipe(Effect.provide(layer))
  })

  it.effect("O-O2, O-O3: half a surrogate pair or a NUL is replaced, in arguments and in results", () => {
    let given = ""
    const layer = pipeline(
      probing(({ text }) =>
        Effect.sync(() => {
          given = text
          return "a\ud800b\0c"
        })
      )
    )
    return Effect.gen(function* () {
      const outcome = yield* run("probe", '{"text":"x\\ud83dy\\u0000z"}')
      assert.strictEqual(given, "x\ufffdy\ufffdz")
      assert.strictEqual(textOf(outcome), "a\ufffdb\ufffdc")
    }).pipe(Effect.provide(layer))
  })

  it.effect("the call itself is told to the body", () => {
    const layer = pipeline(
      probing(() =>
        Effect.map(ToolCall, (call) => `${call.sessionId} ${call.turn} ${call.step} ${call.callId} ${call.name}`)
      )
    )
    return Effect.gen(function* () {
      assert.strictEqual(textOf(yield* run("probe", hi)), "session 1 1 t1s1c0 probe")
    }).pipe(Effect.provide(layer))
  })
})
