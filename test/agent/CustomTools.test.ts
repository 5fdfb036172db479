import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { StoredEvent } from "../../src/domain/Event.ts"
import { CallId } from "../../src/domain/Ids.ts"
import { text } from "../../src/domain/Message.ts"
import { call, say } from "../../src/model/ScriptedModel.ts"
import * as Settings from "../../src/settings/Settings.ts"
import * as Approvals from "../../src/tool/Approvals.ts"
import * as BuiltIn from "../../src/tool/BuiltIn.ts"
import { ToolCall } from "../../src/tool/ToolCall.ts"
import * as Tools from "../../src/tool/Tools.ts"
import * as Workspace from "../../src/tool/Workspace.ts"
import * as World from "../support/World.ts"

const node = Layer.merge(NodeFileSystem.layer, NodePath.layer)

class SoldOut extends Schema.TaggedError<SoldOut>()("SoldOut", { seat: Schema.Number }) {
  override get message() {
    return `seat ${this.seat} is sold out; choose another one.`
  }
}

/** A user's own tools, and what they did. */
const box = () => {
  const did = { decodings: 0, calls: [] as Array<string> }
  const Seat = Schema.transform(Schema.String, Schema.Number, {
    strict: true,
    decode: (text) => {
      did.decodings++
      return Number(text)
    },
    encode: String
  })
  const book = Tool.make("book", {
    description: "Books a seat.",
    parameters: { seat: Seat },
    success: Schema.Struct({ seat: Seat, price: Schema.NumberFromString }),
    failure: SoldOut,
    dependencies: [ToolCall]
  })
  const toolkit = Toolkit.make(book, Tool.make("free", { success: Schema.Array(Schema.Int) }))
  const handlers = toolkit.toLayer({
    book: ({ seat }) =>
      Effect.gen(function* () {
        const it = yield* ToolCall
        did.calls.push(it.callId)
        yield* it.progress(`looking for seat ${seat}`)
        if (seat === 13) return yield* new SoldOut({ seat })
        yield* it.addContext(`seat ${seat} is by the window`)
        return { seat, price: 21 }
      }),
    free: () => Effect.succeed([7, 8])
  })
  return { did, tools: Layer.provide(Tools.layer(toolkit), handlers) }
}

const results = (log: ReadonlyArray<StoredEvent>) =>
  log.flatMap((event) =>
    event.type === "tool/result" ? [event.data.message.content.map((part) => part.text).join("")] : []
  )

describe("a program's own tools", () => {
  it.scopedLive("O-E9, O-E5: run beside the built-in ones through a whole turn, and are decoded exactly once", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const root = yield* Effect.flatMap(fs.makeTempDirectoryScoped(), fs.realPath)
      const { did, tools } = box()
      const asked: Array<unknown> = []
      const world = yield* World.make({
        tools: Tools.merge(BuiltIn.layer, tools).pipe(
          Layer.provide(Workspace.layer(root)),
          Layer.provide([node, Settings.layer]),
          Layer.orDie
        ),
        approvals: {
          judge: ({ arguments: args }) =>
            Effect.sync(() => {
              asked.push(args)
              return Approvals.Judgement.Allow()
            })
        },
        scripts: [
          call(["free", {}], ["book", { seat: 7 }], ["book", { seat: "13" }]),
          call(["book", { seat: "7" }], ["write", { path: "ticket", content: "seat 7" }]),
          say("Booked."),
          say("By the window.")
        ]
      })
      const ready = yield* Deferred.make<void>()
      const { progress } = yield* Effect.scoped(
        Effect.gen(function* () {
          const agent = yield* world.open()
          const listening = yield* agent.events.pipe(
            Stream.onStart(Deferred.succeed(ready, undefined)),
            Stream.filterMap((item) => (item.type === "tool-progress" ? Option.some(item) : Option.none())),
            Stream.take(2),
            Stream.runCollect,
            Effect.fork
          )
          yield* Deferred.await(ready)
          yield* Effect.zipRight(agent.followup("a seat, please"), agent.idle)
          return { progress: Chunk.toReadonlyArray(yield* Fiber.join(listening)) }
        })
      )
      const log = yield* world.log
      const [free, wrong, soldOut, booked, wrote] = results(log)
      assert.strictEqual(free, "[7,8]")
      // a failed parameter is told, and the call corrected
      assert.match(
        wrong ?? "",
        /^Error: the arguments of book are not valid, so it did not run: [\s\S]*\["seat"\][\s\S]*actual 7/
      )
      assert.strictEqual(soldOut, "Error: seat 13 is sold out; choose another one.")
      assert.strictEqual(booked, '{"seat":"7","price":"21"}')
      assert.match(wrote ?? "", /^Wrote 6 bytes/)
      assert.strictEqual(yield* fs.readFileString(`${root}/ticket`), "seat 7")
      assert.deepStrictEqual(
        log.flatMap((event) => (event.type === "tool/result" ? [event.data.error?.name] : [])),
        [undefined, "ToolError", "SoldOut", undefined, undefined]
      )
      // as the model wrote them, for whoever approves; decoded for the body alone
      assert.deepStrictEqual(asked, [{}, { seat: "13" }, { seat: "7" }, { path: "ticket", content: "seat 7" }])
      assert.strictEqual(did.decodings, 2)
      assert.deepStrictEqual(did.calls, ["t1s1c2", "t1s2c0"])
      assert.deepStrictEqual(progress, [
        { type: "tool-progress", callId: CallId.make("t1s1c2"), text: "looking for seat 13" },
        { type: "tool-progress", callId: CallId.make("t1s2c0"), text: "looking for seat 7" }
      ])
      const sent = (yield* world.requests)[2]?.messages.at(-1)
      assert.deepStrictEqual(sent?.role === "user" ? sent.content : [], [text("seat 7 is by the window")])
      assert.deepStrictEqual(
        (yield* world.requests)[0]?.tools.map((tool) => tool.name),
        ["bash", "book", "edit", "free", "list", "read", "search", "write"]
      )

      // the next owner asks with what was written, and decodes nothing again
      const again = yield* world.open()
      yield* Effect.zipRight(again.followup("where is it?"), again.idle)
      const calls = (yield* world.requests)[3]?.messages.flatMap((message) =>
        message.role === "assistant"
          ? message.content.flatMap((block) => (block.type === "tool-call" ? [block.arguments] : []))
          : []
      )
      assert.deepStrictEqual(calls?.slice(1, 4), ['{"seat":7}', '{"seat":"13"}', '{"seat":"7"}'])
      assert.strictEqual(did.decodings, 2)
    }).pipe(Effect.provide(node))
  )
})
