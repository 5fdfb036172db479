import { assert, describe, it } from "@effect/vitest"
import type { SessionEvent } from "../../src/domain/Event.ts"
import { text } from "../../src/domain/Message.ts"
import * as RequestRules from "../../src/domain/RequestRules.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import { canonical } from "../../src/internal/Json.ts"
import { broken, changed, good, other, retimed } from "../support/BrokenLogs.ts"
import {
  answer,
  followedBy,
  header,
  input,
  type Log,
  outcome,
  result,
  said,
  stateOf,
  turnStart
} from "../support/Facts.ts"
import { logsOf, sampleLogs } from "../support/Logs.ts"
import { naiveLaws, naiveRequest, visibleSpans } from "../support/NaiveFold.ts"

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
