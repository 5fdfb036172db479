/**
 * Verdicts in words: the report that is written, and the summary that is answered.
 *
 * - Pure. What is not known is called that; long texts are cut and say so.
 */
import type * as Tap from "./OfflineTap.ts"
import * as Verdict from "./OfflineVerdict.ts"

const count = (number: number, word: string): string => `${number} ${word}${number === 1 ? "" : "s"}`

/** How many tests did what, as far as it is known. */
const tally = ({ reading, status }: Verdict.Suite): string => {
  const { counts, seen } = reading
  if (counts === undefined) {
    if (seen.pass + seen.fail === 0) return ""
    return `Up to there ${count(seen.pass, "test")} passed and ${seen.fail} failed.`
  }
  const rest = [
    counts.cancelled > 0 ? `${counts.cancelled} cancelled` : "",
    counts.skipped > 0 ? `${counts.skipped} skipped` : "",
    counts.todo > 0 ? `${counts.todo} to do` : ""
  ].filter((part) => part !== "")
  const also = rest.length === 0 ? "" : ` (${rest.join(", ")})`
  if (status === "passed") return `${count(counts.tests, "test")}${also}.`
  return status === "no tests" ? "" : `${counts.fail} of ${count(counts.tests, "test")} failed${also}.`
}

const nameOf = (failure: Tap.TapFailure): string => failure.path.join(" > ")

const suiteSummary = (suite: Verdict.Suite): string => {
  const head = `Suite ${suite.name}: ${suite.status}.`
  const failures = suite.reading.failures
    .slice(0, 5)
    .map(
      (failure) =>
        `\n  ${Verdict.oneLine(nameOf(failure))}: ${Verdict.oneLine(failure.printed ?? failure.error) || "no message"}`
    )
  const more = suite.reading.failures.length - failures.length
  if (more > 0) failures.push(`\n  and ${more} more`)
  return [head, tally(suite), suite.why].filter((part) => part !== "").join(" ") + failures.join("")
}

const commandStatus = (result: Verdict.Result | undefined): string => {
  const fate = Verdict.fateOf(result)
  if (fate !== "done") {
    const [status, said] = Verdict.fateWords[fate]
    return `${status}. ${said}${result === undefined ? "." : `: ${Verdict.oneLine(Verdict.firstLine(result.text))}`}`
  }
  const output = Verdict.outputOf(result?.text ?? "")
  return output.stopped === undefined ? `exit code ${output.exitCode}` : `stopped: ${Verdict.oneLine(output.stopped)}`
}

/** A text that fits into an answer: its end, and a note where something was left out. */
export const shortened = (text: string, limit = 8_000): string =>
  text.length <= limit
    ? text
    : `(The first ${text.length - limit} characters are left out here.)\n${text.slice(-limit).toWellFormed()}`

/** The finding in a few lines. */
export const summary = (finding: Verdict.Finding): string => {
  if (finding.type === "suite") return suiteSummary(Verdict.judge(finding))
  const head = `$ ${finding.command}\n${commandStatus(finding.result)}`
  return finding.result === undefined || finding.result.isError
    ? head
    : `${head}\n${shortened(finding.result.text.trimEnd())}`
}

// the report

/** A fenced block that its text cannot close; a long text keeps its beginning. */
const fenced = (text: string, limit = 4_000): string => {
  const shown = text.length <= limit ? text : `${text.slice(0, limit).toWellFormed()}\n(cut here)`
  const longest = Math.max(2, ...Array.from(shown.matchAll(/`+/g), (match) => match[0].length))
  const fence = "`".repeat(longest + 1)
  return `${fence}text\n${shown}\n${fence}`
}

const cell = (text: string): string => Verdict.oneLine(text).replaceAll("|", "\\|")

const tableRow = (suite: Verdict.Suite): string => {
  const counts = suite.reading.counts
  const number = (value: number | undefined) => (value === undefined ? "not known" : String(value))
  const cells = [
    cell(suite.name),
    suite.status,
    number(counts?.tests),
    number(counts?.pass),
    number(counts === undefined ? undefined : counts.fail + counts.cancelled),
    number(counts?.skipped),
    number(suite.exitCode)
  ]
  return `| ${cells.join(" | ")} |`
}

const failureSection = (failure: Tap.TapFailure): ReadonlyArray<string> => {
  const values = [
    failure.expected === undefined ? "" : `expected: ${failure.expected}`,
    failure.actual === undefined ? "" : `actual: ${failure.actual}`
  ].filter((value) => value !== "")
  return [
    `### ${Verdict.oneLine(nameOf(failure))}`,
    ...(failure.location === undefined ? [] : [`At ${Verdict.oneLine(failure.location, 500)}`]),
    fenced(failure.error === "" ? "(node printed no message)" : failure.error),
    ...(values.length === 0 ? [] : [fenced(values.join("\n"))]),
    ...(failure.printed === undefined ? [] : ["Printed before it failed:", fenced(failure.printed)])
  ]
}

const shownFailures = 50

const suiteSection = (suite: Verdict.Suite): ReadonlyArray<string> => {
  const { counts, failures, seen } = suite.reading
  const unnamed = counts === undefined ? 0 : counts.fail + counts.cancelled - seen.fail
  const notes = [
    suite.isCut && counts === undefined ? "Part of the output was cut off." : "",
    unnamed > 0 ? `${unnamed} of the failed tests cannot be named: that part of the output was cut off.` : "",
    failures.length > shownFailures ? `Only the first ${shownFailures} failures are shown.` : ""
  ]
  const exit = suite.exitCode === undefined ? "The exit code is not known." : `Exit code ${suite.exitCode}.`
  return [
    `## Suite ${Verdict.oneLine(suite.name)}: ${suite.status}`,
    [exit, tally(suite), suite.why, ...notes].filter((part) => part !== "").join(" "),
    `Command: ${Verdict.oneLine(suite.command, 500)}`,
    ...failures.slice(0, shownFailures).flatMap(failureSection)
  ]
}

const commandSection = (finding: Verdict.Finding): ReadonlyArray<string> => [
  `## Command: ${Verdict.oneLine(finding.command)}`,
  `Result: ${commandStatus(finding.result)}`,
  ...(finding.result === undefined ? [] : [fenced(finding.result.text.trimEnd(), 64_000)])
]

const overview = (suites: ReadonlyArray<Verdict.Suite>): string => {
  const passed = suites.filter((suite) => suite.status === "passed").length
  if (passed === suites.length) return suites.length === 1 ? "The suite passed." : `All ${passed} suites passed.`
  const others = [...new Set(suites.map((suite) => suite.status))].filter((status) => status !== "passed")
  const lists = others.map((status) => {
    const names = suites.filter((suite) => suite.status === status).map((suite) => Verdict.oneLine(suite.name))
    return ` ${status.charAt(0).toUpperCase()}${status.slice(1)}: ${names.join(", ")}.`
  })
  return `${passed} of ${count(suites.length, "suite")} passed.${lists.join("")}`
}

/** The report on findings, as Markdown. */
export const report = (findings: ReadonlyArray<Verdict.Finding>): string => {
  const suites = findings.flatMap((finding) => (finding.type === "suite" ? [Verdict.judge(finding)] : []))
  const commands = findings.filter((finding) => finding.type === "command")
  const table = [
    "| suite | result | tests | passed | failed | skipped | exit code |",
    "| --- | --- | --- | --- | --- | --- | --- |",
    ...suites.map(tableRow)
  ]
  const parts = [
    commands.length === 0 ? "# Test report" : "# Report",
    ...(suites.length === 0 ? [] : [overview(suites), table.join("\n")]),
    ...suites.filter((suite) => suite.status !== "passed").flatMap(suiteSection),
    ...commands.flatMap(commandSection),
    "Written by fixed rules from what the commands printed. No language model was asked."
  ]
  return `${parts.join("\n\n")}\n`
}
