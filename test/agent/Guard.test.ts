/**
 * The guard of requests, by digest and by bytes: what differs from the log in any field is not sent, whoever stands in the place
 * of the model.
 */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import type { Agent } from "../../src/agent/Agent.ts"
import * as Agents from "../../src/agent/Agents.ts"
import * as Guard from "../../src/agent/Guard.ts"
import * as Hooks from "../../src/agent/Hooks.ts"
import type { ChatChunk } from "../../src/domain/Chunk.ts"
import { JournalFailed } from "../../src/domain/Errors.ts"
import type { StoredEvent } from "../../src/domain/Event.ts"
import { SessionId } from "../../src/domain/Ids.ts"
import { text } from "../../src/domain/Message.ts"
import type { ChatRequest } from "../../src/domain/Request.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import * as Transcript from "../../src/domain/Transcript.ts"
import * as Journal from "../../src/journal/Journal.ts"
import { ChatError, ChatModel } from "../../src/model/ChatModel.ts"
import * as Reaper from "../../src/session/Reaper.ts"
import * as Repair from "../../src/session/Repair.ts"
import type { Session } from "../../src/session/Session.ts"
import * as Sessions from "../../src/session/Sessions.ts"
import * as Settings from "../../src/settings/Settings.ts"
import * as Pipeline from "../../src/tool/Pipeline.ts"
import { header, input, logOf, said, stateOf, stepEnd, stepStart, turnStart } from "../support/Facts.ts"
import { shorthand, tools } from "../support/World.ts"

const id = SessionId.make("guarded")
const config = {
  provider: "scripted",
  model: "script",
  maxTokens: 100,
  temperature: 0.5,
  stop: ["."],
  reasoningEffort: "high"
}
const where = { cwd: "/", create: "if-absent", config } as const

type Forge = (state: SessionState.SessionState) => SessionState.SessionState

/** What a test may put in the place of what the composition would have. */
interface Doubles {
  readonly guard?: Layer.Layer<Guard.Guard> | undefined
  /** What the live session says its state is: to the step alone, when it derives its request, or to everybody. */
  readonly forge?: Forge
  readonly liesTo?: "the step" | "everybody"
  readonly hooks?: Partial<Hooks.HookPoints>
  /** What the model does when it is asked for the nth time. */
  readonly answer?: (times: number) => Stream.Stream<ChatChunk, ChatError>
  /** Whether the journal can be read. */
  readonly isReadable?: () => boolean
}

/** A session that lies: to whoever asks first after an append, which is the step that derives its request, or always. */
const lying = (session: Session, forge: Forge, liesTo: Doubles["liesTo"]): Session => {
  let isDue = false
  return {
    ...session,
    append: (make) =>
      Effect.tap(session.append(make), () => {
        isDue = true
      }),
    unsafeState: () => {
      const state = session.unsafeState()
      if (liesTo !== "everybody" && !isDue) return state
      isDue = false
      return forge(state)
    }
  }
}

/** Agents over a model that notes what it is sent, and answers nothing. */
const make = (doubles: Doubles = {}) =>
  Effect.gen(function* () {
    const requests: Array<ChatRequest> = []
    const model = Layer.succeed(ChatModel, {
      stream: (request) => Stream.suspend(() => (doubles.answer ?? (() => Stream.empty))(requests.push(request)))
    })
    const sessions = Layer.map(Sessions.layer, (context) => {
      const { acquire } = Context.get(context, Sessions.Sessions)
      return Context.make(Sessions.Sessions, {
        acquire: (id, options) =>
          Effect.map(acquire(id, options), (session) =>
            doubles.forge === undefined ? session : lying(session, doubles.forge, doubles.liesTo)
          )
      })
    })
    const journal = Layer.map(Journal.layerMemory, (context) => {
      const real = Context.get(context, Journal.Journal)
      const broken = new JournalFailed({ file: "memory", operation: "read", cause: new Error("no disk") })
      return Context.make(Journal.Journal, {
        ...real,
        read: (id, range) =>
          Effect.suspend(() => (doubles.isReadable?.() === false ? Effect.fail(broken) : real.read(id, range)))
      })
    })
    const context = yield* Layer.build(
      Agents.layer.pipe(
        Layer.provide(doubles.guard ?? Layer.empty),
        Layer.provide(Hooks.layer(doubles.hooks ?? {})),
        Layer.provide(Layer.mergeAll(sessions, Pipeline.layer, Settings.layerMemory())),
        Layer.provide(tools(Effect.succeed)),
        Layer.provideMerge(Layer.mergeAll(journal, model, Repair.layer, Reaper.layerNone, NodeFileSystem.layer))
      )
    )
    const { read } = Context.get(context, Journal.Journal)
    return {
      open: Context.get(context, Agents.Agents).open(id, where),
      model: Context.get(context, ChatModel),
      requests,
      log: Effect.map(read(id, { from: 0, limit: 1000 }), (events): ReadonlyArray<StoredEvent> => events)
    }
  })

/** Sends a prompt and tells how its turn ended: the message of an error, or the kind of the ending. */
const ending = (agent: Agent, words: string) =>
  Effect.gen(function* () {
    yield* agent.followup(words)
    const { ending } = Option.getOrThrow((yield* agent.idle).last)
    return ending.kind === "error" ? ending.error.message : ending.kind
  })

const guards: Record<"digests" | "bytes", Doubles["guard"]> = { digests: undefined, bytes: Guard.layerStrict }

type Header = NonNullable<SessionState.SessionState["header"]>

const inHeader =
  (change: (header: Header["data"]) => Partial<Header["data"]>): Forge =>
  (state) =>
    state.header === undefined
      ? state
      : { ...state, header: { ...state.header, data: { ...state.header.data, ...change(state.header.data) } } }

const inConfig = (change: Partial<Header["data"]["config"]>): Forge =>
  inHeader((header) => ({ config: { ...header.config, ...change } }))

const inTool = (change: Partial<Header["data"]["tools"][number]>): Forge =>
  inHeader(({ tools: [first, ...rest] }) => ({
    tools: first === undefined ? rest : [{ ...first, ...change }, ...rest]
  }))

const spans =
  (change: (spans: ReadonlyArray<Span>) => ReadonlyArray<Span>): Forge =>
  (state) => ({
    ...state,
    transcript: { spans: Chunk.fromIterable(change(Chunk.toReadonlyArray(state.transcript.spans))) }
  })

type Span = Chunk.Chunk.Infer<SessionState.SessionState["transcript"]["spans"]>

const safe = { readonly: true, idempotent: true, destructive: false }

/** Each way in which a request may differ from the log, and what the error says of it. */
const forgeries: ReadonlyArray<readonly [what: string, forge: Forge, told: string]> = [
  ["the provider", inConfig({ provider: "another" }), "its config"],
  ["the model", inConfig({ model: "another" }), "its config"],
  ["the effort", inConfig({ reasoningEffort: "low" }), "its config"],
  ["the temperature", inConfig({ temperature: 0.6 }), "its config"],
  ["the most tokens", inConfig({ maxTokens: 101 }), "its config"],
  ["where to stop", inConfig({ stop: [".", ","] }), "its config"],
  [
    "a field that is left out",
    inHeader(({ config: { reasoningEffort: _effort, ...config } }) => ({ config })),
    "its config"
  ],
  ["the system text", inHeader(({ system }) => ({ system: `${system} ` })), "its system"],
  ["a tool that is missing", inHeader(({ tools }) => ({ tools: tools.slice(1) })), "its tools"],
  ["the order of the tools", inHeader(({ tools }) => ({ tools: tools.toReversed() })), "its tools"],
  ["the name of a tool", inTool({ name: "another" }), "its tools"],
  ["the parameters of a tool", inTool({ parameters: { type: "object" } }), "its tools"],
  ["the annotations of a tool", inTool({ annotations: safe }), "its tools"],
  [
    "the text of a message",
    spans(([first, ...rest]) =>
      first === undefined
        ? rest
        : // only texts are changed
          [
            {
              ...first,
              messages: first.messages.map((m) => ({ ...m, content: [text("forged")] })) as typeof first.messages
            },
            ...rest
          ]
    ),
    "its messages"
  ],
  [
    "a message that is missing",
    spans(([first, ...rest]) => (first === undefined ? rest : [{ ...first, messages: [] }, ...rest])),
    "its messages"
  ]
]

describe.each(["digests", "bytes"] as const)("the guard that compares %s", (kind) => {
  it.scoped.each(forgeries)(
    "law 1 W04 H05: %s is noticed, nothing is sent, the turn is an error and says so",
    ([, forge, told]) =>
      Effect.gen(function* () {
        let isForging = false
        const world = yield* make({ guard: guards[kind], forge: (state) => (isForging ? forge(state) : state) })
        const agent = yield* world.open
        assert.strictEqual(yield* ending(agent, "one"), "completed")
        isForging = true
        assert.strictEqual(
          yield* ending(agent, "two"),
          `session ${id}: the request was not sent: it is not what the log derives: ${told}`
        )
        assert.strictEqual(world.requests.length, 1)
        assert.match(shorthand(yield* world.log), /T<2 in- S<1 UM S>1 T>\(error\)$/)
        isForging = false
        assert.strictEqual(yield* ending(agent, "three"), "completed")
        assert.strictEqual(world.requests.length, 2)
      })
  )

  it.scoped("H03 law 1: what is as the log says passes, with tools, in later turns and after a restore", () =>
    Effect.gen(function* () {
      const look = { type: "tool-call", index: 0, id: "x", name: "look", arguments: '{"id":"a"}' } as const
      const world = yield* make({
        guard: guards[kind],
        answer: (times) => (times % 2 === 1 ? Stream.make(look) : Stream.empty)
      })
      for (let opened = 0; opened < 2; opened++)
        yield* Effect.scoped(
          Effect.flatMap(world.open, (agent) =>
            Effect.forEach(["one", "two"], (words) =>
              Effect.map(ending(agent, words), (kind) => assert.strictEqual(kind, "completed"))
            )
          )
        )
      assert.strictEqual(world.requests.length, 8)
    })
  )
})

describe("the guard", () => {
  it.scoped(
    "H03: sees each attempt of the loop, once all before it is durable, and no call that is made without it",
    () =>
      Effect.gen(function* () {
        const seen: Array<readonly [stored: number, head: number]> = []
        const counting = Layer.succeed(Guard.Guard, {
          make: (session: Session) => () =>
            Effect.flatMap(Effect.orDie(session.read(0, 1000)), (events) =>
              Effect.sync(() => {
                seen.push([events.length, session.unsafeState().head])
              })
            )
        })
        const own = { config, system: "", tools: [], messages: [] }
        const world: World = yield* make({
          guard: counting,
          hooks: {
            requestError: () => Effect.succeed("retry"),
            stopping: () => Effect.ignore(Stream.runDrain(Stream.unwrap(Effect.sync(() => world.model.stream(own)))))
          },
          answer: (times) =>
            times === 1 ? Stream.fail(new ChatError({ reason: "SERVER", message: "busy" })) : Stream.empty
        })
        const agent = yield* world.open
        yield* agent.followup("one")
        yield* Effect.replicateEffect(Effect.yieldNow(), 100)
        assert.strictEqual(seen.length, 1)
        yield* TestClock.adjust("1 minute")
        yield* agent.idle
        assert.strictEqual(seen.length, 2)
        for (const [stored, head] of seen) assert.strictEqual(stored, head)
        assert.deepStrictEqual(
          world.requests.map((request) => request === own),
          [false, false, true]
        )
      })
  )

  it.scoped("W04: by bytes is independent of the live state: a lie that fits itself is noticed all the same", () =>
    Effect.gen(function* () {
      const forge: Forge = (state) => {
        const first = Option.getOrUndefined(Chunk.head(state.transcript.spans))
        if (first === undefined) return state
        const another = Transcript.replace(state.transcript, first, [said("x", "another prompt", "context")])
        return { ...state, transcript: Either.getOrThrow(another) }
      }
      for (const kind of ["digests", "bytes"] as const) {
        const world = yield* make({ guard: guards[kind], forge, liesTo: "everybody" })
        const agent = yield* world.open
        assert.strictEqual(yield* ending(agent, "one"), "completed")
        const told = yield* ending(agent, "two")
        if (kind === "digests") assert.strictEqual(told, "completed")
        else
          assert.match(
            told,
            /^session guarded: the request was not sent: it is not what the log derives: its messages$/
          )
        assert.strictEqual(world.requests.length, kind === "digests" ? 2 : 1)
      }
    })
  )

  it.scoped("W04: by bytes sends nothing where what is stored cannot be read", () =>
    Effect.gen(function* () {
      let isReadable = true
      const world = yield* make({ guard: guards.bytes, isReadable: () => isReadable })
      const agent = yield* world.open
      isReadable = false
      assert.match(yield* ending(agent, "one"), /the request was not sent: what is stored cannot be read/)
      assert.strictEqual(world.requests.length, 0)
      isReadable = true
      assert.strictEqual(yield* ending(agent, "two"), "completed")
    })
  )

  it.effect("W04: by digest looks into a message once, when it is new, however many requests carry it", () =>
    Effect.gen(function* () {
      let looks = 0
      const watched = new WeakMap<object, object>()
      /** The same stand-in for the same message: it counts who asks for its fields. */
      const watch = <A extends object>(message: A): A => {
        const ownKeys = (of: object) => {
          looks++
          return Reflect.ownKeys(of)
        }
        const known = watched.get(message) ?? new Proxy(message, { ownKeys })
        watched.set(message, known)
        return known as A // it has every field of the message
      }
      const seen = spans((all) => all.map((span) => ({ ...span, messages: span.messages.map(watch) })))
      let state = stateOf(logOf(turnStart(1), stepStart(1, 1), header(), stepEnd(1, 1)))
      // of a session the guard reads its id and its state alone
      const session = { id, unsafeState: () => seen(state) } as Session
      const check = (yield* Guard.Guard).make(session)
      const costs = new Set<number>()
      for (let step = 2; step < 300; step++) {
        const events = [stepStart(1, step), input(said(`m${step}`, "words", "context")), stepEnd(1, step)]
        const stored = events.map((event, index) => ({ ...event, seq: state.head + index, time: state.time }))
        state = Either.getOrThrow(SessionState.fold(stored, state))
        const request = SessionState.deriveRequest(session.unsafeState())
        if (request === undefined) return assert.fail("no request")
        looks = 0
        yield* check(request)
        costs.add(looks)
      }
      assert.deepStrictEqual(costs, new Set([1]))
    })
  )
})

type World = Effect.Effect.Success<ReturnType<typeof make>>
