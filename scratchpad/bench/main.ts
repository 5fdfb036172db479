/**
 * Question: how far is Daybook from the floor, raw better-sqlite3 writing or reading the same bytes with full sync?
 * Command:  npm run bench            (a table)
 *           npm run bench -- --json  (one object)
 * Answer:   printed as ratios of the same run; the machine decides the rest.
 */
import { statSync } from "node:fs"
import { Tool, Toolkit } from "@effect/ai"
import { FileSystem } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import {
  type Agent,
  Agents,
  ChatModel,
  type Chunk,
  type Event,
  Ids,
  Journal,
  Message,
  Pipeline,
  Reaper,
  Repair,
  Sessions,
  Settings,
  Tools
} from "daybook"
import { Console, Effect, Fiber, Layer, Schema, Stream } from "effect"
import * as Floor from "./floor.ts"

interface Row {
  readonly work: string
  readonly measured: number
  readonly floor: number
  readonly unit: string
  readonly target: string
  readonly notes: Record<string, number>
}

const id = Ids.SessionId.make("bench")
const finish: Chunk.ChatChunk = { type: "finish", reason: "stop" }

const median = (values: ReadonlyArray<number>): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0

const timed = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<number, E, R> =>
  Effect.suspend(() => {
    const from = performance.now()
    return Effect.map(effect, () => performance.now() - from)
  })

/** Four of them at once: a body that does nothing, or one that never ends. */
const toolkit = Toolkit.make(
  Tool.make("noop", { success: Schema.String }).annotate(Tool.Readonly, true),
  Tool.make("hang", { success: Schema.String }).annotate(Tool.Readonly, true)
)

type Answers = (turn: number, afterTools: boolean) => ReadonlyArray<Chunk.ChatChunk>

/** A model that answers at once, with what the work asks for. */
const model = (answers: Answers) =>
  Layer.sync(ChatModel.ChatModel, () => {
    let turn = 0
    return {
      stream: (request) => {
        const afterTools = request.messages.at(-1)?.role === "tool"
        if (!afterTools) turn++
        return Stream.rechunk(Stream.fromIterable([...answers(turn, afterTools), finish]), 64)
      }
    }
  })

const layer = (filename: string, answers: Answers, hanging: Effect.Effect<void>) =>
  Agents.layer.pipe(
    Layer.provide([Sessions.layer, model(answers), Settings.layer]),
    Layer.provide(
      Layer.provideMerge(
        Pipeline.layer,
        Layer.provide(
          Tools.layer(toolkit),
          toolkit.toLayer({ noop: () => Effect.succeed("ok"), hang: () => Effect.zipRight(hanging, Effect.never) })
        )
      )
    ),
    Layer.provide([Journal.layerSqlite({ filename }), Repair.layer, Reaper.layerNone])
  )

const withAgent = <A, E>(
  filename: string,
  answers: Answers,
  work: (agent: Agent.Agent) => Effect.Effect<A, E>,
  hanging: Effect.Effect<void> = Effect.void
) =>
  Effect.gen(function* () {
    const agents = yield* Agents.Agents
    const config = { provider: "bench", model: "bench" }
    return yield* work(yield* agents.open(id, { cwd: "/", create: "if-absent", config }))
  }).pipe(Effect.scoped, Effect.provide(layer(filename, answers, hanging)))

const turn = (agent: Agent.Agent) => Effect.zipRight(agent.followup("go"), agent.idle)

const deltas = (count: number): ReadonlyArray<Chunk.ChatChunk> =>
  Array.from({ length: count }, () => ({ type: "text", index: 0, text: "twelve bytes" }))

const calls = (name: string, count: number): ReadonlyArray<Chunk.ChatChunk> =>
  Array.from({ length: count }, (_, index) => ({ type: "tool-call", index, name, arguments: "{}" }))

const streaming = Effect.fnUntraced(function* (folder: string) {
  const count = 20_000
  const file = `${folder}/stream.db`
  yield* withAgent(`${folder}/warm.db`, () => deltas(2_000), turn)
  const millis = yield* withAgent(
    file,
    () => deltas(count),
    (agent) => timed(turn(agent))
  )
  const bytes = statSync(file).size
  const rows = Floor.count(file, "assistant/chunk")
  const perSecond = (count / millis) * 1000
  const floor = Floor.streaming(`${folder}/floor-stream.db`, count)
  const row: Row = {
    work: "streaming 20,000 deltas of 12 bytes, durable",
    measured: perSecond,
    floor,
    unit: "deltas/s",
    target: "half the floor",
    notes: { bytesPerByte: bytes / (count * 12), chunkRows: rows }
  }
  return row
})

const steps = Effect.fnUntraced(function* (folder: string) {
  const each = yield* withAgent(
    `${folder}/steps.db`,
    (_turn, after) => (after ? [] : calls("noop", 4)),
    (agent) => Effect.replicateEffect(timed(turn(agent)), 200)
  )
  const first = median(each.slice(0, 50))
  const last = median(each.slice(-50))
  const row: Row = {
    work: "a turn of two steps with 4 parallel no-op tools",
    measured: median(each),
    floor: Floor.steps(`${folder}/floor-steps.db`, 200),
    unit: "ms",
    target: "2 x floor a step; growth 1.2",
    notes: { growth: last / first }
  }
  return row
})

const turns = Effect.fnUntraced(function* (folder: string) {
  const each = yield* withAgent(
    `${folder}/turns.db`,
    () => deltas(3),
    (agent) => Effect.replicateEffect(timed(turn(agent)), 1_000)
  )
  const row: Row = {
    work: "a short turn, 1,000 in one session",
    measured: median(each),
    floor: Floor.turns(`${folder}/floor-turns.db`, 200),
    unit: "ms",
    target: "2.5 ms; growth 1.2",
    notes: { growth: median(each.slice(-100)) / median(each.slice(0, 100)) }
  }
  return row
})

/** The events of one turn that streamed its answer in twenty runs. */
const turnEvents = (turn: number): ReadonlyArray<Event.SessionEvent> => {
  const at = { turn, step: 1 }
  const prompt = {
    id: Ids.MessageId.make(`prompt-${turn}`),
    role: "user" as const,
    source: { kind: "prompt" as const },
    content: [Message.text("go")]
  }
  const config = { provider: "bench", model: "bench" }
  const header: ReadonlyArray<Event.SessionEvent> =
    turn > 1 ? [] : [{ type: "request/header", data: { reason: "initial", config, system: "", tools: [] } }]
  const chunks = Array.from({ length: 20 }, (): Event.SessionEvent => {
    const chunk = { type: "text" as const, index: 0, text: "a run of text ".repeat(10) }
    return { type: "assistant/chunk", data: { ...at, chunk } }
  })
  return [
    { type: "agent/inbox/spliced", data: { target: "next-turn", start: 0, inserted: [prompt] } },
    { type: "turn/start", data: { turn } },
    { type: "agent/inbox/spliced", data: { target: "next-turn", start: 0, removedCount: 1, inserted: [] } },
    { type: "step/start", data: at },
    { type: "user/message", data: prompt },
    ...header,
    ...chunks,
    {
      type: "assistant/message",
      data: {
        ...at,
        message: {
          id: Ids.MessageId.make(`t${turn}s1`),
          role: "assistant",
          source: config,
          content: [Message.text("a run of text ".repeat(200))]
        },
        finish: "stop"
      }
    },
    { type: "step/end", data: at },
    { type: "turn/end", data: { turn, reason: { kind: "completed" } } }
  ]
}

/** Writes a session of so many events. */
const longSession = (filename: string, events: number) =>
  Effect.gen(function* () {
    const session = yield* (yield* Sessions.Sessions).acquire(id, { cwd: "/", create: "if-absent" })
    for (let turn = 1; session.unsafeState().head < events; turn++) yield* session.append(() => turnEvents(turn))
    yield* session.barrier
    return session.unsafeState().head
  }).pipe(
    Effect.scoped,
    Effect.provide(Layer.provide(Sessions.layer, [Journal.layerSqlite({ filename }), Repair.layer, Reaper.layerNone]))
  )

const resume = Effect.fnUntraced(function* (folder: string) {
  const file = `${folder}/resume.db`
  const events = yield* longSession(file, 100_000)
  const millis = yield* timed(withAgent(file, () => deltas(1), turn))
  const row: Row = {
    work: "100,000-event session to its first request",
    measured: millis,
    floor: Floor.reading(file),
    unit: "ms",
    target: "3 x floor",
    notes: { events }
  }
  return row
})

const cancelling = Effect.fnUntraced(function* (folder: string) {
  let entered = 0
  const ready = yield* Effect.makeLatch(false)
  const hanging = Effect.suspend(() => (++entered % 8 === 0 ? ready.open : Effect.void))
  const once = (agent: Agent.Agent) =>
    Effect.gen(function* () {
      yield* ready.close
      const sent = yield* Effect.fork(agent.followup("go"))
      yield* ready.await
      yield* Fiber.join(sent)
      return yield* timed(agent.cancel("user"))
    })
  const each = yield* withAgent(
    `${folder}/cancel.db`,
    () => calls("hang", 8),
    (agent) => Effect.replicateEffect(once(agent), 100),
    Effect.asVoid(hanging)
  )
  const row: Row = {
    work: "cancel with 8 running tools to settled and durable",
    measured: median(each),
    floor: Floor.commits(`${folder}/floor-cancel.db`, 100),
    unit: "ms",
    target: "2.5 ms median",
    notes: {}
  }
  return row
})

const print = (rows: ReadonlyArray<Row>, peakMiB: number) => {
  if (process.argv.includes("--json")) return Console.log(JSON.stringify({ rows, peakMiB }))
  const lines = rows.map(({ floor, measured, notes, target, unit, work }) => {
    const more = Object.entries(notes).map(([name, value]) => `${name} ${value.toFixed(2)}`)
    return `${work}\n  ${measured.toFixed(2)} ${unit}, floor ${floor.toFixed(2)} ${unit}, ratio ${(measured / floor).toFixed(2)} (to reach: ${target}) ${more.join(", ")}`
  })
  return Console.log([...lines, `peak memory ${peakMiB.toFixed(0)} MiB`].join("\n"))
}

const bench = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "daybook-bench-" })
  const rows: Array<Row> = []
  for (const work of [streaming, steps, turns, resume, cancelling]) rows.push(yield* work(folder))
  yield* print(rows, process.resourceUsage().maxRSS / 1024)
})

NodeRuntime.runMain(Effect.provide(Effect.scoped(bench), NodeContext.layer))
