/**
 * The prompt of an agent in a folder, on real files.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as TestClock from "effect/TestClock"
import * as SystemPrompt from "../../src/agent/SystemPrompt.ts"
import * as WorkspacePrompt from "../../src/agent/WorkspacePrompt.ts"
import { call, say } from "../../src/model/ScriptedModel.ts"
import * as Workspace from "../../src/tool/Workspace.ts"
import { of } from "../support/Watching.ts"
import * as World from "../support/World.ts"

const tools = ["bash", "edit", "list", "read", "search", "write"]

/** A moment before midnight in UTC. */
const lateOnTheFirst = Date.UTC(2025, 11, 1, 23, 59, 59, 999)

const occasion: SystemPrompt.Occasion = { sessionId: World.id, created: lateOnTheFirst, tools }

/** A workspace two folders below one of its own. */
const folders = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const above = yield* fs.realPath(yield* fs.makeTempDirectoryScoped())
  const workspace = `${above}/a/work`
  yield* fs.makeDirectory(workspace, { recursive: true })
  return { fs, above, workspace }
})

/** The prompt of a workspace as its files are now, and what is logged meanwhile. */
const promptIn = Effect.fnUntraced(function* (workspace: string) {
  const logged: Array<string> = []
  const logger = Logger.make(({ message }) => void logged.push(String(message)))
  const layer = WorkspacePrompt.layer.pipe(
    Layer.provide(Workspace.layer(workspace)),
    Layer.provide([NodeContext.layer, Logger.replace(Logger.defaultLogger, logger)])
  )
  const { sections } = Context.get(yield* Layer.build(layer), SystemPrompt.SystemPrompt)
  const text = (more: Partial<SystemPrompt.Occasion> = {}) =>
    Effect.flatMap(sections, (all) => SystemPrompt.assemble(all, { ...occasion, ...more }))
  return { sections, text, logged }
})

/** What the files say, from one below a folder of the test's own on: what lies above that is the host's. */
const instructed = (text: string, above: string): string => {
  const at = text.indexOf(`\n# ${above}`)
  return at === -1 ? "" : text.slice(at + 1)
}

describe("the prompt of a workspace", () => {
  it.scoped("P01: identity, persona, workspace, date, tools and instructions, in this order", () =>
    Effect.gen(function* () {
      const { fs, workspace } = yield* folders
      yield* fs.writeFileString(`${workspace}/AGENTS.md`, "Be kind.\n")
      const text = yield* (yield* promptIn(workspace)).text()
      const places = [
        "You are an agent",
        "Do what was asked",
        `The workspace is ${workspace}.`,
        "This session began on 2025-12-01 (UTC).",
        "How the tools behave here:",
        `# ${workspace}/AGENTS.md\n\nBe kind.`
      ].map((part) => text.indexOf(part))
      assert.deepStrictEqual(
        places,
        places.toSorted((a, b) => a - b)
      )
      assert.notInclude(places, -1)
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("it speaks of the tools that there are, and of no others", () =>
    Effect.gen(function* () {
      const { workspace } = yield* folders
      const { text } = yield* promptIn(workspace)
      const lines = (...tools: ReadonlyArray<string>) =>
        Effect.map(text({ tools }), (all) =>
          all
            .split("\n")
            .filter((line) => /^- /.test(line))
            .join("\n")
        )
      assert.strictEqual(yield* lines(), "")
      assert.match(yield* lines("read", "search"), /^- read, search: /m)
      assert.notMatch(yield* lines("read", "search"), /bash|write|edit|list/)
      assert.match(yield* lines("bash"), /^- bash: .*no sandbox/m)
      assert.notMatch(yield* lines("bash"), /\bread\b(?! run)|inside the workspace/)
      assert.notMatch(yield* lines("roll"), /bash|inside the workspace/)
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("AGENTS.md of the workspace and of the folders above it, the nearest last; empty ones are nothing", () =>
    Effect.gen(function* () {
      const { above, fs, workspace } = yield* folders
      const { text: none } = yield* promptIn(workspace)
      assert.strictEqual(instructed(yield* none(), above), "")
      yield* fs.writeFileString(`${workspace}/AGENTS.md`, "\uFEFFnearest \u{1F600}\r\n")
      yield* fs.writeFileString(`${above}/AGENTS.md`, "\n\nfarthest\n\n")
      yield* fs.writeFileString(`${above}/a/AGENTS.md`, " \n ")
      yield* fs.makeDirectory(`${workspace}/below`)
      yield* fs.writeFileString(`${workspace}/below/AGENTS.md`, "not asked")
      const { logged, text } = yield* promptIn(workspace)
      assert.strictEqual(
        instructed(yield* text(), above),
        `# ${above}/AGENTS.md\n\nfarthest\n\n# ${workspace}/AGENTS.md\n\nnearest \u{1F600}`
      )
      assert.deepStrictEqual(logged, [])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("what cannot be read, or is no file of its folder, is left out, and said to the log where it is odd", () =>
    Effect.gen(function* () {
      const { above, fs, workspace } = yield* folders
      const outside = yield* fs.makeTempDirectoryScoped()
      yield* fs.writeFileString(`${outside}/secret`, "secret")
      yield* fs.writeFileString(`${workspace}/CLAUDE.md`, "linked")
      const file = `${workspace}/AGENTS.md`
      const cases: ReadonlyArray<
        readonly [make: Effect.Effect<void, unknown>, shown: string, told: RegExp | undefined]
      > = [
        [fs.makeDirectory(file), "", undefined],
        [fs.symlink("nowhere", file), "", undefined],
        [fs.symlink("CLAUDE.md", file), `# ${file}\n\nlinked`, undefined],
        [fs.symlink("AGENTS.md", file), "", /AGENTS\.md cannot be read: .*works without it/],
        [fs.symlink(`${outside}/secret`, file), "", /AGENTS\.md leads out of its folder/],
        [fs.symlink("../../AGENTS.md", file), "", /AGENTS\.md leads out of its folder/],
        // never opened: that would wait for a writer
        [fs.symlink("/dev/tty", file), "", undefined]
      ]
      yield* fs.writeFileString(`${above}/AGENTS.md`, " ")
      for (const [make, shown, told] of cases) {
        yield* make
        const { logged, text } = yield* promptIn(workspace)
        assert.strictEqual(instructed(yield* text(), above), shown)
        if (told === undefined) assert.deepStrictEqual(logged, [])
        else assert.match(logged.join("\n"), told)
        assert.notInclude(yield* text(), "secret")
        yield* fs.remove(file, { recursive: true })
      }
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("what is too long is cut between characters, and says so", () =>
    Effect.gen(function* () {
      const { above, fs, workspace } = yield* folders
      const max = WorkspacePrompt.maxInstructionBytes
      for (const [text, kept] of [
        ["x".repeat(max), max],
        ["x".repeat(max + 1), max],
        [`${"x".repeat(max - 1)}é`, max - 1],
        [`${"x".repeat(max - 3)}\u{1F600}${"y".repeat(1_000_000)}`, max - 3]
      ] as const) {
        yield* fs.writeFileString(`${workspace}/AGENTS.md`, text)
        const shown = instructed(yield* (yield* promptIn(workspace)).text(), above)
        const cut = Buffer.byteLength(text) > max
        const end = cut ? `\n\n[cut: only the first ${max} bytes of this file are shown]` : ""
        assert.strictEqual(shown, `# ${workspace}/AGENTS.md\n\n${text.slice(0, kept)}${end}`)
      }
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("the same inputs give the same bytes, however often they are asked for, and well-formed ones", () =>
    Effect.gen(function* () {
      const { fs, workspace } = yield* folders
      const inputs = FastCheck.record({
        bytes: FastCheck.uint8Array({ maxLength: 300 }),
        created: FastCheck.oneof(
          FastCheck.integer({ min: 0, max: 4e12 }),
          FastCheck.constantFrom(-1, 9e15, Number.NaN)
        ),
        tools: FastCheck.subarray([...tools, "roll"])
      })
      for (const { bytes, ...given } of FastCheck.sample(inputs, { numRuns: 12, seed: 5 })) {
        yield* fs.writeFile(`${workspace}/AGENTS.md`, bytes)
        const { text } = yield* promptIn(workspace)
        const again = yield* promptIn(workspace)
        const first = yield* text(given)
        assert.isTrue(first.isWellFormed())
        for (let step = 0; step < 3; step++) assert.strictEqual(yield* text(given), first)
        assert.strictEqual(yield* again.text(given), first)
      }
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("H06: one header in a session of many steps and days, and the same prompt after a restore", () =>
    Effect.gen(function* () {
      const { fs, workspace } = yield* folders
      yield* fs.writeFileString(`${workspace}/AGENTS.md`, "Be kind.")
      const { sections } = yield* promptIn(workspace)
      const steps = Array.from({ length: 8 }, (_, index) => call(["look", { id: `${index}` }]))
      const world = yield* World.make({
        scripts: [...steps, say("done"), say("again")],
        sections,
        // what changes meanwhile is for the next one who opens
        body: (id) =>
          Effect.as(Effect.orDie(fs.writeFileString(`${workspace}/AGENTS.md`, `Be unkind ${id} times.`)), `did ${id}`)
      })
      const session = Effect.flatMap(world.open(), (agent) => Effect.zipRight(agent.followup("go"), agent.idle))
      yield* Effect.scoped(session)
      const requests = yield* world.requests
      assert.strictEqual(requests.length, 9)
      assert.strictEqual(new Set(requests.map(({ system }) => system)).size, 1)
      assert.deepStrictEqual(
        of(yield* world.log, "request/header").map(({ data }) => data.reason),
        ["initial"]
      )
      yield* TestClock.adjust("1 second")
      yield* Effect.scoped(session)
      const headers = of(yield* world.log, "request/header").map(({ data }) => [data.reason, data.system])
      assert.deepStrictEqual(headers, [
        ["initial", requests[0]?.system],
        ["resume", requests[0]?.system]
      ])
      assert.include(requests[0]?.system, "This session began on 1970-01-01 (UTC).")
      assert.include(requests[0]?.system, "Be kind.")
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
