/**
 * What the offline model understands: plain requests, read with fixed rules.
 *
 * - Pure. A rule holds its form, what it does, its examples and its parser in one place, and `grammar`, the text that
 *   people read, is made of the same rules: help and parser cannot diverge.
 * - All or nothing: a request with one part that no rule reads is not understood, and nothing of it is done.
 * - Linear in the length of the request, which may be megabytes.
 */
import * as Either from "effect/Either"
import * as Words from "./OfflineWords.ts"

/** One thing to do. A test without folders runs in the workspace; a report is on the tests and commands before it. */
export type Instruction =
  | { readonly type: "test"; readonly folders: ReadonlyArray<string> }
  | { readonly type: "run"; readonly commands: ReadonlyArray<string>; readonly parallel: boolean }
  | { readonly type: "read"; readonly files: ReadonlyArray<string> }
  | { readonly type: "write"; readonly file: string; readonly text: string }
  | { readonly type: "report"; readonly file: string }
  | { readonly type: "say"; readonly text: string }
  | { readonly type: "continue" }

/** A kind of instruction: how one writes it, what it does, and how a clause is read. */
interface Rule {
  readonly form: string
  readonly does: string
  readonly examples: ReadonlyArray<string>
  readonly parse: (clause: string) => Instruction | undefined
}

/** The folder that stands for the workspace itself. */
export const workspace = "."

/** Where a report goes that is asked for without a file. */
export const defaultReport = "report.md"

const atOnce = /,?\s(?:in parallel|at once|at the same time|concurrently)$/i

const parseTest = (clause: string): Instruction | undefined => {
  const text = Words.bare(clause).replace(atOnce, "")
  const match =
    /^(?:run|execute)\s+(?:all\s+)?(?:of\s+)?(?:the\s+|my\s+)?(?:unit\s+)?(?:tests?(?:\s+suites?)?|suites?)(?:\s+(?:in|of|for|from|under)\s+(.+))?$/is.exec(
      text
    ) ?? /^test\s+(.+)$/is.exec(text)
  if (match === null) return undefined
  const list = match[1]
  if (list === undefined || /^(?:here|(?:the|this) (?:workspace|folder|project))$/i.test(list))
    return { type: "test", folders: [workspace] }
  const folders = Words.values(list)
  return folders === undefined ? undefined : { type: "test", folders }
}

const parseRun = (clause: string): Instruction | undefined => {
  const text = Words.bare(clause)
  const match = /^(?:run|execute)\s+(in parallel\s+)?(.+)$/is.exec(text.replace(atOnce, ""))
  const found = match?.[2] === undefined ? undefined : Words.names(match[2])
  if (found === undefined || !found.every((name) => name.isQuoted)) return undefined
  const parallel = match?.[1] !== undefined || atOnce.test(text)
  return { type: "run", commands: found.map((name) => name.value), parallel }
}

const parseRead = (clause: string): Instruction | undefined => {
  const match = /^(?:read|show|print)\s+(?:me\s+)?(.+)$/is.exec(Words.bare(clause))
  const files = match?.[1] === undefined ? undefined : Words.values(match[1])
  return files === undefined ? undefined : { type: "read", files }
}

const results =
  /^(?:(?:an?|the|all|their|its|short|full|test|tests)\s+)*(?:reports?|results?|summary|summaries|outcomes?)(?:\s+(?:of|on|about|for|from|with|that|which|saying)\s.*)?$/is

const writeVerb = /^(?:write|save|create)\s+(.+)$/is
const fileThenText =
  /^(`[^`]+`|"[^"]+"|“[^“”]+”|'[^']+'|[^\s:"'`“”]+)(?:\s{0,20}:|\s+with\s+(?:the\s+)?(?:text|contents?)\b:?)\s*(.+)$/is
const textToFile =
  /^(.+)\s(?:to|into|in|as|named|called)\s+(?:the\s+file\s+)?(`[^`]+`|"[^"]+"|“[^“”]+”|'[^']+'|[^\s"'`“”]+)$/is
const fileAndTail = /^(\S+|"[^"]+"|'[^']+')\s+(?:with|that|which|saying|about|on|of|for|from)\s+(.+)$/is

const write = (file: string, text: string): Instruction | undefined =>
  text.trim() === "" ? undefined : { type: "write", file: Words.plain(file), text: Words.plain(text) }

/** A file that is given together with its text, on either side of it. */
const parseWrite = (clause: string): Instruction | undefined => {
  const body = writeVerb.exec(clause)?.[1]
  if (body === undefined) return undefined
  const first = fileThenText.exec(body)
  const last = textToFile.exec(Words.bare(body))
  if (first?.[1] !== undefined && first[2] !== undefined && (last === null || /[./"'`“]/.test(first[1])))
    return write(first[1], first[2])
  if (last?.[1] === undefined || last[2] === undefined || results.test(last[1])) return undefined
  return write(last[2], last[1])
}

/** A file that is given without its text: a report. */
const parseReport = (clause: string): Instruction | undefined => {
  const body = Words.bare(writeVerb.exec(clause)?.[1] ?? "")
  const last = textToFile.exec(body)
  if (last?.[1] !== undefined && last[2] !== undefined && results.test(last[1]))
    return { type: "report", file: Words.plain(last[2]) }
  if (results.test(body)) return { type: "report", file: defaultReport }
  const tailed = fileAndTail.exec(body)
  const hasTail =
    tailed?.[2] !== undefined && (results.test(tailed[2]) || /^(?:which|what|why|how|whether)\s/i.test(tailed[2]))
  const file = Words.oneName(hasTail ? (tailed?.[1] ?? "") : body)
  return file === undefined ? undefined : { type: "report", file }
}

const parseSay = (clause: string): Instruction | undefined => {
  const text = /^say\s*:?\s+(.+)$/is.exec(clause)?.[1]
  return text === undefined ? undefined : { type: "say", text: Words.plain(text) }
}

const parseContinue = (clause: string): Instruction | undefined =>
  /^(?:continue|go on|resume|try again)$/i.test(Words.bare(clause)) ? { type: "continue" } : undefined

/** In the order in which they are tried. */
const rules: ReadonlyArray<Rule> = [
  {
    form: "Run the tests in FOLDER, FOLDER and FOLDER",
    does: "Runs `node --test` in each folder, all at once. Without folders: in the workspace.",
    examples: [
      "Run the tests in a, b and c, then write report.md",
      'Run the tests in "my app" and packages/core and write the results to docs/tests.md',
      "Run the tests"
    ],
    parse: parseTest
  },
  {
    form: "Write FILE: TEXT, or Write TEXT to FILE",
    does: "Writes the text into the file.",
    examples: ["Write notes.txt: milk and bread; then read notes.txt", 'Write "Hello, world" to hello.txt'],
    parse: parseWrite
  },
  {
    form: "Write FILE, or Write the results to FILE",
    does: "Writes a report on the tests and commands before it: what failed, and why.",
    examples: ["Run the tests in src. Write out/report.md"],
    parse: parseReport
  },
  {
    form: "Run `COMMAND`, Run `COMMAND` and `COMMAND` in parallel",
    does: "Runs the commands in the workspace, one by one or all at once. Other quotes do as well.",
    examples: ["Run `node --version` and `pwd` in parallel", "Run 'ls -a', then say done"],
    parse: parseRun
  },
  {
    form: "Read FILE and FILE, or Show FILE",
    does: "Shows the files.",
    examples: ["Show package.json", "Read a/package.json, b/package.json and c/package.json"],
    parse: parseRead
  },
  {
    form: "Say TEXT",
    does: "Says it.",
    examples: ["Say hello"],
    parse: parseSay
  },
  {
    form: "Continue",
    does: "Takes up the last request again. Commands that may already have run are not run twice.",
    examples: ["Continue"],
    parse: parseContinue
  }
]

/** Every example of the grammar, as a person would type it. */
export const examples: ReadonlyArray<string> = rules.flatMap((rule) => rule.examples)

/** The grammar as people read it, in lines of at most 100 characters. */
export const grammar: string = [
  "The offline model is no language model. It reads plain requests with fixed rules, without a network",
  "or a key. Words in capitals stand for yours:",
  "",
  ...rules.flatMap((rule) => [`  ${rule.form}`, `      ${rule.does}`]),
  "",
  'Join them with "then", "and", ";" or a new line. Put names with spaces, and text that itself reads',
  "like an instruction, in quotes. Nothing is done if a part is not understood. Examples:",
  "",
  ...examples.map((example) => `  ${example}`)
].join("\n")

/** The instructions of a request in order, or else the first part of it that no rule reads. */
export const parse = (request: string): Either.Either<ReadonlyArray<Instruction>, string> => {
  const found: Array<Instruction> = []
  for (const clause of Words.clauses(request)) {
    const instruction = rules.reduce<Instruction | undefined>((first, rule) => first ?? rule.parse(clause), undefined)
    if (instruction === undefined) return Either.left(clause)
    found.push(instruction)
  }
  return found.length === 0 ? Either.left(request.trim()) : Either.right(found)
}
