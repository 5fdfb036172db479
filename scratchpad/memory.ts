/**
 * Question: how much memory does an output of 100 MiB take, of a command and of a tool of one's own?
 * Command:  npx vite-node --config test/vitest.config.ts scratchpad/memory.ts
 * Answer:   printed: the peak of the resident set over what it was before. A command's output is never held: some reads of
 *           its pipe are. A tool's own text is its own 100 MiB, and little more.
 */
import { Tool, Toolkit } from "@effect/ai"
import { FileSystem } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import {
  Agents,
  BuiltIn,
  Ids,
  Journal,
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

/** A turn that makes one call, in a folder of its own. */
const turn = (name: string, args: unknown) =>
  Effect.gen(function* () {
    const folder = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
    const tools = Tools.merge(BuiltIn.layer, own)
    const layer = Agents.layer.pipe(
      Layer.provide([
        Sessions.layer,
        ScriptedModel.layer([ScriptedModel.call([name, args]), ScriptedModel.say("done")]),
        Settings.layer,
        Layer.provideMerge(Pipeline.layer, tools)
      ]),
      Layer.provideMerge(Journal.layerSqlite({ filename: `${folder}/memory.db` })),
      Layer.provide([Repair.layer, Reaper.layerNone, Outputs.layer(".daybook/outputs")]),
      Layer.provide(Workspace.layer(folder, { reserved: ["memory.db"] }))
    )
    const run = Effect.gen(function* () {
      const config = { provider: "scripted", model: "script" }
      const agent = yield* (yield* Agents.Agents).open(id, { cwd: "/", create: "if-absent", config })
      yield* Effect.zipRight(agent.followup("go"), agent.idle)
      const log = yield* (yield* Journal.Journal).read(id, { from: 0, limit: 100 })
      return log.flatMap((event) =>
        event.type === "tool/result" ? event.data.message.content.map((part) => part.text) : []
      )
    })
    return yield* Effect.provide(Effect.scoped(run), layer)
  })

const peak = Effect.sync(() => process.resourceUsage().maxRSS / 1024)

/** Makes a call, and prints what it took. */
const measured = Effect.fnUntraced(function* (title: string, name: string, args: unknown) {
  const before = yield* peak
  const [text = ""] = yield* turn(name, args)
  const note = text.split("\n").find((line) => line.includes("left out"))
  yield* Console.log(`${title}: ${((yield* peak) - before).toFixed(0)} MiB more at the peak, of ${before.toFixed(0)}`)
  yield* Console.log(`  the model sees ${text.length} characters: ${note}`)
})

const all = Effect.gen(function* () {
  // everything is loaded and compiled by then
  yield* turn("bash", { command: "yes | head -c 1M" })
  yield* measured("60 MiB of a command, kept in a file", "bash", { command: "yes | head -c 60M" })
  yield* measured("100 MiB of a command, too long for a file", "bash", { command: "yes | head -c 100M" })
  yield* measured("100 MiB of a tool of one's own", "huge", {})
})

NodeRuntime.runMain(Effect.provide(Effect.scoped(all), NodeContext.layer))
