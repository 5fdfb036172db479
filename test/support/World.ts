/**
 * A world for agent tests: everything real but the model and, unless asked otherwise, the disk.
 *
 * Every request that the model is sent is compared with a second, naive fold of the stored log and put before the strict
 * checker; every log is checked against the laws when the world closes.
 */

import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Scope } from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Agent } from "../../src/agent/Agent.ts"
import { Agents, layer as agentsLayer, type OpenOptions } from "../../src/agent/Agents.ts"
import * as Hooks from "../../src/agent/Hooks.ts"
import * as SystemPrompt from "../../src/agent/SystemPrompt.ts"
import type { StoredEvent } from "../../src/domain/Event.ts"
import { SessionId } from "../../src/domain/Ids.ts"
import type { ToolCallBlock } from "../../src/domain/Message.ts"
import type { Notice } from "../../src/domain/Notice.ts"
import { type ChatRequest, canonicalRequest } from "../../src/domain/Request.ts"
import * as RequestRules from "../../src/domain/RequestRules.ts"
import type { SessionState } from "../../src/domain/SessionState.ts"
import * as Verification from "../../src/domain/Verification.ts"
import * as Journal from "../../src/journal/Journal.ts"
import { ChatModel } from "../../src/model/ChatModel.ts"
import * as ScriptedModel from "../../src/model/ScriptedModel.ts"
import * as Reaper from "../../src/session/Reaper.ts"
import * as Repair from "../../src/session/Repair.ts"
import type { Session } from "../../src/session/Session.ts"
import * as Sessions from "../../src/session/Sessions.ts"
import * as Settings from "../../src/settings/Settings.ts"
import * as Approvals from "../../src/tool/Approvals.ts"
import * as Approver from "../../src/tool/Approver.ts"
import * as Pipeline from "../../src/tool/Pipeline.ts"
import { ToolCall } from "../../src/tool/ToolCall.ts"
import * as ToolHooks from "../../src/tool/ToolHooks.ts"
import * as Tools from "../../src/tool/Tools.ts"
import { naiveLaws, naiveRequest } from "./NaiveFold.ts"

/** The session that a world's agent drives. */
export const id = SessionId.make("world")

/** What the body of a test tool does. It may fail with a text. */
export type Body = (id: string) => Effect.Effect<string, string, ToolCall>

const parameters = { id: Schema.String }
const shape = { parameters, success: Schema.String, failure: Schema.String, dependencies: [ToolCall] }

/** Runs beside others. */
const Look = Tool.make("look", shape).annotate(Tool.Readonly, true)
/** Runs alone. */
const Touch = Tool.make("touch", shape)
/** Runs beside others, and a cancel lets it finish. */
const Finish = Tool.make("finish", shape).annotate(Tool.Readonly, true).annotate(Tools.OnCancel, "finish")
/** Runs beside others exactly when its id says so. */
const Maybe = Tool.make("maybe", shape).annotate(
  Tools.Parallel,
  (args) => (args as { readonly id: string }).id !== "alone" // the schema of its parameters says so
)
const toolkit = Toolkit.make(Look, Touch, Finish, Maybe)

/** The tools `look`, `touch`, `finish` and `maybe`, which run a body. To build them costs more than a short turn. */
export const tools = (body: Body): Layer.Layer<Tools.Tools> => {
  const run = ({ id: name }: { readonly id: string }) => body(name)
  return Layer.provide(Tools.layer(toolkit), toolkit.toLayer({ look: run, touch: run, finish: run, maybe: run }))
}

export interface Options {
  readonly scripts?: ReadonlyArray<ScriptedModel.Script>
  /** Instead of scripts: a model of the test's own. Its requests are checked all the same. */
  readonly model?: ChatModel["Type"]
  readonly body?: Body
  /** Instead of the tools that run `body`. */
  readonly tools?: Layer.Layer<Tools.Tools, never, Settings.Settings>
  readonly hooks?: Partial<Hooks.HookPoints>
  readonly toolHooks?: Partial<ToolHooks.ToolHookPoints> | ReadonlyArray<Partial<ToolHooks.ToolHookPoints>>
  readonly approvals?: Approvals.ApprovalPolicy
  /** Who is asked about each call, where `approvals` says nothing else. */
  readonly approver?: Approver.Answerer
  readonly sections?: Effect.Effect<ReadonlyArray<SystemPrompt.Section>>
  readonly settings?: Parameters<typeof Settings.layerMemory>[0]
  /** Instead of settings in memory. */
  readonly settingsLayer?: Layer.Layer<Settings.Settings>
  /** Runs before each read of the settings, and before the pipeline gets a call: where a test puts a fault. */
  readonly onSettingsRead?: Effect.Effect<void>
  readonly onCall?: (block: ToolCallBlock) => Effect.Effect<void>
  readonly journal?: Layer.Layer<Journal.Journal, unknown>
  /** Instead of the usual session: where one journal holds those of several worlds. */
  readonly id?: SessionId
  /** Instead of the host's files: a world that is run step by step can wait for none. */
  readonly host?: Layer.Layer<FileSystem.FileSystem>
  /** Instead of what the other options choose: what was chosen before. */
  readonly chosen?: Chosen
  /** Something between a stored log and the model's requests is meant to differ: nothing is compared. */
  readonly unchecked?: boolean
}

export interface World {
  readonly open: (options?: Partial<OpenOptions>) => Effect.Effect<Agent, never, Scope>
  /** The stored log. */
  readonly log: Effect.Effect<ReadonlyArray<StoredEvent>>
  /** The log in the shorthand of the behaviour catalogue, chunks of one answer as one `ck`. */
  readonly shorthand: Effect.Effect<string>
  readonly requests: Effect.Effect<ReadonlyArray<ChatRequest>>
  readonly journal: Context.Tag.Service<Journal.Journal>
  readonly settings: Context.Tag.Service<Settings.Settings>
  readonly sessions: Context.Tag.Service<Sessions.Sessions>
  /** The state of the session that was opened last, ahead of the disk; none before that. */
  readonly unsafeState: () => SessionState | undefined
  /** The head of its log when its owner began to leave; none before that. */
  readonly unsafeLeftAt: () => number | undefined
  /** Every notice of the session, in the order in which they were given. */
  readonly notices: ReadonlyArray<Notice>
}

export const config = { provider: "scripted", model: "script" }

const allEvents = (journal: Context.Tag.Service<Journal.Journal>, session: SessionId) =>
  Effect.orDie(journal.read(session, { from: 0, limit: 1_000_000 }))

/** The model of these scripts; each request must be what a naive reading of the stored log gives, and acceptable. */
const checkedModel = (options: Options, session: SessionId, requests: Array<ChatRequest>, problems: Array<string>) =>
  Layer.effect(
    ChatModel,
    Effect.gen(function* () {
      const journal = yield* Journal.Journal
      const model = options.model ?? (yield* ScriptedModel.make(options.scripts ?? [])).model
      const check = (request: ChatRequest) =>
        Effect.map(allEvents(journal, session), (events) => {
          requests.push(request)
          const naive = naiveRequest(events)
          if (naive === undefined || canonicalRequest(naive) !== canonicalRequest(request))
            problems.push(`request ${requests.length} is not what its log says`)
          for (const found of RequestRules.violations(request))
            problems.push(`request ${requests.length}: ${found.rule} at ${found.at}: ${found.detail}`)
        })
      return {
        stream: (request) =>
          options.unchecked === true
            ? model.stream(request)
            : // not `unwrap`: interrupted right after an inner stream's end, it forgets what that stream would release
              Stream.concat(Stream.execute(check(request)), model.stream(request))
      }
    })
  )

/** What a composition chooses for a world. None of it holds a fiber, so it can serve one world after another. */
export type Chosen = Context.Context<
  Pipeline.Pipeline | Tools.Tools | Settings.Settings | Repair.Repair | Reaper.Reaper | FileSystem.FileSystem
>

/** A policy that has everything asked about. */
const asking: Approvals.ApprovalPolicy = { judge: () => Effect.succeed(Approvals.Judgement.Ask({})) }

/** Builds what these options choose. It costs more than a short turn. */
export const choose = (options: Options): Effect.Effect<Chosen, never, Scope> => {
  const prompt =
    options.sections === undefined
      ? SystemPrompt.layer([])
      : Layer.succeed(SystemPrompt.SystemPrompt, { sections: options.sections })
  const policy = options.approvals ?? (options.approver === undefined ? undefined : asking)
  const approvals = Layer.mergeAll(
    policy === undefined ? Layer.empty : Layer.succeed(Approvals.Approvals, policy),
    options.approver === undefined ? Layer.empty : Layer.succeed(Approver.Approver, options.approver)
  )
  const settings = Layer.map(options.settingsLayer ?? Settings.layerMemory(options.settings), (context) => {
    const real = Context.get(context, Settings.Settings)
    const before = options.onSettingsRead ?? Effect.void
    return Context.make(Settings.Settings, { ...real, get: (section) => Effect.zipRight(before, real.get(section)) })
  })
  const pipeline = Layer.map(Pipeline.layer, (context) => {
    const real = Context.get(context, Pipeline.Pipeline)
    const before = options.onCall ?? (() => Effect.void)
    return Context.make(Pipeline.Pipeline, {
      run: (block, notes, inquiry) => Effect.zipRight(before(block), real.run(block, notes, inquiry))
    })
  })
  const layer = Layer.mergeAll(pipeline, Hooks.layer(options.hooks ?? {}), prompt).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        Layer.provide(options.tools ?? tools(options.body ?? ((name) => Effect.succeed(`did ${name}`))), settings),
        Layer.succeed(ToolHooks.ToolHooks, { chain: [options.toolHooks ?? []].flat() }),
        approvals,
        settings,
        Repair.layer,
        Reaper.layerNone,
        options.host ?? NodeFileSystem.layer
      )
    )
  )
  return Layer.build(layer)
}

/** Builds a world. It is gone with the scope; its log and its requests are judged then. */
export const make = (options: Options = {}): Effect.Effect<World, never, Scope> =>
  Effect.gen(function* () {
    const requests: Array<ChatRequest> = []
    const problems: Array<string> = []
    const notices: Array<Notice> = []
    const session = options.id ?? id
    const chosen = options.chosen ?? (yield* choose(options))
    let opened: Session | undefined
    let leftAt: number | undefined
    const watched = Layer.map(Sessions.layer, (context) => {
      const real = Context.get(context, Sessions.Sessions)
      return Context.make(Sessions.Sessions, {
        acquire: (session, how) =>
          Effect.map(real.acquire(session, how), (live) => {
            opened = live
            return {
              ...live,
              unsafeLeave: () => {
                leftAt ??= live.unsafeState().head
                live.unsafeLeave()
              },
              unsafeNotify: (notice) => {
                notices.push(notice)
                live.unsafeNotify(notice)
              }
            }
          })
      })
    })
    const layer = agentsLayer.pipe(
      Layer.provideMerge(Layer.mergeAll(watched, checkedModel(options, session, requests, problems))),
      Layer.provideMerge(Layer.merge(options.journal ?? Journal.layerMemory, Layer.succeedContext(chosen)))
    )
    const context = yield* Effect.orDie(Layer.build(layer))
    const journal = Context.get(context, Journal.Journal)
    const log = allEvents(journal, session)
    yield* Effect.addFinalizer(() =>
      Effect.map(log, (events) => {
        assert.deepStrictEqual(problems, [])
        if (options.unchecked === true) return
        assert.deepStrictEqual(naiveLaws(events), [])
        assert.deepStrictEqual(Verification.verify(events), [])
      })
    )
    return {
      open: (open) =>
        Effect.orDie(
          Context.get(context, Agents).open(session, { cwd: "/workspace", create: "if-absent", config, ...open })
        ),
      log,
      shorthand: Effect.map(log, shorthand),
      requests: Effect.sync(() => [...requests]),
      journal,
      settings: Context.get(context, Settings.Settings),
      sessions: Context.get(context, Sessions.Sessions),
      unsafeState: () => opened?.unsafeState(),
      unsafeLeftAt: () => leftAt,
      notices
    }
  })

const callIn = (callId: string): string => callId.replace(/^t\d+s\d+/, "")

const short = (event: StoredEvent): string => {
  switch (event.type) {
    case "agent/inbox/spliced":
      return event.data.outcome === "canceled" ? "in×" : event.data.removedCount === undefined ? "in+" : "in-"
    case "turn/start":
      return `T<${event.data.turn}`
    case "turn/end":
      return `T>(${event.data.reason.kind})`
    case "step/start":
      return `S<${event.data.step}`
    case "step/end":
      return `S>${event.data.step}`
    case "user/message":
      return "UM"
    case "request/header":
      return `RH(${event.data.reason})`
    case "assistant/chunk":
      return "ck"
    case "assistant/message":
      return event.data.interrupted === true ? "AM!" : "AM"
    case "tool/call":
      return `TC(${callIn(event.data.callId)})`
    case "tool/settled":
      return `TS(${callIn(event.data.callId)})`
    case "tool/result":
      return `TR(${callIn(event.data.message.callId)})`
    case "tool/process":
      return "TP"
    case "request/retry":
      return "RR"
    case "approval/asked":
      return "AA"
    case "approval/decided":
      return "AD"
    case "context/replaced":
      return "CR"
    case "unrecognized":
      return "??"
    default:
      return event satisfies never
  }
}

/** A log in the shorthand of the behaviour catalogue. */
export const shorthand = (events: ReadonlyArray<StoredEvent>): string =>
  events
    .map(short)
    .filter((word, index, words) => word !== "ck" || words[index - 1] !== "ck")
    .join(" ")
