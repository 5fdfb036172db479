/**
 * What a server may send, and what becomes of it: an answer, or one typed failure. The bytes come from a body that is cut
 * where the test says, without a network.
 */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientError from "@effect/platform/HttpClientError"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as Answer from "../../src/domain/Answer.ts"
import type { ChatChunk } from "../../src/domain/Chunk.ts"
import { type AssistantBlock, textOf } from "../../src/domain/Message.ts"
import type { ChatRequest } from "../../src/domain/Request.ts"
import type { ChatError } from "../../src/model/ChatModel.ts"
import * as EventStream from "../../src/model/EventStream.ts"
import * as OpenAi from "../../src/model/OpenAi.ts"
import * as Frames from "../../src/model/OpenAiFrames.ts"
import * as Settings from "../../src/settings/Settings.ts"
import * as ChatServer from "../support/ChatServer.ts"
import { done, event, frame, usage } from "../support/ChatServer.ts"
import { said } from "../support/Facts.ts"

const request: ChatRequest = {
  config: { provider: "openai", model: "gpt-test" },
  system: "",
  tools: [],
  messages: [said("p", "go")]
}

const key = "sk-secret0123456789"

type Body = string | Uint8Array | ReadonlyArray<Uint8Array> | ReadableStream<Uint8Array> | null

const streamOf = (body: Body): ReadableStream<Uint8Array> | null => {
  if (body === null || body instanceof ReadableStream) return body
  const parts = typeof body === "string" || body instanceof Uint8Array ? [Buffer.from(body)] : [...body]
  return new ReadableStream({
    pull: (controller) => {
      const part = parts.shift()
      if (part === undefined) controller.close()
      else controller.enqueue(part)
    }
  })
}

interface Response {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
}

/** The model of a server that answers with this. */
const modelOf = (body: Body, { headers = {}, status = 200 }: Response = {}) =>
  Effect.provide(
    OpenAi.make({ profile: OpenAi.openai, apiKey: Redacted.make(key) }),
    Layer.merge(
      Settings.layer,
      Layer.succeed(
        HttpClient.HttpClient,
        HttpClient.make((asked) =>
          Effect.succeed(HttpClientResponse.fromWeb(asked, new Response(streamOf(body), { status, headers })))
        )
      )
    )
  )

interface Received {
  readonly chunks: ReadonlyArray<ChatChunk>
  readonly failure: ChatError | undefined
  readonly content: ReadonlyArray<AssistantBlock>
  readonly text: string
  readonly finish: string | undefined
}

/** What an agent gets of an answer. */
const receive = Effect.fnUntraced(function* (body: Body, response: Response = {}) {
  const model = yield* modelOf(body, response)
  const chunks: Array<ChatChunk> = []
  const result = yield* Effect.either(
    Stream.runForEachChunk(model.stream(request), (some) =>
      Effect.sync(() => {
        chunks.push(...Chunk.toReadonlyArray(some))
      })
    )
  )
  const assembly = Answer.make()
  for (const chunk of chunks) Answer.add(assembly, chunk)
  const message = Answer.message(assembly, { turn: 1, step: 1, provider: "openai", model: "gpt-test" })
  const failure = Either.isLeft(result) ? result.left : undefined
  const received: Received = {
    chunks,
    failure,
    content: message.content,
    text: textOf(message),
    finish: assembly.finish
  }
  return received
})

const sse = (...frames: ReadonlyArray<unknown>): string => `${frames.map(event).join("")}${done}`

/** Deltas of calls, each an event of its own or several in one. */
const callDeltas = (...deltas: ReadonlyArray<object | ReadonlyArray<object>>): string =>
  sse(...deltas.map((delta) => frame({ tool_calls: Array.isArray(delta) ? delta : [delta] })), frame({}, "tool_calls"))

const fn = (name: unknown, text?: unknown) => ({
  function: { name, ...(text === undefined ? {} : { arguments: text }) }
})
const args = (text: unknown) => ({ function: { arguments: text } })

/** The calls of an answer as name and arguments. */
const callsOf = ({ content }: Received) =>
  content.flatMap((block) => (block.type === "tool-call" ? [`${block.name} ${block.arguments}`] : []))

const failed = ({ failure }: Received): ChatError => failure ?? assert.fail("it did not fail")

describe("deltas of calls", () => {
  const cases: ReadonlyArray<readonly [name: string, body: string, calls: ReadonlyArray<string>]> = [
    [
      "id and name empty in later deltas (O-H1)",
      callDeltas(
        { index: 0, id: "a", ...fn("look", "") },
        { index: 0, id: "", ...fn("", '{"id"') },
        { index: 0, id: "", ...fn("", ':"x"}') }
      ),
      ['look {"id":"x"}']
    ],
    [
      "id, name and role null in later deltas (O-H2)",
      sse(
        frame({
          role: "assistant",
          content: null,
          tool_calls: [{ index: 0, id: "a", type: "function", ...fn("look", "{") }]
        }),
        frame({ role: null, content: null, tool_calls: [{ index: 0, id: null, type: null, ...fn(null, "}") }] }),
        frame({ role: null, tool_calls: null }, "tool_calls")
      ),
      ["look {}"]
    ],
    [
      "the name after the first arguments (O-H3)",
      callDeltas({ index: 0, id: "a", ...args("{") }, { index: 0, ...fn("look", "}") }),
      ["look {}"]
    ],
    ["a name that never comes (O-H3)", callDeltas({ index: 0, id: "a", ...args("{}") }), [" {}"]],
    [
      "two ids on one index (O-H4)",
      callDeltas(
        { index: 0, id: "a", ...fn("look", "{") },
        { index: 0, ...args("}") },
        { index: 0, id: "b", ...fn("put", '{"b"') },
        { index: 0, ...args(":1}") }
      ),
      ["look {}", 'put {"b":1}']
    ],
    [
      "two ids on one index, by turns (O-H4)",
      callDeltas(
        { index: 0, id: "a", ...fn("look", "{") },
        { index: 0, id: "b", ...fn("put", "[") },
        { index: 0, id: "a", ...args("}") },
        { index: 0, id: "b", ...args("]") }
      ),
      ["look {}", "put []"]
    ],
    [
      "two ids of one tool on one index (O-H4)",
      callDeltas(
        { index: 0, id: "a", ...fn("look", "{") },
        { index: 0, id: "b", ...fn("look", "[") },
        { index: 0, ...args("]") }
      ),
      ["look {", "look []"]
    ],
    [
      "the id after the first delta, with an index and without",
      callDeltas({ index: 0, ...fn("look", "{") }, { index: 0, id: "a", ...args("}") }, fn("put", "["), {
        id: "b",
        ...args("]")
      }),
      ["look {}", "put []"]
    ],
    [
      "one id, with an index and without",
      callDeltas(
        { id: "a", ...fn("look", "{") },
        { index: 0, id: "a", ...args('"x"') },
        { id: "a", ...args(":1}") },
        { index: 1, id: "b", ...fn("put", "[") },
        { id: "b", ...args("]") }
      ),
      ['look {"x":1}', "put []"]
    ],
    [
      "two calls on one index without ids (O-H4)",
      callDeltas(
        { index: 0, ...fn("look", '{"a":1}') },
        { index: 0, ...fn("look", '{"a":2}') },
        { index: 0, ...fn("put", "{}") }
      ),
      ['look {"a":1}', 'look {"a":2}', "put {}"]
    ],
    [
      "fragments of two calls by turns, by index (O-H5)",
      callDeltas(
        { index: 0, id: "a", ...fn("look", "") },
        { index: 1, id: "b", ...fn("put", "") },
        { index: 0, ...args('{"a"') },
        { index: 1, ...args('{"b"') },
        { index: 0, ...args(":1}") },
        { index: 1, ...args(":2}") }
      ),
      ['look {"a":1}', 'put {"b":2}']
    ],
    [
      "no index, by id (O-H6)",
      callDeltas(
        [
          { id: "a", ...fn("look", "{") },
          { id: "b", ...fn("put", "[") }
        ],
        { id: "b", ...args("]") },
        { id: "a", ...args("}") }
      ),
      ["look {}", "put []"]
    ],
    [
      "no index and no id, by position (O-H6)",
      callDeltas([fn("look", "{"), fn("look", "[")], [args("}"), args("]")]),
      ["look {}", "look []"]
    ],
    [
      "no index and no id, whole calls one after the other (O-H6)",
      callDeltas(fn("look", '{"a":1}'), fn("look", '{"a":2}'), fn("put", "{"), args("}")),
      ['look {"a":1}', 'look {"a":2}', "put {}"]
    ],
    [
      "an index that only some deltas have (O-H6)",
      callDeltas(
        { id: "a", ...fn("look", "{") },
        { index: 0, ...args("}") },
        { index: 1, id: "b", ...fn("put", "[") },
        args("]")
      ),
      ["look {}", "put []"]
    ],
    [
      "one id on two indices",
      callDeltas({ index: 0, id: "x", ...fn("look", "{}") }, { index: 1, id: "x", ...fn("put", "{}") }),
      ["look {}", "put {}"]
    ],
    [
      "the name again with every delta",
      callDeltas(
        { index: 0, ...fn("look", "{") },
        { index: 0, ...fn("look", '"a":1') },
        { index: 0, ...fn("look", "}") }
      ),
      ['look {"a":1}']
    ],
    [
      "nothing but arguments after the first delta (O-H15)",
      callDeltas({ index: 0, id: "a", type: "function", ...fn("look", "{") }, { index: 0, ...args("}") }),
      ["look {}"]
    ],
    [
      "arguments that are empty, absent, null or an object (O-E4)",
      callDeltas(
        { index: 0, id: "a", ...fn("one", "") },
        { index: 1, id: "b", ...fn("two") },
        { index: 2, id: "c", ...fn("three", null) },
        { index: 3, id: "d", ...fn("four", { a: [1] }) }
      ),
      ["one ", "two ", "three ", 'four {"a":[1]}']
    ],
    [
      "what is no call at all",
      sse(frame({ content: "so", tool_calls: ["x", null, 7] }), frame({ tool_calls: "x" }, "stop")),
      []
    ]
  ]
  it.effect.each(cases)("%s", ([, body, calls]) =>
    Effect.gen(function* () {
      const received = yield* receive(body)
      assert.strictEqual(received.failure, undefined)
      assert.deepStrictEqual(callsOf(received), calls)
    })
  )
})

describe("text, thinking and usage", () => {
  it.effect("keeps what a model thought, whichever name a server has for it", () =>
    Effect.gen(function* () {
      for (const name of ["reasoning_content", "reasoning"]) {
        const { chunks, content } = yield* receive(
          sse(
            frame({ role: "assistant", content: null, [name]: "h" }),
            frame({ content: "", [name]: "m" }),
            frame({ content: "Hello", [name]: null }),
            frame({ content: " you" }, "stop")
          )
        )
        assert.deepStrictEqual(content, [
          { type: "reasoning", text: "hm" },
          { type: "text", text: "Hello you" }
        ])
        assert.strictEqual(chunks.filter((chunk) => chunk.type !== "finish").length, 4)
      }
    })
  )

  it.effect("takes a refusal and a content in parts as text", () =>
    Effect.gen(function* () {
      const parts = [{ type: "text", text: "a" }, { type: "text", text: "b" }, { type: "other" }]
      const { text } = yield* receive(sse(frame({ content: parts }), frame({ refusal: "No." }, "stop")))
      assert.strictEqual(text, "abNo.")
    })
  )

  it.effect(
    "tells the usage whenever it comes, so that a cut answer has it, and a chunk without choices otherwise says nothing (O-H7)",
    () =>
      Effect.gen(function* () {
        const text = frame({ content: "hi" })
        const finish = frame({}, "stop")
        const counted = { inputTokens: 11, outputTokens: 7, cachedInputTokens: 3, reasoningTokens: 2 }
        const final = usage(11, 7)
        const early = { ...text, usage: { prompt_tokens: 11, completion_tokens: 1 } }
        const streams = [
          [text, finish, final],
          [text, final, finish],
          [early, early, { ...finish, usage: "usage" in final ? final.usage : undefined }],
          [{ ...final, choices: undefined }, text, finish, { ...text, choices: [], usage: null }]
        ]
        for (const frames of streams) {
          const received = yield* receive(sse(...frames))
          assert.strictEqual(received.failure, undefined)
          assert.strictEqual(received.text.replaceAll("hi", ""), "")
          const usages = received.chunks.filter((chunk) => chunk.type === "usage")
          assert.deepStrictEqual(usages.at(-1), { type: "usage", usage: counted })
          assert.strictEqual(
            usages.length,
            frames.filter((frame) => JSON.stringify(frame).includes("prompt_tokens")).length
          )
        }
        const deepseek = { ...finish, usage: { prompt_tokens: 5, completion_tokens: 6, prompt_cache_hit_tokens: 4 } }
        const { chunks } = yield* receive(sse(text, deepseek))
        assert.deepInclude(chunks, {
          type: "usage",
          usage: { inputTokens: 5, outputTokens: 6, cachedInputTokens: 4 }
        })
      })
  )

  it.effect("takes a whole answer from a server that does not stream", () =>
    Effect.gen(function* () {
      const message = {
        role: "assistant",
        content: "Hi.",
        tool_calls: [{ id: "a", type: "function", ...fn("look", "{}") }]
      }
      const whole = { object: "chat.completion", choices: [{ index: 0, message, finish_reason: "tool_calls" }] }
      const received = yield* receive(JSON.stringify(whole, null, 2), {
        headers: { "content-type": "application/json" }
      })
      assert.strictEqual(received.failure, undefined)
      assert.strictEqual(received.text, "Hi.")
      assert.deepStrictEqual(callsOf(received), ["look {}"])
      assert.strictEqual(received.finish, "tool-calls")
      const unfinished = yield* receive(JSON.stringify({ choices: [{ message }] }))
      assert.deepInclude(unfinished, { text: "Hi.", failure: undefined })
    })
  )
})

describe("the bytes of a stream", () => {
  /** Several bytes a character, every kind of line end, comments, several data lines, other fields, no last blank line. */
  const odd = Buffer.from(
    [
      "\uFEFF: hello\r\n\r\n",
      `event: message\r\nid: 1\r\nretry: 5\r\ndata: ${JSON.stringify(frame({ content: "漢字 é 😀" }))}\r\n\r\n`,
      ":\n\n",
      JSON.stringify(frame({ content: " und mehr" }), null, 1)
        .split("\n")
        .map((line) => `data: ${line}\r\n: between\r\n`)
        .join(""),
      "\r\n",
      `data:${JSON.stringify(frame({ tool_calls: [{ index: 0, id: "a", ...fn("look", '{"id":"ü👩‍👩‍👧"}') }] }))}\r\r`,
      "data:\n\n",
      `data: ${JSON.stringify(frame({}, "tool_calls"))}\n\n`,
      "data: [DONE]"
    ].join("")
  )

  /** What these bytes say, cut like this, without the stream around them. */
  const readAll = (parts: ReadonlyArray<Uint8Array>) => {
    const decoder = new TextDecoder()
    const parser = EventStream.makeParser()
    const frames = Frames.make()
    const reads = [
      ...parts.map((part) => Frames.read(frames, parser.feed(decoder.decode(part, { stream: true })))),
      Frames.read(frames, parser.end()),
      Frames.end(frames)
    ]
    return {
      chunks: reads.flatMap(({ chunks }) => chunks),
      failure: reads.find(({ failure }) => failure !== undefined)?.failure
    }
  }

  it.effect("may be cut at every byte: inside a character, between CR and LF, inside an event (O-H8, O-H9)", () =>
    Effect.gen(function* () {
      const received = yield* receive(odd)
      assert.deepInclude(received, { failure: undefined, text: "漢字 é 😀 und mehr" })
      assert.deepStrictEqual(callsOf(received), ['look {"id":"ü👩‍👩‍👧"}'])
      for (let at = 1; at < odd.length; at++) {
        const { chunks, failure } = readAll([odd.subarray(0, at), odd.subarray(at)])
        assert.strictEqual(failure, undefined)
        assert.deepStrictEqual(chunks, received.chunks)
      }
      for (const size of [1, 2, 3, 7]) {
        const count = Math.ceil(odd.length / size)
        const parts = Array.from({ length: count }, (_, i) => odd.subarray(i * size, (i + 1) * size))
        assert.deepStrictEqual((yield* receive(parts)).chunks, received.chunks)
      }
    })
  )

  it("are a cut when they end too early, at every byte (O-H11, O-H13)", () => {
    const end = odd.lastIndexOf('"finish_reason":"tool_calls"')
    for (let at = 0; at < end; at++) assert.strictEqual(readAll([odd.subarray(0, at)]).failure?.reason, "CUT", `${at}`)
  })

  it("are read in time that grows with them, however many lines come at once", () => {
    const many = Buffer.from(event(frame({ content: "x" })).repeat(20_000))
    assert.strictEqual(readAll([many]).chunks.length, 20_000)
  })

  it.effect("hold at most 10 MiB an event, and no more of a body without events", () =>
    Effect.gen(function* () {
      const piece = Buffer.alloc(1024 * 1024, "x")
      const pieces = (count: number) => Array.from({ length: count }, () => piece)
      const event = failed(yield* receive([Buffer.from("data: "), ...pieces(11)]))
      assert.deepStrictEqual([event.reason, /10485760/.test(event.message)], ["MALFORMED", true])
      const line = `${"y".repeat(1024 * 1024)}\n`
      const body = failed(yield* receive(Array.from({ length: 12 }, () => Buffer.from(line))))
      assert.strictEqual(body.reason, "MALFORMED")
      assert.isBelow(body.message.length, 2000)
      const parser = EventStream.makeParser()
      for (let i = 0; i < 12; i++) parser.feed(line)
      assert.deepStrictEqual(
        parser.end().events.map(({ data, kind }) => [kind, data.length <= 2 * 1024 * 1024]),
        [["body", true]]
      )
    })
  )
})

describe("the end of an answer", () => {
  const bodies = {
    text: frame({ content: "hi" }),
    "an open call": frame({ tool_calls: [{ index: 0, id: "a", ...fn("look", '{"id":') }] }),
    "a whole call": frame({ tool_calls: [{ index: 0, id: "a", ...fn("look", "{}") }] })
  }
  const rows = Object.entries(bodies).flatMap(([name, said]) =>
    [true, false].flatMap((finish) => [true, false].map((marker) => ({ name, said, finish, marker })))
  )
  it.effect.each(rows)(
    "$name, finish reason $finish, end marker $marker: either of them ends it (O-H11, O-E3)",
    (row) =>
      Effect.gen(function* () {
        const body = [event(row.said), row.finish ? event(frame({}, "stop")) : "", row.marker ? done : ""].join("")
        const received = yield* receive(body)
        assert.strictEqual(received.failure?.reason, row.finish || row.marker ? undefined : "CUT")
      })
  )

  it.effect("may lack its blank line, and its last line end", () =>
    Effect.gen(function* () {
      const said = event(frame({ content: "hi" }))
      for (const end of ["data: [DONE]", "data: [DONE]\n", "data:[DONE]\r", event(frame({}, "stop")).trim()])
        assert.deepInclude(yield* receive(`${said}${end}`), { text: "hi", failure: undefined })
    })
  )

  it.effect("keeps reasons that it does not know, and takes them for a normal end (O-H14)", () =>
    Effect.gen(function* () {
      const ended = (finish: string | null) => receive(sse(frame({ content: "hi" }), frame({}, finish)))
      assert.deepInclude(yield* ended("max_tool_calls"), { finish: "max_tool_calls", failure: undefined })
      assert.deepInclude(yield* ended("constructor"), { finish: "constructor", failure: undefined })
      assert.deepInclude(yield* ended(null), { finish: undefined, failure: undefined })
      assert.deepInclude(yield* ended("length"), { finish: "max-tokens", failure: undefined })
      assert.deepInclude(yield* ended("tool_calls"), { finish: "tool-calls", failure: undefined })
    })
  )

  it.effect("is a failure where a filter or a lack of resources made it; the usage counts all the same", () =>
    Effect.gen(function* () {
      const ended = (finish: string) => receive(sse(frame({ content: "hi" }), frame({}, finish), usage(1, 2)))
      for (const [finish, reason] of [
        ["content_filter", "CONTENT_FILTER"],
        ["insufficient_system_resource", "SERVER"],
        ["error", "SERVER"]
      ] as const) {
        const received = yield* ended(finish)
        assert.strictEqual(failed(received).reason, reason)
        assert.isTrue(received.chunks.some((chunk) => chunk.type === "usage"))
      }
    })
  )

  it.effect(
    "is a failure where nothing was said and nothing called, thinking aside; not where the token limit made it (O01)",
    () =>
      Effect.gen(function* () {
        const blank = frame({ role: "assistant", content: "" })
        const thought = frame({ reasoning_content: "Let me see." })
        const empty: ReadonlyArray<string> = [
          sse(blank, frame({}, "stop"), usage(9, 0)),
          sse(blank, frame({}, null)),
          sse(frame({}, "tool_calls")),
          sse(frame({ content: " \n" }), frame({ refusal: "" }), frame({ tool_calls: [] }, "stop")),
          sse(thought, frame({}, "stop"), usage(9, 4)),
          JSON.stringify({ choices: [{ message: { content: "" }, finish_reason: "stop" }] }),
          done
        ]
        for (const body of empty) {
          const received = yield* receive(body)
          assert.strictEqual(failed(received).reason, "EMPTY_RESPONSE", body)
          assert.strictEqual(failed(received).status, undefined)
        }
        const counted = yield* receive(empty[0] ?? "")
        assert.isTrue(counted.chunks.some((chunk) => chunk.type === "usage"))
        for (const [said, finish] of [
          [frame({ refusal: "No." }), "stop"],
          [frame({ content: [{ type: "text", text: "so" }] }), "stop"],
          [frame({ tool_calls: [{ index: 0, ...fn("look", "") }] }), "tool_calls"],
          [blank, "length"],
          [thought, "max_tokens"]
        ] as const)
          assert.strictEqual((yield* receive(sse(said, frame({}, finish)))).failure, undefined)
        // what is known of the end says more
        assert.strictEqual(failed(yield* receive(sse(blank, frame({}, "content_filter")))).reason, "CONTENT_FILTER")
        assert.strictEqual(failed(yield* receive(event(blank))).reason, "CUT")
      })
  )

  it.effect("ignores what comes after the end marker, and a connection that breaks after the end", () =>
    Effect.gen(function* () {
      const more = yield* receive(`${sse(frame({ content: "hi" }, "stop"))}data: rubbish\n\n`)
      assert.deepInclude(more, { text: "hi", failure: undefined })
      const parts = [Buffer.from(event(frame({ content: "hi" }, "stop")))]
      const broken = new ReadableStream<Uint8Array>({
        pull: (controller) => {
          const part = parts.shift()
          if (part === undefined) controller.error(new Error("terminated"))
          else controller.enqueue(part)
        }
      })
      assert.deepInclude(yield* receive(broken), { text: "hi", failure: undefined })
    })
  )
})

describe("failures inside a stream", () => {
  const hello = event(frame({ content: "hi" }))
  const cases: ReadonlyArray<readonly [name: string, body: string, reason: string, message: RegExp]> = [
    ["an error object", event({ error: { message: "it broke", type: "server_error" } }), "SERVER", /^it broke$/],
    ["an error that is a text", event({ error: "it broke" }), "SERVER", /^it broke$/],
    ["an error with a status for a code", event({ error: { message: "slow down", code: 429 } }), "RATE_LIMIT", /slow/],
    ["an error event (O-H12)", `event: error\n${event({ message: "overloaded" })}`, "SERVER", /^overloaded$/],
    [
      "an error without the word",
      event({ object: "error", message: "bad", type: "BadRequestError" }),
      "INVALID_REQUEST",
      /bad/
    ],
    [
      "an error of the request",
      event({ error: { message: "bad", type: "invalid_request_error" } }),
      "INVALID_REQUEST",
      /bad/
    ],
    [
      "an error that quotes a key",
      event({ error: { message: `key ${key} and sk-other***wxyz`, code: "invalid_api_key" } }),
      "AUTHENTICATION",
      /^key \[key\] and \[key\]$/
    ],
    ["a line that is no JSON (O-H10)", "data: : WAITING\n\n", "MALFORMED", /: WAITING/],
    [
      "arguments nested too deeply",
      event(frame({ tool_calls: [fn("x", "D")] })).replace('"D"', `${'{"a":'.repeat(1e5)}1${"}".repeat(1e5)}`),
      "MALFORMED",
      /no part/
    ]
  ]
  it.effect.each(cases)("%s", ([, body, reason, message]) =>
    Effect.gen(function* () {
      for (const before of ["", hello]) {
        const received = yield* receive(`${before}${body}${done}`)
        assert.strictEqual(failed(received).reason, reason)
        assert.match(failed(received).message, message)
        assert.strictEqual(received.text, before === "" ? "" : "hi")
      }
    })
  )

  it.effect("an error that is null is none", () =>
    Effect.gen(function* () {
      const received = yield* receive(sse({ ...frame({ content: "hi" }, "stop"), error: null }))
      assert.deepInclude(received, { text: "hi", failure: undefined })
    })
  )

  it.effect("a rate limit says how long to wait (O-I6)", () =>
    Effect.gen(function* () {
      const limited = (words: string) =>
        Effect.map(receive(event({ error: { message: words, code: "rate_limit_exceeded" } })), failed)
      assert.deepInclude(yield* limited("Rate limit reached. Please try again in 1.3s."), {
        reason: "RATE_LIMIT",
        retryAfterMillis: 1300
      })
      assert.strictEqual((yield* limited("try again in 6m0.5s")).retryAfterMillis, 360_500)
      assert.strictEqual((yield* limited("try again in 20ms")).retryAfterMillis, 20)
      assert.strictEqual((yield* limited("try again later")).retryAfterMillis, undefined)
    })
  )

  it.effect("an error, a page or nothing in the place of a stream, with status 200", () =>
    Effect.gen(function* () {
      const error = { error: { message: "it broke", code: "context_length_exceeded" } }
      assert.deepInclude(failed(yield* receive(JSON.stringify(error))), { reason: "OVERFLOW", message: "it broke" })
      const page = failed(yield* receive("<!DOCTYPE html>\n<html><head><title>Log in</title></head></html>"))
      assert.strictEqual(page.reason, "MALFORMED")
      assert.include(page.message, 'a page titled "Log in"')
      for (const other of ["Hello.\n", '{"ok":true}', "[]", '{"choices":[]}'])
        assert.strictEqual(failed(yield* receive(other)).reason, "MALFORMED")
      for (const empty of ["", ": keep-alive\n\n: keep-alive\n\n", "event: ping\n\n"])
        assert.strictEqual(failed(yield* receive(empty)).reason, "CUT")
      assert.strictEqual(failed(yield* receive(null)).reason, "TRANSPORT")
    })
  )
})

describe("refusals", () => {
  const told = (code: string, message = "no", type: string | null = null) =>
    JSON.stringify({ error: { message, type, code } })
  const long = "This model's maximum context length is 8192 tokens."
  const cases: ReadonlyArray<readonly [status: number, body: string, reason: string]> = [
    [400, told("x"), "INVALID_REQUEST"],
    [400, told("context_length_exceeded"), "OVERFLOW"],
    [400, told("", long, "BadRequestError"), "OVERFLOW"],
    [400, JSON.stringify({ object: "error", message: long, code: 400 }), "OVERFLOW"],
    [400, told("", "the request exceeds the available context size", "exceed_context_size_error"), "OVERFLOW"],
    [400, told("content_filter"), "CONTENT_FILTER"],
    [401, told("invalid_api_key"), "AUTHENTICATION"],
    [401, "", "AUTHENTICATION"],
    [402, told("invalid_request_error", "Insufficient Balance"), "QUOTA"],
    [403, told("", "no access"), "AUTHENTICATION"],
    [404, told("model_not_found"), "INVALID_REQUEST"],
    [408, "", "TIMEOUT"],
    [409, "", "SERVER"],
    [413, "<html>too large</html>", "OVERFLOW"],
    [422, JSON.stringify({ detail: [{ msg: "field required" }] }), "INVALID_REQUEST"],
    [429, told("rate_limit_exceeded"), "RATE_LIMIT"],
    [429, told("insufficient_quota", "You exceeded your current quota", "insufficient_quota"), "QUOTA"],
    [429, told("", "no more", "insufficient_quota"), "QUOTA"],
    [429, "slow down", "RATE_LIMIT"],
    [500, told("", "The server had an error", "server_error"), "SERVER"],
    [502, "<html><head><title>502 Bad Gateway</title></head></html>", "SERVER"],
    [503, "", "SERVER"],
    [504, "", "TIMEOUT"],
    [529, told("overloaded_error"), "SERVER"]
  ]
  it.effect.each(cases)("%i %s", ([status, body, reason]) =>
    Effect.gen(function* () {
      const failure = failed(yield* receive(body, { status }))
      assert.deepStrictEqual<[string, number | undefined]>([failure.reason, failure.status], [reason, status])
      assert.notStrictEqual(failure.message, "")
      assert.notInclude(failure.message, "<")
    })
  )

  it.effect("says what the server said, shortened, and never the key", () =>
    Effect.gen(function* () {
      const quoting = yield* receive(told("", `Incorrect API key provided: ${key}. Authorization: Bearer ${key}`), {
        status: 401
      })
      assert.strictEqual(failed(quoting).message, "Incorrect API key provided: [key]. Authorization: Bearer [key]")
      const page = yield* receive("<html><head><title>502 Bad Gateway</title></head></html>", { status: 502 })
      assert.strictEqual(failed(page).message, 'the server answered 502: a page titled "502 Bad Gateway"')
      const deep = `{"error":${'{"a":'.repeat(12_000)}1${"}".repeat(12_000)}}`
      assert.deepInclude(failed(yield* receive(deep, { status: 500 })), { reason: "SERVER", status: 500 })
      assert.strictEqual(failed(yield* receive(deep)).reason, "SERVER")
      const detail = yield* receive(JSON.stringify({ detail: "Not authenticated" }), { status: 403 })
      assert.strictEqual(failed(detail).message, "Not authenticated")
      const endless = failed(yield* receive(`\0${"z".repeat(200_000)}`, { status: 500 }))
      assert.isBelow(endless.message.length, 1100)
      assert.notInclude(endless.message, "\0")
    })
  )

  it.live.each([301, 302, 303, 307, 308])(
    "law 1: a redirect (%i) is not followed: what was asked goes nowhere else",
    (status) =>
      Effect.scoped(
        Effect.gen(function* () {
          const other = yield* ChatServer.make({ answers: [ChatServer.say("from elsewhere")] })
          const location = `${other.url}/chat/completions`
          const server = yield* ChatServer.make({ answers: [ChatServer.refusing(status, "moved", { location })] })
          const model = yield* OpenAi.make({
            profile: { ...OpenAi.openai, baseUrl: server.url },
            apiKey: Redacted.make(key)
          }).pipe(Effect.provide(Layer.merge(Settings.layer, FetchHttpClient.layer)))
          const failure = yield* Effect.flip(Stream.runDrain(model.stream(request)))
          assert.deepInclude(failure, { reason: "INVALID_REQUEST", status })
          assert.include(failure.message, `a redirect to ${new URL(other.url).host}, which is not followed`)
          assert.deepStrictEqual([server.received.length, other.received.length], [1, 0])
        })
      )
  )

  it.effect.each([
    [{ "retry-after": "2" }, 2000],
    [{ "retry-after": "0.5" }, 500],
    [{ "retry-after-ms": "150", "retry-after": "1" }, 150],
    [{ "retry-after": "1209600" }, 1_209_600_000],
    [{ "retry-after": " 2 " }, 2000],
    [{ "retry-after": "Thu, 01 Jan 1970 00:00:07 GMT" }, 7000],
    [{ "retry-after": "Thursday, 01-Jan-70 00:00:07 GMT" }, 7000],
    [{ "retry-after": "Wed, 31 Dec 1969 23:59:59 GMT" }, 0],
    [{ "retry-after": "-3" }, undefined],
    [{ "retry-after": "-0.5" }, undefined],
    [{ "retry-after": "soon" }, undefined],
    [{ "retry-after": "2 s" }, undefined],
    [{ "retry-after": "NaN" }, undefined],
    [{ "retry-after": "Infinity" }, undefined],
    [{ "retry-after": "1e999" }, undefined],
    [{ "retry-after": "Thu, 99 Foo 1970 00:00:07 GMT" }, undefined],
    [{ "retry-after-ms": "soon", "retry-after": "1" }, 1000],
    [{ "retry-after": "" }, undefined],
    [{}, undefined]
  ] as const)("how long to wait after 429 with %j (O-I7)", ([headers, millis]) =>
    Effect.gen(function* () {
      const failure = failed(yield* receive(told("rate_limit_exceeded"), { status: 429, headers }))
      assert.strictEqual(failure.retryAfterMillis, millis)
    })
  )

  it.effect.each([408, 409, 425, 429, 500, 502, 503, 504, 529])("how long to wait after %i (O-I7)", (status) =>
    Effect.gen(function* () {
      const failure = failed(yield* receive("busy", { status, headers: { "retry-after": "3" } }))
      assert.deepInclude(failure, { status, retryAfterMillis: 3000 })
    })
  )

  it.effect("a connection that cannot be made says why, without the request and its key", () =>
    Effect.gen(function* () {
      const root = Object.assign(new Error("connect ECONNREFUSED 127.0.0.1:1"), { code: "ECONNREFUSED" })
      const failing = (cause: unknown) =>
        Effect.gen(function* () {
          const client = HttpClient.make((asked) =>
            Effect.fail(new HttpClientError.RequestError({ request: asked, reason: "Transport", cause }))
          )
          const model = yield* OpenAi.make({ profile: OpenAi.openai, apiKey: Redacted.make(key) }).pipe(
            Effect.provide(Layer.merge(Settings.layer, Layer.succeed(HttpClient.HttpClient, client)))
          )
          return yield* Effect.flip(Stream.runDrain(model.stream(request)))
        })
      const refused = yield* failing(new TypeError("fetch failed", { cause: root }))
      assert.deepInclude(refused, {
        reason: "TRANSPORT",
        message: "no connection to api.openai.com: connect ECONNREFUSED 127.0.0.1:1"
      })
      const slow = Object.assign(new Error("Connect Timeout Error"), { code: "UND_ERR_CONNECT_TIMEOUT" })
      assert.strictEqual((yield* failing(new TypeError("fetch failed", { cause: slow }))).reason, "TIMEOUT")
      const telling = yield* failing(new TypeError(`"Bearer ${key}" is an invalid header value`))
      assert.notInclude(`${telling.message} ${JSON.stringify(telling)}`, key)
    })
  )
})

describe("silence", () => {
  /** A body that sends these parts and then nothing, and tells when it is left. */
  const stalling = (...parts: ReadonlyArray<string>) => {
    const seen = { left: false }
    let more: (part: string) => void = () => {}
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        more = (part) => controller.enqueue(Buffer.from(part))
        for (const part of parts) more(part)
      },
      cancel: () => {
        seen.left = true
      }
    })
    return { body, seen, more: (part: string) => Effect.sync(() => more(part)) }
  }

  /** Lets what is going on in promises come to rest: nothing outside this process has a part in it. */
  const settle = Effect.promise(async () => {
    for (let i = 0; i < 30; i++) await new Promise((resolve) => setImmediate(resolve))
  })

  it.effect("of a stream that has begun is a failure after four minutes, and closes it (O-I1)", () =>
    Effect.gen(function* () {
      const { body, seen } = stalling(event(frame({ content: "a" })), event(frame({ content: "b" })))
      const fiber = yield* Effect.fork(receive(body))
      yield* settle
      yield* TestClock.adjust("239 seconds")
      yield* settle
      assert.isFalse(seen.left)
      yield* TestClock.adjust("1 second")
      const received = yield* Fiber.join(fiber)
      assert.deepInclude(failed(received), { reason: "TIMEOUT", message: "api.openai.com said nothing for 240 s" })
      assert.strictEqual(received.text, "ab")
      assert.isTrue(seen.left)
    })
  )

  it.effect("of a server that never answers is a failure, as long as the settings say (O-I2)", () =>
    Effect.gen(function* () {
      const client = HttpClient.make(() => Effect.never)
      const settings = Settings.layerMemory({ "model-patience": { responseMillis: 2000 } })
      const model = yield* OpenAi.make({ profile: OpenAi.openai }).pipe(
        Effect.provide(Layer.merge(settings, Layer.succeed(HttpClient.HttpClient, client)))
      )
      const fiber = yield* Effect.fork(Effect.flip(Stream.runDrain(model.stream(request))))
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual((yield* Fiber.join(fiber)).reason, "TIMEOUT")
    })
  )

  it.effect("after a finish reason is an end after five seconds; after the end marker, after a tenth of one", () =>
    Effect.gen(function* () {
      const finished = event(frame({ content: "hi" }, "stop"))
      for (const [sent, millis] of [
        [finished, 5000],
        [`${finished}${done}`, 100]
      ] as const) {
        const { body, seen } = stalling(sent)
        const fiber = yield* Effect.fork(receive(body))
        yield* settle
        yield* TestClock.adjust(millis)
        assert.deepInclude(yield* Fiber.join(fiber), { text: "hi", failure: undefined })
        assert.isTrue(seen.left)
      }
    })
  )

  it.effect(
    "is broken by a comment, but not after the end: an answer that is whole does not wait for ever (O-H9)",
    () =>
      Effect.gen(function* () {
        const open = stalling(event(frame({ content: "hi" })))
        const thinking = yield* Effect.fork(receive(open.body))
        const finished = stalling(event(frame({ content: "hi" }, "stop")))
        const ending = yield* Effect.fork(receive(finished.body))
        for (let i = 0; i < 3; i++) {
          yield* settle
          yield* TestClock.adjust("2 seconds")
          yield* settle
          if (!finished.seen.left) yield* finished.more(": still here\n\n")
        }
        assert.deepInclude(yield* Fiber.join(ending), { text: "hi", failure: undefined })
        yield* TestClock.adjust("230 seconds")
        yield* open.more(": still here\n\n")
        yield* settle
        yield* TestClock.adjust("230 seconds")
        yield* open.more(done)
        yield* settle
        yield* TestClock.adjust("1 second")
        assert.deepInclude(yield* Fiber.join(thinking), { text: "hi", failure: undefined })
      })
  )

  it.effect("behind a refusal, or more than anybody reads: the status stands", () =>
    Effect.gen(function* () {
      const { body, seen } = stalling('{"error"')
      const silent = yield* Effect.fork(receive(body, { status: 429 }))
      yield* settle
      yield* TestClock.adjust("5 seconds")
      assert.deepInclude(failed(yield* Fiber.join(silent)), { reason: "RATE_LIMIT", status: 429 })
      assert.isTrue(seen.left)
      const endless = new ReadableStream<Uint8Array>({
        pull: (controller) => controller.enqueue(Buffer.alloc(9999, "x"))
      })
      assert.deepInclude(failed(yield* receive(endless, { status: 500 })), { reason: "SERVER", status: 500 })
    })
  )

  it.effect("does not keep a cancel waiting: the body is left at once", () =>
    Effect.gen(function* () {
      const { body, seen } = stalling(event(frame({ content: "a" })))
      const fiber = yield* Effect.fork(receive(body))
      yield* settle
      yield* Fiber.interrupt(fiber)
      assert.isTrue(seen.left)
    })
  )
})
