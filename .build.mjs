// Builds dist: the library by tsc, one file each with its types, and the command as one bundle.
import { spawnSync } from "node:child_process"
import { chmodSync, readFileSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"

// Heavy at start-up and of no use to the command. One import of a barrel would drag them in.
const unwanted = ["undici", "ws", "msgpackr", "@effect/cluster", "@effect/rpc", "@effect/workflow"]

process.chdir(fileURLToPath(new URL(".", import.meta.url)))
rmSync("dist", { recursive: true, force: true })

const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin/tsc")
const { status } = spawnSync(process.execPath, [tsc, "-p", ".tsconfig.build.json"], { stdio: "inherit" })
if (status !== 0) process.exit(1)

const entry = "src/main.ts"
const shebang = "#!/usr/bin/env node"
const { metafile } = await build({
  entryPoints: [entry],
  outfile: "dist/main.js",
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  external: ["better-sqlite3"],
  // jsonc-parser's other entry finds its parts at run time, where a bundle has none
  mainFields: ["module", "main"],
  // less to parse at every start; names stay, for whoever reads a stack trace
  minifyWhitespace: true,
  minifySyntax: true,
  banner: { js: readFileSync(entry, "utf8").startsWith("#!") ? "" : shebang },
  metafile: true,
  logLevel: "warning"
})
chmodSync("dist/main.js", 0o755)

const bundled = Object.keys(metafile.outputs["dist/main.js"]?.inputs ?? {})
const dragged = unwanted.filter((name) => bundled.some((file) => file.includes(`node_modules/${name}/`)))
if (dragged.length > 0) {
  console.error(`dist/main.js would start slowly: it bundles ${dragged.join(", ")}`)
  process.exitCode = 1
}
