/**
 * For tests of what happens at the same time: doors to stand at, patience, and short readings of what was seen.
 */
import { assert } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type { Scope } from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Agent } from "../../src/agent/Agent.ts"
import type { StoredEvent, StoredOf } from "../../src/domain/Event.ts"
import { textOf } from "../../src/domain/Message.ts"
import type { FeedItem } from "../../src/domain/Notice.ts"
import { type Script, send, wait } from "../../src/model/ScriptedModel.ts"
import type { World } from "./World.ts"

/** A place that tells when it is entered, and that is left when it is let go. */
export interface Door {
  readonly pass: Effect.Effect<void>
  readonly entered: Effect.Effect<void>
  readonly letGo: Effect.Effect<unknown>
}

export const door: Effect.Effect<Door> = Effect.map(
  Effect.all([Deferred.make<void>(), Deferred.make<void>()]),
  ([entered, open]) => ({
    pass: Effect.zipRight(Deferred.succeed(entered, undefined), Deferred.await(open)),
    entered: Deferred.await(entered),
    letGo: Deferred.succeed(open, undefined)
  })
)

/** An answer of one word that stands at a door before it ends. */
export const at = (pass: Effect.Effect<void>): Script => [
  send({ type: "text", index: 0, text: "well" }),
  wait(pass),
  send({ type: "finish", reason: "stop" })
]

/**
 * Lets every other fiber run until it waits: for what this one holds back, for time, or for the host. Fibers run in
 * microtasks, and the event loop comes to this after all of those; but a fiber that goes on for 2,048 of them in a row has
 * not come further than that. Not for the explorer, where nothing comes from outside.
 */
export const others: Effect.Effect<void> = Effect.async((resume) => void setImmediate(() => resume(Effect.void)))

/**
 * Fails unless all of these still wait once nobody else can go on. It shows that they wait for something that a test holds
 * back only where they wait neither for the host nor for a clock that goes.
 */
export const stillWait = (
  fibers: Iterable<Fiber.RuntimeFiber<unknown, unknown>>,
  message?: string
): Effect.Effect<void> =>
  Effect.zipRight(
    others,
    Effect.forEach(
      fibers,
      (fiber) => Effect.map(Fiber.poll(fiber), (exit) => assert.isTrue(Option.isNone(exit), message)),
      { discard: true }
    )
  )

/** Sees the feed of an agent from here on; what it saw, once nobody else can go on. */
export const watch = (
  agent: Agent,
  onItem: (item: FeedItem) => Effect.Effect<unknown, unknown> = () => Effect.void
): Effect.Effect<Effect.Effect<ReadonlyArray<FeedItem>>, never, Scope> =>
  Effect.gen(function* () {
    const seen: Array<FeedItem> = []
    const subscribed = yield* Deferred.make<void>()
    yield* agent.events.pipe(
      Stream.onStart(Deferred.succeed(subscribed, undefined)),
      Stream.runForEach((item) =>
        Effect.zipRight(
          Effect.sync(() => seen.push(item)),
          onItem(item)
        )
      ),
      Effect.forkScoped
    )
    // it has subscribed by the time that this one runs again
    yield* Effect.zipRight(Deferred.await(subscribed), Effect.yieldNow())
    // to be asked for again and again
    // @effect-diagnostics-next-line returnEffectInGen:off
    return Effect.as(others, seen)
  })

/** Does something about what the feed of an agent tells, from here on. */
export const react = (
  agent: Agent,
  onItem: (item: FeedItem) => Effect.Effect<unknown, unknown>
): Effect.Effect<void, never, Scope> => Effect.asVoid(watch(agent, onItem))

/** The events of one type. */
export const of = <T extends StoredEvent["type"]>(log: ReadonlyArray<StoredEvent>, type: T) =>
  log.filter((event): event is StoredOf<T> => event.type === type)

/** What the steps took in. */
export const inputs = (world: World) =>
  Effect.map(world.log, (log) => of(log, "user/message").map(({ data }) => textOf(data)))

/** How the turns ended. */
export const endings = (world: World) =>
  Effect.map(world.log, (log) => of(log, "turn/end").map(({ data }) => data.reason.kind))

/** What calls were answered with. */
export const results = (world: World) =>
  Effect.map(world.log, (log) =>
    of(log, "tool/result").map(({ data }) => ({
      code: data.error?.code,
      text: textOf(data.message),
      late: data.meta?.["finishedAfterCancel"] === true
    }))
  )

/** What became of the statuses on a feed, each told once however often it stands. */
export const statuses = (items: ReadonlyArray<FeedItem>): ReadonlyArray<string> =>
  items
    .flatMap((item) => (item.type === "status" ? [item.status] : []))
    .map((status) => (status._tag === "Running" ? `Running ${status.turn}` : status._tag))
    .filter((tag, index, tags) => tag !== tags[index - 1])
