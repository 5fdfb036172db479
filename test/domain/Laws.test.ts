import { assert, describe, it } from "@effect/vitest"
import type { SessionEvent, StoredEvent } from "../../src/domain/Event.ts"
import { CallId } from "../../src/domain/Ids.ts"
import { text } from "../../src/domain/Message.ts"
import * as RequestRules from "../../src/domain/RequestRules.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import { canonical } from "../../src/internal/Json.ts"
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
  stateOf,
  stepEnd,
  stepStart,
  turnEnd,
  turnFailed,
  turnStart
} from "../support/Facts.ts"
import { logsOf, sampleLogs } from "../support/Logs.ts"
import { naiveLaws, naiveRequest, visibleSpans } from "../support/NaiveFold.ts"

const prompt = said("p", "go")

/** A turn with two steps: chunks, two calls that settle out of order, a process, a question, and a last word. */
const good = logOf(
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
const changed = (log: Log, seq: number, ...events: ReadonlyArray<SessionEvent>): Log =>
  [...log.slice(0, seq), ...events, ...log.slice(seq + 1)].map(
    (event, index): StoredEvent => ({
      ...event,
      seq: index,
      time: 1
    })
  )

const ending = (reason: SessionEvent): Log => changed(good, 20, reason)
const retimed = (seq: number, time: number): Log =>
  good.map((event) => (event.seq === seq ? { ...event, time } : event))
const renamed = CallId.make("t1s1c5")
const repairing = (...events: ReadonlyArray<SessionEvent>): Log =>
  followedBy(good.slice(0, 8), ...events, stepEnd(1, 1), turnEnd(1, "interrupted"))
const notStarted = outcome("never", "TOOL_NOT_STARTED")
const unknown = outcome("who knows", "TOOL_OUTCOME_UNKNOWN")
const other = said("q", "more")

/** Logs that break a law, and what is said of them. */
const broken: ReadonlyArray<readonly [name: string, log: Log, problem: RegExp]> = [
  ["a gap", good.toSpliced(6, 1), /seq 7 .* stands at place 6/],
  ["a time that goes back", retimed(5, 1), /seq 5 .* is earlier/],
  ["a turn without an end", good.slice(0, 20), /turn 1 never ends/],
  ["a turn without a start", changed(good, 1), /ends a turn that is not open/],
  ["a turn inside a turn", changed(good, 17, turnStart(1), stepStart(1, 2)), /opens a turn inside another/],
  ["turns out of order", followedBy(good, turnStart(3), turnEnd(3, "completed")), /opens turn 3 where 2 is due/],
  ["a turn that ends as another", changed(good, 20, turnEnd(2, "completed")), /ends turn 2 inside 1/],
  ["a step that is open when its turn ends", changed(good, 19), /step 2 never ends/],
  ["steps out of order", changed(good, 17, stepStart(1, 3)), /opens step 3 where 2 is due/],
  ["a step without a start", changed(good, 17), /ends a step that is not open/],
  ["something outside any turn", followedBy(good, stepStart(1, 3)), /stands outside any turn/],
  ["input outside any step", changed(good, 16, stepEnd(1, 1), input(other)), /stands outside any step/],
  ["an event of another step", changed(good, 6, chunk(1, 2, "x")), /belongs elsewhere/],
  [
    "a replacement inside a step",
    changed(good, 6, { type: "context/replaced", data: { from: 3, to: 16, messages: [other] } }),
    /stands inside a step/
  ],
  ["two answers", changed(good, 18, answer(1, 2, [text("a")]), answer(1, 2, [text("b")])), /has several answers/],
  ["no answer in a completed turn", changed(good, 18), /it has no answer/],
  ["no answer in a step that was followed", changed(ending(turnFailed(1)), 7), /step 1: it has no answer/],
  ["a chunk after the answer", changed(good, 18, answer(1, 2, [text("a")]), chunk(1, 2, "b")), /follows the answer/],
  ["a request without a header", changed(good, 5), /has no header before it/],
  [
    "an answer that cites nothing",
    changed(good, 7, answer(1, 1, [block(1, 1, 0), block(1, 1, 1)])),
    /cites , its chunks are 6/
  ],
  [
    "an answer that cites a failed attempt",
    changed(good, 6, chunk(1, 1, "x"), retry(1), chunk(1, 1, "y")),
    /cites 6, its chunks are 8/
  ],
  ["retries that are not counted", changed(good, 6, retry(2), chunk(1, 1, "y")), /counts 2 where 1 is due/],
  ["a cut answer in a completed turn", changed(good, 18, partial(1, 2, [text("a")])), /was cut and the turn went on/],
  [
    "an answer at its limit with calls",
    changed(good, 7, answer(1, 1, [block(1, 1, 0), block(1, 1, 1)], { finish: "max-tokens", cites: [6] })),
    /was cut at its limit and has calls/
  ],
  [
    "an answer at its limit in a completed turn",
    changed(good, 18, answer(1, 2, [text("a")], { finish: "max-tokens" })),
    /and it says completed/
  ],
  ["max-tokens without a cut answer", ending(turnEnd(1, "max-tokens")), /and it says max-tokens/],
  [
    "a call by another name",
    changed(good, 7, answer(1, 1, [block(1, 1, 0), { ...block(1, 1, 1), callId: renamed }], { cites: [6] })),
    /call 1 is named t1s1c5/
  ],
  ["a call without a result", changed(good, 15), /call t1s1c1 has no result/],
  [
    "a call without a result in a failed turn's earlier step",
    changed(ending(turnFailed(1)), 15),
    /call t1s1c1 has no result/
  ],
  [
    "two results",
    changed(good, 15, result([1, 1, 1], outcome("early"), [9, 13]), result([1, 1, 1], outcome("early"), [9, 13])),
    /has 2 results/
  ],
  [
    "results out of model order",
    good
      .with(14, { ...result([1, 1, 1], outcome("early"), [9, 13]), seq: 14, time: 1 })
      .with(15, { ...result([1, 1, 0], outcome("done"), [8]), seq: 15, time: 1 }),
    /results stand in the order t1s1c1,t1s1c0/
  ],
  [
    "a result of no call",
    changed(good, 18, answer(1, 2, [text("x")]), result([1, 2, 0], outcome("x"))),
    /answers no call of its step/
  ],
  ["two starts", changed(good, 9, call([1, 1, 1]), call([1, 1, 1])), /is started 2 times/],
  [
    "a call that settles twice",
    changed(good, 13, settled([1, 1, 1], outcome("early")), settled([1, 1, 1], outcome("early"))),
    /settles 2 times/
  ],
  ["a start that is not the call", changed(good, 9, call([1, 1, 1], "bash", "{1}")), /is not the call of the answer/],
  [
    "a process before the start",
    changed(changed(good, 12), 8, spawned([1, 1, 0]), call([1, 1, 0])),
    /comes before its call was started/
  ],
  [
    "a start after the result",
    changed(changed(good, 14, result([1, 1, 0], outcome("done"), [15]), call([1, 1, 0])), 8),
    /comes after its result/
  ],
  ["an open question", changed(good, 11), /was asked about 1 times, decided 0/],
  [
    "a decision before its question",
    good
      .with(10, { ...decided([1, 1, 0], "rejected"), seq: 10, time: 1 })
      .with(11, { ...asked([1, 1, 0]), seq: 11, time: 1 }),
    /is decided before it is asked/
  ],
  [
    "a question that the loop says repair closed",
    changed(good, 11, decided([1, 1, 0], "interrupted")),
    /only repair decides/
  ],
  [
    "a result that cites another",
    changed(good, 14, result([1, 1, 0], outcome("done"), [9])),
    /cites 9 and comes from 8/
  ],
  [
    "a result that leaves out what settled",
    changed(good, 15, result([1, 1, 1], outcome("early"), [9])),
    /cites 9 and comes from 9,13/
  ],
  [
    "a result that is not what settled",
    changed(good, 15, result([1, 1, 1], outcome("late"), [9, 13])),
    /is not what the call settled with/
  ],
  [
    "a result without a start",
    changed(changed(good, 14, result([1, 1, 0], outcome("done"))), 8),
    /has no tool\/call before it/
  ],
  [
    "repair's word in a completed turn",
    changed(good, 14, result([1, 1, 0], unknown, [8])),
    /only repair writes TOOL_OUTCOME_UNKNOWN/
  ],
  [
    "never started, but it was",
    repairing(call([1, 1, 0]), result([1, 1, 0], notStarted, [8]), result([1, 1, 1], notStarted)),
    /says TOOL_NOT_STARTED, which is not what happened/
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
    /says TOOL_OUTCOME_UNKNOWN, which is not what happened/
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
    /but the call had settled/
  ],
  [
    "a time that repair invented",
    [...repairing(result([1, 1, 0], notStarted), result([1, 1, 1], notStarted))].map((event) =>
      event.type === "turn/end" ? { ...event, time: event.time + 1 } : event
    ),
    /repair invented a time/
  ],
  ["a splice that does not fit", changed(good, 2, claimed("next-turn", 0, 2)), /seq 2 .* does not fit/],
  [
    "a message that waits twice",
    changed(good, 0, inserted("next-turn", 0, prompt), inserted("next-step", 0, prompt)),
    /message p waits twice/
  ],
  ["a message that enters unclaimed", changed(good, 2), /message p entered and was not claimed/],
  [
    "a message that was dropped and enters",
    changed(good, 2, dropped("next-turn", 0)),
    /message p entered and was not claimed/
  ],
  [
    "a message that enters and still waits",
    followedBy(good.slice(0, 4), inserted("next-step", 0, other), input(other)),
    /message q entered and still waits/
  ],
  ["a message consumed twice", changed(good, 17, stepStart(1, 2), input(prompt)), /message p was consumed twice/],
  [
    "a message that comes again after it was claimed",
    followedBy(good, inserted("next-turn", 0, prompt)),
    /inserts message p, which was claimed before/
  ],
  [
    "a claim outside any turn",
    followedBy(good, inserted("next-turn", 0, other), claimed("next-turn", 0)),
    /claims outside any turn/
  ],
  [
    "a replacement of nothing",
    followedBy(good, { type: "context/replaced", data: { from: 3, to: 15, messages: [other] } }),
    /replaces what is not there/
  ],
  [
    "a replacement that is reversed",
    followedBy(good, { type: "context/replaced", data: { from: 17, to: 16, messages: [other] } }),
    /replaces what is not there/
  ],
  [
    "a replacement that says nothing",
    followedBy(good, { type: "context/replaced", data: { from: 3, to: 16, messages: [] } }),
    /says nothing/
  ],
  ["a first header that is none", changed(good, 5, header("change")), /says change/],
  ["two first headers", changed(good, 17, stepStart(1, 2), header()), /says initial/]
]

function retry(attempt: number): SessionEvent {
  const failure = { message: "busy", code: "RATE_LIMIT" }
  return { type: "request/retry", data: { turn: 1, step: 1, attempt, delayMillis: 500, failure } }
}

describe("the laws as a log shows them", () => {
  it("law 3: nothing is said of a good log, nor of an empty one", () => {
    assert.deepStrictEqual(naiveLaws(good), [])
    assert.deepStrictEqual(naiveLaws([]), [])
    assert.isDefined(stateOf(good))
  })

  it.each(broken)("O-F4: %s is noticed", (_, log, problem) => {
    assert.isTrue(
      naiveLaws(log).some((line) => problem.test(line)),
      naiveLaws(log).join("\n")
    )
  })

  it.prop("law 3: every generated log holds every law", { log: logsOf(400) }, ({ log }) => {
    assert.deepStrictEqual(naiveLaws(log), [])
  })
})

describe("the naive request", () => {
  it("law 1: is none before a header, and then what a model sees", () => {
    assert.isUndefined(naiveRequest(good.slice(0, 5)))
    const { messages } = naiveRequest(good) ?? { messages: [] }
    assert.deepStrictEqual(
      messages.map((message) => message.role),
      ["user", "assistant", "tool", "tool", "assistant"]
    )
    assert.deepStrictEqual(
      naiveRequest(good.slice(0, 15))?.messages.map((message) => message.role),
      ["user"]
    )
  })

  it("law 1: differs where a log differs in anything that a model sees", () => {
    const same = canonical(naiveRequest(good))
    const seen: ReadonlyArray<Log> = [
      changed(good, 4, input(said("p", "go on"))),
      changed(good, 5, header("initial", "another")),
      changed(good, 18, answer(1, 2, [text("almost done")])),
      changed(good, 15, result([1, 1, 1], outcome("other"), [9, 13])),
      changed(good, 15, result([1, 1, 1], outcome("early", "UNKNOWN"), [9, 13])),
      followedBy(good, { type: "context/replaced", data: { from: 3, to: 16, messages: [other] } })
    ]
    for (const log of seen) assert.notStrictEqual(canonical(naiveRequest(log)), same)
    const unseen: ReadonlyArray<Log> = [retimed(20, 1e15), changed(good, 12), followedBy(good, turnStart(2))]
    for (const log of unseen) assert.strictEqual(canonical(naiveRequest(log)), same)
  })

  it("I05: sees a replacement that covers another, and what stands around it", () => {
    const replaced = (from: number, to: number, id: string): SessionEvent => ({
      type: "context/replaced",
      data: { from, to, messages: [said(id, id, "context")] }
    })
    const once = followedBy(good, replaced(3, 16, "one"))
    assert.deepStrictEqual(
      visibleSpans(once).map(({ from, to }) => [from, to]),
      [
        [3, 16],
        [17, 19]
      ]
    )
    assert.strictEqual(naiveRequest(once)?.messages.length, 2)
    assert.deepStrictEqual(naiveRequest(followedBy(once, replaced(3, 16, "two")))?.messages[0]?.id, "two")
    assert.deepStrictEqual<unknown>(
      naiveRequest(followedBy(once, replaced(3, 19, "all")))?.messages.map(({ id }) => id),
      ["all"]
    )
  })
})

describe("the generated logs", () => {
  const sample = sampleLogs(200, 7)

  it("are the same for the same seed, and others for another", () => {
    const texts = (seed: number) => sampleLogs(5, seed, 300).map((log) => JSON.stringify(log))
    assert.deepStrictEqual(texts(3), texts(3))
    assert.notDeepEqual(texts(3), texts(4))
  })

  it("hold every type of event, every ending and every twist, often", () => {
    const seen = new Map<string, number>()
    const count = (what: string) => seen.set(what, (seen.get(what) ?? 0) + 1)
    for (const log of sample)
      for (const event of log) {
        count(event.type)
        if (event.type === "turn/end") count(`ending ${event.data.reason.kind}`)
        if (event.type === "request/header") count(`header ${event.data.reason}`)
        if (event.type === "user/message") count(`source ${event.data.source.kind}`)
        if (event.type === "approval/decided") count(`decision ${event.data.decision}`)
        if (event.type === "assistant/message") {
          if (event.data.interrupted === true) count("interrupted answer")
          if (event.data.message.content.length === 0) count("empty answer")
          count(`finish ${event.data.finish}`)
          for (const part of event.data.message.content) count(`block ${part.type}`)
        }
        if (event.type === "tool/result") count(`result ${event.data.error?.code ?? "ok"}`)
        if (event.type === "tool/settled" && event.data.outcome.context !== undefined) count("settled with context")
        if (event.type === "agent/inbox/spliced")
          count(`splice ${event.data.outcome ?? (event.data.removedCount === undefined ? "in" : "claim")}`)
        if (event.type === "agent/inbox/spliced" && log[event.seq - 1]?.type === "assistant/chunk")
          count("splice between chunks")
        if (!JSON.stringify(event).isWellFormed() || /\\u(d[89a-f]|0000)/.test(JSON.stringify(event))) count("odd text")
      }
    const rare = Object.entries({
      "turn/end": 500,
      "tool/settled": 50,
      "request/retry": 50,
      "context/replaced": 50,
      "tool/process": 50,
      "approval/asked": 50,
      "ending completed": 100,
      "ending max-tokens": 20,
      "ending blocked": 20,
      "ending aborted": 50,
      "ending error": 50,
      "ending interrupted": 50,
      "header initial": 100,
      "header change": 20,
      "header resume": 20,
      "source prompt": 100,
      "source steer": 100,
      "source inject": 50,
      "source context": 50,
      "decision allowed-once": 10,
      "decision allowed-always": 10,
      "decision rejected": 10,
      "decision unavailable": 10,
      "decision canceled": 1,
      "decision interrupted": 1,
      "interrupted answer": 20,
      "empty answer": 10,
      "finish stop": 50,
      "finish tool-calls": 50,
      "finish max-tokens": 20,
      "block text": 200,
      "block reasoning": 100,
      "block blob": 50,
      "block tool-call": 200,
      "result ok": 100,
      "result TOOL_ABORTED": 5,
      "result TOOL_ABORTED_BEFORE_DISPATCH": 5,
      "result TOOL_NOT_STARTED": 5,
      "result TOOL_OUTCOME_UNKNOWN": 5,
      "result TOOL_DENIED": 5,
      "settled with context": 5,
      "splice in": 200,
      "splice claim": 200,
      "splice canceled": 50,
      "splice between chunks": 20,
      "odd text": 200
    }).flatMap(([what, least]) =>
      (seen.get(what) ?? 0) < least ? [`${what}: ${seen.get(what) ?? 0} of ${least}`] : []
    )
    assert.deepStrictEqual(rare, [])
  })

  it("fold, and leave a request that a strict provider accepts, but for what it ends with", () => {
    for (const log of sample) {
      const request = SessionState.deriveRequest(stateOf(log))
      const rules = request === undefined ? [] : RequestRules.violations(request).map(({ rule }) => rule)
      assert.deepStrictEqual(
        rules.filter((rule) => rule !== "ends-with-input" && rule !== "no-messages"),
        []
      )
    }
  })
})
