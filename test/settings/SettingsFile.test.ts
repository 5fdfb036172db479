import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from "node:fs"
import { dirname, join } from "node:path"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as TestServices from "effect/TestServices"
import * as Settings from "../../src/settings/Settings.ts"
import * as Points from "../crash/Points.ts"
import { bundled, eventually, host } from "../support/processes.ts"
import { fileWith, folder, listening, opened, read } from "./support.ts"

const { AgentLoop, Processes } = Settings
const sections = [AgentLoop, Processes]

const commented = `// mine
{
  // how many at once
  "agent-loop": { "maxParallelToolCalls": 3 /* few */, },
  "somebody-else": { "secret": "s3cret" } // not ours
}
`

const limit = (settings: typeof Settings.Settings.Service) =>
  Effect.map(settings.get(AgentLoop), ({ maxParallelToolCalls }) => maxParallelToolCalls)

describe("a settings file at the start", () => {
  it.scoped("L01 L08 L09: it is read under comments, and what is not ours is warned of and kept", () =>
    listening((warnings) =>
      Effect.gen(function* () {
        const path = yield* fileWith(commented)
        const settings = yield* opened({ path, sections })
        assert.strictEqual(yield* limit(settings), 3)
        assert.deepStrictEqual(warnings, [
          `${path}: nothing here is called somebody-else; it is kept, and means nothing`
        ])
        yield* settings.set(AgentLoop, { maxParallelToolCalls: 4 })
        yield* settings.set(Processes, { graceMillis: 5 })
        assert.strictEqual(
          read(path),
          commented
            .replace("3 /* few */", "4 /* few */")
            .replace(" } // not ours\n", ' }, // not ours\n  "processes": {\n    "graceMillis": 5\n  }\n')
        )
      })
    )
  )

  it.scoped(
    "L02: a value that its schema refuses fails it, and the error names the file, the field and the reason",
    () =>
      Effect.gen(function* () {
        const path = yield* fileWith('{"agent-loop": {"maxParallelToolCalls": 0}, "other": 1}')
        const error = yield* Effect.flip(opened({ path, sections }))
        assert.deepInclude(error, {
          _tag: "InvalidStoredSetting",
          file: path,
          section: "agent-loop",
          field: "maxParallelToolCalls"
        })
        assert.strictEqual(
          error.message,
          `${path}: agent-loop.maxParallelToolCalls must be a positive number, not 0. It was left as it is. Set it right, or take it out with \`daybook settings unset agent-loop.maxParallelToolCalls\`.`
        )
        // whoever does not know the section does not mind
        yield* opened({ path, sections: [Processes] })
        writeFileSync(path, '{"processes": {"leftover": "end"}}')
        assert.match(
          (yield* Effect.flip(opened({ path, sections }))).message,
          /: processes has no leftover; it has "graceMillis" \| "leftOver"\. /
        )
      })
  )

  it.scoped("L02: a file that is no JSON, or none that can be read, fails it", () =>
    Effect.gen(function* () {
      const path = yield* fileWith('{\n  "agent-loop": {"maxParallelToolCalls": 4\n')
      const message = (at: string) => Effect.map(Effect.flip(opened({ path: at })), (error) => error.message)
      assert.strictEqual(
        yield* message(path),
        `${path}:3:1 is no JSON: close brace expected. It was left as it is. Mend it by hand, or move it away.`
      )
      assert.match(yield* message(dirname(path)), /cannot be read: it is no file\. It was left as it is\./)
      writeFileSync(path, Buffer.from([0x7b, 0xff, 0x7d]))
      assert.match(yield* message(path), /cannot be read: it is no UTF-8 text/)
      writeFileSync(path, " ".repeat(1024 * 1024 + 1))
      assert.match(yield* message(path), /more than 1048576 bytes are no settings/)
    })
  )

  it.scoped("reading creates nothing, and a change creates the file and its folder for their owner alone", () =>
    Effect.gen(function* () {
      const home = yield* folder
      const path = join(home, "config", "daybook", "settings.json")
      const settings = yield* opened({ path, sections })
      assert.strictEqual(yield* limit(settings), 10)
      yield* Effect.flip(settings.set(AgentLoop, { maxParallelToolCalls: 0 }))
      yield* settings.edit(AgentLoop, [{ type: "unset", path: ["maxParallelToolCalls"] }])
      assert.deepStrictEqual(readdirSync(home), [])
      yield* settings.set(AgentLoop, { maxParallelToolCalls: 2 })
      assert.strictEqual(read(path), '{\n  "agent-loop": {\n    "maxParallelToolCalls": 2\n  }\n}\n')
      assert.deepStrictEqual(readdirSync(dirname(path)), ["settings.json", "settings.json.lock"])
      for (const file of [path, `${path}.lock`]) assert.strictEqual(statSync(file).mode & 0o777, 0o600, file)
      assert.strictEqual(statSync(dirname(path)).mode & 0o777, 0o700)
      assert.strictEqual(statSync(`${path}.lock`).size, 0)
    })
  )

  it.scoped("a file keeps its mode, a link stays a link, also one to nothing yet", () =>
    Effect.gen(function* () {
      const home = yield* folder
      const real = join(home, "real.json")
      const path = join(home, "settings.json")
      symlinkSync("real.json", path)
      const settings = yield* opened({ path })
      yield* settings.set(AgentLoop, { maxParallelToolCalls: 2 })
      chmodSync(real, 0o640)
      yield* settings.set(AgentLoop, { maxParallelToolCalls: 3 })
      assert.isTrue(lstatSync(path).isSymbolicLink())
      assert.strictEqual(statSync(real).mode & 0o777, 0o640)
      assert.strictEqual(yield* limit(settings), 3)
      assert.deepStrictEqual(readdirSync(home), ["real.json", "real.json.lock", "settings.json"])
    })
  )

  it.scoped("what cannot be written is said, and is as it was", () =>
    Effect.gen(function* () {
      const home = yield* folder
      writeFileSync(join(home, "file"), "")
      const settings = yield* opened({ path: join(home, "there", "settings.json") })
      const failure = Effect.map(
        Effect.flip(settings.set(AgentLoop, { maxParallelToolCalls: 2 })),
        (error) => error.message
      )
      symlinkSync("file", join(home, "there"))
      assert.match(
        yield* failure,
        /settings\.json cannot be read: ENOTDIR: not a directory\. It was left as it is\. Make it a file that you may/
      )
      rmSync(join(home, "there"))
      mkdirSync(join(home, "there"))
      writeFileSync(join(home, "there", "settings.json.lock"), "no lock ".repeat(100))
      assert.match(yield* failure, /its lock .*settings\.json\.lock cannot be taken \(file is not a database\)/)
      assert.isFalse(existsSync(join(home, "there", "settings.json")))
    })
  )
})

describe("a settings file while it is read", () => {
  it.scoped("L02: broken by hand it changes nothing; that is warned of once, and mended it counts again", () =>
    listening((warnings) =>
      Effect.gen(function* () {
        const path = yield* fileWith(commented)
        const settings = yield* opened({ path })
        const both = Effect.all([
          limit(settings),
          Effect.map(settings.get(Processes), ({ graceMillis }) => graceMillis)
        ])
        assert.deepStrictEqual(yield* both, [3, 2000])
        writeFileSync(path, '{"agent-loop": {"maxParallelToolCalls": 7}')
        for (let n = 0; n < 3; n++) assert.deepStrictEqual(yield* both, [3, 2000])
        const broken = `${path}:1:43 is no JSON: close brace expected`
        assert.deepStrictEqual(warnings.splice(0), [`${broken}; what was in force before stays so`])
        assert.match(
          (yield* Effect.flip(settings.set(Processes, { graceMillis: 1 }))).message,
          /is no JSON.*left as it is/
        )
        writeFileSync(path, '{"agent-loop": {"maxParallelToolCalls": "many"}, "processes": {"graceMillis": 4}}')
        for (let n = 0; n < 3; n++) assert.deepStrictEqual(yield* both, [3, 4])
        const refused = 'agent-loop.maxParallelToolCalls must be number, not "many"'
        assert.deepStrictEqual(warnings.splice(0), [`${refused}; what was in force before stays so`])
        writeFileSync(path, '{"agent-loop": {"maxParallelToolCalls": 8}}')
        assert.deepStrictEqual(yield* both, [8, 2000])
        rmSync(path)
        assert.deepStrictEqual(yield* both, [10, 2000])
        assert.deepStrictEqual(warnings, [])
      })
    )
  )

  it.scoped("L03 L09: what another one writes counts at once, in place or by a new file", () =>
    Effect.gen(function* () {
      const path = yield* fileWith("")
      const settings = yield* opened({ path })
      const other = yield* opened({ path })
      for (let n = 1; n < 20; n++) {
        yield* other.set(AgentLoop, { maxParallelToolCalls: n })
        assert.strictEqual(yield* limit(settings), n)
      }
      writeFileSync(`${path}.new`, '{"agent-loop":{"maxParallelToolCalls":1}}')
      renameSync(`${path}.new`, path)
      assert.strictEqual(yield* limit(settings), 1)
    })
  )

  it.scoped("L07: watchers hear of what another one wrote, within half a second", () =>
    Effect.gen(function* () {
      const path = yield* fileWith("")
      const settings = yield* opened({ path })
      const other = yield* opened({ path })
      const seen = yield* Queue.unbounded<number>()
      const watching = yield* Effect.fork(
        Stream.runForEach(settings.changes(AgentLoop), ({ maxParallelToolCalls }) =>
          Queue.offer(seen, maxParallelToolCalls)
        )
      )
      assert.strictEqual(yield* Queue.take(seen), 10)
      for (const size of [1, 2, 2, 3]) {
        yield* other.set(AgentLoop, { maxParallelToolCalls: size })
        yield* TestClock.adjust("500 millis")
      }
      assert.deepStrictEqual(yield* Effect.replicateEffect(Queue.take(seen), 3), [1, 2, 3])
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* Queue.size(seen), 0)
      yield* Fiber.interrupt(watching)
    })
  )
})

const patience = 60_000

/** The other program, bundled once. */
const child = Effect.provide(bundled("test/settings/child.ts"), NodeFileSystem.layer)

/** Waits with real time in a test whose clock stands still. */
const soon = (what: string, check: () => boolean) => TestServices.provideLive(eventually(what, check))

/** A process that holds the lock of a file. */
const holder = Effect.fnUntraced(function* (path: string) {
  const process = yield* host(yield* child, ["hold", path])
  yield* soon("the lock to be held", () => process.printed().includes("held"))
  return process
})

describe("a settings file that several processes write", () => {
  it.scopedLive(
    "L09: two that write different sections at once keep what the other one wrote, and comments",
    () =>
      Effect.gen(function* () {
        const path = yield* fileWith(commented)
        const program = yield* child
        const count = 40
        const writers = yield* Effect.forEach(sections, ({ name }) =>
          host(program, ["write", path, name, String(count)])
        )
        const settings = yield* opened({ path })
        const seen: Array<readonly [number, number]> = []
        const all = Effect.all(writers.map(({ exited }) => exited))
        const looking = Effect.gen(function* () {
          // fails where the file is anything but whole
          yield* settings.inspect(AgentLoop)
          seen.push([yield* limit(settings), (yield* settings.get(Processes)).graceMillis])
        })
        const codes = yield* Effect.race(all, Effect.forever(Effect.zipRight(looking, Effect.sleep(1))))
        assert.deepStrictEqual(codes, [0, 0], writers.map(({ printed }) => printed()).join("\n"))
        assert.deepStrictEqual([yield* limit(settings), (yield* settings.get(Processes)).graceMillis], [count, count])
        // nothing that was written is ever undone
        const begun = seen.filter(([limit, grace]) => limit !== 3 && grace !== 2000)
        for (const [index, [limit, grace]] of begun.entries()) {
          assert.isAtLeast(limit, begun[index - 1]?.[0] ?? 0)
          assert.isAtLeast(grace, begun[index - 1]?.[1] ?? 0)
        }
        assert.include(read(path), "// mine\n{\n  // how many at once\n")
        assert.include(read(path), '"somebody-else": { "secret": "s3cret" }, // not ours\n')
        assert.deepStrictEqual(readdirSync(dirname(path)), ["settings.json", "settings.json.lock"])
      }),
    patience
  )

  it.scoped(
    "L09: a lock that is held is not stolen, however old: whoever waited for 10 seconds is told, and may try again",
    () =>
      Effect.gen(function* () {
        const path = yield* fileWith(commented)
        const settings = yield* opened({ path })
        const holding = yield* holder(path)
        utimesSync(`${path}.lock`, 0, 0)
        const waiting = yield* Effect.fork(Effect.flip(settings.set(AgentLoop, { maxParallelToolCalls: 9 })))
        // what waits meanwhile can leave
        const leaving = yield* Effect.fork(settings.set(AgentLoop, { maxParallelToolCalls: 8 }))
        // what is read needs no lock
        assert.strictEqual(yield* limit(settings), 3)
        let isOver = false
        waiting.addObserver(() => {
          isOver = true
        })
        let waited = 0
        while (!isOver) {
          yield* TestClock.adjust("25 millis")
          // real files need real time
          yield* TestServices.provideLive(Effect.sleep(0))
          waited += 25
        }
        yield* Fiber.interrupt(leaving)
        assert.isAtLeast(waited, 10_000)
        const error = yield* Fiber.join(waiting)
        assert.strictEqual(
          error.message,
          `${path} has been locked for 10 seconds by another process that writes it. It was left as it is. Try again once that process is done.`
        )
        assert.strictEqual(read(path), commented)
        holding.kill()
        yield* holding.exited
        assert.deepInclude(yield* settings.set(AgentLoop, { maxParallelToolCalls: 9 }), { maxParallelToolCalls: 9 })
      }),
    patience
  )

  it.scopedLive(
    "L09: a lock goes with the process that holds it, also when that is killed",
    () =>
      Effect.gen(function* () {
        const path = yield* fileWith(commented)
        const settings = yield* opened({ path })
        const holding = yield* holder(path)
        const waiting = yield* Effect.fork(settings.set(AgentLoop, { maxParallelToolCalls: 9 }))
        yield* Effect.yieldNow()
        holding.kill()
        yield* holding.exited
        assert.deepInclude(yield* Fiber.join(waiting), { maxParallelToolCalls: 9 })
      }),
    patience
  )

  it.scopedLive(
    "L09: one that is killed at any call that changes a file leaves the old file or the new one, and no lock",
    (context) =>
      Effect.gen(function* () {
        const why = Points.unavailable()
        if (why !== undefined) return context.skip(why)
        const home = yield* folder
        const shim = Points.compile(home)
        const program = yield* child
        const points: Array<string> = []
        for (let at = 1; points.at(-1) !== "survived"; at++) {
          const place = join(home, String(at))
          mkdirSync(place)
          const path = join(place, "settings.json")
          writeFileSync(path, commented)
          const env = { LD_PRELOAD: shim, DAYBOOK_SHIM_FILE: place, DAYBOOK_SHIM_AT: String(at) }
          const writer = yield* host(
            program,
            ["write", path, "agent-loop", "1"],
            at % 2 === 0 ? { ...env, DAYBOOK_SHIM_TORN: "1" } : env
          )
          const code = yield* writer.exited
          points.push(code === 0 ? "survived" : (/killed in (\w+)/.exec(writer.printed())?.[1] ?? writer.printed()))
          const next = commented.replace("3 /*", "1 /*")
          assert.include(code === 0 ? [next] : [commented, next], read(path), `killed at ${at}`)
          const settings = yield* opened({ path })
          yield* settings.set(Processes, { graceMillis: 5 })
          assert.include([1, 3], yield* limit(settings))
        }
        for (const call of ["write", "sync", "rename"]) assert.include(points, call)
      }),
    patience
  )
})
