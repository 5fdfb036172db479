/**
 * One life of a host: an agent on a real journal, whose script asks for tools that leave marks outside.
 *
 * - What it does follows from its orders alone; what it has done is told in lines (see `Outside`).
 * - Prompts are shapes (see `Shapes`), so what a dead life left behind runs like any other.
 */
import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Agent } from "../../src/agent/Agent.ts"
import { Agents, layer as agentsLayer } from "../../src/agent/Agents.ts"
import { SessionBroken } from "../../src/domain/Errors.ts"
import { MessageId, SessionId } from "../../src/domain/Ids.ts"
import { text } from "../../src/domain/Message.ts"
import { closers, type Policy, salvage } from "../../src/domain/Repair.ts"
import * as Journal from "../../src/journal/Journal.ts"
import * as Repair from "../../src/session/Repair.ts"
import type { Session } from "../../src/session/Session.ts"
import * as Sessions from "../../src/session/Sessions.ts"
import * as Settings from "../../src/settings/Settings.ts"
import * as Approvals from "../../src/tool/Approvals.ts"
import * as Approver from "../../src/tool/Approver.ts"
import * as Pipeline from "../../src/tool/Pipeline.ts"
import * as Process from "../../src/tool/Process.ts"
import * as ProcessReaper from "../../src/tool/ProcessReaper.ts"
import { SpawnFailed } from "../../src/tool/SpawnFailed.ts"
import { ToolCall } from "../../src/tool/ToolCall.ts"
import * as Tools from "../../src/tool/Tools.ts"
import * as Outside from "./Outside.ts"
import * as Shapes from "./Shapes.ts"

/** The ways to send. */
export type Send = "followup" | "steer" | "inject"

/** A prompt, and what is done while it runs. */
export interface Round {
  readonly shape: Shapes.Shape
  readonly also?: ReadonlyArray<Send>
  readonly cancelAfterMillis?: number
}

/** A guard that is taken out, so that a checker has something to find. */
export type Sabotage =
  /** Nothing waits for the disk. */
  | "barrier"
  /** Repair says of every cut call that it never started. */
  | "repair"
  /** Statements are committed one by one. */
  | "transaction"

/** The policy that a life repairs by: lives of both kinds follow each other on one session. */
export const policyOf = (life: number): Policy => (life % 2 === 0 ? closers : salvage)

/** What a life is to do. */
export interface Orders {
  readonly file: string
  readonly outside: string
  readonly session: string
  readonly life: number
  readonly rounds: ReadonlyArray<Round>
  /** Goes through its rounds again until so much time is over. */
  readonly forMillis?: number
  /** A disk that takes so much longer, so that what does not wait for it runs ahead. */
  readonly slowMillis?: number
  readonly sabotage?: Sabotage | undefined
}

/** What one life consists of, besides its orders. */
export interface World {
  readonly orders: Orders
  /** Tells a line; it is outside on return. */
  readonly tell: (line: Outside.Line) => void
  /** Opens when the bodies that wait for it may go on. */
  readonly go: Effect.Latch
}

const told = ({ orders, tell }: World, word: Outside.Word, ...args: ReadonlyArray<string>) =>
  Effect.sync(() => tell({ life: orders.life, word, args }))

// tools

const shape = {
  parameters: { tag: Schema.String, millis: Schema.optional(Schema.Number) },
  success: Schema.String,
  failure: Schema.Union(SpawnFailed, SessionBroken),
  dependencies: [ToolCall]
}
const toolkit = Toolkit.make(
  Tool.make("beside", shape).annotate(Tool.Readonly, true),
  Tool.make("alone", shape).annotate(Tools.OnCancel, "finish"),
  Tool.make("asked", shape).annotate(Tools.Parallel, true),
  Tool.make("command", shape).annotate(Tools.Parallel, true),
  Tool.make("hold", shape).annotate(Tools.Parallel, true),
  Tool.make("wait", shape).annotate(Tools.Parallel, true)
)

/** The first act of a body: a mark that is on the disk before anything else happens. */
const mark = (world: World, { tag }: Shapes.Args) =>
  Effect.tap(ToolCall, ({ callId }) => told(world, "mark", callId, tag))

const pause = ({ millis }: Shapes.Args) => (millis === undefined ? Effect.void : Effect.sleep(millis))

/** A real process leaves the mark, and lives on for a while. */
const ran = (world: World, { spawn }: Context.Tag.Service<Process.Process>, args: Shapes.Args) =>
  Effect.scoped(
    Effect.gen(function* () {
      const { life, outside } = world.orders
      const { callId } = yield* ToolCall
      const line = Outside.written({ life, word: "mark", args: [callId, args.tag] })
      const seconds = String((args.millis ?? 0) / 1000)
      const script = 'echo "$1" >> "$2" && sync "$2" && exec sleep "$3"'
      const running = yield* spawn({ program: "/bin/sh", args: ["-c", script, "sh", line, outside, seconds], cwd: "/" })
      yield* running.ended
      return "ran"
    })
  )

const handlers = (world: World) =>
  toolkit.toLayer(
    Effect.map(Process.Process, (processes) => ({
      beside: (args) => Effect.as(Effect.zipRight(mark(world, args), pause(args)), "looked"),
      alone: (args) =>
        mark(world, args).pipe(
          Effect.tap(({ addContext }) => addContext(`${args.tag} was touched`)),
          Effect.zipRight(pause(args)),
          Effect.as("touched")
        ),
      asked: (args) => Effect.as(mark(world, args), "allowed"),
      command: (args) => ran(world, processes, args),
      hold: (args) => Effect.zipRight(Effect.zipRight(ran(world, processes, args), told(world, "held")), Effect.never),
      wait: (args) => Effect.as(Effect.zipRight(mark(world, args), world.go.await), "waited")
    }))
  )

// the harness

/** Has somebody asked about the calls of one tool, who takes the time that their arguments say, and allows two of three. */
const approval = (world: World) =>
  Layer.merge(
    Layer.succeed(Approvals.Approvals, {
      judge: ({ name }) => Effect.succeed(name === "asked" ? Approvals.Judgement.Ask({}) : Approvals.Judgement.Allow())
    }),
    Layer.succeed(Approver.Approver, {
      ask: ({ call }) =>
        Effect.gen(function* () {
          const args = call.arguments as unknown as Shapes.Args // the tool's schema has accepted them
          yield* Effect.zipRight(told(world, "asked", call.callId), pause(args))
          const isRejected = Number(args.tag.split(".")[1]) % 3 === 0
          return isRejected ? Approver.Answer.Reject({}) : Approver.Answer.AllowOnce()
        })
    })
  )

/** The real journal, on a disk as slow as was asked for. */
const journal = ({ orders }: World) =>
  Layer.map(Journal.layerSqlite({ filename: orders.file }), (context) => {
    const real = Context.get(context, Journal.Journal)
    const delay = orders.slowMillis
    return delay === undefined
      ? context
      : Context.make(Journal.Journal, {
          ...real,
          append: (batches) => Effect.zipRight(Effect.sleep(delay), real.append(batches))
        })
  })

const repair = ({ orders, tell }: World) =>
  Layer.succeed(Repair.Repair, {
    closers: (state, report) => {
      tell({ life: orders.life, word: "repairing", args: [] })
      const events = policyOf(orders.life)(state, report)
      if (orders.sabotage !== "repair") return events
      return events.map((event) =>
        event.type === "tool/result" && event.data.error?.code === "TOOL_OUTCOME_UNKNOWN"
          ? { ...event, data: { ...event.data, error: { name: "ToolError", code: "TOOL_NOT_STARTED" } } }
          : event
      )
    }
  })

/** How many messages a request may have before they are replaced by one. */
const maxMessages = 60

/** Replaces what a model has seen so far by one message, once it is long: a log of any length is asked about in bounded time. */
const shorten = (session: Session): Effect.Effect<void> =>
  Effect.gen(function* () {
    const { brackets, transcript } = session.unsafeState()
    const spans = [...transcript.spans]
    const [first, last] = [spans[0], spans.at(-1)]
    if (brackets.open !== undefined || first === undefined || last === undefined) return
    if (spans.flatMap((span) => span.messages).length <= maxMessages) return
    const id = MessageId.make(`until-${last.to}`)
    const messages = [{ id, role: "user", source: { kind: "context" }, content: [text("much was done")] }] as const
    yield* session.append(() => [{ type: "context/replaced", data: { from: first.from, to: last.to, messages } }])
    yield* session.barrier
  }).pipe(Effect.orDie)

const sessions = ({ orders }: World) =>
  Layer.map(Sessions.layer, (context) => {
    const real = Context.get(context, Sessions.Sessions)
    return Context.make(Sessions.Sessions, {
      acquire: (id, options) =>
        real.acquire(id, options).pipe(
          Effect.tap(shorten),
          Effect.map((session) =>
            orders.sabotage === "barrier" ? { ...session, barrier: Effect.void, durable: () => Effect.void } : session
          )
        )
    })
  })

const layer = (world: World) =>
  agentsLayer.pipe(
    Layer.provide(Layer.mergeAll(sessions(world), Shapes.model(world.orders.life), Pipeline.layer)),
    Layer.provide(
      Layer.mergeAll(
        Layer.provide(Tools.layer(toolkit), handlers(world)).pipe(Layer.provide(Process.layer)),
        approval(world),
        journal(world),
        repair(world),
        ProcessReaper.layer
      )
    ),
    Layer.provide(Layer.merge(Settings.layer, NodeFileSystem.layer))
  )

/** Sends a prompt and whatever goes with it, and waits until all of it has run. */
const runRound = Effect.fnUntraced(function* (world: World, agent: Agent, round: Round, name: string) {
  const send = (kind: Send, id: string, words: string) =>
    Effect.zipRight(agent[kind]({ id: MessageId.make(id), text: words }), told(world, "sent", id))
  yield* send("followup", name, round.shape)
  for (const [n, kind] of (round.also ?? []).entries()) yield* send(kind, `${name}-${n}`, `more ${kind}`)
  if (round.cancelAfterMillis !== undefined) {
    yield* Effect.sleep(round.cancelAfterMillis)
    yield* agent.cancel("user")
  }
  const { last } = yield* agent.idle
  const ended = Option.match(last, {
    onNone: () => [],
    onSome: ({ durable, ending }) => [ending.kind, String(durable)]
  })
  yield* told(world, "rest", ...ended)
})

/** A whole life. It fails with what its agent fails with. */
export const live = (world: World) =>
  Effect.scoped(
    Effect.gen(function* () {
      const { orders } = world
      yield* told(world, "opening")
      const agents = yield* Agents
      const config = { provider: "victim", model: "victim" }
      const agent = yield* agents.open(SessionId.make(orders.session), { cwd: "/", create: "if-absent", config })
      yield* told(world, "open")
      const until = performance.now() + (orders.forMillis ?? 0)
      let count = 0
      do for (const round of orders.rounds) yield* runRound(world, agent, round, `${orders.life}-${count++}`)
      while (performance.now() < until)
    })
  ).pipe(Effect.provide(layer(world)), Effect.zipLeft(told(world, "ended")))
