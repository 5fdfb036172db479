/**
 * The journal on a SQL database, in SQL that SQLite and PostgreSQL share.
 *
 * - One conditional UPDATE moves a session's head; where it matches no row, nothing of that batch is written. On
 *   PostgreSQL its row lock makes the fence hold, on SQLite the write transaction does.
 * - A statement is compiled once and prepared once, and has no span of its own: a commit of one row costs what it costs.
 */
import type { SqlClient } from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import type { SqlError } from "@effect/sql/SqlError"
import type { Statement } from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { SeqConflict } from "../domain/Errors.ts"
import type { EventRow } from "./Codec.ts"
import * as EncodedJournal from "./EncodedJournal.ts"
import type { ChunkRow } from "./EventRows.ts"
import { noOwner, type OwnerColumns, type SessionRow, type SummaryColumns } from "./RecordCodec.ts"
import type { Held } from "./SessionRecord.ts"
import type { Transactions } from "./Transaction.ts"

/** The journal in a database whose tables are there (`Migrations.run`). */
export const make = (transactions: Transactions) => EncodedJournal.make(makeStore(transactions))

// internal

const makeStore = ({ location, read, sql, write }: Transactions): EncodedJournal.Store => {
  const statements = prepareAll(sql)

  /** Why the batch found its session moved. In the same transaction, so that it is judged by what refused it. */
  const judge = (connection: Connection, batch: EncodedJournal.EncodedAppend) =>
    Effect.gen(function* () {
      const { head, id, rows } = batch
      const [standing] = yield* statements.find(connection, { id })
      const stored = yield* statements.read(connection, { id, from: head, limit: rows.length })
      return EncodedJournal.verdict(batch, standing, stored)
    })

  const appendOne = (connection: Connection, batch: EncodedJournal.EncodedAppend) => {
    const { epoch, head, id, leaseExpires: lease, rows, summary } = batch
    const next = head + rows.length
    return Effect.flatMap(statements.advance(connection, { ...summary, id, epoch, head, next, lease }), (moved) =>
      moved.length === 0
        ? judge(connection, batch)
        : Effect.as(statements.insert(connection, id, rows), Either.right(next))
    )
  }

  return {
    location,
    create: (row, rows) =>
      write("create", (connection) =>
        Effect.gen(function* () {
          // nobody saw an empty session that nobody owns: whoever was to fill it died
          if (rows.length > 0) yield* statements.removeUnused(connection, { id: row.id })
          const made = yield* statements.create(connection, { ...row })
          if (made.length > 0) yield* statements.insert(connection, row.id, rows)
          return made.length > 0
        })
      ),
    find: (id) =>
      Effect.map(
        read("find", (connection) => statements.find(connection, { id })),
        ([row]) => Option.fromNullable(row)
      ),
    take: ({ epoch, head, id, leaseExpires, leaseRead, owner, rows, summary }) =>
      write("take", (connection) =>
        Effect.gen(function* () {
          const next = head + rows.length
          const values = { ...summary, ...owner, id, epoch, head, next, leaseRead, lease: leaseExpires }
          const [taken] = yield* statements.take(connection, values)
          if (taken === undefined) return yield* new SeqConflict({ sessionId: id, head })
          yield* statements.insert(connection, id, rows)
          return taken.epoch
        })
      ),
    renew: (token, lease) => write("renew", (connection) => statements.renew(connection, { token, lease })),
    release: (id, epoch) =>
      write("release", (connection) =>
        Effect.zipRight(
          statements.removeEmpty(connection, { id, epoch }),
          Effect.asVoid(statements.disown(connection, { ...noOwner, id, epoch }))
        )
      ),
    append: (batches) =>
      write("append", (connection) => Effect.forEach(batches, (batch) => appendOne(connection, batch))),
    read: (id, page) => read("read", (connection) => statements.read(connection, { id, ...page })),
    outline: (id, page) => read("outline", (connection) => statements.outline(connection, { id, ...page })),
    chunks: (id, range) => read("chunks", (connection) => statements.chunks(connection, { id, ...range })),
    count: (id, range) =>
      Effect.map(
        read("count", (connection) => statements.count(connection, { id, ...range })),
        ([row]) => row?.n ?? 0
      ),
    unfenced: (id, limit) =>
      Effect.map(
        read("unfenced", (connection) => statements.unfenced(connection, { id, limit })),
        (rows) => rows.map(({ seq }) => seq)
      ),
    list: (offset, limit) => read("list", (connection) => statements.list(connection, { offset, limit }))
  }
}

type Value = string | number | null

/** A statement, run with the values of its parameters. */
type Prepared<Row, Name extends string> = (
  connection: Connection,
  values: { readonly [Key in Name]: Value }
) => Effect.Effect<ReadonlyArray<Row>, SqlError>

/** Compiles a statement whose parameters are the names of its values. */
const prepare = <Row, Name extends string>(statement: Statement<object>): Prepared<Row, Name> => {
  const [text, parameters] = statement.compile()
  // the parameters of our own templates below are names, and nothing else
  const names = parameters as ReadonlyArray<Name>
  return (connection, values) =>
    connection.execute(
      text,
      names.map((name) => values[name]),
      undefined
    )
}

const prepareAll = (sql: SqlClient) => ({
  create: prepare<unknown, keyof SessionRow>(
    sql`INSERT INTO session ${sql.insert(named(sessionColumns))} ON CONFLICT (id) DO NOTHING RETURNING id`
  ),
  find: prepare<SessionRow, "id">(sql`SELECT * FROM session WHERE id = ${"id"}`),
  advance: prepare<unknown, keyof SummaryColumns | "id" | "epoch" | "head" | "next" | "lease">(
    sql`UPDATE session SET head = ${"next"}, lease_expires = ${"lease"},
      title = ${"title"}, turns = ${"turns"}, ending = ${"ending"}, open = ${"open"}, hidden = ${"hidden"},
      waiting = ${"waiting"}, dropped = ${"dropped"}
      WHERE id = ${"id"} AND head = ${"head"} AND epoch = ${"epoch"} RETURNING id`
  ),
  take: prepare<
    { readonly epoch: number },
    keyof SummaryColumns | keyof OwnerColumns | "id" | "epoch" | "head" | "next" | "lease" | "leaseRead"
  >(
    sql`UPDATE session SET head = ${"next"}, epoch = epoch + 1,
      owner_host = ${"owner_host"}, owner_pid = ${"owner_pid"}, owner_start = ${"owner_start"},
      owner_boot = ${"owner_boot"}, owner_token = ${"owner_token"}, owner_since = ${"owner_since"},
      lease_expires = ${"lease"},
      title = ${"title"}, turns = ${"turns"}, ending = ${"ending"}, open = ${"open"}, hidden = ${"hidden"},
      waiting = ${"waiting"}, dropped = ${"dropped"}
      WHERE id = ${"id"} AND head = ${"head"} AND epoch = ${"epoch"} AND lease_expires = ${"leaseRead"}
      RETURNING epoch`
  ),
  renew: prepare<Held, "token" | "lease">(
    sql`UPDATE session SET lease_expires = ${"lease"} WHERE owner_token = ${"token"} RETURNING id, epoch`
  ),
  removeUnused: prepare<unknown, "id">(
    sql`DELETE FROM session WHERE id = ${"id"} AND head = 0 AND owner_token IS NULL`
  ),
  removeEmpty: prepare<unknown, "id" | "epoch">(
    sql`DELETE FROM session WHERE id = ${"id"} AND epoch = ${"epoch"} AND head = 0`
  ),
  disown: prepare<unknown, keyof OwnerColumns | "id" | "epoch">(
    sql`UPDATE session SET owner_host = ${"owner_host"}, owner_pid = ${"owner_pid"}, owner_start = ${"owner_start"},
      owner_boot = ${"owner_boot"}, owner_token = ${"owner_token"}, owner_since = ${"owner_since"}, lease_expires = 0
      WHERE id = ${"id"} AND epoch = ${"epoch"}`
  ),
  read: prepare<EventRow, "id" | "from" | "limit">(
    sql`SELECT ${sql.literal(eventColumns.join(", "))} FROM session_event
      WHERE session = ${"id"} AND seq >= ${"from"} ORDER BY seq LIMIT ${"limit"}`
  ),
  outline: prepare<EventRow, "id" | "from" | "limit">(
    sql`SELECT ${sql.literal(eventColumns.join(", "))} FROM session_event
      WHERE session = ${"id"} AND seq >= ${"from"} AND type <> 'assistant/chunk' ORDER BY seq LIMIT ${"limit"}`
  ),
  chunks: prepare<ChunkRow, "id" | "from" | "to">(
    sql`SELECT seq, data FROM session_event
      WHERE session = ${"id"} AND seq >= ${"from"} AND seq <= ${"to"} AND type = 'assistant/chunk' ORDER BY seq`
  ),
  count: prepare<{ readonly n: number }, "id" | "from" | "to">(
    sql`SELECT count(*) AS n FROM session_event WHERE session = ${"id"} AND seq >= ${"from"} AND seq <= ${"to"}`
  ),
  unfenced: prepare<{ readonly seq: number }, "id" | "limit">(
    sql`SELECT placed.seq FROM session
      JOIN (SELECT session, seq, epoch, LAG(epoch) OVER (ORDER BY seq) AS before
        FROM session_event WHERE session = ${"id"}) AS placed ON placed.session = session.id
      WHERE placed.epoch < placed.before OR placed.epoch > session.epoch ORDER BY placed.seq LIMIT ${"limit"}`
  ),
  list: prepare<SessionRow, "offset" | "limit">(
    sql`SELECT * FROM session WHERE head > 0 ORDER BY created DESC, id DESC LIMIT ${"limit"} OFFSET ${"offset"}`
  ),
  insert: prepareInsert(sql)
})

/** Rows of one statement: its text is prepared for each number of rows up to this one, and the client keeps 200. */
const rowsAtOnce = 64

const prepareInsert = (sql: SqlClient) => {
  const texts = new Map<number, string>()
  const textFor = (count: number): string => {
    const known = texts.get(count)
    if (known !== undefined) return known
    const rows = Array.from({ length: count }, () => named(["session", ...eventColumns]))
    const [text] = sql`INSERT INTO session_event ${sql.insert(rows)}`.compile()
    texts.set(count, text)
    return text
  }
  const insertSome = (connection: Connection, id: string, rows: ReadonlyArray<EventRow>) => {
    const values: Array<Value> = []
    for (const row of rows) {
      values.push(id)
      for (const column of eventColumns) values.push(row[column])
    }
    return Effect.asVoid(connection.execute(textFor(rows.length), values, undefined))
  }
  return (connection: Connection, id: string, rows: ReadonlyArray<EventRow>): Effect.Effect<void, SqlError> => {
    if (rows.length === 0) return Effect.void
    if (rows.length <= rowsAtOnce) return insertSome(connection, id, rows)
    const starts = Array.from({ length: Math.ceil(rows.length / rowsAtOnce) }, (_, part) => part * rowsAtOnce)
    return Effect.forEach(starts, (start) => insertSome(connection, id, rows.slice(start, start + rowsAtOnce)), {
      discard: true
    })
  }
}

/** A record whose values are its own keys: what a template takes for parameters. */
const named = (columns: ReadonlyArray<string>): Record<string, string> =>
  Object.fromEntries(columns.map((column) => [column, column]))

const eventColumns = ["seq", "v", "epoch", "time", "type", "data", "source", "ignorable"] as const

const sessionColumns: ReadonlyArray<keyof SessionRow> = [
  "id",
  "v",
  "cwd",
  "created",
  "parent",
  "seed_length",
  "depth",
  "head",
  "epoch",
  "owner_host",
  "owner_pid",
  "owner_start",
  "owner_boot",
  "owner_token",
  "owner_since",
  "lease_expires",
  "title",
  "turns",
  "ending",
  "open",
  "hidden",
  "waiting",
  "dropped"
]
