// The room table, and what else a file of src may not do. `checkRooms` is pure: texts in, one line per finding out.
import { posix } from "node:path"
import { read } from "./source.mjs"

/**
 * @typedef {import("./source.mjs").Token} Token
 * @typedef {{ readonly specifier: string, readonly line: number }} Import
 */

const everything = ["domain", "journal", "session", "settings", "model", "tool", "agent", "view", "testing"]

/** Who may import whom. Every room may import itself and `internal`; only `main.ts` may import `cli`.
 * @type {Readonly<Record<string, ReadonlyArray<string>>>} */
const rooms = {
  domain: [],
  internal: [],
  journal: ["domain"],
  session: ["domain", "journal"],
  settings: ["domain"],
  model: ["domain", "settings"],
  tool: ["domain", "session", "settings"],
  agent: ["domain", "session", "settings", "model", "tool"],
  view: ["domain"],
  testing: everything.filter((room) => room !== "testing"),
  cli: everything,
  "main.ts": [...everything, "cli"],
  "index.ts": everything
}

/** Runs of tokens that reach around a service. Each needs `// edge: reason` on its line or right above.
 * @type {ReadonlyArray<string>} */
const edges = [
  "AbortController",
  "new Promise",
  "new Date ( )",
  "Date . now",
  "performance . now",
  "process . hrtime",
  "process . env",
  "console .",
  "Math . random",
  "randomUUID (",
  "crypto . randomUUID",
  "randomBytes (",
  "setTimeout (",
  "setInterval (",
  "setImmediate (",
  "queueMicrotask ("
]
const edgeRuns = edges.map((edge) => ({ edge: edge.replaceAll(" ", "").replace(/^new/, "new "), run: edge.split(" ") }))

/** The room of a path below src: its folder, or the file itself at the root. @type {(path: string) => string} */
const roomOf = (path) => path.split("/")[0] ?? path

/** The end of an import or re-export that starts at `at`: the place of its specifier, or -1 when it has none.
 * @type {(tokens: ReadonlyArray<Token>, at: number) => number} */
const specifierOf = (tokens, at) => {
  const text = (/** @type {number} */ i) => tokens[i]?.text ?? ""
  let i = at + 1
  if (text(at) === "import") {
    if (text(i) === ".") return -1
    if (text(i) === "(") i++
    if (tokens[i]?.string !== undefined) return i
    while (i < tokens.length && text(i) !== "from") i++
  } else {
    if (text(i) === "type") i++
    if (text(i) === "{") while (i < tokens.length && text(i) !== "}") i++
    else if (text(i) !== "*") return -1
    while (text(i) === "}" || text(i) === "*" || text(i) === "as" || text(i - 1) === "as") i++
  }
  return text(i) === "from" && tokens[i + 1]?.string !== undefined ? i + 1 : -1
}

/** Every module that a file names, in types too. @type {(tokens: ReadonlyArray<Token>) => ReadonlyArray<Import>} */
const importsOf = (tokens) =>
  tokens.flatMap((token, at) => {
    if (token.text !== "import" && token.text !== "export") return []
    if (tokens[at - 1]?.text === ".") return []
    const found = tokens[specifierOf(tokens, at)]
    return found?.string === undefined ? [] : [{ specifier: found.string, line: token.line }]
  })

/** Whether a file holds imports and re-exports only. @type {(tokens: ReadonlyArray<Token>) => boolean} */
const onlyForwards = (tokens) => {
  let exports = 0
  let at = 0
  while (at < tokens.length) {
    const text = tokens[at]?.text
    const end = specifierOf(tokens, at)
    if (text === ";") at++
    else if (text === "import" && end > 0) at = end + 1
    else if (text === "export" && end > 0) {
      exports++
      at = end + 1
    } else if (text === "export" && ["{", "type"].includes(tokens[at + 1]?.text ?? "")) {
      // `export { a, b }` of what was imported above
      const open = tokens[at + 1]?.text === "{" ? at + 1 : at + 2
      if (tokens[open]?.text !== "{") return false
      const close = tokens.findIndex((token, i) => i > open && token.text === "}")
      if (close < 0) return false
      exports++
      at = close + 1
    } else return false
  }
  return exports > 0
}

/** @type {(tokens: ReadonlyArray<Token>) => boolean} */
const onlyNamespaces = (tokens) => {
  const code = tokens.filter((token) => token.text !== ";")
  const shape = ["export", "*", "as", undefined, "from"]
  return code.every((token, i) => {
    const wanted = shape[i % 6]
    return wanted === undefined || token.text === wanted
  })
}

/** @type {(source: import("./source.mjs").Source, line: number) => boolean} */
const excused = ({ codeLines, comments }, line) => {
  const isEdge = (/** @type {number} */ at) => /\bedge:[ \t]*\S/.test(comments.get(at) ?? "")
  if (isEdge(line)) return true
  for (let at = line - 1; comments.has(at) && !codeLines.has(at); at--) if (isEdge(at)) return true
  return false
}

/** @type {(path: string, source: import("./source.mjs").Source) => ReadonlyArray<string>} */
const edgeFindings = (path, source) =>
  source.tokens.flatMap((token, at) => {
    const before = source.tokens[at - 1]?.text
    const member = (before === "." || before === "?.") && source.tokens[at - 2]?.text !== "globalThis"
    const hit = member
      ? undefined
      : edgeRuns.find(({ run }) => run.every((text, i) => source.tokens[at + i]?.text === text))
    if (hit === undefined || excused(source, token.line)) return []
    return [`src/${path}:${token.line} ${hit.edge} without a comment "// edge: reason"`]
  })

/** What is wrong with one import, or undefined. @type {(path: string, specifier: string) => string | undefined} */
const importFinding = (path, specifier) => {
  if (!specifier.startsWith(".")) {
    if (/^(effect(\/index)?|@effect\/[^/]+(\/index)?)$/.test(specifier)) {
      return `imports the barrel ${specifier}; import the module, such as effect/Effect`
    }
    return /^daybook(\/|$)/.test(specifier) ? `imports ${specifier}; use a relative path` : undefined
  }
  const target = posix.join(posix.dirname(path), specifier)
  if (target.startsWith("..")) return `imports ${specifier}, which is outside src`
  const from = roomOf(path)
  const to = roomOf(target)
  const allowed = from === to || to === "internal" || (rooms[from] ?? []).includes(to)
  return allowed ? undefined : `${from} may not import ${to} (${specifier})`
}

/** One line for each cycle that a depth-first walk closes.
 * @type {(graph: ReadonlyMap<string, ReadonlyArray<string>>) => ReadonlyArray<string>} */
const cycleFindings = (graph) => {
  /** @type {Array<string>} */
  const findings = []
  /** @type {Array<string>} */
  const path = []
  /** @type {Set<string>} */
  const done = new Set()
  const visit = (/** @type {string} */ file) => {
    const at = path.indexOf(file)
    if (at >= 0) findings.push(`import cycle: ${[...path.slice(at), file].map((name) => `src/${name}`).join(" > ")}`)
    if (at >= 0 || done.has(file)) return
    path.push(file)
    for (const next of graph.get(file) ?? []) visit(next)
    path.pop()
    done.add(file)
  }
  for (const file of graph.keys()) visit(file)
  return findings
}

/**
 * @param {ReadonlyMap<string, string>} files The text of each file, by its path below src.
 * @returns {ReadonlyArray<string>}
 */
export const checkRooms = (files) => {
  /** @type {Map<string, ReadonlyArray<string>>} */
  const graph = new Map()
  const findings = [...files].flatMap(([path, text]) => {
    const source = read(text)
    const imports = importsOf(source.tokens)
    const local = imports.flatMap(({ specifier }) =>
      specifier.startsWith(".") ? [posix.join(posix.dirname(path), specifier)] : []
    )
    graph.set(
      path,
      [...new Set(local)].filter((target) => files.has(target))
    )
    const found = []
    if (path.split("/").length > 2) found.push(`src/${path} is more than one folder deep`)
    if (rooms[roomOf(path)] === undefined) found.push(`src/${path} is in no room of the table`)
    if (path === "index.ts" && !onlyNamespaces(source.tokens)) {
      found.push(`src/${path} holds more than "export * as Name from"`)
    }
    if (path !== "index.ts" && onlyForwards(source.tokens)) found.push(`src/${path} only re-exports`)
    for (const { line, specifier } of imports) {
      const finding = importFinding(path, specifier)
      if (finding !== undefined) found.push(`src/${path}:${line} ${finding}`)
    }
    return [...found, ...edgeFindings(path, source)]
  })
  return [...findings, ...cycleFindings(graph)]
}
