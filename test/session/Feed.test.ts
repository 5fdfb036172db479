import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import type { StoredEvent } from "../../src/domain/Event.ts"
import * as Feed from "../../src/session/Feed.ts"
import { others } from "../support/Watching.ts"

const event = (seq: number): StoredEvent => ({ type: "turn/start", data: { turn: 1 }, seq, time: 0 })

describe("the feed", () => {
  it.scoped("O-A6: an event that commits while a lagging subscriber reads the journal is not skipped", () =>
    Effect.gen(function* () {
      const log: Array<StoredEvent> = []
      const commit = () => {
        const next = event(log.length)
        log.push(next)
        feed.unsafePublish({ type: "event", event: next })
      }
      let reads = 0
      const feed: Feed.Feed = Feed.make({
        durableHead: () => log.length,
        read: (from) =>
          Effect.sync(() => {
            const page = log.slice(from)
            // right after the page was read
            if (reads++ === 0) commit()
            return page
          })
      })
      const subscriber = yield* Effect.fork(Stream.runCollect(feed.subscribe))
      yield* others
      for (let index = 0; index <= Feed.capacity; index++) feed.unsafePublish({ type: "parked", count: index })
      yield* others
      commit()
      feed.unsafeEnd()
      const items = [...(yield* Fiber.join(subscriber))]
      assert.isAbove(reads, 0)
      assert.deepStrictEqual(
        items.flatMap((item) => (item.type === "event" ? [item.event.seq] : [])),
        [0, 1]
      )
    })
  )
})
