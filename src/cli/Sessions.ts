/**
 * `daybook sessions`: which sessions there are, the last created first.
 *
 * - A row fits the terminal it is printed on; a narrow one gets three lines a session. Elsewhere nothing is cut.
 */
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { JournalCorrupt } from "../domain/Errors.ts"
import { Journal, type SessionRecord } from "../journal/Journal.ts"
import { clip, flattened, pad } from "./Line.ts"
import * as Pages from "./Pages.ts"
import * as Place from "./Place.ts"
import { asItStands, reading } from "./Reading.ts"
import { Stdio, say } from "./Stdio.ts"

const config = {
  ...Place.options,
  json: Options.boolean("json").pipe(Options.withDescription("One JSON object a line."))
}

const description = HelpDoc.blocks([
  HelpDoc.p(
    [
      "Lists the sessions, the last created first: how many turns, how the last one ended, who owns the",
      'session, and what it is about. A last turn that is "running" has a live owner; one that is "interrupted"',
      "has none any more: `daybook run --session ID --continue` goes on. (2 wait) is what was sent and waits,",
      "(dropped) says that something sent was dropped unrun since the last turn, (fork of ID) where a session",
      "was forked from."
    ].join("\n")
  ),
  HelpDoc.p(["Examples:", "", "  daybook sessions", "  daybook sessions --json --workspace ~/project"].join("\n"))
])

/** `daybook sessions`: lists them all, and fails at the end where a record is damaged. */
export const command = Command.make("sessions", config, (own) => reading(own, print(own.json))).pipe(
  Command.withDescription(description)
)

/** A session as one JSON object. `owner` is the live one. */
export const json = ({ header, head, owner, summary }: SessionRecord): string =>
  JSON.stringify({
    id: header.id,
    title: summary.title,
    turns: summary.turns,
    ending: summary.ending ?? null,
    open: summary.open,
    interrupted: summary.open && Option.isNone(owner),
    waiting: summary.waiting ?? null,
    dropped: summary.dropped ?? null,
    owner: Option.getOrNull(Option.map(owner, ({ host, pid }) => ({ host, pid }))),
    events: head,
    parent: Option.getOrNull(header.parent),
    seedLength: header.seedLength,
    created: header.created,
    cwd: header.cwd
  })

/**
 * A session as one row, or as three short lines where `columns` are few; 0 columns are as many as it takes. Its owner is the
 * live one.
 */
export const row = (record: SessionRecord, columns: number): string => {
  const { header, summary } = record
  const title = [...marksOf(record), summary.title === "" ? "-" : flattened(summary.title)].join(" ")
  const last = lastOf(record)
  const owner = ownerOf(record)
  if (columns !== 0 && columns < narrow)
    return [clip(header.id, columns), clip(`  ${last}, ${owner}`, columns), clip(`  ${title}`, columns)].join("\n")
  const all = `${cellsOf(header.id, String(summary.turns), last, owner)}  ${title}`
  return columns === 0 ? all : clip(all, columns)
}

/** The names of the columns. */
export const heading = (columns: number): string =>
  columns !== 0 && columns < narrow ? "" : `${cellsOf("ID", "TURNS", "LAST", "OWNER")}  TITLE\n`

// internal

/** Where rows of columns stop being readable. */
const narrow = 72

const cellsOf = (id: string, turns: string, last: string, owner: string): string =>
  `${pad(id, 16)}  ${pad(turns, 5)}  ${pad(last, 11)}  ${pad(owner, 12)}`

const lastOf = ({ owner, summary }: SessionRecord): string => {
  if (!summary.open) return summary.ending ?? "-"
  return Option.isSome(owner) ? "running" : "interrupted"
}

const marksOf = ({ header, summary: { dropped, waiting } }: SessionRecord): ReadonlyArray<string> => [
  ...Option.toArray(
    Option.map(header.parent, (parent) => `(${header.seedLength > 0 ? "fork" : "child"} of ${parent})`)
  ),
  ...(waiting === undefined || waiting === 0 ? [] : [`(${waiting} ${waiting === 1 ? "waits" : "wait"})`]),
  ...(dropped === true ? ["(dropped)"] : [])
]

const ownerOf = ({ owner }: SessionRecord): string =>
  Option.match(owner, { onNone: () => "-", onSome: ({ host, pid }) => `${pid}@${flattened(host)}` })

const print = Effect.fnUntraced(function* (asJson: boolean) {
  const journal = yield* Journal
  const stdio = yield* Stdio
  const columns = stdio.outIsTerminal ? yield* stdio.columns : 0
  const render = asJson ? json : (record: SessionRecord) => row(record, columns)
  const damaged: Array<JournalCorrupt> = []
  const printed = yield* Stream.runFoldEffect(Stream.chunks(Pages.sessions(journal)), 0, (before, page) => {
    const [unreadable, records] = Arr.separate(page)
    damaged.push(...unreadable)
    if (records.length === 0) return Effect.succeed(before)
    const first = before === 0 && !asJson ? heading(columns) : ""
    return Effect.gen(function* () {
      const standing = yield* Effect.forEach(records, asItStands)
      const rows = standing.map((record) => `${render(record)}\n`)
      yield* stdio.out(first + rows.join(""), asJson ? "json" : "text")
      return before + records.length
    })
  })
  // the others are listed; each of these is a line of its own, and the last one ends the command
  const last = damaged.pop()
  yield* Effect.forEach(damaged, (error) => say(error.message), { discard: true })
  if (last !== undefined) return yield* last
  if (printed === 0 && !asJson) yield* stdio.out("no sessions\n")
})
