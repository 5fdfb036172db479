import { readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Cli from "./support/Cli.ts"

const repository = fileURLToPath(new URL("..", import.meta.url))
const readme = readFileSync(join(repository, "README.md"), "utf8")

/** The fenced blocks of one language, in order. */
const blocks = (language: string): ReadonlyArray<string> =>
  Array.from(readme.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "gms")), (match) => match[1] ?? "")

const bin = (name: string) => join(repository, "node_modules/.bin", name)
const config = join(repository, "test/vitest.config.ts")

/** A folder of a user's own, in which the packages can be imported. */
const userFolder = Effect.tap(Cli.folder, (folder) =>
  Effect.sync(() => symlinkSync(join(repository, "node_modules"), join(folder, "node_modules")))
)

describe("the README", () => {
  it("has at most 120 lines, and the two commands of a newcomer", () => {
    assert.isBelow(readme.split("\n").length, 120)
    const [first] = blocks("sh")
    assert.include(first ?? "", "npm ci && npm start -- run --yes --workspace scratchpad/report")
    assert.include(first ?? "", "npm ci && npm test")
  })

  it.live("its commands run as they stand", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const cwd = yield* Cli.folder
        const commands = (blocks("sh")[1] ?? "").trim().split("\n")
        assert.isAtLeast(commands.length, 5)
        for (const command of commands) {
          const line = command.replace(/^daybook/, Cli.shellWords())
          const result = yield* Cli.shell(line, { cwd })
          assert.strictEqual(result.code, 0, `${command}\n${result.stderr}`)
          assert.notStrictEqual(result.stdout, "", command)
        }
        assert.include(readFileSync(join(cwd, "notes.txt"), "utf8"), "milk and bread")
      })
    )
  )

  /** Runs a program in a folder of a user's own, and looks at what it left there. */
  const runs = (program: string, shows: ReadonlyArray<string>) =>
    Effect.scoped(
      Effect.gen(function* () {
        const cwd = yield* userFolder
        writeFileSync(join(cwd, "program.ts"), program)
        const result = yield* Cli.shell(`"${bin("vite-node")}" --config "${config}" program.ts`, { cwd })
        assert.strictEqual(result.code, 0, result.stderr)
        for (const shown of shows) assert.include(result.stdout, shown)
        assert.include(readFileSync(join(cwd, "hello.txt"), "utf8"), "good morning")
      })
    )

  it.live("its program runs as it stands", () => runs(blocks("ts")[0] ?? "", ["completed"]))

  it.live("its program runs with the user's own telemetry in place of its last line", () => {
    const program = (blocks("ts")[0] ?? "").trimEnd().split("\n")
    assert.match(program.pop() ?? "", /^NodeRuntime\.runMain/)
    return runs([...program, blocks("ts")[2]].join("\n"), ["completed", "Agent.turn", "Pipeline.run", "Journal.append"])
  })

  it.live("its test runs as it stands", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const cwd = yield* userFolder
        yield* Effect.promise(() => mkdir(join(cwd, "test")))
        yield* Effect.promise(() => writeFile(join(cwd, "test/answers.test.ts"), blocks("ts")[1] ?? ""))
        const result = yield* Cli.shell(`"${bin("vitest")}" run --config "${config}" --root .`, { cwd })
        assert.strictEqual(result.code, 0, result.stdout + result.stderr)
        assert.match(result.stdout, /1 passed/)
      })
    )
  )

  it.live("the tour of the scratchpad runs as it stands", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const result = yield* Cli.shell(`"${bin("vite-node")}" --config "${config}" scratchpad/tour.ts`, {
          cwd: repository
        })
        assert.strictEqual(result.code, 0, result.stderr)
        assert.match(result.stdout, /^killed: .* tool\/call( tool\/process)?$/m)
        assert.match(result.stdout, /^repaired: .* tool\/result step\/end turn\/end$/m)
        assert.include(result.stdout, "kind: 'completed'")
      })
    )
  )
})
