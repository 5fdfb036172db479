/**
 * Logs that break a law, each by one change to a good one.
 */
import type { SessionEvent, StoredEvent } from "../../src/domain/Event.ts"
import { CallId } from "../../src/domain/Ids.ts"
import { text } from "../../src/domain/Message.ts"
import type { Law } from "../../src/domain/Violation.ts"
import {
  answer,
  asked,
  block,
  call,
  chunk,
  claimed,
  decided,
  dropped,
  followedBy,
  header,
  input,
  inserted,
  type Log,
  logOf,
  outcome,
  partial,
  result,
  said,
  settled,
  spawned,
  stepEnd,
  stepStart,
  turnEnd,
  turnFailed,
  turnStart
} from "./Facts.ts"

export const prompt = said("p", "go")

/** A turn with two steps: chunks, two calls that settle out of order, a process, a question, and a last word. */
export const good = logOf(
  inserted("next-turn", 0, prompt), // 0
  turnStart(1),
  claimed("next-turn", 0),
  stepStart(1, 1), // 3
  input(prompt),
  header(),
  chunk(1, 1, "let me"), // 6
  answer(1, 1, [text("let me"), block(1, 1, 0), block(1, 1, 1)], { cites: [6] }),
  call([1, 1, 0]), // 8
  call([1, 1, 1]),
  asked([1, 1, 0]), // 10
  decided([1, 1, 0], "allowed-once"),
  spawned([1, 1, 0]), // 12
  settled([1, 1, 1], outcome("early")),
  result([1, 1, 0], outcome("done"), [8]), // 14
  result([1, 1, 1], outcome("early"), [9, 13]),
  stepEnd(1, 1), // 16
  stepStart(1, 2),
  answer(1, 2, [text("all done")]), // 18
  stepEnd(1, 2),
  turnEnd(1, "completed") // 20
)

/** The log with the event at `seq` replaced, or taken out; what stands behind moves up. */
export const changed = (log: Log, seq: number, ...events: ReadonlyArray<SessionEvent>): Log =>
  [...log.slice(0, seq), ...events, ...log.slice(seq + 1)].map(
    (event, index): StoredEvent => ({
      ...event,
      seq: index,
      time: 1
    })
  )

const ending = (reason: SessionEvent): Log => changed(good, 20, reason)
export const retimed = (seq: number, time: number): Log =>
  good.map((event) => (event.seq === seq ? { ...event, time } : event))
const renamed = CallId.make("t1s1c5")
const repairing = (...events: ReadonlyArray<SessionEvent>): Log =>
  followedBy(good.slice(0, 8), ...events, stepEnd(1, 1), turnEnd(1, "interrupted"))
const notStarted = outcome("never", "TOOL_NOT_STARTED")
const unknown = outcome("who knows", "TOOL_OUTCOME_UNKNOWN")
export const other = said("q", "more")

/** Logs that break a law: what the naive laws say of it, and which law it is. One that is open at its end breaks none. */
export const broken: ReadonlyArray<readonly [name: string, log: Log, problem: RegExp, law: Law | undefined]> = [
  ["a gap", good.toSpliced(6, 1), /seq 7 .* stands at place 6/, 8],
  ["a time that goes back", retimed(5, 1), /seq 5 .* is earlier/, 8],
  ["a turn without an end", good.slice(0, 20), /turn 1 never ends/, undefined],
  ["a turn without a start", changed(good, 1), /ends a turn that is not open/, 3],
  ["a turn inside a turn", changed(good, 17, turnStart(1), stepStart(1, 2)), /opens a turn inside another/, 3],
  ["turns out of order", followedBy(good, turnStart(3), turnEnd(3, "completed")), /opens turn 3 where 2 is due/, 3],
  ["a turn that ends as another", changed(good, 20, turnEnd(2, "completed")), /ends turn 2 inside 1/, 3],
  ["a step that is open when its turn ends", changed(good, 19), /step 2 never ends/, 3],
  ["steps out of order", changed(good, 17, stepStart(1, 3)), /opens step 3 where 2 is due/, 3],
  ["a step without a start", changed(good, 17), /ends a step that is not open/, 3],
  ["something outside any turn", followedBy(good, stepStart(1, 3)), /stands outside any turn/, 3],
  ["input outside any step", changed(good, 16, stepEnd(1, 1), input(other)), /stands outside any step/, 3],
  ["an event of another step", changed(good, 6, chunk(1, 2, "x")), /belongs elsewhere/, 3],
  [
    "a replacement inside a step",
    changed(good, 6, { type: "context/replaced", data: { from: 3, to: 16, messages: [other] } }),
    /stands inside a step/,
    3
  ],
  ["two answers", changed(good, 18, answer(1, 2, [text("a")]), answer(1, 2, [text("b")])), /has several answers/, 3],
  ["no answer in a completed turn", changed(good, 18), /it has no answer/, 3],
  ["no answer in a step that was followed", changed(ending(turnFailed(1)), 7), /step 1: it has no answer/, 3],
  ["a chunk after the answer", changed(good, 18, answer(1, 2, [text("a")]), chunk(1, 2, "b")), /follows the answer/, 3],
  ["a request without a header", changed(good, 5), /has no header before it/, 1],
  [
    "an answer that cites nothing",
    changed(good, 7, answer(1, 1, [block(1, 1, 0), block(1, 1, 1)])),
    /cites , its chunks are 6/,
    3
  ],
  [
    "an answer that cites a failed attempt",
    changed(good, 6, chunk(1, 1, "x"), retry(1), chunk(1, 1, "y")),
    /cites 6, its chunks are 8/,
    3
  ],
  ["retries that are not counted", changed(good, 6, retry(2), chunk(1, 1, "y")), /counts 2 where 1 is due/, 3],
  [
    "a cut answer in a completed turn",
    changed(good, 18, partial(1, 2, [text("a")])),
    /was cut and the turn went on/,
    3
  ],
  [
    "an answer at its limit with calls",
    changed(good, 7, answer(1, 1, [block(1, 1, 0), block(1, 1, 1)], { finish: "max-tokens", cites: [6] })),
    /was cut at its limit and has calls/,
    3
  ],
  [
    "an answer at its limit in a completed turn",
    changed(good, 18, answer(1, 2, [text("a")], { finish: "max-tokens" })),
    /and it says completed/,
    3
  ],
  ["max-tokens without a cut answer", ending(turnEnd(1, "max-tokens")), /and it says max-tokens/, 3],
  [
    "a call by another name",
    changed(good, 7, answer(1, 1, [block(1, 1, 0), { ...block(1, 1, 1), callId: renamed }], { cites: [6] })),
    /call 1 is named t1s1c5/,
    2
  ],
  ["a call without a result", changed(good, 15), /call t1s1c1 has no result/, 2],
  [
    "a call without a result in a failed turn's earlier step",
    changed(ending(turnFailed(1)), 15),
    /call t1s1c1 has no result/,
    2
  ],
  [
    "two results",
    changed(good, 15, result([1, 1, 1], outcome("early"), [9, 13]), result([1, 1, 1], outcome("early"), [9, 13])),
    /has 2 results/,
    2
  ],
  [
    "results out of model order",
    good
      .with(14, { ...result([1, 1, 1], outcome("early"), [9, 13]), seq: 14, time: 1 })
      .with(15, { ...result([1, 1, 0], outcome("done"), [8]), seq: 15, time: 1 }),
    /results stand in the order t1s1c1,t1s1c0/,
    2
  ],
  [
    "a result of no call",
    changed(good, 18, answer(1, 2, [text("x")]), result([1, 2, 0], outcome("x"))),
    /answers no call of its step/,
    2
  ],
  ["two starts", changed(good, 9, call([1, 1, 1]), call([1, 1, 1])), /is started 2 times/, 6],
  [
    "a call that settles twice",
    changed(good, 13, settled([1, 1, 1], outcome("early")), settled([1, 1, 1], outcome("early"))),
    /settles 2 times/,
    2
  ],
  [
    "a start that is not the call",
    changed(good, 9, call([1, 1, 1], "bash", "{1}")),
    /is not the call of the answer/,
    6
  ],
  [
    "a process before the start",
    changed(changed(good, 12), 8, spawned([1, 1, 0]), call([1, 1, 0])),
    /comes before its call was started/,
    6
  ],
  [
    "a start after the result",
    changed(changed(good, 14, result([1, 1, 0], outcome("done"), [15]), call([1, 1, 0])), 8),
    /comes after its result/,
    6
  ],
  ["an open question", changed(good, 11), /was asked about 1 times, decided 0/, 3],
  [
    "a decision before its question",
    good
      .with(10, { ...decided([1, 1, 0], "rejected"), seq: 10, time: 1 })
      .with(11, { ...asked([1, 1, 0]), seq: 11, time: 1 }),
    /is decided before it is asked/,
    3
  ],
  [
    "a question that the loop says repair closed",
    changed(good, 11, decided([1, 1, 0], "interrupted")),
    /only repair decides/,
    3
  ],
  [
    "a result that cites another",
    changed(good, 14, result([1, 1, 0], outcome("done"), [9])),
    /cites 9 and comes from 8/,
    2
  ],
  [
    "a result that leaves out what settled",
    changed(good, 15, result([1, 1, 1], outcome("early"), [9])),
    /cites 9 and comes from 9,13/,
    2
  ],
  [
    "a result that is not what settled",
    changed(good, 15, result([1, 1, 1], outcome("late"), [9, 13])),
    /is not what the call settled with/,
    2
  ],
  [
    "a result without a start",
    changed(changed(good, 14, result([1, 1, 0], outcome("done"))), 8),
    /has no tool\/call before it/,
    6
  ],
  [
    "repair's word in a completed turn",
    changed(good, 14, result([1, 1, 0], unknown, [8])),
    /only repair writes TOOL_OUTCOME_UNKNOWN/,
    3
  ],
  [
    "never started, but it was",
    repairing(call([1, 1, 0]), result([1, 1, 0], notStarted, [8]), result([1, 1, 1], notStarted)),
    /says TOOL_NOT_STARTED, which is not what happened/,
    6
  ],
  [
    "unknown, but it was refused",
    repairing(
      call([1, 1, 0]),
      asked([1, 1, 0]),
      decided([1, 1, 0], "rejected"),
      result([1, 1, 0], unknown, [8]),
      result([1, 1, 1], notStarted)
    ),
    /says TOOL_OUTCOME_UNKNOWN, which is not what happened/,
    6
  ],
  [
    "unknown, but it had settled",
    repairing(
      call([1, 1, 0]),
      call([1, 1, 1]),
      settled([1, 1, 1], outcome("x")),
      result([1, 1, 0], unknown, [8]),
      result([1, 1, 1], unknown, [9, 10])
    ),
    /but the call had settled/,
    6
  ],
  [
    "a time that repair invented",
    [...repairing(result([1, 1, 0], notStarted), result([1, 1, 1], notStarted))].map((event) =>
      event.type === "turn/end" ? { ...event, time: event.time + 1 } : event
    ),
    /repair invented a time/,
    8
  ],
  ["a splice that does not fit", changed(good, 2, claimed("next-turn", 0, 2)), /seq 2 .* does not fit/, 7],
  [
    "a message that waits twice",
    changed(good, 0, inserted("next-turn", 0, prompt), inserted("next-step", 0, prompt)),
    /message p waits twice/,
    7
  ],
  ["a message that enters unclaimed", changed(good, 2), /message p entered and was not claimed/, 7],
  [
    "a message that was dropped and enters",
    changed(good, 2, dropped("next-turn", 0)),
    /message p entered and was not claimed/,
    7
  ],
  [
    "a message that enters and still waits",
    followedBy(good.slice(0, 4), inserted("next-step", 0, other), input(other)),
    /message q entered and still waits/,
    7
  ],
  ["a message consumed twice", changed(good, 17, stepStart(1, 2), input(prompt)), /message p was consumed twice/, 7],
  [
    "a message that comes again after it was claimed",
    followedBy(good, inserted("next-turn", 0, prompt)),
    /inserts message p, which was claimed before/,
    7
  ],
  [
    "a claim outside any turn",
    followedBy(good, inserted("next-turn", 0, other), claimed("next-turn", 0)),
    /claims outside any turn/,
    7
  ],
  [
    "a replacement of nothing",
    followedBy(good, { type: "context/replaced", data: { from: 3, to: 15, messages: [other] } }),
    /replaces what is not there/,
    1
  ],
  [
    "a replacement that is reversed",
    followedBy(good, { type: "context/replaced", data: { from: 17, to: 16, messages: [other] } }),
    /replaces what is not there/,
    1
  ],
  [
    "a replacement that says nothing",
    followedBy(good, { type: "context/replaced", data: { from: 3, to: 16, messages: [] } }),
    /says nothing/,
    1
  ],
  ["a first header that is none", changed(good, 5, header("change")), /says change/, 1],
  ["two first headers", changed(good, 17, stepStart(1, 2), header()), /says initial/, 1]
]

function retry(attempt: number): SessionEvent {
  const failure = { message: "busy", code: "RATE_LIMIT" }
  return { type: "request/retry", data: { turn: 1, step: 1, attempt, delayMillis: 500, failure } }
}
