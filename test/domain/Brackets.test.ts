import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as fc from "effect/FastCheck"
import * as Brackets from "../../src/domain/Brackets.ts"
import type { SessionEvent } from "../../src/domain/Event.ts"
import { CallId } from "../../src/domain/Ids.ts"
import { text } from "../../src/domain/Message.ts"
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
  placed,
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
import { logsOf } from "../support/Logs.ts"

/** Why the next event cannot stand after this log. */
const refusal = (log: Log, event: SessionEvent): string =>
  Either.match(SessionState.fold(placed([event], log), stateOf(log)), {
    onLeft: (detail) => detail,
    onRight: () => "accepted"
  })

const empty: Log = []
const inTurn = logOf(turnStart(1))
const inStep = followedBy(inTurn, stepStart(1, 1), input(said("p", "go")), header())
const answered = followedBy(inStep, answer(1, 1, [block(1, 1, 0), block(1, 1, 1)]))
const started = followedBy(answered, call([1, 1, 0]), call([1, 1, 1]))
const oneDone = followedBy(started, result([1, 1, 0], outcome("done"), [5]))
const stepped = followedBy(inStep, answer(1, 1, [text("hi")]), stepEnd(1, 1))
const ended = followedBy(stepped, turnEnd(1, "completed"))
const question = followedBy(started, asked([1, 1, 0]))
const early = followedBy(started, settled([1, 1, 1], outcome("early")))

const finished = answer(1, 1, [text("hi")])
const renamed = answer(1, 1, [{ ...block(1, 1, 0), callId: CallId.make("t1s1c7") }])
const undecided = { ...finished, data: { ...finished.data, interrupted: true as const } }
const { finish: _finish, ...unfinished } = finished.data

/** Each event that cannot stand where it stands, and what is said of it. */
const illegal: ReadonlyArray<readonly [name: string, log: Log, event: SessionEvent, detail: string]> = [
  ["a turn that opens while one is open", inTurn, turnStart(2), "turn 1 is still open"],
  ["a turn that skips a number", ended, turnStart(3), "turn 3 does not follow turn 1"],
  ["a turn that repeats a number", ended, turnStart(1), "turn 1 does not follow turn 1"],
  ["a first turn that is not the first", empty, turnStart(2), "turn 2 does not follow turn 0"],
  ["the end of a turn that is not open", empty, turnEnd(1, "completed"), "turn 1 is not open"],
  ["the end of another turn", inTurn, turnEnd(2, "completed"), "turn 2 is not open"],
  ["a second end of a turn", ended, turnEnd(1, "completed"), "turn 1 is not open"],
  ["the end of a turn whose step is open", inStep, turnFailed(1), "step 1 is still open"],
  ["a step outside any turn", ended, stepStart(1, 2), "turn 1 is not open"],
  ["a step of another turn", inTurn, stepStart(2, 1), "turn 2 is not open"],
  ["a step inside a step", inStep, stepStart(1, 2), "step 1 is still open"],
  ["a first step that is not the first", inTurn, stepStart(1, 2), "step 2 does not follow step 0"],
  ["a step that repeats a number", stepped, stepStart(1, 1), "step 1 does not follow step 1"],
  ["a step that skips a number", stepped, stepStart(1, 3), "step 3 does not follow step 1"],
  ["the end of a step that is not open", inTurn, stepEnd(1, 1), "no step is open, but step 1 of turn 1 is meant"],
  ["the end of another step", inStep, stepEnd(1, 2), "step 1 of turn 1 is open, not step 2 of turn 1"],
  ["the end of another turn's step", inStep, stepEnd(2, 1), "step 1 of turn 1 is open, not step 1 of turn 2"],
  ["a header outside any turn", ended, header("change"), "a header stands outside a step"],
  ["a header between the steps of a turn", inTurn, header(), "a header stands outside a step"],
  ["input outside a step", inTurn, input(said("x", "x")), "input joined no step"],
  ["input after the answer", answered, input(said("x", "x")), "input came after the step's answer"],
  ["a chunk outside a step", stepped, chunk(1, 1, "x"), "no step is open, but step 1 of turn 1 is meant"],
  ["a chunk of another step", inStep, chunk(1, 2, "x"), "step 1 of turn 1 is open, not step 2 of turn 1"],
  ["a chunk after the answer", answered, chunk(1, 1, "x"), "a chunk came after the answer"],
  ["an answer outside a step", inTurn, finished, "no step is open, but step 1 of turn 1 is meant"],
  ["a second answer", answered, finished, "the step already has its answer"],
  ["an answer both finished and cut", inStep, undecided, "an answer has a finish, or was interrupted, never both"],
  [
    "an answer neither",
    inStep,
    { ...finished, data: unfinished },
    "an answer has a finish, or was interrupted, never both"
  ],
  ["a cut answer with calls", inStep, partial(1, 1, [block(1, 1, 0)]), "an interrupted answer has no calls"],
  ["a call under another name", inStep, renamed, "call 0 of the answer is named t1s1c7"],
  ["a retry after the answer", answered, retry(1), "a retry came after the answer"],
  ["the start of a call that was not made", answered, call([1, 1, 2]), "call t1s1c2 is not in the answer of its step"],
  ["the start of a call before the answer", inStep, call([1, 1, 0]), "call t1s1c0 is not in the answer of its step"],
  ["a second start of a call", started, call([1, 1, 0]), "call t1s1c0 was started before"],
  [
    "the start of a call that has its result",
    followedBy(answered, result([1, 1, 0], outcome("x"))),
    call([1, 1, 0]),
    "call t1s1c0 was started before"
  ],
  ["a process before its call was started", answered, spawned([1, 1, 0]), "call t1s1c0 was not started"],
  ["a process of a call that has its result", oneDone, spawned([1, 1, 0]), "call t1s1c0 has settled"],
  ["a process of a call that has settled", early, spawned([1, 1, 1]), "call t1s1c1 has settled"],
  [
    "a call that settles and was not started",
    answered,
    settled([1, 1, 1], outcome("x")),
    "call t1s1c1 was not started"
  ],
  ["a call that settles twice", early, settled([1, 1, 1], outcome("x")), "call t1s1c1 has settled"],
  ["a call that settles after its result", oneDone, settled([1, 1, 0], outcome("x")), "call t1s1c0 has settled"],
  [
    "a result with no call in its step",
    stepped,
    result([1, 1, 0], outcome("x")),
    "no step is open, but step 1 of turn 1 is meant"
  ],
  [
    "a result of a call that was not made",
    answered,
    result([1, 1, 2], outcome("x")),
    "call t1s1c2 is not in the answer of its step"
  ],
  [
    "a result of another step",
    answered,
    result([1, 2, 0], outcome("x")),
    "step 1 of turn 1 is open, not step 2 of turn 1"
  ],
  ["a second result", oneDone, result([1, 1, 0], outcome("x"), [5]), "call t1s1c0 already has its result"],
  [
    "a result before an earlier call's",
    started,
    result([1, 1, 1], outcome("x"), [6]),
    "call t1s1c1 is answered before an earlier call"
  ],
  ["a question about a call that was not started", answered, asked([1, 1, 0]), "call t1s1c0 was not started"],
  ["a second question while the first is open", question, asked([1, 1, 0]), "call t1s1c0 was asked about before"],
  ["a question about a call that has its result", oneDone, asked([1, 1, 0]), "call t1s1c0 has settled"],
  ["a decision that nobody asked for", started, decided([1, 1, 0], "rejected"), "call t1s1c0 was not asked about"],
  [
    "a second decision",
    followedBy(question, decided([1, 1, 0], "rejected")),
    decided([1, 1, 0], "allowed-once"),
    "call t1s1c0 was not asked about"
  ],
  [
    "context replaced inside a step",
    inStep,
    { type: "context/replaced", data: { from: 1, to: 2, messages: [said("s", "s")] } },
    "context replaced inside a step"
  ],
  [
    "a splice that does not fit",
    empty,
    claimed("next-turn", 0),
    "a splice of 1 at 0 does not fit 0 messages for next-turn"
  ],
  [
    "a splice behind the end",
    empty,
    inserted("next-step", 1, said("x", "x")),
    "a splice of 0 at 1 does not fit 0 messages for next-step"
  ]
]

function retry(attempt: number): SessionEvent {
  const failure = { message: "busy", code: "RATE_LIMIT" }
  return { type: "request/retry", data: { turn: 1, step: 1, attempt, delayMillis: 500, failure } }
}

/** All that a state says, so that two can be compared. */
const told = (state: SessionState.SessionState): string =>
  canonical({ ...state, transcript: SessionState.requestMessages(state), digest: SessionState.requestDigest(state) })

describe("law 3: the grammar of a log", () => {
  it.each(illegal)("I08: %s is refused and names its seq", (_, log, event, detail) => {
    const state = stateOf(log)
    const before = told(state)
    assert.strictEqual(refusal(log, event), `seq ${log.length}: ${detail}`)
    assert.strictEqual(told(state), before)
  })

  it("I08: an event out of its place, or before its time, is refused", () => {
    const state = stateOf(inTurn)
    const next = { ...stepStart(1, 1), seq: 1, time: state.time }
    for (const [event, detail] of [
      [{ ...next, seq: 2 }, "seq 2 stands where 1 was due"],
      [{ ...next, seq: 0 }, "seq 0 stands where 1 was due"],
      [{ ...next, time: state.time - 1 }, "time goes back at seq 1"]
    ] as const)
      assert.deepStrictEqual(SessionState.apply(state, event), Either.left(detail))
    assert.isTrue(Either.isRight(SessionState.apply(state, { ...next, time: state.time + 1 })))
  })

  it.prop(
    "I08: whatever event is tried at any point, it fits or it is refused and nothing changes",
    { log: logsOf(200), at: fc.nat(), tried: fc.nat() },
    ({ at, log, tried }) => {
      const prefix = log.slice(0, at % (log.length + 1))
      const state = stateOf(prefix)
      const before = told(state)
      const events = [...log, ...illegal.map(([, , event]) => event)]
      const event = events[tried % events.length]
      if (event === undefined) return
      const next = SessionState.apply(state, { ...event, seq: state.head, time: state.time })
      assert.strictEqual(told(state), before)
      if (Either.isRight(next)) assert.strictEqual(next.right.head, state.head + 1)
      else assert.match(next.left, new RegExp(`^seq ${state.head}: .`))
    },
    { fastCheck: { numRuns: 150 } }
  )

  it("A04: turns count on from the last one, steps from 1 in each turn", () => {
    const steps = (turn: number) => [stepStart(turn, 1), stepEnd(turn, 1), stepStart(turn, 2), stepEnd(turn, 2)]
    const log = logOf(
      turnStart(1),
      ...steps(1),
      turnEnd(1, "aborted"),
      turnStart(2),
      ...steps(2),
      turnEnd(2, "interrupted"),
      turnStart(3),
      stepStart(3, 1)
    )
    const { open } = stateOf(log).brackets
    assert.strictEqual(open?.turn, 3)
    assert.strictEqual(open?.steps, 1)
    assert.strictEqual(open?.step?.from, 13)
  })

  it("A11: any ending closes a turn whose steps are closed, and nothing is left open", () => {
    const failed = turnFailed(1)
    const blocked: SessionEvent = { type: "turn/end", data: { turn: 1, reason: { kind: "blocked", message: "no" } } }
    for (const end of [
      turnEnd(1, "completed"),
      turnEnd(1, "max-tokens"),
      turnEnd(1, "aborted"),
      turnEnd(1, "interrupted"),
      failed,
      blocked
    ]) {
      assert.deepStrictEqual(stateOf(followedBy(stepped, end)).brackets, { lastTurn: 1 })
      assert.deepStrictEqual(stateOf(followedBy(inTurn, end)).brackets, { lastTurn: 1 })
      assert.notStrictEqual(refusal(inStep, end), "accepted")
    }
  })

  it("D11: an empty answer is an answer", () => {
    const log = followedBy(inStep, answer(1, 1, []))
    assert.deepStrictEqual(stateOf(log).brackets.open?.step?.answer?.content, [])
    assert.strictEqual(refusal(log, answer(1, 1, [])), "seq 5: the step already has its answer")
    assert.strictEqual(refusal(log, stepEnd(1, 1)), "accepted")
  })

  it("A21: a retry starts the attempt again inside its step", () => {
    const log = followedBy(inStep, chunk(1, 1, "half"), retry(1), chunk(1, 1, "a"), chunk(1, 1, "b"))
    const attempt = stateOf(log).brackets.open?.step?.attempt
    assert.deepStrictEqual(attempt && [...attempt].map((event) => event.seq), [7, 6])
    assert.strictEqual(refusal(log, answer(1, 1, [text("ab")])), "accepted")
    assert.deepStrictEqual(
      [...(stateOf(followedBy(log, answer(1, 1, [text("ab")]))).brackets.open?.step?.attempt ?? [1])],
      []
    )
  })

  it("A14: a cut answer is remembered until its turn ends", () => {
    const cut = followedBy(
      inStep,
      answer(1, 1, [text("half")], { finish: "max-tokens" }),
      stepEnd(1, 1),
      stepStart(1, 2),
      answer(1, 2, [text("rest")]),
      stepEnd(1, 2)
    )
    assert.isTrue(stateOf(cut).brackets.open?.cut)
    const next = followedBy(cut, turnEnd(1, "max-tokens"), turnStart(2))
    assert.isFalse(stateOf(next).brackets.open?.cut)
  })

  it("O-A3: the fate of each call is known, in model order", () => {
    const log = followedBy(
      inStep,
      answer(
        1,
        1,
        [0, 1, 2, 3].map((index) => block(1, 1, index))
      ),
      call([1, 1, 0]),
      call([1, 1, 1]),
      call([1, 1, 2]),
      spawned([1, 1, 1]),
      asked([1, 1, 1]),
      decided([1, 1, 1], "allowed-always"),
      settled([1, 1, 2], outcome("early")),
      result([1, 1, 0], outcome("done"), [5])
    )
    const calls = stateOf(log).brackets.open?.step?.calls ?? []
    assert.deepStrictEqual<unknown>(
      calls.map(({ approval, processes, result, settled, started }) => [
        started?.seq,
        approval,
        processes.length,
        settled?.seq,
        result?.isError
      ]),
      [
        [5, undefined, 0, undefined, false],
        [6, "allowed-always", 1, undefined, undefined],
        [7, undefined, 0, 11, undefined],
        [undefined, undefined, 0, undefined, undefined]
      ]
    )
    assert.deepStrictEqual<unknown>(
      Brackets.unanswered(stateOf(log).brackets).map((open) => open.block.callId),
      ["t1s1c1", "t1s1c2", "t1s1c3"]
    )
    assert.deepStrictEqual(Brackets.unanswered(stateOf(followedBy(log, stepEnd(1, 1))).brackets), [])
  })

  it("O-G4: the provider's own id decides nothing, however often it comes", () => {
    const same = { providerCallId: "call_0" }
    const log = followedBy(
      inStep,
      answer(1, 1, [block(1, 1, 0, "bash", same), block(1, 1, 1, "bash", same)]),
      call([1, 1, 0]),
      call([1, 1, 1]),
      result([1, 1, 0], outcome("one"), [5]),
      result([1, 1, 1], outcome("two"), [6]),
      stepEnd(1, 1),
      stepStart(1, 2),
      answer(1, 2, [block(1, 2, 0, "bash", same)]),
      call([1, 2, 0]),
      result([1, 2, 0], outcome("three"), [12])
    )
    assert.deepStrictEqual(Brackets.unanswered(stateOf(log).brackets), [])
  })

  it("W22: a splice and an unknown event may stand anywhere and open nothing", () => {
    const unknown: SessionEvent = {
      type: "unrecognized",
      data: { type: "later/thing", data: { a: 1 } },
      ignorable: true
    }
    for (const log of [empty, inTurn, inStep, answered, started, oneDone, stepped, ended]) {
      assert.deepStrictEqual(stateOf(followedBy(log, unknown)).brackets, stateOf(log).brackets)
      const spliced = followedBy(log, inserted("next-step", 0, said("x", "x")), dropped("next-step", 0))
      assert.deepStrictEqual(stateOf(spliced).brackets, stateOf(log).brackets)
    }
  })
})
