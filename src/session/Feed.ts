/**
 * The live feed of a session: durable events as they commit, and live notices.
 *
 * - Publishing never waits: a subscriber that falls `capacity` items behind loses notices, gets one `lagged`, and reads
 *   the events that it missed from the journal. Every subscriber sees every event once, in order.
 */
import * as Arr from "effect/Array"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { JournalError } from "../domain/Errors.ts"
import type { StoredEvent } from "../domain/Event.ts"
import type { FeedItem } from "../domain/Notice.ts"

/** How many items a subscriber may fall behind. */
export const capacity = 1024

/** How many events a lagging subscriber reads at once. */
const pageSize = 512

export interface Feed {
  /** Hands an item to every subscriber. Never waits, never fails. */
  readonly unsafePublish: (item: FeedItem) => void
  /** Ends every subscription once its subscriber has taken what is there. */
  readonly unsafeEnd: () => void
  /** All items from the moment of subscription on. Ends with the session. */
  readonly subscribe: Stream.Stream<FeedItem, JournalError>
}

interface Subscriber {
  readonly latch: Effect.Latch
  items: Array<FeedItem>
  lagged: boolean
  /** The seq of the next event that this subscriber has not seen. */
  next: number
}

/**
 * A feed. `durableHead` tells how far the journal holds the log, `read` reads stored events from a seq on.
 */
export const make = (source: {
  readonly durableHead: () => number
  readonly read: (from: number, limit: number) => Effect.Effect<ReadonlyArray<StoredEvent>, JournalError>
}): Feed => {
  const subscribers = new Set<Subscriber>()
  let ended = false

  const offer = (subscriber: Subscriber, item: FeedItem) => {
    if (subscriber.items.length >= capacity) subscriber.lagged = true
    if (!subscriber.lagged) subscriber.items.push(item)
    subscriber.latch.unsafeOpen()
  }

  /** What is new for this subscriber: each event once, whether it came by the feed or from the journal. */
  const unseen = (subscriber: Subscriber, items: ReadonlyArray<FeedItem>) =>
    Arr.filter(items, (item) => {
      if (item.type !== "event") return true
      if (item.event.seq < subscriber.next) return false
      subscriber.next = item.event.seq + 1
      return true
    })

  const catchUp = (subscriber: Subscriber): Effect.Effect<Chunk.Chunk<FeedItem>, JournalError> =>
    Effect.map(source.read(subscriber.next, pageSize), (events) => {
      if (subscriber.next + events.length >= source.durableHead() || events.length === 0) subscriber.lagged = false
      return Chunk.unsafeFromArray(
        unseen(
          subscriber,
          events.map((event) => ({ type: "event", event }))
        )
      )
    })

  const take = (subscriber: Subscriber): Effect.Effect<Chunk.Chunk<FeedItem>, Option.Option<JournalError>> =>
    Effect.zipRight(
      subscriber.latch.await,
      Effect.suspend(() => {
        const items = subscriber.items
        subscriber.items = []
        if (items.length > 0) {
          const rest: ReadonlyArray<FeedItem> = subscriber.lagged ? [...items, { type: "lagged" }] : items
          return Effect.succeed(Chunk.unsafeFromArray(unseen(subscriber, rest)))
        }
        if (subscriber.lagged) return Effect.mapError(catchUp(subscriber), Option.some)
        if (ended) return Effect.fail(Option.none())
        subscriber.latch.unsafeClose()
        return Effect.succeed(Chunk.empty())
      })
    )

  return {
    unsafePublish: (item) => {
      for (const subscriber of subscribers) offer(subscriber, item)
    },
    unsafeEnd: () => {
      ended = true
      for (const subscriber of subscribers) subscriber.latch.unsafeOpen()
    },
    subscribe: Stream.unwrapScoped(
      Effect.map(
        Effect.acquireRelease(
          Effect.sync((): Subscriber => {
            const latch = Effect.unsafeMakeLatch(ended)
            const subscriber: Subscriber = { latch, items: [], lagged: false, next: source.durableHead() }
            subscribers.add(subscriber)
            return subscriber
          }),
          (subscriber) => Effect.sync(() => subscribers.delete(subscriber))
        ),
        (subscriber) => Stream.repeatEffectChunkOption(take(subscriber))
      )
    )
  }
}
