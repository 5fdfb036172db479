/**
 * Question: how much memory does an output of 100 MiB take, of a command and of a tool of one's own, and an answer of 20?
 * Command:  npx vite-node --config test/vitest.config.ts scratchpad/memory.ts
 * Answer:   printed: the peak of the resident set over what it was before. A command's output is never held: some reads of
 *           its pipe are. A tool's own text is its own 100 MiB, and little more. An answer is held a few times over while
 *           it is put together, and once from then on.
 */
import { Tool, Toolkit } from "@effect/ai"
import { FileSystem } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import {
  Agents,
  BuiltIn,
  Ids,
  Journal,
  Message,
  Outputs,
  Pipeline,
  Reaper,
  Repair,
  ScriptedModel,
  Sessions,
  Settings,
  Tools,
  Workspace
} from "daybook"
import { Console, Effect, Layer, Schema } from "effect"

const id = Ids.SessionId.make("memory")
const MiB = 1024 * 1024

const kit = Toolkit.make(Tool.make("huge", { success: Schema.String }))
const own = Layer.provide(
  Tools.layer(kit),
  kit.toLayer({ huge: () => Effect.sync(() => "0123456789abcde\n".repeat((100 * MiB) / 16)) })
)

const calling = (name: string, args: unknown): ReadonlyArray<ScriptedModel.Script> => [
  ScriptedModel.call([name, args]),
  ScriptedModel.say("done")
]

/** An answer of so many MiB, in deltas of 64 bytes. */
const longAnswer = (mebibytes: number): ScriptedModel.Script => {
  const deltas = Array.from({ length: 1024 }, () => ({
    type: "text" as const,
    index: 0,
    text: "0123456789abcde\n".repeat(4)
  }))
  const sends = Array.from({ length: mebibytes * 16 }, () => ScriptedModel.send(...deltas))
  return [...sends, ScriptedModel.send({ type: "finish", reason: "stop" })]
}

/** A turn of these answers, in a folder of its own; the texts that its log holds. */
const turn = (scripts: ReadonlyArray<ScriptedModel.Script>) =>
  Effect.gen(function* () {
    const folder = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
    const tools = Tools.merge(BuiltIn.layer, own)
    const layer = Agents.layer.pipe(
      Layer.provide([Sessions.layer, ScriptedModel.layer(scripts), Layer.provideMerge(Pipeline.layer, tools)]),
      Layer.provideMerge(Journal.layerSqlite({ filename: `${folder}/memory.db` })),
      Layer.provide([Settings.layer, Repair.layer, Reaper.layerNone, Outputs.layer(".daybook/outputs")]),
      Layer.provide(Workspace.layer(folder, { reserved: ["memory.db"] }))
    )
    const run = Effect.gen(function* () {
      const config = { provider: "scripted", model: "script" }
      const agent = yield* (yield* Agents.Agents).open(id, { cwd: "/", create: "if-absent", config })
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      const log = yield* (yield* Journal.Journal).outline(id, { from: 0, limit: 100, hidden: [] })
      return log.flatMap((event) =>
        event.type === "tool/result" || event.type === "assistant/message" ? [Message.textOf(event.data.message)] : []
      )
    })
    return yield* Effect.provide(Effect.scoped(run), layer)
  })

const peak = Effect.sync(() => process.resourceUsage().maxRSS / 1024)

/** Runs a turn, and prints what it took. */
const measured = Effect.fnUntraced(function* (title: string, scripts: ReadonlyArray<ScriptedModel.Script>) {
  const before = yield* peak
  const texts = yield* turn(scripts)
  const length = Math.max(...texts.map((text) => text.length))
  yield* Console.log(`${title}: ${((yield* peak) - before).toFixed(0)} MiB more at the peak, of ${before.toFixed(0)}`)
  yield* Console.log(`  its log holds a text of ${length} characters`)
})

const all = Effect.gen(function* () {
  // everything is loaded and compiled by then
  yield* turn(calling("bash", { command: "yes | head -c 1M" }))
  yield* measured("60 MiB of a command, kept in a file", calling("bash", { command: "yes | head -c 60M" }))
  yield* measured("100 MiB of a command, too long for a file", calling("bash", { command: "yes | head -c 100M" }))
  yield* measured("100 MiB of a tool of one's own", calling("huge", {}))
  yield* measured("an answer of 20 MiB", [longAnswer(20)])
})

NodeRuntime.runMain(Effect.provide(Effect.scoped(all), NodeContext.layer))
