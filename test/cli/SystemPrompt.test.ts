/**
 * The system prompt that the program composes.
 */
import { mkdirSync, realpathSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { folder, log, run } from "../support/Cli.ts"

const patience = 120_000

describe("the system prompt of the program", () => {
  it.scopedLive(
    "H06: one header in a session of several steps, the same bytes in the next process, AGENTS.md read when it starts",
    () =>
      Effect.gen(function* () {
        const above = realpathSync(yield* folder)
        const workspace = join(above, "work")
        mkdirSync(workspace)
        writeFileSync(join(above, "AGENTS.md"), "Be brief.\n")
        const options = { cwd: workspace }
        const asking = (prompt: string) => run(["run", "--yes", "--session", "s", prompt], options)
        const first = yield* asking("Write AGENTS.md: be kind; then read AGENTS.md")
        assert.strictEqual(first.code, 0, first.stderr)
        const events = yield* log("s", options)
        assert.isAbove(events.filter(({ type }) => type === "step/start").length, 1)
        const headers = events.flatMap((event) => (event.type === "request/header" ? [event.data] : []))
        assert.deepStrictEqual(
          headers.map(({ reason }) => reason),
          ["initial"]
        )
        const [header] = headers
        const day = new Date(events[0]?.time ?? 0).toISOString().slice(0, 10)
        assert.include(header?.system, `The workspace is ${workspace}.\n\nThis session began on ${day} (UTC).`)
        assert.match(header?.system ?? "", /^- edit, list, read, search, write: .*\n- bash: /m)
        assert.include(header?.system, `# ${above}/AGENTS.md\n\nBe brief.`)
        assert.notInclude(header?.system, `# ${workspace}/AGENTS.md`)

        const second = yield* asking("Say hello")
        assert.strictEqual(second.code, 0, second.stderr)
        const later = (yield* log("s", options)).flatMap((event) =>
          event.type === "request/header" ? [event.data] : []
        )
        assert.deepStrictEqual(
          later.map(({ reason, system }) => [reason, system]),
          [
            ["initial", header?.system],
            ["resume", `${header?.system}\n\n# ${workspace}/AGENTS.md\n\nbe kind`]
          ]
        )
      }),
    patience
  )
})
