/**
 * Migrations: the tables, and how they came to be what they are.
 *
 * - A step is never changed once released; a change of the tables is a new step.
 * - All that are due run in one transaction with the new version, so a database has a whole version or none.
 * - Any number of processes may start at once: one migrates, the others find it done.
 */
import type { SqlClient } from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import { type JournalError, JournalFailed } from "../domain/Errors.ts"
import { joined, type Transactions } from "./Transaction.ts"

type Step = (sql: SqlClient) => ReadonlyArray<Effect.Effect<unknown, SqlError>>

const steps: ReadonlyArray<Step> = [
  (sql) => [
    sql`CREATE TABLE session (
      id TEXT NOT NULL PRIMARY KEY,
      v INTEGER NOT NULL,
      cwd TEXT NOT NULL,
      created BIGINT NOT NULL,
      parent TEXT,
      seed_length INTEGER NOT NULL,
      depth INTEGER NOT NULL,
      head INTEGER NOT NULL,
      epoch INTEGER NOT NULL,
      owner_host TEXT,
      owner_pid INTEGER,
      owner_start TEXT,
      owner_boot TEXT,
      owner_token TEXT,
      lease_expires BIGINT NOT NULL,
      title TEXT NOT NULL,
      turns INTEGER NOT NULL,
      ending TEXT,
      open INTEGER NOT NULL
    )`,
    sql`CREATE INDEX session_created ON session (created, id)`,
    sql`CREATE TABLE session_event (
      session TEXT NOT NULL,
      seq INTEGER NOT NULL,
      v INTEGER NOT NULL,
      epoch INTEGER NOT NULL,
      time BIGINT NOT NULL,
      type TEXT NOT NULL,
      data TEXT NOT NULL,
      source TEXT,
      ignorable INTEGER NOT NULL,
      PRIMARY KEY (session, seq)
    )`
  ],
  (sql) => [
    sql`ALTER TABLE session ADD COLUMN hidden TEXT`,
    sql`CREATE INDEX session_outline ON session_event (session, seq) WHERE type <> 'assistant/chunk'`
  ],
  (sql) => [
    sql`ALTER TABLE session ADD COLUMN owner_since BIGINT`,
    sql`ALTER TABLE session ADD COLUMN waiting INTEGER`,
    sql`ALTER TABLE session ADD COLUMN dropped INTEGER`,
    sql`CREATE INDEX session_owner ON session (owner_token)`
  ]
]

/** The version of the tables that this build works with. */
export const latest = steps.length

/** Where a database keeps the version of its tables. */
export interface Stamp {
  /** The version; 0 for a database without tables. Fails for one that is not ours, or newer than this build. */
  readonly version: (connection: Connection) => Effect.Effect<number, JournalError | SqlError>
  readonly write: (connection: Connection, version: number) => Effect.Effect<unknown, SqlError>
}

/** Brings the tables to the latest version. On return they have it. */
export const run = Effect.fn("Migrations.run")(function* (transactions: Transactions, stamp: Stamp) {
  const { location, read, write } = transactions
  if ((yield* read("migrate", stamp.version)) === latest) return
  yield* write("migrate", (connection) => migrate(transactions, stamp, connection))
  const version = yield* read("migrate", stamp.version)
  if (version === latest) return
  const cause = new Error(`its tables have version ${version} after the migration to ${latest}`)
  return yield* new JournalFailed({ file: location, operation: "migrate", cause })
})

// internal

const migrate = Effect.fnUntraced(function* ({ sql }: Transactions, stamp: Stamp, connection: Connection) {
  // read again: another process may have migrated while this one waited, and then no step is due
  const version = yield* stamp.version(connection)
  for (const step of steps.slice(version)) yield* joined(connection, Effect.all(step(sql), { discard: true }))
  yield* stamp.write(connection, latest)
})
