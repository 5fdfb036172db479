/**
 * A process of its own that works on a settings file: `write FILE SECTION FIELD COUNT` sets a field to 1, 2, 3…; `hold FILE`
 * takes the lock and keeps it.
 *
 * Each line that it prints tells of what is done, and is out before the next thing begins.
 */
import { writeSync } from "node:fs"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Lock from "../../src/settings/Lock.ts"
import * as Settings from "../../src/settings/Settings.ts"

const [role, path = "", section = "", count = "0"] = process.argv.slice(2)
const tell = (line: string) => Effect.sync(() => writeSync(1, `${line}\n`))

const write = Effect.gen(function* () {
  const settings = yield* Settings.Settings
  for (let value = 1; value <= Number(count); value++) {
    yield* section === "agent-loop"
      ? settings.set(Settings.AgentLoop, { maxParallelToolCalls: value })
      : settings.set(Settings.Processes, { graceMillis: value })
    yield* tell(String(value))
  }
})

const hold = Effect.scoped(Effect.zipRight(Lock.hold(`${path}.lock`), Effect.zipRight(tell("held"), Effect.never)))

// what keeps a process alive that waits for ever
setInterval(() => {}, 1000)
const services = Layer.provide(Settings.layerFile({ path }), Layer.merge(NodeFileSystem.layer, NodePath.layer))
const work: Effect.Effect<void, unknown> = role === "write" ? Effect.provide(write, services) : hold
await Effect.runPromise(work)
process.exit(0)
