/**
 * What the result of a call says: its fate, and for a suite of tests the verdict.
 *
 * - Pure. The form of a result's text belongs to the `bash` tool; it is read tolerantly and never trusted to be whole.
 * - Nothing is guessed: a run that was stopped, refused or cut off is judged as that.
 * - A suite has passed only if node said so: its count is there, it counts tests, none failed, and the exit code is 0.
 */
import * as Tap from "./OfflineTap.ts"

/** A result as the transcript shows it. */
export interface Result {
  readonly text: string
  readonly isError: boolean
}

/** What became of a call: `not-run` never began; of `not-known` only the outcome is lost. */
export type Fate = "done" | "error" | "denied" | "not-run" | "not-known"

/** Something that was run, with its result if there is one. */
export type Finding =
  | { readonly type: "suite"; readonly folder: string; readonly command: string; readonly result: Result | undefined }
  | { readonly type: "command"; readonly command: string; readonly result: Result | undefined }

/** The first and the last line: where a tool says what became of a call. */
const ends = (text: string): string => {
  const lines = text.trim().split("\n")
  return `${lines[0] ?? ""}\n${lines[lines.length - 1] ?? ""}`
}

/** The first line of a text. */
export const firstLine = (text: string): string => text.trim().split("\n", 1)[0] ?? ""

/** What a result says of its call; an absent one says nothing. */
export const fateOf = (result: Result | undefined): Fate => {
  if (result === undefined) return "not-known"
  if (!result.isError) return "done"
  const text = ends(result.text)
  if (/never started|not started|before dispatch/i.test(text)) return "not-run"
  if (/outcome (?:is )?unknown|abort|interrupt|cancel/i.test(text)) return "not-known"
  if (/denied|reject|not allowed|not approved|approval/i.test(text)) return "denied"
  return "error"
}

/** A text on one line, cut after `limit` characters. */
export const oneLine = (text: string, limit = 200): string => {
  const line = text
    .slice(0, limit * 4)
    .replaceAll(/\s+/g, " ")
    .trim()
  return line.length <= limit ? line : `${line.slice(0, limit).toWellFormed().trimEnd()} ...`
}

export interface Output {
  readonly stdout: string
  readonly stderr: string
  readonly exitCode: number
  /** What stopped the command from outside, in the tool's words. */
  readonly stopped?: string
  /** Part of the output is missing. */
  readonly isCut: boolean
}

const exitLine = /^\[exit(?:ed)?(?: with)?(?: code| status)?[: ]+(\d+)\b.*\]$/i
const stoppedLine = /^\[.*(?:\btimed? ?out\b|\bkilled\b|\bsignal\b|\babort|\binterrupt).*\]$/i
const cutLine = /^\[.*(?:truncat|cut off|omitted|left out|dropped|last [\d,._]+).*\]$/i
const stderrLine = /^\[stderr\b.*\]$/i

/** Marks of the end of a run stand in the last lines; further up such a line is output. */
const endLines = 4

/** The parts of a `bash` result. Without a mark the exit code is 0. */
export const outputOf = (text: string): Output => {
  const streams: { stdout: Array<string>; stderr: Array<string> } = { stdout: [], stderr: [] }
  let into = streams.stdout
  let exitCode = 0
  let stopped: string | undefined
  let isCut = false
  const lines = text.trimEnd().split("\n")
  for (const [at, line] of lines.entries()) {
    const isEnd = at >= lines.length - endLines
    const exit = isEnd ? exitLine.exec(line) : null
    if (exit !== null) exitCode = Number(exit[1])
    else if (isEnd && stoppedLine.test(line)) stopped ??= line
    else if (stderrLine.test(line)) into = streams.stderr
    else if (line !== "(no output)" && !cutLine.test(line)) into.push(line)
    if (cutLine.test(line)) isCut = true
  }
  return {
    stdout: streams.stdout.join("\n"),
    stderr: streams.stderr.join("\n").trim(),
    exitCode,
    ...(stopped === undefined ? {} : { stopped }),
    isCut
  }
}

export type Status = "passed" | "failed" | "no tests" | "timed out" | "could not be run" | "not run" | "not known"

/** A suite with what is known of its run. */
export interface Suite {
  readonly name: string
  readonly command: string
  readonly status: Status
  /** Why the status is what it is, where the tests themselves do not tell. */
  readonly why: string
  readonly exitCode?: number
  readonly reading: Tap.TapReading
  readonly isCut: boolean
}

/** The status of a call that has no output to judge, and the reason in words. */
export const fateWords: Record<Exclude<Fate, "done">, readonly [Status, string]> = {
  error: ["could not be run", "The call failed"],
  denied: ["not run", "The call was not allowed"],
  "not-run": ["not run", "The call was never started"],
  "not-known": ["not known", "The run was interrupted"]
}

const judgeOutput = (output: Output, reading: Tap.TapReading): readonly [Status, string] => {
  const { exitCode, stderr, stdout } = output
  if (output.stopped !== undefined) {
    const status = /time/i.test(output.stopped) ? "timed out" : "not known"
    return [status, `It was stopped before its end: ${oneLine(output.stopped)}`]
  }
  if (!reading.isTap) {
    const said = oneLine(stderr || stdout, 400) || "nothing was printed"
    if (exitCode === 0) return ["not known", `No test results were printed: ${said}`]
    return ["could not be run", `${/\bcd: /.test(said) ? "The folder cannot be entered: " : ""}${said}`]
  }
  const counts = reading.counts
  if (counts === undefined)
    return exitCode === 0 && reading.seen.fail === 0
      ? ["not known", "The output ends before node's own count."]
      : ["failed", "The output ends before node's own count."]
  if (counts.fail + counts.cancelled > 0) return ["failed", ""]
  if (exitCode !== 0) return ["failed", `No test failed, but the exit code is ${exitCode}. ${oneLine(stderr)}`.trim()]
  return counts.tests === 0 ? ["no tests", "No tests were found."] : ["passed", ""]
}

/** The verdict on a suite. */
export const judge = (finding: Extract<Finding, { type: "suite" }>): Suite => {
  const name = finding.folder === "." ? "(workspace)" : finding.folder
  const { command, result } = finding
  const output = outputOf(result?.text ?? "")
  const reading = Tap.read(output.stdout)
  const base = { name, command, reading, isCut: output.isCut }
  const fate = fateOf(result)
  if (fate === "done") {
    const [status, why] = judgeOutput(output, reading)
    return { ...base, status, why, ...(output.stopped === undefined ? { exitCode: output.exitCode } : {}) }
  }
  const [status, said] = fateWords[fate]
  return {
    ...base,
    status,
    why: result === undefined ? `${said}.` : `${said}: ${oneLine(firstLine(result.text), 400)}`
  }
}
