/**
 * Reading what `node --test --test-reporter=tap` prints.
 *
 * - Total: any text is read, whole or cut off at either end. What is not there is absent, never guessed.
 * - A test counts once its diagnostic block is complete: node writes one for each, and a cut line may say anything.
 * - A test's place is known from what closes around it, so names survive when the start of the output is lost.
 * - Only what node says counts: what a test itself printed is a comment in TAP and decides nothing.
 */

/** A value as node printed it, without the indentation. */
type Field = string

/** A failed test, or a file or suite that failed by itself. */
export interface TapFailure {
  /** Its name, after those of the tests around it that are known. */
  readonly path: ReadonlyArray<string>
  readonly error: string
  readonly location?: string
  readonly expected?: Field
  readonly actual?: Field
  /** What was printed right before, where the failure itself says nothing: a file that could not be loaded. */
  readonly printed?: string
}

/** How many tests, as node counts them. */
export interface TapCounts {
  readonly tests: number
  readonly pass: number
  readonly fail: number
  readonly cancelled: number
  readonly skipped: number
  readonly todo: number
}

export interface TapReading {
  /** Anything that only TAP has was found. */
  readonly isTap: boolean
  /** Node's own count from the end of the output; absent when the run did not get there. */
  readonly counts?: TapCounts
  /** How many tests were seen to pass and to fail; suites are not counted. */
  readonly seen: { readonly pass: number; readonly fail: number }
  /** Every failure in order, but for tests that failed only because of a failed test inside them that is listed. */
  readonly failures: ReadonlyArray<TapFailure>
}

interface Point {
  readonly depth: number
  readonly name: string
  readonly outcome: "pass" | "fail" | "skip" | "todo"
  readonly fields: ReadonlyMap<string, Field>
  readonly printed: ReadonlyArray<string>
  readonly inside: ReadonlyArray<Point>
}

const pointLine = /^( *)(not )?ok \d+(?: - (.*))?$/
const directive = /(?:^|\s)# (SKIP|TODO)\b.*$/i
const summaryLine = /^# (tests|pass|fail|cancelled|skipped|todo) (\d+)$/

const unescaped = (name: string): string => name.replaceAll(/\\([\\#])/g, "$1")

const pointOf = (line: string, printed: ReadonlyArray<string>): Point | undefined => {
  const match = pointLine.exec(line)
  if (match === null) return undefined
  const title = match[3] ?? ""
  const word = directive.exec(title)?.[1]?.toUpperCase()
  return {
    depth: (match[1] ?? "").length,
    name: unescaped(title.replace(directive, "")).trim() || "(no name)",
    outcome: word === "SKIP" ? "skip" : word === "TODO" ? "todo" : match[2] === undefined ? "pass" : "fail",
    fields: new Map(),
    printed,
    inside: []
  }
}

const escapes: Record<string, string> = { n: "\n", t: "\t", "\\": "\\", "'": "'", '"': '"', "`": "`" }

/** The text of a value that node printed in quotes; any other value stays as it is. */
const unquoted = (value: string): string => {
  const match = /^(['"`])(.*)\1$/s.exec(value)
  return match?.[2] === undefined
    ? value
    : match[2].replaceAll(/\\([nt\\'"`])/g, (whole, char: string) => escapes[char] ?? whole)
}

/** The fields of a diagnostic block whose lines lost their common indentation. */
const readFields = (lines: ReadonlyArray<string>): ReadonlyMap<string, Field> => {
  const fields = new Map<string, Field>()
  let key: string | undefined
  let block: Array<string> = []
  const close = () => {
    if (key !== undefined && block.length > 0) fields.set(key, block.join("\n").replace(/\s+$/, ""))
    block = []
  }
  for (const line of lines) {
    const match = /^(\w+):(?: (.*))?$/.exec(line)
    if (match === null) {
      block.push(line.slice(2))
      continue
    }
    close()
    key = match[1]
    const value = match[2] ?? ""
    if (key !== undefined && value !== "|-" && value !== "") fields.set(key, value)
  }
  close()
  return fields
}

/** The point with its diagnostic block. One that says why it failed did fail, even if the "not" was cut off. */
const withFields = (point: Point, fields: Point["fields"]): Point => ({
  ...point,
  outcome: point.outcome === "pass" && fields.has("failureType") ? "fail" : point.outcome,
  fields
})

/** The index of the line that ends the diagnostic block whose first line is at `from`, or of what follows a cut one. */
const blockEnd = (lines: ReadonlyArray<string>, from: number, indent: string): number => {
  let at = from
  while (at < lines.length) {
    const line = lines[at] ?? ""
    if (line === `${indent}...` || (line.trim() !== "" && !line.startsWith(indent))) return at
    at++
  }
  return at
}

interface Scan {
  /** Points whose surrounding test has not closed yet, in order. */
  readonly open: Array<Point>
  readonly summary: Map<string, number>
  /** The last plan of the whole run was seen: node's own count follows it. */
  planned: boolean
  isTap: boolean
}

const addPoint = (scan: Scan, point: Point): void => {
  let first = scan.open.length
  while (first > 0 && (scan.open[first - 1]?.depth ?? 0) > point.depth) first--
  const inside = scan.open.splice(first)
  scan.open.push({ ...point, inside })
}

const scanLines = (text: string): Scan => {
  const lines = text.split(/\r?\n/)
  const scan: Scan = { open: [], summary: new Map(), planned: false, isTap: false }
  let printed: Array<string> = []
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? ""
    const point = pointOf(line, printed)
    if (point !== undefined) {
      const indent = " ".repeat(point.depth + 2)
      const end = lines[at + 1] === `${indent}---` ? blockEnd(lines, at + 2, indent) : at + 1
      if (lines[end] === `${indent}...`) {
        const block = lines.slice(at + 2, end).map((inside) => inside.slice(indent.length))
        addPoint(scan, withFields(point, readFields(block)))
        at = end
      } else at = end - 1
      printed = []
      scan.isTap = true
    } else if (/^TAP version \d+$/.test(line)) scan.isTap = true
    else if (/^1\.\.\d+$/.test(line)) {
      scan.summary.clear()
      scan.planned = true
      scan.isTap = true
    } else if (scan.planned && summaryLine.test(line)) {
      const match = summaryLine.exec(line)
      scan.summary.set(match?.[1] ?? "", Number(match?.[2]))
    } else if (line.startsWith("# ") && !line.startsWith("# Subtest: ")) printed.push(unescaped(line.slice(2)))
  }
  return scan
}

const countsOf = (summary: ReadonlyMap<string, number>): TapCounts | undefined => {
  const of = (name: keyof TapCounts) => summary.get(name)
  const [tests, pass, fail] = [of("tests"), of("pass"), of("fail")]
  if (tests === undefined || pass === undefined || fail === undefined) return undefined
  return { tests, pass, fail, cancelled: of("cancelled") ?? 0, skipped: of("skipped") ?? 0, todo: of("todo") ?? 0 }
}

const failureOf = (point: Point, above: ReadonlyArray<string>): TapFailure => {
  const { fields } = point
  const location = fields.get("location")
  const [expected, actual] = [fields.get("expected"), fields.get("actual")]
  const crashed = fields.has("exitCode") && point.printed.length > 0
  return {
    path: [...above, point.name],
    error: unquoted(fields.get("error") ?? ""),
    ...(location === undefined ? {} : { location: unquoted(location) }),
    ...(expected === undefined ? {} : { expected }),
    ...(actual === undefined ? {} : { actual }),
    ...(crashed ? { printed: point.printed.join("\n") } : {})
  }
}

const failuresOf = (points: ReadonlyArray<Point>, above: ReadonlyArray<string>): ReadonlyArray<TapFailure> =>
  points.flatMap((point) => {
    const inside = failuresOf(point.inside, [...above, point.name])
    const isOwn = point.fields.get("failureType") !== "'subtestsFailed'" || inside.length === 0
    return point.outcome === "fail" && isOwn ? [...inside, failureOf(point, above)] : inside
  })

const countSeen = (points: ReadonlyArray<Point>, outcome: Point["outcome"]): number =>
  points.reduce(
    (sum, point) =>
      sum +
      countSeen(point.inside, outcome) +
      (point.outcome === outcome && point.fields.get("type") !== "'suite'" ? 1 : 0),
    0
  )

/** What an output says, however much of it is there. */
export const read = (text: string): TapReading => {
  const scan = scanLines(text)
  const counts = countsOf(scan.summary)
  return {
    isTap: scan.isTap,
    ...(counts === undefined ? {} : { counts }),
    seen: { pass: countSeen(scan.open, "pass"), fail: countSeen(scan.open, "fail") },
    failures: failuresOf(scan.open, [])
  }
}
