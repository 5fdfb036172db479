/**
 * The live feed of a session: durable events as they commit, and live notices.
 *
 * - Publishing never waits: a subscriber that falls `capacity` items behind loses notices, gets one `lagged`, and reads
 *   the events that it missed from the journal. Every subscriber sees every event once, in order.
 */
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

/** Where a subscriber that fell behind reads what it missed. */
export interface Source {
  /** How far the journal holds the log. */
  readonly durableHead: () => number
  /** Stored events from a seq on, at most `limit`. */
  readonly read: (from: number, limit: number) => Effect.Effect<ReadonlyArray<StoredEvent>, JournalError>
}

const offer = (subscriber: Subscriber, item: FeedItem): void => {
  if (subscriber.items.length >= capacity) subscriber.lagged = true
  if (!subscriber.lagged) subscriber.items.push(item)
  subscriber.latch.unsafeOpen()
}

/** Takes items in: each event once, whether it came by the feed or from the journal. */
const advance = (subscriber: Subscriber, items: ReadonlyArray<FeedItem>): Chunk.Chunk<FeedItem> => {
  const fresh: Array<FeedItem> = []
  for (const item of items) {
    if (item.type === "event") {
      if (item.event.seq < subscriber.next) continue
      subscriber.next = item.event.seq + 1
    }
    fresh.push(item)
  }
  return Chunk.unsafeFromArray(fresh)
}

/** One page of what the subscriber missed. It has caught up with the last one: what commits meanwhile is missed as well. */
const catchUp = (source: Source, subscriber: Subscriber): Effect.Effect<Chunk.Chunk<FeedItem>, JournalError> =>
  Effect.map(source.read(subscriber.next, pageSize), (events) => {
    if (subscriber.next + events.length >= source.durableHead()) subscriber.lagged = false
    return advance(
      subscriber,
      events.map((event) => ({ type: "event", event }))
    )
  })

/** What is new for the subscriber, once something is; ends with the feed. */
const take = (
  source: Source,
  subscriber: Subscriber,
  isOver: () => boolean
): Effect.Effect<Chunk.Chunk<FeedItem>, Option.Option<JournalError>> =>
  Effect.zipRight(
    subscriber.latch.await,
    Effect.suspend(() => {
      const items = subscriber.items
      subscriber.items = []
      if (items.length > 0) {
        if (subscriber.lagged) items.push({ type: "lagged" })
        return Effect.succeed(advance(subscriber, items))
      }
      if (subscriber.lagged) return Effect.mapError(catchUp(source, subscriber), Option.some)
      if (isOver()) return Effect.fail(Option.none())
      subscriber.latch.unsafeClose()
      return Effect.succeed(Chunk.empty())
    })
  )

/** A feed over its source. */
export const make = (source: Source): Feed => {
  const subscribers = new Set<Subscriber>()
  let over = false
  const subscribed = Effect.acquireRelease(
    Effect.sync((): Subscriber => {
      const latch = Effect.unsafeMakeLatch(over)
      const subscriber: Subscriber = { latch, items: [], lagged: false, next: source.durableHead() }
      subscribers.add(subscriber)
      return subscriber
    }),
    (subscriber) => Effect.sync(() => subscribers.delete(subscriber))
  )
  return {
    unsafePublish: (item) => {
      for (const subscriber of subscribers) offer(subscriber, item)
    },
    unsafeEnd: () => {
      over = true
      for (const subscriber of subscribers) subscriber.latch.unsafeOpen()
    },
    subscribe: Stream.unwrapScoped(
      Effect.map(subscribed, (subscriber) => Stream.repeatEffectChunkOption(take(source, subscriber, () => over)))
    )
  }
}
