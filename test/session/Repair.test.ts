/**
 * Repair as a session is taken over: looked at without a change, written once, by either policy; and that what the second one
 * keeps is what a cancel would have kept.
 */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import type { ChatChunk } from "../../src/domain/Chunk.ts"
import type { SessionEvent, StoredEvent } from "../../src/domain/Event.ts"
import { SessionId } from "../../src/domain/Ids.ts"
import { text, textOf } from "../../src/domain/Message.ts"
import * as closing from "../../src/domain/Repair.ts"
import { canonicalRequest } from "../../src/domain/Request.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import * as Verification from "../../src/domain/Verification.ts"
import * as Journal from "../../src/journal/Journal.ts"
import { fail, say, send, wait } from "../../src/model/ScriptedModel.ts"
import { Reaper } from "../../src/session/Reaper.ts"
import * as Repair from "../../src/session/Repair.ts"
import * as Sessions from "../../src/session/Sessions.ts"
import {
  answer,
  block,
  call,
  chunk,
  followedBy,
  input,
  type Log,
  said,
  spawned,
  stateOf,
  stepAsking,
  stepEnd,
  stepStart,
  turnEnd,
  turnStart
} from "../support/Facts.ts"
import * as Inside from "../support/Inside.ts"
import * as World from "../support/World.ts"

const id = SessionId.make("s")
const where = { cwd: "/workspace", create: "never" } as const

const prompt = said("p", "go")
const asking = stepAsking(prompt)
const streaming = followedBy(asking, chunk(1, 1, "half an "), chunk(1, 1, "answer"))
const running = followedBy(asking, answer(1, 1, [block(1, 1, 0)]), call([1, 1, 0]), spawned([1, 1, 0]))

const policies = { minimal: Repair.layer, salvage: Repair.layerSalvage }

/** Sessions over a journal that holds this log, repaired by a policy; every left-over process still runs. */
const over = (log: Log, policy: keyof typeof policies) =>
  Effect.gen(function* () {
    const journal = yield* Inside.journalOf({ s: log })
    const reaper = Layer.succeed(Reaper, {
      reap: () => Effect.dieMessage("nobody owned it"),
      look: (processes) => Effect.succeed(processes.map((process) => ({ process, found: "running" as const })))
    })
    const context = yield* Layer.build(
      Layer.provide(
        Sessions.layer,
        Layer.mergeAll(Layer.succeed(Journal.Journal, journal), policies[policy], reaper, NodeFileSystem.layer)
      )
    )
    const stored = Effect.map(
      journal.read(id, { from: 0, limit: 1000 }),
      (events): ReadonlyArray<StoredEvent> => events
    )
    return { journal, log: stored, acquire: Context.get(context, Sessions.Sessions).acquire(id, where) }
  })

/** What somebody sees who looks at a stored session as if it were repaired. */
const inspect = (journal: Context.Tag.Service<Journal.Journal>, policy: closing.Policy) =>
  Effect.map(journal.read(id, { from: 0, limit: 1000 }), (events) => {
    const state = stateOf(events)
    const { after, events: closers } = Either.getOrThrow(closing.closed(state, policy(state)))
    return { balanced: [...events, ...closers], open: after.brackets.open }
  })

describe.each(["minimal", "salvage"] as const)("a session repaired by the %s policy", (name) => {
  const policy = name === "minimal" ? closing.closers : closing.salvage

  it.scoped("G09: looking at it changes nothing, twice alike; taking it writes what was seen, once", () =>
    Effect.gen(function* () {
      const { acquire, journal, log } = yield* over(streaming, name)
      const record = yield* journal.find(id)
      const seen = yield* inspect(journal, policy)
      assert.isUndefined(seen.open)
      assert.deepStrictEqual(yield* inspect(journal, policy), seen)
      assert.deepStrictEqual(yield* log, streaming)
      assert.strictEqual(JSON.stringify(yield* journal.find(id)), JSON.stringify(record))
      yield* Effect.scoped(acquire)
      assert.deepStrictEqual(yield* log, seen.balanced)
      yield* Effect.scoped(acquire)
      assert.deepStrictEqual(yield* log, seen.balanced)
    })
  )

  it.scoped(
    "G11 W08 R13: the next request carries what streamed if the policy keeps it, and the log tells the same",
    () =>
      Effect.gen(function* () {
        const { acquire, log } = yield* over(streaming, name)
        const session = yield* acquire
        const kept = name === "salvage" ? ["half an answer"] : []
        assert.deepStrictEqual(SessionState.requestMessages(session.unsafeState()).map(textOf), ["go", ...kept])
        assert.strictEqual(
          World.shorthand(yield* log),
          `in+ T<1 in- S<1 UM RH(initial) ck ${name === "salvage" ? "AM! " : ""}S>1 T>(interrupted)`
        )
        assert.deepStrictEqual(Verification.verify(yield* log), [])
      })
  )

  it.scoped("W25: what the reaper found is told with the outcome that nobody knows", () =>
    Effect.gen(function* () {
      const { acquire, log } = yield* over(running, name)
      yield* acquire
      const told = (yield* log).flatMap((event) => (event.type === "tool/result" ? [textOf(event.data.message)] : []))
      assert.match(told.join(), /recorded as started, outcome unknown\. Its process 4711 still runs\. /)
    })
  )

  it.scoped(
    "O-F5 O-F2: a session with an open call is closed, compacted and reloaded: the list is the one before",
    () =>
      Effect.gen(function* () {
        const before = followedBy(asking, answer(1, 1, [text("a long answer")]), stepEnd(1, 1), turnEnd(1, "completed"))
        const open = [turnStart(2), stepStart(2, 1), input(said("q", "and", "context")), answer(2, 1, [block(2, 1, 0)])]
        const { acquire, journal } = yield* over(followedBy(before, ...open, call([2, 1, 0])), name)
        const list = yield* Effect.scoped(
          Effect.gen(function* () {
            const session = yield* acquire
            const summary: SessionEvent = {
              type: "context/replaced",
              data: { from: 3, to: 7, messages: [said("s", "so far", "context")] }
            }
            yield* session.append(() => [summary])
            return SessionState.deriveRequest(session.unsafeState())
          })
        )
        if (list === undefined) return assert.fail("no request")
        assert.deepStrictEqual(
          list.messages.map(({ role }) => role),
          ["user", "user", "assistant", "tool"]
        )
        const { head } = yield* journal.find(id)
        for (let time = 0; time < 2; time++)
          yield* Effect.scoped(
            Effect.map(acquire, (session) => {
              const again = SessionState.deriveRequest(session.unsafeState())
              assert.strictEqual(again && canonicalRequest(again), canonicalRequest(list))
            })
          )
        assert.strictEqual((yield* journal.find(id)).head, head)
      })
  )
})

const finished: ChatChunk = { type: "end", index: 0 }
const usage: ChatChunk = { type: "usage", usage: { inputTokens: 3, outputTokens: 2 } }
const words = (text: string, index = 0): ChatChunk => ({ type: "text", index, text })

const streams: ReadonlyArray<readonly [what: string, chunks: ReadonlyArray<ChatChunk>, isReadable: boolean]> = [
  ["text", [words("half an "), words("answer")], true],
  [
    "a closed block and an open one, and rubbish for the closed",
    [words("one"), finished, words("lost"), words("two", 1)],
    true
  ],
  [
    "thinking, a blob, and a call",
    [
      { type: "reasoning", index: 0, text: "hm" },
      { type: "blob", index: 0, blob: "s" },
      words("so", 1),
      { type: "tool-call", index: 2, name: "look", arguments: '{"i' }
    ],
    true
  ],
  ["usage", [words("a"), usage, words("b")], true],
  ["white space", [words(" \n")], false],
  ["nothing", [], false]
]

describe("what is kept of an answer", () => {
  it.scoped.each(streams)("W08 D02 R13: of %s a crash keeps what a cancel does", ([, chunks, isReadable]) =>
    Effect.gen(function* () {
      const still = yield* Deferred.make<void>()
      const world = yield* World.make({
        scripts: [
          [send(words("a failed attempt")), fail("SERVER")],
          [send(...chunks), wait(Effect.zipRight(Deferred.succeed(still, undefined), Effect.never))],
          say("later")
        ]
      })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* Effect.replicateEffect(Effect.yieldNow(), 100)
      yield* TestClock.adjust("1 minute")
      yield* Deferred.await(still)
      yield* agent.cancel("user")
      const log = yield* world.log
      const from = log.findLastIndex((event) => event.type === "assistant/chunk" || event.type === "request/retry") + 1
      const [kept, ...rest] = closing.salvage(stateOf(log.slice(0, from)))
      const closers = [stepEnd(1, 1), turnEnd(1, "interrupted")]
      const next = log[from]
      if (isReadable) assert.deepStrictEqual<unknown>({ ...kept, seq: next?.seq, time: next?.time }, next)
      else assert.strictEqual(next?.type, "step/end")
      assert.deepStrictEqual(isReadable ? rest : [kept, ...rest], closers)
    })
  )
})
