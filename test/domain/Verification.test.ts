/**
 * The verification of logs: silent on every log that an owner may leave, and heard on each way to break one.
 */
import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import type { SessionEvent, StoredEvent } from "../../src/domain/Event.ts"
import { text } from "../../src/domain/Message.ts"
import * as Repair from "../../src/domain/Repair.ts"
import * as Verification from "../../src/domain/Verification.ts"
import type { Law, Violation } from "../../src/domain/Violation.ts"
import { broken, changed, good, other } from "../support/BrokenLogs.ts"
import {
  answer,
  asked,
  block,
  call,
  chunk,
  claimed,
  followedBy,
  header,
  inserted,
  type Log,
  outcome,
  result,
  said,
  settled,
  stateOf,
  stepEnd,
  stepStart,
  turnEnd,
  turnStart
} from "../support/Facts.ts"
import { logs, logsOf, sampleLogs } from "../support/Logs.ts"
import { naiveLaws } from "../support/NaiveFold.ts"

const shown = (found: ReadonlyArray<Violation>) =>
  found.map(({ detail, law, seq }) => `seq ${seq} law ${law}: ${detail}`)

const clean = (log: Log) => {
  assert.deepStrictEqual(shown(Verification.verify(log)), [])
}

/** Within the end of a turn that failed or was cancelled, from what came of its answer on, nobody dies: it is one append. */
const isOneAppend = (log: Log, cut: number): boolean => {
  const last = log[cut - 1]
  const next = log[cut]
  if (last?.type === "assistant/message" && last.data.interrupted === true) return true
  const kind = next?.type === "turn/end" ? next.data.reason.kind : undefined
  return log[cut - 1]?.type === "step/end" && (kind === "error" || kind === "aborted")
}

/** The log up to `cut`, and as its repair leaves it. */
const cutAndRepaired = (log: Log, cut: number): void => {
  const prefix = log.slice(0, cut)
  clean(prefix)
  if (!isOneAppend(log, cut)) clean(followedBy(prefix, ...Repair.closers(stateOf(prefix))))
}

describe("a log that an owner may leave verifies clean", () => {
  it.prop(
    "whole, and cut anywhere, before its repair and after it (laws 1, 2, 3, 6, 7, 8)",
    { log: logs, cut: FastCheck.nat() },
    ({ cut, log }) => {
      clean(log)
      cutAndRepaired(log, cut % (log.length + 1))
    }
  )

  it("law 8: cut after every event of many logs", () => {
    for (const log of sampleLogs(40, 11, 300)) for (let cut = 0; cut <= log.length; cut++) cutAndRepaired(log, cut)
  })
})

const system = (words: string): SessionEvent => ({ ...header(), data: { ...header().data, system: words } })

/** What a damaged row may hold. */
const endless = { from: 0, to: Number.MAX_SAFE_INTEGER }

const { finish: _finish, ...unfinished } = answer(1, 2, [text("all done")]).data

const later = (log: Log, from: number): Log =>
  log.map((event) => (event.seq < from ? event : { ...event, time: event.time + 5 }))

/** More ways to break a log, which the naive laws do not tell of, or not by this name. */
const alsoBroken: ReadonlyArray<readonly [name: string, log: Log, law: Law, detail: RegExp]> = [
  ["a request of nothing", changed(good, 4), 1, /no-messages/],
  ["a request that begins with an answer", changed(good, 4), 1, /starts-with-user: assistant/],
  [
    "a request that ends with an answer",
    followedBy(good, turnStart(2), stepStart(2, 1), answer(2, 1, [text("x")]), stepEnd(2, 1), turnEnd(2, "completed")),
    1,
    /ends-with-input/
  ],
  [
    "an answer that cites a range as long as no log",
    changed(good, 7, { ...answer(1, 1, [block(1, 1, 0), block(1, 1, 1)]), sourceEventSeqs: endless }),
    3,
    /does not cite the chunks of its attempt/
  ],
  [
    "a citation that reaches beyond its event",
    changed(good, 16, { ...stepEnd(1, 1), sourceEventSeqs: endless }),
    8,
    /cites an event that does not stand before it/
  ],
  [
    "a request that cannot be judged, because of another violation",
    changed(good, 17, stepStart(1, 3)),
    1,
    /^from here on no request is judged: /
  ],
  [
    "a log that cannot be judged after a gap",
    good.toSpliced(6, 1),
    8,
    /from here on no inbox and no request is judged/
  ],
  ["a system text that is none", changed(good, 5, system("\uD800")), 1, /text-well-formed: system or tools/],
  ["a header after its request", changed(good, 6, chunk(1, 1, "let me"), header("change")), 3, /follows the request/],
  [
    "an answer that neither ended nor was cut",
    changed(good, 18, { type: "assistant/message", data: unfinished, sourceEventSeqs: [] }),
    3,
    /or neither/
  ],
  ["a question within a question", changed(good, 10, asked([1, 1, 0]), asked([1, 1, 0])), 3, /while it is asked about/],
  ["a step in a turn that is not open", changed(good, 17, stepStart(2, 2)), 3, /starts in turn 1/],
  ["a step within a step", changed(good, 16), 3, /starts while step 1 is open/],
  [
    "a step that repair closed later",
    later(followedBy(good.slice(0, 7), stepEnd(1, 1), turnEnd(1, "interrupted")), 7),
    8,
    /closed by repair, at a time of its own/
  ],
  [
    "never started, and settled",
    followedBy(
      good.slice(0, 8),
      call([1, 1, 0]),
      call([1, 1, 1]),
      settled([1, 1, 1], outcome("x")),
      result([1, 1, 0], outcome("done"), [8]),
      result([1, 1, 1], outcome("never", "TOOL_NOT_STARTED"), [9, 10])
    ),
    6,
    /never started, and has settled/
  ],
  [
    "never dispatched, with a process",
    changed(good, 14, result([1, 1, 0], outcome("aborted", "TOOL_ABORTED_BEFORE_DISPATCH"), [8])),
    6,
    /never dispatched, and has a process/
  ],
  [
    "a message that is taken within a step",
    followedBy(good.slice(0, 6), inserted("next-step", 0, other), claimed("next-step", 0)),
    7,
    /message q leaves the inbox/
  ]
]

describe("the end of a log", () => {
  it.prop(
    "is told as often as one asks, and where the log stands stays as it is",
    { log: logs, cut: FastCheck.nat() },
    ({ cut, log }) => {
      const verification = Verification.make()
      for (const event of log.slice(0, cut % (log.length + 1))) Verification.add(verification, event)
      const before = Verification.standing(verification)
      const told = Verification.end(verification)
      assert.deepStrictEqual(Verification.standing(verification), before)
      assert.deepStrictEqual(Verification.end(verification), told)
      for (const event of log.slice(cut % (log.length + 1)))
        assert.deepStrictEqual(Verification.add(verification, event), [])
    }
  )
})

describe("a log that cannot be read whole", () => {
  it.prop(
    "law 8: what is missing makes nothing else look broken",
    { log: logs, at: FastCheck.nat() },
    ({ at, log }) => {
      const verification = Verification.make()
      const found: Array<Violation> = []
      for (const event of log) {
        if (event.seq === at % log.length) Verification.skip(verification, event.seq)
        else found.push(...Verification.add(verification, event))
      }
      assert.deepStrictEqual(shown([...found, ...Verification.end(verification)]), [])
    }
  )
})

describe("a fork", () => {
  it.prop("law 7: what waits in its seed is its parent's", { log: logs }, ({ log }) => {
    assert.deepStrictEqual(shown(Verification.verify(log, log.length)), [])
    const child = followedBy(log, inserted("next-turn", 0, said("own", "go")))
    assert.deepStrictEqual(shown(Verification.verify(child, log.length)), [])
    const taken = followedBy(log, inserted("next-turn", 0, said("own", "go")), claimed("next-turn", 1))
    assert.include(shown(Verification.verify(taken, log.length)).join(), "it takes 1 at 1 of 1 messages")
  })
})

/** What happens to a log: an event is gone, comes twice, changes places with the next, or is of another time. */
const mutate = (log: Log, how: number, at: number): Log => {
  const event = log[at]
  const next = log[at + 1]
  if (event === undefined || next === undefined) return log
  switch (how) {
    case 0:
      return log.toSpliced(at, 1)
    case 1:
      return log.toSpliced(at, 0, event)
    case 2:
      return log.with(at, next).with(at + 1, event)
    default:
      return log.with(at, { ...event, time: event.time + 100_000 })
  }
}

const renumbered = (log: Log): Log => {
  let time = 0
  return log.map((event, seq): StoredEvent => {
    time = Math.max(time, event.time)
    return { ...event, seq, time }
  })
}

describe("a log that breaks a law is told of, with the law", () => {
  it.each(broken.filter(([, , , law]) => law !== undefined))("law of the log: %s", (_, log, _problem, law) => {
    const found = Verification.verify(log)
    assert.include(
      found.map((each) => each.law),
      law,
      shown(found).join("\n")
    )
  })

  it.each(alsoBroken)("%s", (_, log, law, detail) => {
    const found = Verification.verify(log)
    assert.isTrue(
      found.some((each) => each.law === law && detail.test(each.detail)),
      shown(found).join("\n")
    )
  })

  it("has no opinion of a turn that is open", () => {
    for (const [, log, , law] of broken) if (law === undefined) clean(log)
  })

  it.prop(
    "wherever the naive laws find something, it does (law 10 aside)",
    { log: logsOf(400), how: FastCheck.nat(3), at: FastCheck.nat(), raw: FastCheck.boolean() },
    ({ at, how, log, raw }) => {
      const changed = mutate(log, how, log.length === 0 ? 0 : at % log.length)
      const events = raw ? changed : renumbered(changed)
      const naive = naiveLaws(events).filter((line) => !/never ends$/.test(line))
      if (naive.length > 0) assert.isNotEmpty(Verification.verify(events), naive.join("\n"))
    }
  )
})
