/**
 * A server of chat completions on the loopback interface, for tests: real HTTP, scripted answers.
 *
 * - Every request is checked by ChatRules before it is answered; what is refused gets a 400, and is kept.
 * - Every body is kept as it came, byte for byte; so is whether its connection was closed before its answer had ended.
 */
import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Scope } from "effect/Scope"
import * as ChatRules from "./ChatRules.ts"
import { eventually } from "./processes.ts"

/** One thing that an answer does: sends bytes at once, waits, or breaks the connection. */
export type Act =
  | { readonly _tag: "Send"; readonly bytes: Uint8Array }
  | { readonly _tag: "Wait"; readonly until: Effect.Effect<unknown> }
  | { readonly _tag: "Reset" }

/** What one request is answered with. `thought` is what the model thinks while it calls tools. */
export interface Answer {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly acts: ReadonlyArray<Act>
  readonly thought?: string
}

/** A request that came in. */
export interface Received {
  readonly body: string
  readonly headers: Http.IncomingHttpHeaders
  /** Why it was refused. */
  refused: string | undefined
  /** The connection was closed before the answer had ended. */
  closedEarly: boolean
}

export interface Options {
  readonly answers: ReadonlyArray<Answer>
  readonly dialect?: ChatRules.Dialect
  /** The key without which nobody is let in. */
  readonly key?: string
}

export interface ChatServer {
  /** What `--base-url` takes. */
  readonly url: string
  readonly received: ReadonlyArray<Received>
  /** How many connections there ever were. */
  readonly connections: () => number
  /** How many requests are being answered now. */
  readonly busy: () => number
  /** Returns once the n-th request (from 0) saw its connection closed before its end. */
  readonly closedEarly: (index: number) => Effect.Effect<void>
}

// answers

/** Bytes, or text as bytes, sent in one piece. */
export const send = (data: string | Uint8Array): Act => ({ _tag: "Send", bytes: Buffer.from(data) })

/** Sends nothing until the effect has succeeded. */
export const wait = (until: Effect.Effect<unknown>): Act => ({ _tag: "Wait", until })

/** Breaks the connection without a word. */
export const reset: Act = { _tag: "Reset" }

/** The end of every good stream. */
export const done = "data: [DONE]\n\n"

/** An event with this JSON. */
export const event = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`

/** A chunk as OpenAI writes them. */
export const frame = (delta: object, finish: string | null = null): object => ({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 1_760_000_000,
  model: "gpt-test",
  system_fingerprint: "fp_1",
  choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }]
})

/** The chunk with the usage, which comes last and has no choice. */
export const usage = (prompt: number, completion: number): object => ({
  ...frame({}),
  choices: [],
  usage: {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: 3, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 2 }
  }
})

/** A stream of these chunks, as one answer. */
export const stream = (...frames: ReadonlyArray<object>): Answer => ({
  acts: [send([...frames.map(event), done].join(""))]
})

/** An answer of text, a few characters at a time. */
export const say = (text: string): Answer =>
  stream(
    frame({ role: "assistant", content: "", refusal: null }),
    ...pieces(text).map((content) => frame({ content })),
    frame({}, "stop"),
    usage(11, 7)
  )

/** An answer that calls tools side by side, their arguments a few characters at a time; with what it thought before. */
export const call = (calls: ReadonlyArray<readonly [name: string, args: object]>, thought?: string): Answer => ({
  ...stream(
    frame({ role: "assistant", content: null, refusal: null }),
    ...pieces(thought ?? "").map((reasoning_content) => frame({ reasoning_content })),
    ...calls.flatMap(([name, args], index) => [
      frame({
        tool_calls: [
          { index, id: `call_${name}_${index}_abcdefghijklmnop`, type: "function", function: { name, arguments: "" } }
        ]
      }),
      ...pieces(JSON.stringify(args)).map((text) => frame({ tool_calls: [{ index, function: { arguments: text } }] }))
    ]),
    frame({}, "tool_calls"),
    usage(23, 5)
  ),
  ...(thought === undefined ? {} : { thought })
})

/** A refusal with this body. */
export const refusing = (
  status: number,
  body: object | string,
  headers: Readonly<Record<string, string>> = {}
): Answer => ({
  status,
  headers: { "content-type": typeof body === "string" ? "text/html" : "application/json", ...headers },
  acts: [send(typeof body === "string" ? body : JSON.stringify(body))]
})

/** The server; it is gone with the scope, connections and all. */
export const make = (options: Options): Effect.Effect<ChatServer, never, Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(() => listening(options)),
      ({ close }) => Effect.promise(close)
    ),
    ({ server }) => server
  )

// internal

const pieces = (text: string): ReadonlyArray<string> => Array.from(text.match(/[\s\S]{1,7}/gu) ?? [])

const read = async (request: Http.IncomingMessage): Promise<Buffer> => {
  const parts: Array<Buffer> = []
  for await (const part of request) parts.push(part)
  return Buffer.concat(parts)
}

const play = async (acts: ReadonlyArray<Act>, response: Http.ServerResponse, left: AbortSignal): Promise<void> => {
  for (const act of acts) {
    if (left.aborted) return
    switch (act._tag) {
      case "Send":
        await new Promise<void>((resolve) => response.write(act.bytes, () => resolve()))
        break
      case "Wait":
        await Effect.runPromiseExit(act.until, { signal: left }).then((exit) => {
          if (Exit.isFailure(exit) && !left.aborted) throw new Error("a wait of the script failed")
        })
        break
      case "Reset":
        response.socket?.resetAndDestroy()
        return
      default:
        act satisfies never
    }
  }
  response.end()
}

const listening = async ({ answers, dialect = "openai", key }: Options) => {
  const received: Array<Received> = []
  const thoughts: Array<string> = []
  let connections = 0
  let busy = 0
  let next = 0

  const answer = async (request: Http.IncomingMessage, response: Http.ServerResponse) => {
    const left = new AbortController()
    const bytes = await read(request)
    const problem =
      request.method !== "POST" || request.url !== "/v1/chat/completions"
        ? `there is nothing at ${request.method} ${request.url}`
        : request.headers["content-type"] !== "application/json"
          ? "the body is not said to be JSON"
          : ChatRules.refusal(bytes, dialect, thoughts)
    const entry: Received = {
      body: bytes.toString("utf8"),
      headers: request.headers,
      refused: problem,
      closedEarly: false
    }
    received.push(entry)
    busy++
    response.on("close", () => {
      busy--
      entry.closedEarly = !response.writableFinished
      left.abort()
    })
    const given = request.headers.authorization
    const scripted =
      key !== undefined && given !== `Bearer ${key}`
        ? refusing(401, { error: { message: `Incorrect API key provided: ${given}.`, code: "invalid_api_key" } })
        : problem !== undefined
          ? refusing(400, { error: { message: problem, type: "invalid_request_error", param: null, code: null } })
          : answers[next++]
    if (scripted === undefined) {
      entry.refused = "the script has no answer to this request"
      response.writeHead(400).end(entry.refused)
      return
    }
    if (scripted.thought !== undefined) thoughts.push(scripted.thought)
    response.writeHead(scripted.status ?? 200, {
      "content-type": "text/event-stream; charset=utf-8",
      ...scripted.headers
    })
    response.flushHeaders()
    await play(scripted.acts, response, left.signal)
  }

  const http = Http.createServer((request, response) => {
    answer(request, response).catch((error: unknown) => response.destroy(error instanceof Error ? error : undefined))
  })
  http.on("connection", () => {
    connections++
  })
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve))
  const { port } = http.address() as AddressInfo // it listens on a port
  const server: ChatServer = {
    url: `http://127.0.0.1:${port}/v1`,
    received,
    connections: () => connections,
    busy: () => busy,
    closedEarly: (index) => eventually(`request ${index} to be left`, () => received[index]?.closedEarly === true)
  }
  const close = () =>
    new Promise<void>((resolve) => {
      http.close(() => resolve())
      http.closeAllConnections()
    })
  return { server, close }
}
