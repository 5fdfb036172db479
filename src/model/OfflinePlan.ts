/**
 * Where a conversation stands: the instructions that count now, what of them is done, and the calls that come next.
 *
 * - A pure function of the messages. Only the newest episode counts (OfflineTask.ts).
 * - Calls are recognised by their tool and their command or path, so each is made once for each time it was asked for: a
 *   conversation always comes to its end. After "Continue" a call is made once more if it never began, or if its outcome
 *   was lost and making it twice does no harm.
 */
import { type Message, textOf, toolCalls } from "../domain/Message.ts"
import * as Grammar from "./OfflineGrammar.ts"
import * as Report from "./OfflineReport.ts"
import { type Episode, episodesOf, type Task, taskOf } from "./OfflineTask.ts"
import * as Verdict from "./OfflineVerdict.ts"

/** A call of a built-in tool. `main` is its command or path. */
export interface Wanted {
  readonly name: "bash" | "read" | "write"
  readonly main: string
  readonly arguments: { readonly [key: string]: string | boolean }
}

/** An instruction with what came of it, or a text that was to be said. */
export type Outcome =
  | Verdict.Finding
  | { readonly type: "file"; readonly file: string; readonly result: Verdict.Result | undefined }
  | {
      readonly type: "written"
      readonly file: string
      readonly result: Verdict.Result | undefined
      readonly report?: string
    }
  | { readonly type: "nothing-to-report"; readonly file: string }
  | { readonly type: "said"; readonly text: string }

/** What comes next: `calls` if there are any, else the end. */
export interface Plan {
  /** What is done, in order. Where there are calls, what was said since the last ones stands in `say`. */
  readonly outcomes: ReadonlyArray<Outcome>
  readonly calls: ReadonlyArray<Wanted>
  readonly say: ReadonlyArray<string>
  readonly isEmpty: boolean
  /** The tools that the instructions need. */
  readonly tools: ReadonlySet<Wanted["name"]>
  /** What no rule reads. */
  readonly unread: ReadonlyArray<string>
}

interface Made extends Pick<Wanted, "main"> {
  readonly name: string
  readonly at: number
  readonly result: Verdict.Result | undefined
}

const mainOf = (raw: string): string => {
  try {
    const value: unknown = JSON.parse(raw)
    if (value === null || typeof value !== "object") return ""
    if ("command" in value && typeof value.command === "string") return value.command
    return "path" in value && typeof value.path === "string" ? value.path : ""
  } catch {
    return ""
  }
}

const madeIn = (messages: ReadonlyArray<Message>, task: Task): Array<Made> => {
  const results = new Map<string, Verdict.Result>()
  const made: Array<Made> = []
  for (let at = task.to - 1; at >= task.from; at--) {
    const message = messages[at]
    if (message?.role === "tool") results.set(message.callId, { text: textOf(message), isError: message.isError })
    if (message?.role !== "assistant") continue
    const calls = toolCalls(message)
    for (const call of calls.toReversed())
      made.push({ name: call.name, main: mainOf(call.arguments), at, result: results.get(call.callId) })
  }
  return made.toReversed()
}

/** Takes the call that answers `wanted` out of those made; one made before `again` must still hold. */
const take = (
  made: Array<Made>,
  wanted: Wanted,
  again: number,
  stillHolds: (fate: Verdict.Fate) => boolean
): Made | undefined => {
  while (true) {
    const at = made.findIndex((call) => call.name === wanted.name && call.main === wanted.main)
    const call = at === -1 ? undefined : made.splice(at, 1)[0]
    if (call === undefined || call.at >= again || stillHolds(Verdict.fateOf(call.result))) return call
  }
}

const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

/** The command that runs the tests in a folder, in its own right even where we run inside a test ourselves. */
export const testCommand = (folder: string): string => {
  const run = "env -u NODE_TEST_CONTEXT node --test --test-reporter=tap"
  if (folder === Grammar.workspace) return run
  return `cd ${shellWord(/^\.{0,2}\//.test(folder) ? folder : `./${folder}`)} && ${run}`
}

const bash = (command: string, parallel: boolean): Wanted => ({
  name: "bash",
  main: command,
  arguments: parallel ? { command, parallel } : { command }
})
const read = (path: string): Wanted => ({ name: "read", main: path, arguments: { path } })
const write = (path: string, content: string): Wanted => ({ name: "write", main: path, arguments: { path, content } })

// planning

const toolOf = (instruction: Grammar.Instruction): Wanted["name"] | undefined => {
  switch (instruction.type) {
    case "test":
    case "run":
      return "bash"
    case "read":
      return "read"
    case "write":
    case "report":
      return "write"
    case "say":
    case "continue":
      return undefined
    default:
      return instruction satisfies never
  }
}

const isFinding = (outcome: Outcome): outcome is Verdict.Finding =>
  outcome.type === "suite" || outcome.type === "command"

interface Step {
  readonly wanted: Wanted
  readonly isHarmless: boolean
  readonly outcome: (result: Verdict.Result | undefined) => Outcome
}

/** The calls of one instruction, each with what its result will mean. */
const stepsOf = (
  instruction: Exclude<Grammar.Instruction, { type: "say" | "continue" }>,
  findings: ReadonlyArray<Verdict.Finding>
): ReadonlyArray<Step> => {
  switch (instruction.type) {
    case "test":
      return instruction.folders.map((folder) => {
        const command = testCommand(folder)
        const outcome = (result: Verdict.Result | undefined): Outcome => ({ type: "suite", folder, command, result })
        return { wanted: bash(command, true), isHarmless: true, outcome }
      })
    case "run":
      return instruction.commands.map((command) => ({
        wanted: bash(command, instruction.parallel),
        isHarmless: false,
        outcome: (result) => ({ type: "command", command, result })
      }))
    case "read":
      return instruction.files.map((file) => ({
        wanted: read(file),
        isHarmless: true,
        outcome: (result) => ({ type: "file", file, result })
      }))
    case "write": {
      const { file, text } = instruction
      return [{ wanted: write(file, text), isHarmless: true, outcome: (result) => ({ type: "written", file, result }) }]
    }
    case "report": {
      const { file } = instruction
      const report = Report.report(findings)
      const outcome = (result: Verdict.Result | undefined): Outcome => ({ type: "written", file, result, report })
      return [{ wanted: write(file, report), isHarmless: true, outcome }]
    }
    default:
      return instruction satisfies never
  }
}

/** The findings of the newest episode before `index` that has any. */
const earlierFindings = (
  messages: ReadonlyArray<Message>,
  episodes: ReadonlyArray<Episode>,
  index: number
): ReadonlyArray<Verdict.Finding> => {
  for (let earlier = index - 1; earlier >= 0; earlier--) {
    const task = taskOf(episodes, earlier)
    const instructions = task.instructions.filter(({ type }) => type === "test" || type === "run")
    const { outcomes } = follow({ ...task, instructions }, madeIn(messages, task), () => [])
    const findings = outcomes.filter(isFinding)
    if (findings.length > 0) return findings
  }
  return []
}

/** Goes through the instructions of a task up to the first that needs calls. */
const follow = (
  task: Task,
  made: Array<Made>,
  earlier: () => ReadonlyArray<Verdict.Finding>
): Pick<Plan, "outcomes" | "calls" | "say"> => {
  const outcomes: Array<Outcome> = []
  let say: Array<string> = []
  // after "Continue": something was run again, so a report written before is no longer right
  let isRenewed = false
  for (const instruction of task.instructions) {
    if (instruction.type === "continue") continue
    if (instruction.type === "say") {
      say.push(instruction.text)
      continue
    }
    const own = outcomes.filter(isFinding)
    const findings = own.length > 0 || instruction.type !== "report" ? own : earlier()
    if (instruction.type === "report" && findings.length === 0) {
      outcomes.push({ type: "nothing-to-report", file: instruction.file })
      continue
    }
    const isStale = instruction.type === "report" && isRenewed
    const taken = stepsOf(instruction, findings).map((step) => {
      const stillHolds = (fate: Verdict.Fate) =>
        !isStale && fate !== "not-run" && (fate !== "not-known" || !step.isHarmless)
      return { step, call: take(made, step.wanted, task.again, stillHolds) }
    })
    const calls = taken.flatMap(({ call, step }) => (call === undefined ? [step.wanted] : []))
    if (calls.length > 0) return { outcomes, calls, say }
    outcomes.push(...taken.map(({ call, step }) => step.outcome(call?.result)))
    say = []
    isRenewed ||= taken.some(({ call }) => call !== undefined && call.at >= task.again)
  }
  return { outcomes: [...outcomes, ...say.map((text): Outcome => ({ type: "said", text }))], calls: [], say: [] }
}

/** Where the conversation stands. */
export const planOf = (messages: ReadonlyArray<Message>): Plan => {
  const episodes = episodesOf(messages)
  const last = episodes.length - 1
  const task = taskOf(episodes, last)
  const plan = follow(task, madeIn(messages, task), () => earlierFindings(messages, episodes, last))
  return {
    ...plan,
    isEmpty: task.instructions.length === 0,
    tools: new Set(task.instructions.flatMap((instruction) => toolOf(instruction) ?? [])),
    unread: task.unread
  }
}
