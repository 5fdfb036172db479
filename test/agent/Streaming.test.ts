import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import type { ChatChunk } from "../../src/domain/Chunk.ts"
import type { StoredEvent, StoredOf } from "../../src/domain/Event.ts"
import * as Journal from "../../src/journal/Journal.ts"
import { type Script, say, send, wait } from "../../src/model/ScriptedModel.ts"
import { lingerMillis } from "../../src/session/Writer.ts"
import { sourceSeqs } from "../support/Facts.ts"
import * as World from "../support/World.ts"

const delta = (text: string, index = 0): ChatChunk => ({ type: "text", index, text })
const thought = (text: string, index = 0): ChatChunk => ({ type: "reasoning", index, text })
const finish: ChatChunk = { type: "finish", reason: "stop" }

const of = <T extends StoredEvent["type"]>(log: ReadonlyArray<StoredEvent>, type: T) =>
  log.filter((event): event is StoredOf<T> => event.type === type)

const runs = (log: ReadonlyArray<StoredEvent>) =>
  of(log, "assistant/chunk").map(({ data: { chunk } }) =>
    "text" in chunk ? `${chunk.type}:${chunk.text}` : chunk.type
  )

/** Streams these chunks, then stands still; the turn is cancelled there. */
const cancelledAfter = (...chunks: ReadonlyArray<ChatChunk>) =>
  Effect.gen(function* () {
    const still = yield* Deferred.make<void>()
    const script: Script = [send(...chunks), wait(Effect.zipRight(Deferred.succeed(still, undefined), Effect.never))]
    const world = yield* World.make({ scripts: [script, say("next")] })
    const agent = yield* world.open()
    yield* agent.followup("go")
    yield* Deferred.await(still)
    yield* agent.cancel("user")
    const log = yield* world.log
    yield* Effect.zipRight(agent.followup("and now"), agent.idle)
    return { log, requests: yield* world.requests }
  })

describe("streaming", () => {
  it.scoped("D01 W06: deltas of one block are one run, a new block starts a new one, in the order of arrival", () =>
    Effect.gen(function* () {
      const chunks = [thought("let "), thought("me"), delta("a", 1), delta("b", 1), thought("hm"), delta("c", 1)]
      const world = yield* World.make({ scripts: [[send(...chunks, finish)]] })
      const agent = yield* world.open()
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      const log = yield* world.log
      assert.deepStrictEqual(runs(log), ["reasoning:let me", "text:ab", "reasoning:hm", "text:c"])
      assert.deepStrictEqual(of(log, "assistant/message")[0]?.data.message.content, [
        { type: "reasoning", text: "let mehm" },
        { type: "text", text: "abc" }
      ])
    })
  )

  it.scoped("D01: a run joins the log 50 ms after its first delta, however slow the stream is", () =>
    Effect.gen(function* () {
      const still = yield* Deferred.make<void>()
      const script: Script = [
        send(delta("a"), delta("b")),
        wait(Effect.zipRight(Deferred.succeed(still, undefined), Effect.never))
      ]
      const world = yield* World.make({ scripts: [script] })
      const agent = yield* world.open()
      yield* agent.followup("go")
      yield* Deferred.await(still)
      yield* TestClock.adjust(49)
      assert.deepStrictEqual(runs(yield* world.log), [])
      yield* TestClock.adjust(1)
      yield* Effect.replicateEffect(Effect.yieldNow(), 20)
      assert.deepStrictEqual(runs(yield* world.log), ["text:ab"])
      yield* agent.cancel("user")
    })
  )

  it.scoped("D01 W06: the 50 ms of a run begin with its own first delta, not with that of an earlier run", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const settled = Effect.replicateEffect(Effect.yieldNow(), 50)
      const world = yield* World.make({
        scripts: [[send(delta("a")), wait(Deferred.await(gate)), send(delta("b")), wait(Effect.never)]]
      })
      const agent = yield* world.open()
      yield* Effect.zipRight(agent.followup("go"), settled)
      yield* Effect.zipRight(TestClock.adjust(50), settled)
      assert.deepStrictEqual(runs(yield* world.log), ["text:a"])
      yield* Effect.zipRight(TestClock.adjust(30), settled)
      yield* Effect.zipRight(Deferred.succeed(gate, undefined), settled)
      yield* Effect.zipRight(TestClock.adjust(49), settled)
      assert.deepStrictEqual(runs(yield* world.log), ["text:a"])
      yield* Effect.zipRight(TestClock.adjust(1), settled)
      assert.deepStrictEqual(runs(yield* world.log), ["text:a", "text:b"])
      yield* agent.cancel("user")
    })
  )

  it.scoped("D01 W06: a block's end ends its run, and what says nothing is not shown", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const ended = send(delta("a"), { type: "end", index: 0 })
      const world = yield* World.make({
        scripts: [[ended, wait(Deferred.await(gate)), send(delta("b", 1), delta("", 1), finish)]]
      })
      const agent = yield* world.open()
      const shown: Array<ChatChunk> = []
      yield* agent.events.pipe(
        Stream.runForEach((item) => Effect.sync(() => (item.type === "delta" ? shown.push(item.chunk) : 0))),
        Effect.fork
      )
      yield* Effect.replicateEffect(Effect.yieldNow(), 20)
      yield* agent.followup("go")
      yield* Effect.replicateEffect(Effect.yieldNow(), 50)
      yield* TestClock.adjust(lingerMillis)
      assert.deepStrictEqual(runs(yield* world.log), ["text:a"])
      yield* Effect.zipRight(Deferred.succeed(gate, undefined), agent.idle)
      yield* Effect.replicateEffect(Effect.yieldNow(), 20)
      assert.deepStrictEqual(runs(yield* world.log), ["text:a", "text:b"])
      assert.deepStrictEqual(
        shown.map((chunk) => chunk.type),
        ["text", "end", "text", "finish"]
      )
    })
  )

  it.scoped(
    "D02 D09 law 1: what streamed before a cancel is an interrupted answer, and stands in the next request",
    () =>
      Effect.gen(function* () {
        const { log, requests } = yield* cancelledAfter(delta("half "), delta("an answer"))
        assert.match(World.shorthand(log), /RH\(initial\) ck AM! S>1 T>\(aborted\)$/)
        const [answer] = of(log, "assistant/message")
        assert.isUndefined(answer?.data.finish)
        assert.deepStrictEqual(answer?.data.message.source, World.config)
        assert.deepStrictEqual(
          sourceSeqs(answer?.sourceEventSeqs ?? []),
          of(log, "assistant/chunk").map((chunk) => chunk.seq)
        )
        assert.deepStrictEqual(requests[1]?.messages[1]?.content, [{ type: "text", text: "half an answer" }])
      })
  )

  it.scoped("D04 D05 O-B2: an interrupted answer has no calls; reasoning alone is kept, white space alone is not", () =>
    Effect.gen(function* () {
      const half: ChatChunk = { type: "tool-call", index: 1, id: "x", name: "look", arguments: '{"id":"a"}' }
      for (const rest of [[], [{ type: "end", index: 1 } as const]]) {
        const withCall = yield* cancelledAfter(delta("so"), half, ...rest)
        assert.deepStrictEqual(of(withCall.log, "assistant/message")[0]?.data.message.content, [
          { type: "text", text: "so" }
        ])
        assert.match(World.shorthand(withCall.log), /ck AM! S>1 T>\(aborted\)$/)
      }
      const reasoned = yield* cancelledAfter(thought("hm"))
      assert.match(World.shorthand(reasoned.log), /ck AM! S>1/)
      for (const chunks of [[delta(" \n")], [half], [{ type: "blob", index: 0, blob: { any: 1 } } as const]]) {
        const { log } = yield* cancelledAfter(...chunks)
        assert.match(World.shorthand(log), /ck S>1 T>\(aborted\)$/)
      }
    })
  )

  it.scoped("D06 O-B1: cancelled before anything came, there is no answer", () =>
    Effect.gen(function* () {
      const { log } = yield* cancelledAfter()
      assert.match(World.shorthand(log), /S<1 UM RH\(initial\) S>1 T>\(aborted\)$/)
      const { log: empty } = yield* cancelledAfter(delta(""))
      assert.match(World.shorthand(empty), /S<1 UM RH\(initial\) S>1 T>\(aborted\)$/)
    })
  )

  it.scoped("D07: usage that came before the cancel is kept", () =>
    Effect.gen(function* () {
      const usage = { inputTokens: 5, outputTokens: 2 }
      const { log } = yield* cancelledAfter(delta("a"), { type: "usage", usage })
      assert.deepStrictEqual(of(log, "assistant/message")[0]?.data.usage, usage)
    })
  )

  it.scoped("D12: deltas for a closed block are ignored, a call without an id or a finish is completed", () =>
    Effect.gen(function* () {
      const chunks: ReadonlyArray<ChatChunk> = [
        delta("kept"),
        { type: "end", index: 0 },
        delta("late"),
        { type: "end", index: 0 },
        { type: "tool-call", index: 3, name: "look", arguments: '{"id":"a"}' }
      ]
      const world = yield* World.make({ scripts: [[send(...chunks)], say("done")] })
      const agent = yield* world.open()
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      const [answer] = of(yield* world.log, "assistant/message")
      assert.strictEqual(answer?.data.finish, "stop")
      assert.deepStrictEqual(answer?.data.message.content, [
        { type: "text", text: "kept" },
        { type: "tool-call", callId: "t1s1c0", name: "look", arguments: '{"id":"a"}', providerCallId: "call-3" }
      ] as never)
      assert.deepStrictEqual(runs(yield* world.log), ["text:kept", "tool-call", "text:done"])
    })
  )

  it.scoped(
    "law 3: what is no chunk is a failure of the model; the turn ends and the session lives, also when it is cancelled",
    () =>
      Effect.gen(function* () {
        const odd: ReadonlyArray<unknown> = [
          { type: "text", index: 0.5, text: "x" },
          { type: "text", index: 0, text: 7 },
          { type: "usage", usage: { inputTokens: Number.NaN, outputTokens: 1 } },
          { type: "blob", index: 0, blob: () => 1 },
          { type: "nothing" },
          null
        ]
        for (const chunk of odd) {
          // rubbish on purpose: what an adapter with a cast could send
          const world = yield* World.make({ scripts: [[send(delta("a"), chunk as ChatChunk)], say("well")] })
          const agent = yield* world.open()
          yield* Effect.zipRight(agent.followup("go"), agent.idle)
          assert.match(yield* world.shorthand, /S>1 T>\(error\)$/, JSON.stringify(chunk))
          yield* Effect.zipRight(agent.followup("again"), agent.idle)
          assert.match(yield* world.shorthand, /T>\(completed\)$/)
        }
      })
  )

  it.live("W05: 50,000 deltas cost linear time, and rows by their bytes alone", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const folder = yield* fs.makeTempDirectoryScoped()
        const stream = (count: number) =>
          Effect.gen(function* () {
            const deltas = Array.from({ length: count }, () => delta("twelve bytes"))
            const world = yield* World.make({
              journal: Journal.layerSqlite({ filename: `${folder}/${count}.db` }),
              model: { stream: () => Stream.rechunk(Stream.fromIterable([...deltas, finish]), 64) },
              unchecked: true
            })
            const agent = yield* world.open()
            const from = performance.now()
            yield* Effect.zipRight(agent.followup("go"), agent.idle)
            const millis = performance.now() - from
            const rows = of(yield* world.log, "assistant/chunk").length
            assert.isAtMost(rows, Math.ceil((count * 12) / 4096) + Math.ceil(millis / 50) + 1)
            return millis
          })
        yield* stream(1_000)
        const halves = (yield* stream(25_000)) + (yield* stream(25_001))
        const whole = yield* stream(50_000)
        yield* Effect.logInfo(
          `50,000 deltas: ${whole.toFixed(0)} ms; in two halves: ${halves.toFixed(0)} ms; ratio ${(whole / halves).toFixed(2)}`
        )
      })
    ).pipe(Effect.provide(NodeFileSystem.layer))
  )
})
