/**
 * The offline model: a `ChatModel` without a network and without a key.
 *
 * - It is no language model and says so. It reads plain requests with the fixed rules of OfflineGrammar.ts.
 * - Its answer is a pure function of the request: no clock, no randomness, nothing remembered between requests.
 */
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import type { ChatChunk } from "../domain/Chunk.ts"
import type { ChatRequest } from "../domain/Request.ts"
import { canonical } from "../internal/Json.ts"
import { ChatModel } from "./ChatModel.ts"
import * as Grammar from "./OfflineGrammar.ts"
import * as Plan from "./OfflinePlan.ts"
import * as Report from "./OfflineReport.ts"
import * as Verdict from "./OfflineVerdict.ts"

/** The provider's name. */
export const provider = "offline"

/** The name of its one model. */
export const model = "offline"

/** What the model answers: a text, or calls with the text before them. */
export interface Answer {
  readonly text: string
  readonly calls: ReadonlyArray<Plan.Wanted>
}

/** How many characters one delta carries. */
const deltaLength = 24

export const layer: Layer.Layer<ChatModel> = Layer.succeed(ChatModel, {
  stream: (request) => Stream.suspend(() => Stream.fromIteratorSucceed(chunks(request, answer(request)), 1))
})

/** The next answer in this conversation. */
export const answer = (request: ChatRequest): Answer => {
  const plan = Plan.planOf(request.messages)
  if (plan.isEmpty) return final([notUnderstood(plan.unread)])
  const offered = new Set(request.tools.map((tool) => tool.name))
  const missing = [...plan.tools].filter((name) => !offered.has(name))
  const done = summaries(plan.outcomes)
  const ending = plan.unread.map((part) => `I did not understand this part: ${quote(part)}`)
  if (plan.calls.length > 0 && missing.length > 0) return final([...done, lacking(missing, done.length > 0), ...ending])
  if (plan.calls.length > 0) return { text: plan.say.join("\n\n"), calls: plan.calls }
  const isPlain = plan.outcomes.every((outcome) => outcome.type === "said")
  return final([...done, ...ending, ...(isPlain ? [] : [notice])])
}

/** An answer as a stream of chunks. */
export const chunks = function* (request: ChatRequest, { calls, text }: Answer): Generator<ChatChunk> {
  let index = 0
  if (text !== "") {
    for (const part of deltas(text)) yield { type: "text", index, text: part }
    yield { type: "end", index }
    index++
  }
  let number = request.messages.reduce((sum, { role }) => sum + (role === "tool" ? 1 : 0), 0)
  for (const call of calls) {
    number++
    yield { type: "tool-call", index, id: `offline-${number}`, name: call.name, arguments: "" }
    for (const part of deltas(canonical(call.arguments))) yield { type: "tool-call", index, arguments: part }
    yield { type: "end", index }
    index++
  }
  yield { type: "finish", reason: calls.length > 0 ? "tool-calls" : "stop" }
}

// internal

const notice = "This was done by fixed rules. No language model was asked."

const final = (parts: ReadonlyArray<string>): Answer => ({ text: parts.join("\n\n"), calls: [] })

const quote = (part: string): string => `"${Verdict.oneLine(part)}"`

const notUnderstood = (unread: ReadonlyArray<string>): string =>
  [
    "I am Daybook's offline model, and no language model.",
    unread.length === 0 ? "" : ` I did not understand this: ${unread.map(quote).join(", ")}. I did nothing.`,
    `\n\n${Grammar.grammar}\n\n`,
    "A language model answers with --model openai/NAME."
  ].join("")

const lacking = (names: ReadonlyArray<string>, hasDone: boolean): string =>
  `That needs the tool ${names.map((name) => `"${name}"`).join(" and ")}, which is not offered here. ${
    hasDone ? "I did nothing more." : "I did nothing."
  }`

/** A text in small pieces; no piece ends inside a character. */
const deltas = function* (text: string): Generator<string> {
  let from = 0
  while (from < text.length) {
    const last = text.charCodeAt(from + deltaLength - 1)
    const to = from + deltaLength + (last >= 0xd800 && last < 0xdc00 ? 1 : 0)
    yield text.slice(from, to)
    from = to
  }
}

const failed = (result: Verdict.Result | undefined): string | undefined => {
  const fate = Verdict.fateOf(result)
  if (fate === "done") return undefined
  const [status, said] = Verdict.fateWords[fate]
  return `${said} (${status})${result === undefined ? "." : `: ${Verdict.oneLine(Verdict.firstLine(result.text))}`}`
}

const summarize = (outcome: Plan.Outcome): string => {
  switch (outcome.type) {
    case "suite":
    case "command":
      return Report.summary(outcome)
    case "file": {
      const why = failed(outcome.result)
      return why === undefined
        ? `${outcome.file}:\n\n${Report.shortened(outcome.result?.text ?? "")}`
        : `${outcome.file} was not read. ${why}`
    }
    case "written": {
      const why = failed(outcome.result)
      if (why === undefined)
        return outcome.report === undefined ? `Wrote ${outcome.file}.` : `The report is in ${outcome.file}.`
      const isLost = Verdict.fateOf(outcome.result) === "not-known"
      const head = isLost ? `Whether ${outcome.file} was written is not known.` : `${outcome.file} was not written.`
      return `${head} ${why}${outcome.report === undefined ? "" : `\n\n${outcome.report.trimEnd()}`}`
    }
    case "nothing-to-report":
      return `${outcome.file} was not written: there are no tests or commands before it to report on.`
    case "said":
      return outcome.text
    default:
      return outcome satisfies never
  }
}

/** The outcomes in words; suites that ran together stand together. */
const summaries = (outcomes: ReadonlyArray<Plan.Outcome>): ReadonlyArray<string> => {
  const parts: Array<string> = []
  let before: Plan.Outcome["type"] | undefined
  for (const outcome of outcomes) {
    const part = summarize(outcome)
    if (outcome.type === "suite" && before === "suite") parts.push(`${parts.pop() ?? ""}\n${part}`)
    else parts.push(part)
    before = outcome.type
  }
  return parts
}
