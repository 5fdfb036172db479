/**
 * The rules of repair are tested to fire: for each there is a log whose repair holds every law, and breaks one, or leaves no
 * way on, as soon as that rule is off.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import type { StoredEvent } from "../../src/domain/Event.ts"
import { text } from "../../src/domain/Message.ts"
import * as Repair from "../../src/domain/Repair.ts"
import * as RequestRules from "../../src/domain/RequestRules.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import * as Verification from "../../src/domain/Verification.ts"
import {
  answer,
  asked,
  block,
  call,
  chunk,
  followedBy,
  header,
  input,
  type Log,
  logOf,
  outcome,
  said,
  settled,
  stateOf,
  stepStart,
  turnStart
} from "../support/Facts.ts"

const asking = logOf(turnStart(1), stepStart(1, 1), input(said("p", "go", "context")), header())
const called = (count: number): Log =>
  followedBy(
    asking,
    answer(
      1,
      1,
      Array.from({ length: count }, (_, index) => block(1, 1, index))
    )
  )
const streaming = followedBy(asking, chunk(1, 1, "half an "), chunk(1, 1, "answer"))

/** Everything that is wrong with a log that repair left: what it breaks, or why the next prompt cannot go on from it. */
const wrong = (log: Log): ReadonlyArray<string> => {
  const next = followedBy(log, turnStart(2), stepStart(2, 1), input(said("q", "on", "context")), header("resume"))
  const found = Verification.verify(next).map(({ detail }) => detail)
  const state = SessionState.fold(next)
  if (Either.isLeft(state)) return [...found, state.left]
  const request = SessionState.deriveRequest(state.right)
  return [...found, ...(request === undefined ? [] : RequestRules.violations(request).map(({ rule }) => rule))]
}

type Off = (closers: Log) => ReadonlyArray<StoredEvent>

const without =
  (type: StoredEvent["type"]): Off =>
  (closers) =>
    closers.filter((event) => event.type !== type)

/** Every event of one type as something else. */
const as =
  <T extends StoredEvent["type"]>(
    type: T,
    change: (event: Extract<StoredEvent, { readonly type: T }>) => StoredEvent
  ): Off =>
  (closers) =>
    closers.map((event) =>
      // the type was just compared
      event.type === type ? change(event as Extract<StoredEvent, { readonly type: T }>) : event
    )

const saying = (code: string): Off =>
  as("tool/result", (event) => ({ ...event, data: { ...event.data, error: { name: "ToolError", code } } }))

const answered = as("assistant/message", (event) => ({
  ...event,
  data: { ...event.data, message: { ...event.data.message, content: [text("half"), block(1, 1, 0)] } }
}))

const results: Off = (closers) => {
  const [first, second, ...rest] = closers
  return first === undefined || second === undefined ? closers : [second, first, ...rest]
}

const early = followedBy(called(2), call([1, 1, 0]), call([1, 1, 1]), settled([1, 1, 1], outcome("early")))

const rules: ReadonlyArray<readonly [rule: string, log: Log, off: Off]> = [
  ["an open question is closed", followedBy(called(1), call([1, 1, 0]), asked([1, 1, 0])), without("approval/decided")],
  ["each unanswered call has a result", called(1), without("tool/result")],
  ["results stand in model order", called(2), results],
  ["a call without a start never started", called(1), saying("TOOL_OUTCOME_UNKNOWN")],
  ["a call with a start has an unknown outcome", followedBy(called(1), call([1, 1, 0])), saying("TOOL_NOT_STARTED")],
  ["a call that settled has its real result", early, saying("TOOL_OUTCOME_UNKNOWN")],
  ["a result cites what it came from", early, as("tool/result", ({ sourceEventSeqs: _cited, ...event }) => event)],
  ["the step is closed", asking, without("step/end")],
  ["the turn is closed", asking, without("turn/end")],
  [
    "its ending says that it was interrupted",
    called(1),
    as("turn/end", (event) => ({ ...event, data: { turn: 1, reason: { kind: "completed" } } }))
  ],
  ["no time is invented", asking, (closers) => closers.map((event) => ({ ...event, time: event.time + 1 }))],
  ["of an answer that was cut no call is kept", streaming, answered],
  [
    "what is kept of an answer cites its chunks",
    streaming,
    as("assistant/message", (event) => ({ ...event, sourceEventSeqs: [] }))
  ],
  [
    "what is kept of an answer is marked",
    streaming,
    as("assistant/message", ({ data: { interrupted: _mark, ...data }, ...event }) => ({ ...event, data }))
  ]
]

describe("each rule of repair", () => {
  it.each(rules)("O-F4: %s: without it something is wrong", (_, log, off) => {
    const { events } = Either.getOrThrow(Repair.closed(stateOf(log), Repair.salvage(stateOf(log))))
    assert.deepStrictEqual(wrong([...log, ...events]), [])
    const less = off(events)
    assert.notDeepEqual(less, events)
    const renumbered = less.map((event, index) => ({ ...event, seq: log.length + index }))
    assert.isNotEmpty(wrong([...log, ...renumbered]))
  })
})
