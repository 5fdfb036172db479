/**
 * Law 8 and law 1 after it, at every prefix of a corpus of logs, for both policies: what repair leaves verifies clean, stays as
 * it is when it is repaired again, comes out the same from wherever a crash cut it, and is one whose next request a strict
 * provider takes.
 *
 * To verify each prefix from its first event on would be quadratic. Here one verification goes along with the log, and a copy of
 * it takes the closing events in; on a sample the whole log is verified from the start too, and must say the same.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import { unanswered } from "../../src/domain/Brackets.ts"
import type { SessionEvent, StoredEvent } from "../../src/domain/Event.ts"
import type { AssistantBlock } from "../../src/domain/Message.ts"
import * as Repair from "../../src/domain/Repair.ts"
import * as RequestRules from "../../src/domain/RequestRules.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import * as Verification from "../../src/domain/Verification.ts"
import type { Violation } from "../../src/domain/Violation.ts"
import { deepFreeze } from "../../src/internal/Json.ts"
import { header, input, type Log, said, sourceSeqs, stepStart, turnStart } from "../support/Facts.ts"
import { sampleLogs } from "../support/Logs.ts"

const logsAtOnce = 65
const corpus = deepFreeze(sampleLogs(8 * logsAtOnce, 41, 300))
const parts = [1, 2, 3, 4, 5, 6, 7, 8]

const policies = { minimal: Repair.closers, salvage: Repair.salvage }
type PolicyName = keyof typeof policies

const finds = ["ended", "gone", "running", "unknown"] as const

/** What a reaper may tell of the processes of this log: of each the same, whenever it is asked. */
const reportOf = ({ brackets }: SessionState.SessionState): Repair.ReapReport =>
  unanswered(brackets).flatMap(({ processes }) =>
    processes.map((process) => ({ process, found: finds[process.pgid % finds.length] ?? "unknown" }))
  )

/** A copy that goes its own way. */
const forked = (verification: Verification.Verification): Verification.Verification => ({
  ...verification,
  turns: structuredClone(verification.turns),
  inbox: structuredClone(verification.inbox),
  requests: {
    ...verification.requests,
    ids: new Set(verification.requests.ids),
    pending: [...verification.requests.pending]
  }
})

const sorted = (found: ReadonlyArray<Violation>) => found.toSorted((a, b) => a.seq - b.seq)

/**
 * Cuts at which nobody dies, for what they part is one append: a result and the context that was queued with it, and the end
 * of a turn that failed or was cancelled, from what came of its answer on. Repair copes with them too, but its end of the turn
 * is not the one that belongs to the rest.
 */
const isOneAppend = (log: Log, cut: number): boolean => {
  const last = log[cut - 1]
  const next = log[cut]
  if (last?.type === "tool/result") return next?.type === "agent/inbox/spliced" && next.data.removedCount === undefined
  if (last?.type === "assistant/message" && last.data.interrupted === true) return true
  return last?.type === "step/end" && next?.type === "turn/end" && ["aborted", "error"].includes(next.data.reason.kind)
}

const apply = (state: SessionState.SessionState, events: Iterable<StoredEvent>) =>
  Either.getOrThrowWith(SessionState.fold(events, state), (detail) => new Error(detail))

const at = (state: SessionState.SessionState, events: ReadonlyArray<SessionEvent>): Log =>
  events.map((event, index) => ({ ...event, seq: state.head + index, time: state.time }))

const isOfAnotherEnd = ({ detail }: Violation): boolean =>
  /at a time of its own|has no result at the end of its step/.test(detail)

/** The next prompt's events up to its request. */
const nextPrompt = (state: SessionState.SessionState): Log => {
  const turn = state.brackets.lastTurn + 1
  const reason = state.header === undefined ? "initial" : "resume"
  return at(state, [turnStart(turn), stepStart(turn, 1), input(said("next", "go on")), header(reason)])
}

/** What of an answer a cancel would have kept, found by looking through the log; none where its step has an answer. */
const readable = (log: Log): ReadonlyArray<AssistantBlock> => {
  const from = log.findLastIndex(({ type }) => type === "step/start" || type === "step/end" || type === "request/retry")
  if (log[from]?.type === "step/end") return []
  const parts = new Map<number, AssistantBlock>()
  for (const event of log.slice(from + 1)) {
    if (event.type === "assistant/message") return []
    if (event.type !== "assistant/chunk") continue
    const { chunk } = event.data
    if (chunk.type !== "text" && chunk.type !== "reasoning" && chunk.type !== "blob") continue
    const before = parts.get(chunk.index)
    if (chunk.type === "blob") {
      if (before?.type === "reasoning") parts.set(chunk.index, { ...before, blob: chunk.blob })
      continue
    }
    const text = (before !== undefined && "text" in before ? before.text : "") + chunk.text
    parts.set(chunk.index, { ...before, type: chunk.type, text })
  }
  return [...parts.values()].flatMap((part) =>
    "text" in part && /\S/.test(part.text)
      ? [{ ...part, text: Buffer.from(part.text, "utf8").toString("utf8").split("\0").join("\uFFFD") }]
      : []
  )
}

/** What a policy leaves of a prefix: every claim of the law about it. */
const judge = (
  name: PolicyName,
  { log, cut, state }: { readonly log: Log; readonly cut: number; readonly state: SessionState.SessionState },
  verification: Verification.Verification
): Log => {
  const policy = (of: SessionState.SessionState) => policies[name](of, reportOf(of))
  const closers = at(state, policy(state))
  const { after, events } = Either.getOrThrow(Repair.closed(state, policy(state)))
  assert.deepStrictEqual(events, closers)
  assert.isUndefined(after.brackets.open)
  for (const again of Object.values(policies)) assert.deepStrictEqual(again(after), [])

  const found = closers.flatMap((event) => Verification.add(verification, event))
  const all = sorted([...found, ...Verification.end(verification)])
  assert.deepStrictEqual(isOneAppend(log, cut) ? all.filter((each) => !isOfAnotherEnd(each)) : all, [])
  if ((cut + log.length) % 40 === 0)
    assert.deepStrictEqual(Verification.verify([...log.slice(0, cut), ...closers]), all)

  const next = apply(after, nextPrompt(after))
  const request = SessionState.deriveRequest(next)
  if (request === undefined) return assert.fail("no request")
  const refused = RequestRules.violations(request)
  if (refused.length > 0) assert.deepStrictEqual(refused, [])

  let partly = state
  for (const [index, closer] of closers.slice(0, -1).entries()) {
    partly = apply(partly, [closer])
    if (isOneAppend(closers, index + 1) && closer.type === "tool/result") continue
    assert.deepStrictEqual(at(partly, policy(partly)), closers.slice(index + 1))
  }
  return closers
}

describe("law 8: every prefix of 520 generated logs, by either policy", () => {
  it.each(parts)("law 8 law 1 R13: verifies, stays, comes out the same and goes on, part %i", (part) => {
    let prefixes = 0
    let kept = 0
    for (const log of corpus.slice((part - 1) * logsAtOnce, part * logsAtOnce)) {
      const along = Verification.make()
      let state = SessionState.initial()
      for (let cut = 0; cut <= log.length; cut++) {
        const event = log[cut - 1]
        if (event !== undefined) {
          state = apply(state, [event])
          assert.deepStrictEqual(Verification.add(along, event), [])
        }
        prefixes++
        const minimal = judge("minimal", { log, cut, state }, forked(along))
        const salvaged = judge("salvage", { log, cut, state }, forked(along))
        const due = state.header === undefined ? [] : readable(log.slice(0, cut))
        const [first, ...rest] = salvaged
        if (due.length === 0) {
          assert.deepStrictEqual(salvaged, minimal)
          continue
        }
        kept++
        if (first?.type !== "assistant/message") return assert.fail(`nothing is kept at ${cut}`)
        assert.deepStrictEqual(first.data.message.content, due)
        assert.deepStrictEqual([first.data.interrupted, first.data.finish], [true, undefined])
        assert.deepStrictEqual(
          rest.map(({ type }) => type),
          minimal.map(({ type }) => type)
        )
        for (const seq of sourceSeqs(first.sourceEventSeqs ?? [])) assert.strictEqual(log[seq]?.type, "assistant/chunk")
      }
    }
    assert.isAbove(prefixes, 2000)
    assert.isAbove(kept, 200)
  })
})
