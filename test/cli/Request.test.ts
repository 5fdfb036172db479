import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { StoredEvent } from "../../src/domain/Event.ts"
import * as Repair from "../../src/domain/Repair.ts"
import { canonicalRequest } from "../../src/domain/Request.ts"
import { good } from "../support/BrokenLogs.ts"
import { followedBy, type Log, stateOf } from "../support/Facts.ts"
import * as Inside from "../support/Inside.ts"
import { sampleLogs } from "../support/Logs.ts"
import { naiveRequest } from "../support/NaiveFold.ts"

const request = (log: Log, ...words: ReadonlyArray<string>) =>
  Effect.flatMap(Inside.journalOf({ s: log }), (journal) => Inside.run({ journal }, "request", "s", ...words))

/** Whether a request was sent right before this event: it is the first of an attempt. */
const isSentBefore = (log: Log, event: StoredEvent): boolean => {
  if (event.type !== "assistant/chunk" && event.type !== "assistant/message" && event.type !== "request/retry")
    return false
  const before = log.slice(0, event.seq).findLast((each) => each.type !== "agent/inbox/spliced")
  return before?.type !== "assistant/chunk"
}

/** What is said of the turn that is open there. */
const note = (turn: number, at: number): string =>
  `daybook: session s: turn ${turn} is open before seq ${at}: this request is as if the log had been repaired there\n`

const naive = (log: Log): string | undefined => {
  const derived = naiveRequest(log)
  return derived === undefined ? undefined : `${canonicalRequest(derived)}\n`
}

describe("daybook request", () => {
  it.scoped(
    "prints at every seq what was sent there, or what would follow a repair there, and says which (law 1)",
    () =>
      Effect.gen(function* () {
        let sent = 0
        for (const log of sampleLogs(4, 5, 250))
          for (const [at, event] of log.entries()) {
            const { stderr, stdout } = yield* request(log, "--at", String(at))
            const prefix = log.slice(0, at)
            if (isSentBefore(log, event)) {
              sent++
              assert.deepStrictEqual([stdout, stderr], [naive(prefix) ?? "", ""])
            } else {
              const derived = naive(followedBy(prefix, ...Repair.salvage(stateOf(prefix))))
              const open = stateOf(prefix).brackets.open
              assert.strictEqual(stdout, derived ?? "")
              if (derived !== undefined) assert.strictEqual(stderr, open === undefined ? "" : note(open.turn, at))
            }
          }
        assert.isAbove(sent, 8)
      })
  )

  it.scoped(
    "inside a step it says that it is as if repaired; without --at it is what the next prompt's begins with",
    () =>
      Effect.gen(function* () {
        const { code, stderr, stdout } = yield* request(good, "--at", "14")
        assert.strictEqual(code, undefined)
        assert.strictEqual(stderr, note(1, 14))
        assert.include(stdout, "recorded as started, outcome unknown")
        const head = yield* request(good)
        assert.deepStrictEqual([head.stdout, head.stderr], [naive(good), ""])
        const all = yield* request(good, "--at", String(good.length))
        assert.strictEqual(all.stdout, head.stdout)
      })
  )

  it.scoped("where the log ends before anything came of a step, no request counts as sent", () =>
    Effect.gen(function* () {
      for (const words of [[], ["--at", "6"]]) {
        const { code, stderr, stdout } = yield* request(good.slice(0, 6), ...words)
        assert.deepStrictEqual([code, stderr], [undefined, note(1, 6)])
        assert.strictEqual(stdout, (yield* request(good, "--at", "6")).stdout)
      }
      assert.strictEqual((yield* request(good, "--at", "6")).stderr, "")
    })
  )

  it.scoped("what cannot be is one line: past the end, no header yet, an unknown session", () =>
    Effect.gen(function* () {
      const past = yield* request(good, "--at", "22")
      assert.deepStrictEqual([past.code, past.stdout], [2, ""])
      assert.match(past.stderr, /^daybook: session s has 21 events: --at 22 is past their end\. .*\n$/)
      const early = yield* request(good, "--at", "5")
      assert.deepStrictEqual([early.code, early.stdout], [1, ""])
      assert.match(early.stderr, /^daybook: session s: there is no request before seq 5: .*\n$/)
      for (const word of ["-1", "1.5", "x", " 3", "1e3", "9007199254740993"]) {
        const odd = yield* request(good, "--at", word)
        assert.deepStrictEqual([word, odd.code, odd.stdout], [word, 2, ""])
        assert.match(odd.stderr, /^daybook: --at takes a whole number from 0 on, and not .*\n$/)
      }
      const nobody = yield* Effect.flatMap(Inside.journalOf({}), (journal) => Inside.run({ journal }, "request", "s"))
      assert.strictEqual(nobody.code, 1)
      assert.match(nobody.stderr, /^daybook: session s: no such session\./)
    })
  )
})
