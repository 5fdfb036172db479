/**
 * One session under simulation: what it wrote so far, what waits, and where the tape of choices stands.
 *
 * - A choice is the next number of the tape; once the tape is over it is 0, and 0 is always the plain choice.
 */
import * as Either from "effect/Either"
import type { SessionEvent, StoredEvent } from "../../src/domain/Event.ts"
import { MessageId } from "../../src/domain/Ids.ts"
import { text, type UserMessage } from "../../src/domain/Message.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import { startTime } from "./Facts.ts"
import { visibleSpans } from "./NaiveFold.ts"

/** How a step, or a turn, is left. `crash` is a death of the owner that its repair follows. */
export type Way = "on" | "error" | "cancel" | "crash"

export interface Waiting {
  readonly "next-turn": Array<UserMessage>
  readonly "next-step": Array<UserMessage>
}

/** One session under simulation: what it wrote so far, and where the tape stands. */
export class LogWorld {
  readonly log: Array<StoredEvent> = []
  readonly inbox: Waiting = { "next-turn": [], "next-step": [] }
  state = SessionState.initial()
  turn = 0
  /** The header that the next request needs: none, the first, or that of a new owner. */
  due: "initial" | "resume" | undefined = "initial"
  private cursor = 0
  private messages = 0
  private time = startTime
  readonly numbers: ReadonlyArray<number>
  readonly texts: ReadonlyArray<string>

  constructor(numbers: ReadonlyArray<number>, texts: ReadonlyArray<string>) {
    this.numbers = numbers
    this.texts = texts
  }

  get isOver(): boolean {
    return this.cursor >= this.numbers.length
  }

  /** The next choice among `count`. */
  draw(count: number): number {
    return (this.numbers[this.cursor++] ?? 0) % count
  }

  /** True once in about `odds` times, never when the tape is over. */
  rarely(odds: number): boolean {
    return this.draw(odds) === 1
  }

  pick<A>(from: ReadonlyArray<A>): A {
    const picked = from[this.draw(from.length)]
    if (picked === undefined) throw new Error("nothing to pick from")
    return picked
  }

  word(): string {
    return this.pick(this.texts)
  }

  /** Appends; an event that does not fit is a bug of this file or of the fold. Repair invents no time. */
  push(event: SessionEvent, timeless = false): number {
    if (!timeless) this.time += this.pick([1, 0, 0, 70])
    const stored: StoredEvent = { ...event, seq: this.log.length, time: this.time }
    this.state = Either.getOrThrowWith(SessionState.apply(this.state, stored), (detail) => new Error(detail))
    this.log.push(stored)
    return stored.seq
  }

  /** A message with something to read in it, and sometimes with blocks that say nothing. */
  message(kind: UserMessage["source"]["kind"]): UserMessage {
    const visible = [text(`${kind} ${this.messages} ${this.word()}`)]
    const blank = this.rarely(4) ? [text(" "), text("")] : []
    return {
      id: MessageId.make(`m${this.messages++}`),
      role: "user",
      source: { kind },
      content: this.rarely(2) ? [...blank, ...visible] : [...visible, ...blank]
    }
  }

  insert(target: keyof Waiting, inserted: ReadonlyArray<UserMessage>, timeless = false): void {
    this.push({ type: "agent/inbox/spliced", data: { target, start: this.inbox[target].length, inserted } }, timeless)
    this.inbox[target].push(...inserted)
  }

  take(target: keyof Waiting, start: number, removedCount: number, outcome?: "canceled", timeless = false): void {
    if (removedCount === 0) return
    const data = { target, start, removedCount, inserted: [], ...(outcome === undefined ? {} : { outcome }) }
    this.push({ type: "agent/inbox/spliced", data }, timeless)
    this.inbox[target].splice(start, removedCount)
  }

  dropAll(): void {
    this.take("next-step", 0, this.inbox["next-step"].length, "canceled")
    this.take("next-turn", 0, this.inbox["next-turn"].length, "canceled")
  }

  get wakes(): boolean {
    return this.inbox["next-turn"].length > 0 || this.inbox["next-step"].some(({ source }) => source.kind === "steer")
  }

  /** Somebody outside may send or take back, at any moment. */
  interject(odds: number): void {
    if (!this.rarely(odds)) return
    const kind = this.pick(["prompt", "inject", "steer", "steers", "remove"] as const)
    if (kind === "prompt") this.insert("next-turn", [this.message("prompt")])
    else if (kind === "inject" || kind === "steer") this.insert("next-step", [this.message(kind)])
    else if (kind === "steers") this.insert("next-step", [this.message("steer"), this.message("steer")])
    else {
      const target = this.pick(["next-step", "next-turn"] as const)
      const waits = this.inbox[target].length
      if (waits > 0) this.take(target, this.draw(waits), 1, "canceled")
    }
  }

  /** A range of what is visible gets a summary. */
  replace(): void {
    const spans = visibleSpans(this.log)
    if (spans.length === 0) return
    const first = this.draw(spans.length)
    const last = first + this.draw(spans.length - first)
    const from = spans[first]?.from ?? 0
    const to = spans[last]?.to ?? 0
    const messages = [this.message("context"), ...(this.rarely(3) ? [this.message("context")] : [])]
    this.push({ type: "context/replaced", data: { from, to, messages } })
  }
}
