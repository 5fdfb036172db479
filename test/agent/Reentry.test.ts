import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import type { Agent } from "../../src/agent/Agent.ts"
import type { FeedItem } from "../../src/domain/Notice.ts"
import { call, fail, type Script, say, send, wait } from "../../src/model/ScriptedModel.ts"
import * as Explorer from "../../src/testing/Explorer.ts"
import * as Approvals from "../../src/tool/Approvals.ts"
import { Judgement } from "../../src/tool/Approvals.ts"
import { After } from "../../src/tool/ToolHooks.ts"
import { door, endings, inputs, react, stillWait } from "../support/Watching.ts"
import * as World from "../support/World.ts"

/** Where a turn, or somebody who watches it, can act. */
interface Place {
  readonly name: string
  /** The world of a turn that passes here. */
  readonly world: (here: Effect.Effect<void>) => World.Options
  /** Outside of the turn: what a subscriber does about an item. */
  readonly about?: (item: FeedItem) => boolean
  /** A cancel does not cut it: its side effect has begun. */
  readonly uncut?: true
  /** The turn does not wait for it. */
  readonly stray?: true
}

const after: ReadonlyArray<Script> = ["2", "3", "4", "5"].map(say)
const looking = [call(["look", { id: "a" }]), ...after]
const slow: Script = [
  send({ type: "text", index: 0, text: "well" }),
  wait(Effect.sleep(100)),
  send({ type: "finish", reason: "stop" })
]

const places: ReadonlyArray<Place> = [
  { name: "prompt assembly", world: (here) => ({ scripts: after, sections: Effect.as(here, []) }) },
  {
    name: "the pre-step hook",
    world: (here) => ({
      scripts: after,
      hooks: { preStep: (_, messages) => Effect.as(here, { _tag: "Enter", messages } as const) }
    })
  },
  {
    name: "the request hook",
    world: (here) => ({ scripts: after, hooks: { request: (_, config) => Effect.as(here, config) } })
  },
  { name: "the model's stream", world: (here) => ({ scripts: [[wait(here), ...say("1")], ...after] }) },
  {
    name: "the request-error hook",
    world: (here) => ({
      scripts: [[fail("SERVER")], ...after],
      hooks: { requestError: () => Effect.as(here, "retry" as const) }
    })
  },
  { name: "the stopping hook", world: (here) => ({ scripts: after, hooks: { stopping: () => here } }) },
  {
    name: "the hook before a tool",
    world: (here) => ({ scripts: looking, toolHooks: { before: () => Effect.as(here, Judgement.Allow()) } })
  },
  {
    name: "an approval",
    world: (here) => ({ scripts: looking, approvals: { judge: () => Effect.as(here, Approvals.Judgement.Allow()) } })
  },
  { name: "a body", world: (here) => ({ scripts: looking, body: () => Effect.as(here, "done") }) },
  {
    name: "a body that a cancel lets finish",
    world: (here) => ({ scripts: [call(["finish", { id: "a" }]), ...after], body: () => Effect.as(here, "done") }),
    uncut: true
  },
  {
    name: "a fiber of a body",
    world: (here) => ({
      scripts: looking,
      body: () => Effect.as(Effect.flatMap(Effect.fork(here), Fiber.join), "done")
    })
  },
  {
    name: "a fiber that outlives its body",
    world: (here) => ({
      scripts: [looking[0] ?? [], slow, ...after],
      body: () => Effect.as(Effect.forkDaemon(here), "done")
    }),
    stray: true
  },
  {
    name: "the hook after a tool",
    world: (here) => ({ scripts: looking, toolHooks: { after: () => Effect.as(here, After.Accept()) } }),
    uncut: true
  },
  {
    name: "a subscriber that sees a delta",
    world: () => ({ scripts: [slow, ...after] }),
    about: ({ type }) => type === "delta"
  },
  {
    name: "a subscriber that sees a call",
    world: () => ({ scripts: looking, body: () => Effect.as(Effect.sleep(100), "done") }),
    about: (item) => item.type === "event" && item.event.type === "tool/call"
  }
]

/** What somebody does there, and what the answer is inside and outside of the turn. */
interface Act {
  readonly name: string
  readonly run: (agent: Agent, scope: Scope.CloseableScope) => Effect.Effect<unknown, unknown>
  readonly inside: string
  readonly outside: string
  /** How the turn ends. */
  readonly ending: "completed" | "aborted" | "left"
}

const sending = (kind: "followup" | "steer" | "inject"): Act => ({
  name: kind,
  run: (agent) => Effect.as(agent[kind]("more"), "accepted"),
  inside: "accepted",
  outside: "accepted",
  ending: "completed"
})

const cancelling = (keepInbox: boolean): Act => ({
  name: keepInbox ? "cancel, keeping the inbox" : "cancel",
  run: (agent) =>
    Effect.flatMap(agent.inject("more"), (id) =>
      Effect.map(
        agent.cancel("user", { keepInbox }),
        ({ _tag, dropped }) => `${_tag}, ${dropped.includes(id) ? "dropped" : "kept"}`
      )
    ),
  inside: `Recorded, ${keepInbox ? "kept" : "dropped"}`,
  outside: `Settled, ${keepInbox ? "kept" : "dropped"}`,
  ending: "aborted"
})

const acts: ReadonlyArray<Act> = [
  sending("followup"),
  sending("steer"),
  sending("inject"),
  {
    name: "remove",
    run: (agent) => Effect.flatMap(agent.followup("taken back"), agent.remove),
    inside: "true",
    outside: "true",
    ending: "completed"
  },
  cancelling(false),
  cancelling(true),
  {
    name: "idle",
    run: (agent) => Effect.as(agent.idle, "idle"),
    inside: "InsideTurn",
    outside: "idle",
    ending: "completed"
  },
  { name: "resume", run: (agent) => agent.resume, inside: "false", outside: "false", ending: "completed" },
  {
    name: "status",
    run: (agent) => Effect.map(agent.status, (status) => status._tag),
    inside: "Running",
    outside: "Running",
    ending: "completed"
  },
  {
    name: "leaving the agent's scope",
    run: (_, scope) => Effect.as(Scope.close(scope, Exit.void), "left"),
    inside: "InsideTurn",
    outside: "left",
    ending: "left"
  }
]

const answerOf = (exit: Exit.Exit<unknown, unknown>): string => {
  if (Exit.isSuccess(exit)) return String(exit.value)
  const error = Cause.squash(exit.cause)
  return error instanceof Error && "_tag" in error ? String(error._tag) : Cause.pretty(exit.cause)
}

/**
 * A turn that passes a place where something is done once. Returns when everything has come to rest. Shielded, what is done
 * is done to its end; else a cancel may keep its answer from us.
 */
const visit = (place: Place, act: Act, isShielded: boolean) =>
  Effect.gen(function* () {
    const holder = yield* Deferred.make<Agent>()
    const answer = yield* Deferred.make<string>()
    const scope = yield* Scope.make()
    let passed = false
    const once = Effect.gen(function* () {
      if (passed) return
      passed = true
      const agent = yield* Deferred.await(holder)
      yield* Effect.exit(Effect.onExit(act.run(agent, scope), (exit) => Deferred.succeed(answer, answerOf(exit))))
    })
    const here = isShielded ? Effect.uninterruptible(once) : once
    const world = yield* World.make({ ...place.world(here), host: FileSystem.layerNoop({}) })
    const agent = yield* Scope.extend(world.open(), scope)
    yield* Deferred.succeed(holder, agent)
    const { about } = place
    if (about !== undefined) yield* react(agent, (item) => (about(item) ? here : Effect.void))
    yield* agent.followup("go")
    const told = yield* Deferred.await(answer)
    yield* agent.idle
    const waits = yield* agent.pending
    yield* Scope.close(scope, Exit.void)
    // whoever comes next finds, or makes, a log that balances
    const next = yield* world.open()
    const ended = yield* endings(world)
    yield* next.cancel("user")
    yield* Effect.zipRight(next.followup("next"), next.idle)
    const entered = yield* inputs(world)
    return { told, ended, entered, waits: waits.length, last: (yield* endings(world)).at(-1) }
  })

/** Runs an effect step by step, and gives what it came to, if it did. */
const explored = <A>(effect: Effect.Effect<A, unknown, Scope.Scope>, name: string): A => {
  const outcome = Explorer.run(() => Effect.scoped(effect))
  assert.isTrue(Option.isSome(outcome.exit), `${name}: it hangs`)
  const exit = Option.getOrThrow(outcome.exit)
  if (Exit.isFailure(exit)) assert.fail(`${name}: ${Cause.pretty(exit.cause)}`)
  assert.deepStrictEqual([outcome.fibers, outcome.timers], [0, 0], `${name}: fibers or timers are left`)
  return exit.value
}

describe("whatever is done from inside", () => {
  it.each(places)("R2 R12 W12 W18 law 4 law 5 law 7: works or fails as promised, and never hangs: $name", (place) => {
    for (const act of acts) {
      const name = `${act.name} in ${place.name}`
      const outside = place.about !== undefined
      const bare = explored(visit(place, act, false), name)
      const { ended, entered, last, told, waits } = explored(visit(place, act, true), name)
      // beside a fiber that outlives its body the turn goes on, and may take the message before the cancel comes
      const taken = place.stray === true && entered.includes("more")
      const expected = outside ? act.outside : act.inside
      assert.strictEqual(told, taken ? expected.replace("dropped", "kept") : expected, name)
      assert.strictEqual(bare.last, last, name)
      if (place.stray !== true) assert.deepStrictEqual(bare.ended, ended, name)
      if (act.ending !== "left") assert.strictEqual(ended[0], act.ending, name)
      else assert.strictEqual(ended[0], "aborted", name)
      // a message that was accepted enters once, or still waits
      if (act.inside === "accepted")
        assert.strictEqual(entered.filter((words) => words === "more").length + waits, 1, name)
      assert.notInclude(entered, "taken back", name)
      assert.strictEqual(last, "completed", name)
    }
  })
})

describe("wherever a turn waits", () => {
  it.scoped("C05 C14 law 4 law 5: a cancel ends the wait, waits for its cleanup, and leaves nothing behind", () =>
    Effect.gen(function* () {
      for (const place of places) {
        if (place.about !== undefined || place.stray === true) continue
        const waiting = yield* door
        let times = 0
        let cleaned = false
        const cleanup = Effect.zipRight(
          Effect.yieldNow(),
          Effect.sync(() => {
            cleaned = true
          })
        )
        const here = Effect.suspend(() =>
          times++ > 0 ? Effect.void : Effect.onExit(Effect.interruptible(waiting.pass), () => cleanup)
        )
        const world = yield* World.make(place.world(here))
        const agent = yield* world.open()
        yield* agent.followup("go")
        yield* waiting.entered
        const cancel = yield* Effect.fork(agent.cancel("parent"))
        if (place.uncut === true) {
          yield* stillWait([cancel], place.name)
          yield* waiting.letGo
        }
        const answer = yield* Fiber.join(cancel)
        assert.deepInclude(answer, { _tag: "Settled", turn: 1, cause: "parent", durable: true }, place.name)
        assert.isTrue(cleaned, place.name)
        yield* Effect.zipRight(agent.followup("again"), agent.idle)
        assert.deepStrictEqual(yield* endings(world), ["aborted", "completed"], place.name)
      }
    })
  )
})
