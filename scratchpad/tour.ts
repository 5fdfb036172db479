/**
 * Question: what is left of a session whose host is killed in the middle of a command, and what does its next owner see?
 * Command:  npm run build && npx vite-node --config test/vitest.config.ts scratchpad/tour.ts
 * Answer:   everything up to the call is stored; no process of it is left; the next owner closes the turn as interrupted,
 *           says that the outcome is unknown, runs nothing by itself, and goes on.
 */
import { spawn } from "node:child_process"
import { FileSystem } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import {
  Agents,
  BuiltIn,
  Ids,
  Journal,
  OfflineModel,
  Pipeline,
  Reaper,
  Repair,
  Sessions,
  Settings,
  Workspace
} from "daybook"
import { Console, Effect, Layer, Stream } from "effect"

const id = Ids.SessionId.make("tour")

/** Starts the program on a long command, and kills it while that runs. */
const killed = (folder: string, db: string) =>
  Effect.async<void>((resume) => {
    const words = ["run", "--yes", "--session", id, "--workspace", folder, "--db", db, "Run `sleep 300`"]
    const child = spawn(process.execPath, ["dist/main.js", ...words], { stdio: ["ignore", "inherit", "pipe"] })
    child.stderr.on("data", (data) => {
      if (String(data).includes("sleep 300")) child.kill("SIGKILL")
    })
    child.once("close", () => resume(Effect.void))
  })

const types = Effect.flatMap(Journal.Journal, (journal) =>
  Effect.map(journal.read(id, { from: 0, limit: 1000 }), (log) => log.map((event) => event.type).join(" "))
)

/** Returns once a tool was called. */
const called = (agent: Effect.Effect.Success<ReturnType<Agents.Agents["Type"]["open"]>>) =>
  Stream.runHead(Stream.filter(agent.events, (item) => item.type === "event" && item.event.type === "tool/process"))

const rest = Effect.gen(function* () {
  yield* Console.log(`killed:    ${yield* types}`)
  const agents = yield* Agents.Agents
  const config = { provider: "offline", model: "offline" }
  const agent = yield* agents.open(id, { cwd: "/", create: "never", config })
  yield* Console.log(`repaired:  ${yield* types}`)
  const running = yield* Effect.fork(called(agent))
  yield* Effect.yieldNow()
  yield* agent.followup("Run `sleep 300`")
  yield* running
  yield* Console.log("cancelled:", yield* agent.cancel("user"))
  yield* agent.followup("Say that was all")
  yield* Console.log("finished: ", (yield* agent.idle).last)
})

const layer = (folder: string, db: string) =>
  Agents.layer.pipe(
    Layer.provide([Sessions.layer, OfflineModel.layer, Layer.provideMerge(Pipeline.layer, BuiltIn.layer)]),
    Layer.provideMerge(Journal.layerSqlite({ filename: db })),
    Layer.provide([Settings.layer, Repair.layer, Reaper.layerNone, Workspace.layer(folder)])
  )

const tour = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "daybook-tour-" })
  const db = `${folder}/tour.db`
  yield* killed(folder, db)
  yield* Effect.provide(Effect.scoped(rest), layer(folder, db))
})

NodeRuntime.runMain(Effect.provide(Effect.scoped(tour), NodeContext.layer))
