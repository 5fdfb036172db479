/**
 * One tool call as the scheduler makes it, for tests of what runs it.
 */
import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Layer from "effect/Layer"
import * as Scheduler from "effect/Scheduler"
import * as Schema from "effect/Schema"
import type { ToolOutcome } from "../../src/domain/Event.ts"
import { CallId, SessionId } from "../../src/domain/Ids.ts"
import type { ToolCallBlock } from "../../src/domain/Message.ts"
import * as Settings from "../../src/settings/Settings.ts"
import * as Approvals from "../../src/tool/Approvals.ts"
import * as BuiltIn from "../../src/tool/BuiltIn.ts"
import type * as Inquiry from "../../src/tool/Inquiry.ts"
import * as Outputs from "../../src/tool/Outputs.ts"
import * as Pipeline from "../../src/tool/Pipeline.ts"
import * as ToolCall from "../../src/tool/ToolCall.ts"
import * as ToolHooks from "../../src/tool/ToolHooks.ts"
import * as Tools from "../../src/tool/Tools.ts"
import * as Workspace from "../../src/tool/Workspace.ts"

export const callId = CallId.make("t1s1c0")

export const block = (name: string, args: string): ToolCallBlock => ({
  type: "tool-call",
  callId,
  name,
  arguments: args
})

/** The service of a call, its notes, and the processes that it recorded. */
export const newCall = Effect.fnUntraced(function* (name: string, host: Partial<ToolCall.CallHost> = {}) {
  const processes: Array<ToolCall.ProcessIdentity> = []
  const { call, notes } = yield* ToolCall.make({
    sessionId: SessionId.make("session"),
    turn: 1,
    step: 1,
    callId,
    name,
    progress: () => Effect.void,
    recordProcess: (identity) => Effect.sync(() => void processes.push(identity)),
    ...host
  })
  return { call, notes, processes }
})

/** Asks without a log. */
export const unasked: Inquiry.Inquiry = { isAllowed: Effect.succeed(false), ask: (answer) => answer }

/**
 * A call that runs in a fiber of its own, forked uninterruptible, as the scheduler forks it. It waits for `gate`; `watch`
 * sees its fiber first.
 */
export const startAt = Effect.fnUntraced(function* (
  name: string,
  args: string,
  gate: Effect.Effect<void>,
  watch: (fiber: Fiber.RuntimeFiber<unknown, unknown>) => void = () => {}
) {
  const pipeline = yield* Pipeline.Pipeline
  const { call, notes, processes } = yield* newCall(name)
  const run = Effect.provideService(pipeline.run(block(name, args), notes, unasked), ToolCall.ToolCall, call)
  const fiber = yield* Effect.uninterruptible(Effect.fork(Effect.zipRight(gate, run)))
  watch(fiber)
  return { fiber, notes, processes }
})

/** A scheduler that interrupts the fiber that it watches at its nth step, which is any operation of it. */
export const interruptingAt = (point: number) => {
  const base = new Scheduler.MixedScheduler(2048)
  let watched: Fiber.RuntimeFiber<unknown, unknown> | undefined
  let steps = 0
  return {
    scheduleTask: base.scheduleTask.bind(base),
    shouldYield: (fiber: Fiber.RuntimeFiber<unknown, unknown>) => {
      if (fiber !== watched || ++steps !== point) return base.shouldYield(fiber)
      fiber.unsafeInterruptAsFork(FiberId.none)
      return 0
    },
    watched: (fiber: Fiber.RuntimeFiber<unknown, unknown>) => {
      watched = fiber
    },
    hasFired: () => steps >= point
  }
}

/** A call that runs. */
export const start = (name: string, args: string) => startAt(name, args, Effect.void)

/** A call that was cancelled before it began. */
export const startCancelled = Effect.fnUntraced(function* (name: string, args: string) {
  const gate = yield* Deferred.make<void>()
  const started = yield* startAt(name, args, Deferred.await(gate))
  started.fiber.unsafeInterruptAsFork(FiberId.none)
  yield* Deferred.succeed(gate, undefined)
  return started
})

/** A call that is interrupted at its nth step, and whether it came that far. */
export const interruptedAt = Effect.fnUntraced(function* (point: number, name: string, args: string) {
  const scheduler = interruptingAt(point)
  const exit = yield* startAt(name, args, Effect.void, scheduler.watched).pipe(
    Effect.flatMap(({ fiber }) => Fiber.await(fiber)),
    Effect.withScheduler(scheduler)
  )
  return { exit, fired: scheduler.hasFired() }
})

/** A call and its outcome. */
export const run = (name: string, args: string): Effect.Effect<ToolOutcome, never, Pipeline.Pipeline> =>
  Effect.flatMap(start(name, args), ({ fiber }) => Fiber.join(fiber))

export const textOf = (outcome: ToolOutcome): string => outcome.content.map((part) => part.text).join("")

/** A pipeline over these tools. */
export const pipeline = <E, R>(
  tools: Layer.Layer<Tools.Tools, E, R>,
  options: {
    readonly hooks?: Partial<ToolHooks.ToolHookPoints>
    readonly approvals?: Approvals.ApprovalPolicy
  } = {}
): Layer.Layer<Pipeline.Pipeline, E, R> =>
  Layer.provide(
    Pipeline.layer,
    Layer.mergeAll(
      tools,
      ToolHooks.layer(options.hooks ?? {}),
      options.approvals === undefined ? Layer.empty : Layer.succeed(Approvals.Approvals, options.approvals)
    )
  )

export type Args = typeof probe.parametersSchema.Type
export type Body = (args: Args) => Effect.Effect<string, unknown, ToolCall.ToolCall>

/** A tool that takes `{ text, items? }`. */
export const probe = Tool.make("probe", {
  parameters: { text: Schema.String, items: Schema.optional(Schema.Array(Schema.Number)) },
  success: Schema.String,
  failure: Schema.Unknown,
  dependencies: [ToolCall.ToolCall]
})

/** A registry whose one tool, `probe`, does as told. */
export const probing = (body: Body, onCancel: "stop" | "finish" = "stop") => {
  const kit = Toolkit.make(probe.annotate(Tools.OnCancel, onCancel))
  return Layer.provide(Tools.layer(kit), kit.toLayer({ probe: body }))
}

export const echo = probing(({ text }) => Effect.succeed(text))
export const hi = '{"text":"hi"}'

/** Files and paths of this host. */
export const node = Layer.mergeAll(NodeFileSystem.layer, NodePath.layer)

/** Long outputs are kept in a folder of the workspace. */
export const outputs = Outputs.layer(".daybook/outputs")

/** The built-in tools in a workspace that is gone afterwards. */
export const inWorkspace = <A, E, R>(
  body: (root: string) => Effect.Effect<A, E, R>,
  options: Workspace.Kept & { readonly outputs?: typeof outputs; readonly settings?: typeof Settings.layer } = {}
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const root = yield* Effect.flatMap(fs.makeTempDirectoryScoped({ prefix: "daybook-ws-" }), fs.realPath)
      const workspace = Workspace.layer(root, options).pipe(Layer.provideMerge(node))
      const settings = options.settings ?? Settings.layer
      const store = Layer.provideMerge(options.outputs ?? outputs, workspace)
      return yield* Effect.provide(
        body(root),
        Layer.provideMerge(pipeline(BuiltIn.layer), Layer.merge(store, settings))
      )
    })
  ).pipe(Effect.provide(node))
