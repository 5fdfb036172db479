// `npm run check`: runs every check at once, prints what each found, and fails if any did.
import { execFile } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { checkCases } from "./cases.mjs"
import { checkRooms } from "./rooms.mjs"

const root = fileURLToPath(new URL("../..", import.meta.url))
process.chdir(root)

/** The texts below a folder, by their paths in it. @type {(folder: string) => Map<string, string>} */
const texts = (folder) =>
  new Map(
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts"))
      .map((name) => [name.replaceAll("\\", "/"), readFileSync(join(folder, name), "utf8")])
  )

/** The folder of an installed package. @type {(name: string) => string} */
const packageFolder = (name) => dirname(createRequire(import.meta.url).resolve(`${name}/package.json`))
const typescript = packageFolder("typescript")
const { version } = JSON.parse(readFileSync(join(typescript, "package.json"), "utf8"))
const effectTsc = join(
  packageFolder(`@effect/tsgo-${process.platform}-${process.arch}`),
  `artifacts/typescript/${version}/tsc`
)
const node = process.execPath

/** What a program prints, and whether it failed.
 * @type {(file: string, ...args: ReadonlyArray<string>) => Promise<{ failed: boolean, output: string }>} */
const program = (file, ...args) =>
  new Promise((resolve) => {
    execFile(file, args, { maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) =>
      resolve({ failed: error !== null, output: stdout + stderr || (error?.message ?? "") })
    )
  })

/** @type {(findings: ReadonlyArray<string>) => Promise<{ failed: boolean, output: string }>} */
const findings = async (lines) => ({ failed: lines.length > 0, output: lines.map((line) => `${line}\n`).join("") })

const started = performance.now()
const checks = {
  "format and lint": program(
    node,
    join(packageFolder("@biomejs/biome"), "bin/biome"),
    "check",
    "--error-on-warnings",
    "--max-diagnostics=200"
  ),
  types: program(node, join(typescript, "bin/tsc"), "-p", "."),
  // `preserve`, because under `nodenext` half of the Effect rules are silent: `import * as Effect` of a module that
  // counts as CommonJS is a copy there, whose members they do not know.
  "effect rules": program(effectTsc, "-p", ".", "--module", "preserve", "--pretty", "false"),
  "room table, cycles and edges": findings(checkRooms(texts("src"))),
  "case ids": findings(checkCases(readFileSync("test/cases.txt", "utf8"), texts("test")))
}

for (const [name, check] of Object.entries(checks)) {
  const { failed, output } = await check
  if (failed) process.exitCode = 1
  process.stdout.write(`${failed ? `${output}FAILED` : "ok    "} ${name}\n`)
}
process.stdout.write(`${((performance.now() - started) / 1000).toFixed(1)} s\n`)
