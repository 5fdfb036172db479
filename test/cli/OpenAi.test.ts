/**
 * The program with a real provider: a server of chat completions on the loopback interface that refuses what any would.
 */
import { cpSync, existsSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { StoredEvent } from "../../src/domain/Event.ts"
import type { ChatRequest } from "../../src/domain/Request.ts"
import { deepseek, openai } from "../../src/model/OpenAi.ts"
import { body, type Profile } from "../../src/model/OpenAiWire.ts"
import * as ChatServer from "../support/ChatServer.ts"
import { folder, lines, log, type Options, run, start } from "../support/Cli.ts"
import { eventually } from "../support/processes.ts"

const sample = fileURLToPath(new URL("../../scratchpad/report", import.meta.url))

const patience = 120_000

const key = "sk-this-is-never-shown-0123456789"

/** Nobody's own keys: the environment of whoever runs the tests is passed on. */
const env = { OPENAI_API_KEY: "", DEEPSEEK_API_KEY: "" }

/** The bodies that a stored log says were sent: each request as `daybook request` derives it right before its answer began. */
const derivedBodies = (id: string, profile: Profile, options: Options): Effect.Effect<ReadonlyArray<string>> =>
  Effect.gen(function* () {
    const events = yield* log(id, options)
    const began = events.filter(
      ({ seq, type }) =>
        (type === "assistant/chunk" || type === "assistant/message") && events[seq - 1]?.type !== "assistant/chunk"
    )
    const requests = yield* Effect.forEach(began, ({ seq }) => run(["request", id, "--at", String(seq)], options))
    return requests.flatMap(({ stderr, stdout }) => {
      assert.strictEqual(stderr, "")
      const request: ChatRequest = JSON.parse(stdout)
      return request.config.provider === profile.provider ? [body(request, profile)] : []
    })
  })

const received = (server: ChatServer.ChatServer) => server.received.map((request) => request.body)

const refused = (server: ChatServer.ChatServer) => server.received.flatMap((request) => request.refused ?? [])

const report = "# Report\n\n2 of 3 suites passed. Failed: b.\n"

describe("run --model openai/NAME", () => {
  it.scopedLive(
    "does the report; the server got, byte for byte, what the stored log derives (law 1, issue 3, done when 1)",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        cpSync(sample, cwd, { recursive: true })
        rmSync(join(cwd, "report.md"), { force: true })
        const suite = (name: string) => ["bash", { command: `cd ${name} && node --test`, parallel: true }] as const
        const server = yield* ChatServer.make({
          key,
          answers: [
            ChatServer.call([suite("a"), suite("b"), suite("c")]),
            ChatServer.call([["write", { path: "report.md", content: report }]]),
            ChatServer.say("The report is in report.md: b failed.")
          ]
        })
        const words = ["run", "--yes", "--session", "s", "--model", "openai/gpt-test", "--base-url", server.url]
        const options = { cwd, env: { ...env, OPENAI_API_KEY: key } }
        const result = yield* run([...words, "Run the tests in a, b and c, then write report.md"], options)
        assert.deepStrictEqual(refused(server), [])
        assert.strictEqual(result.code, 0, result.stderr)
        assert.strictEqual(result.stdout, "The report is in report.md: b failed.\n")
        assert.strictEqual(readFileSync(join(cwd, "report.md"), "utf8"), report)

        const events = yield* log("s", options)
        const processes = events.filter((event) => event.type === "tool/process").map((event) => event.seq)
        const settled = events.find((event) => event.type === "tool/settled" || event.type === "tool/result")
        assert.strictEqual(processes.length, 3)
        assert.isBelow(Math.max(...processes), settled?.seq ?? 0)
        assert.strictEqual(server.received.length, 3)
        assert.deepStrictEqual(received(server), yield* derivedBodies("s", openai, options))
        // the suites really ran
        assert.match(server.received[1]?.body ?? "", /the shares of 10\.00 among 3 people must add up/)
        assert.notInclude(`${result.stdout}${result.stderr}${JSON.stringify(events)}`, key)
      }),
    patience
  )

  it.scopedLive(
    "goes on with a session of the offline model, which goes on with it again (issue 3, done when 2)",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const server = yield* ChatServer.make({
          answers: [
            ChatServer.call([["read", { path: "notes.txt" }]]),
            ChatServer.say("It says milk."),
            ChatServer.say("I said so.")
          ]
        })
        const options = { cwd, env }
        const asking = (...words: ReadonlyArray<string>) => run(["run", "--yes", "--session", "s", ...words], options)
        const online = ["--model", "openai/gpt-test", "--base-url", server.url]
        const first = yield* asking("Write notes.txt: milk; then read notes.txt")
        assert.strictEqual(first.code, 0, first.stderr)
        const second = yield* asking(...online, "What do the notes say?")
        assert.deepStrictEqual([second.code, second.stdout], [0, "It says milk.\n"], second.stderr)
        // without --model it goes on with whom it asked last
        const third = yield* asking("--base-url", server.url, "Are you sure?")
        assert.deepStrictEqual([third.code, third.stdout], [0, "I said so.\n"], third.stderr)
        const fourth = yield* asking("--model", "offline", "Say goodbye")
        assert.deepStrictEqual([fourth.code, fourth.stdout], [0, "goodbye\n"], fourth.stderr)
        const fifth = yield* asking("Say it again")
        assert.deepStrictEqual([fifth.code, fifth.stdout], [0, "it again\n"], fifth.stderr)

        assert.deepStrictEqual(refused(server), [])
        const events = yield* log("s", options)
        assert.deepStrictEqual(received(server), yield* derivedBodies("s", openai, options))
        const providers = events.flatMap((event) =>
          event.type === "request/header" ? [event.data.config.provider] : []
        )
        assert.deepStrictEqual(providers, ["offline", "openai", "openai", "offline", "offline"])
      }),
    patience
  )

  it.scopedLive(
    "tries again after half an answer: --json has both attempts, which of them counts, and what each cost (O-I3, O-I4)",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const { event, frame, say, send, usage } = ChatServer
        const half = [event(frame({ content: "Let me" })), event(usage(20, 5)), event({ error: { message: "busy" } })]
        const server = yield* ChatServer.make({ answers: [{ acts: half.map(send) }, say("Done."), say("Bye.")] })
        const options = { cwd, env }
        const asking = (...words: ReadonlyArray<string>) =>
          run(
            ["run", "--yes", "--session", "s", "--model", "openai/gpt-test", "--base-url", server.url, ...words],
            options
          )
        const first = yield* asking("--json", "go")
        assert.strictEqual(first.code, 0, first.stderr)
        const events = lines(first.stdout).map((line): StoredEvent => JSON.parse(line))
        const retries = events.filter((event) => event.type === "request/retry")
        assert.strictEqual(retries.length, 1)
        const [retry] = retries
        // what stands before it in its step was superseded
        const said = (isBefore: boolean) =>
          events
            .filter((event) => event.type === "assistant/chunk" && event.seq < (retry?.seq ?? 0) === isBefore)
            .map((event) =>
              event.type === "assistant/chunk" && "text" in event.data.chunk ? event.data.chunk.text : ""
            )
            .join("")
        assert.deepStrictEqual([said(true), said(false)], ["Let me", "Done."])
        const costs = events.flatMap((event) =>
          event.type === "assistant/message" || event.type === "request/retry" ? [event.data.usage?.outputTokens] : []
        )
        assert.deepStrictEqual(costs, [5, 7])
        const shown = yield* run(["show", "s"], options)
        assert.notInclude(shown.stdout, "Let me")
        assert.strictEqual(shown.stdout.split("Done.").length, 2)

        const second = yield* asking("and?")
        assert.strictEqual(second.stdout, "Bye.\n")
        assert.notInclude(server.received[2]?.body ?? "", "Let me")
        assert.deepStrictEqual(refused(server), [])
      }),
    patience
  )

  it.scopedLive(
    "a session whose own model has no key any more says so, keeps the prompt, and goes on with another",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const server = yield* ChatServer.make({ answers: [ChatServer.say("Hello.")] })
        const asking = (...words: ReadonlyArray<string>) =>
          run(["run", "--yes", "--session", "s", ...words], { cwd, env })
        yield* asking("--model", "openai/gpt-test", "--base-url", server.url, "Say hello")
        const lost = yield* asking("Say more")
        assert.strictEqual(lost.code, 1)
        assert.include(lost.stderr, "turn 2 failed (AUTHENTICATION): openai needs a key: set OPENAI_API_KEY")
        assert.strictEqual(server.received.length, 1)
        assert.strictEqual((yield* asking("--model", "offline", "Say more")).stdout, "more\n")
      }),
    patience
  )

  it.scopedLive(
    "says what the server says of a wrong key, without the key, in no stream and nowhere in the journal",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const server = yield* ChatServer.make({ key: "another", answers: [] })
        const words = ["--log-level", "debug", "run", "--session", "s", "--db", "x.db"]
        const online = ["--model", "openai/gpt-test", "--base-url", server.url, "Say hello"]
        const result = yield* run([...words, ...online], { cwd, env: { ...env, OPENAI_API_KEY: key } })
        assert.strictEqual(result.code, 1)
        assert.include(result.stderr, "turn 1 failed (AUTHENTICATION): Incorrect API key provided: Bearer [key].")
        assert.strictEqual(server.received[0]?.headers.authorization, `Bearer ${key}`)
        assert.notInclude(`${result.stdout}${result.stderr}`, key)
        for (const file of readdirSync(cwd)) assert.notInclude(readFileSync(join(cwd, file), "latin1"), key)
      }),
    patience
  )

  it.scopedLive(
    "nobody there, and a broken answer: one line says which server and why (exit 1)",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const server = yield* ChatServer.make({ answers: [ChatServer.refusing(200, "<title>Log in</title>")] })
        const online = (url: string) => ["run", "--yes", "--model", "openai/gpt-test", "--base-url", url, "Say hello"]
        const page = yield* run(online(server.url), { cwd, env })
        assert.strictEqual(page.code, 1)
        assert.match(page.stderr, /failed \(MALFORMED\): .*a page titled "Log in"/)
        const wrong = yield* run(online(server.url.replace("/v1", "/v2")), { cwd, env })
        assert.strictEqual(wrong.code, 1)
        assert.match(wrong.stderr, /failed \(INVALID_REQUEST\): there is nothing at POST \/v2\/chat\/completions/)
      }),
    patience
  )

  it.scopedLive(
    "a signal closes the connection at once, keeps what was said, and exits 130 (law 4)",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const half = [
          ChatServer.send(ChatServer.event(ChatServer.frame({ content: "Half an answer" }))),
          ChatServer.wait(Effect.never)
        ]
        const server = yield* ChatServer.make({ answers: [{ acts: half }] })
        const words = [
          "run",
          "--yes",
          "--session",
          "s",
          "--model",
          "openai/gpt-test",
          "--base-url",
          server.url,
          "Say hello"
        ]
        const running = yield* start(words, { cwd, env })
        yield* untilSaid(running.stdout, "Half an answer")
        yield* running.signal("SIGINT")
        yield* server.closedEarly(0)
        const result = yield* running.ended
        assert.strictEqual(result.code, 130, result.stderr)
        const events = yield* log("s", { cwd, env })
        assert.deepInclude(events.at(-1)?.data, { reason: { kind: "aborted" } })
        assert.isTrue(events.some((event) => event.type === "assistant/message" && event.data.interrupted === true))
      }),
    patience
  )
})

describe("run --model deepseek/NAME", () => {
  it.scopedLive(
    "returns the thinking of its calls, in this process and in the next (O-C6)",
    () =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const server = yield* ChatServer.make({
          key,
          dialect: "deepseek",
          answers: [
            ChatServer.call([["write", { path: "x.txt", content: "x" }]], "I write."),
            ChatServer.say("Done."),
            ChatServer.say("Bye.")
          ]
        })
        const options = { cwd, env: { ...env, DEEPSEEK_API_KEY: ` ${key}\n` } }
        const words = [
          "run",
          "--yes",
          "--session",
          "s",
          "--model",
          "deepseek/deepseek-chat",
          "--base-url",
          `${server.url}/`
        ]
        const first = yield* run([...words, "Write it"], options)
        const second = yield* run([...words, "Thanks"], options)
        assert.deepStrictEqual([first.stdout, second.stdout], ["Done.\n", "Bye.\n"], first.stderr + second.stderr)
        assert.deepStrictEqual(refused(server), [])
        assert.deepStrictEqual(received(server), yield* derivedBodies("s", deepseek, options))
      }),
    patience
  )
})

describe("what cannot be asked is one line, exit 2, and nothing has changed", () => {
  const cases: ReadonlyArray<readonly [words: ReadonlyArray<string>, says: RegExp, more: Options["env"]]> = [
    [
      ["--model", "openai/gpt-test"],
      /openai needs a key: set OPENAI_API_KEY, or .* --base-url\. Nothing was changed\./,
      {}
    ],
    [["--model", "deepseek/deepseek-chat"], /deepseek needs a key: set DEEPSEEK_API_KEY/, { OPENAI_API_KEY: key }],
    [
      ["--model", "openai/gpt-test"],
      /OPENAI_API_KEY holds characters that are in no key/,
      { OPENAI_API_KEY: `${key} é` }
    ],
    [["--model", "openai"], /it needs the name of a model: openai\/NAME/, {}],
    [["--model", "openai/"], /it needs the name of a model: openai\/NAME/, {}],
    [["--model", "openai/a b"], /it needs the name of a model: openai\/NAME/, {}],
    [["--model", "acme/x"], /no provider "acme"\. There is: offline, openai, deepseek\./, {}],
    [["--model", "openai/x", "--base-url", "nowhere"], /"nowhere" is no URL/, {}],
    [["--model", "openai/x", "--base-url", "ftp://x/v1"], /is no http or https URL/, {}],
    [["--model", "openai/x", "--base-url", `http://u:${key}@x/v1`], /takes no user, password/, {}],
    [["--model", "openai/x", "--base-url", `http://x/v1?key=${key}`], /takes no user, password, query/, {}],
    [["--model", "offline", "--base-url", "http://127.0.0.1:1/v1"], /the offline model asks no server/, {}],
    [["--base-url", "http://127.0.0.1:1/v1"], /the offline model asks no server/, {}]
  ]
  it.scopedLive.each(cases)(
    "run %j",
    ([words, says, more]) =>
      Effect.gen(function* () {
        const cwd = yield* folder
        const { code, stderr, stdout } = yield* run(["run", "--yes", ...words, "Say hello"], {
          cwd,
          env: { ...env, ...more }
        })
        assert.deepStrictEqual([code, stdout, lines(stderr).length], [2, "", 1], stderr)
        assert.match(stderr, says)
        assert.notInclude(stderr, key)
        assert.isFalse(existsSync(join(cwd, ".daybook")))
      }),
    patience
  )
})

/** Returns once the program has said this. */
const untilSaid = (said: () => string, text: string) =>
  eventually(`${text} to be said`, () => said().includes(text), 60_000)
