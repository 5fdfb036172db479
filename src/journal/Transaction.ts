/**
 * Transactions: the one way to the database.
 *
 * - A write begins immediately, so it never finds out half way that another writer was first. Once begun it runs to its
 *   end; waiting to begin is interruptible exactly where the caller is.
 * - It commits or leaves nothing behind: after any failure, of COMMIT too, no transaction is open.
 * - A read waits for the writes of this process: it never sees what is not committed yet.
 * - Every failure of the driver, thrown ones too, is a typed `JournalError`. A busy database is tried again for a while,
 *   the whole transaction each time.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type { Scope } from "effect/Scope"
import { JournalBusy, JournalCorrupt, type JournalError, JournalFailed, JournalFull } from "../domain/Errors.ts"
import * as Turnstile from "../internal/Turnstile.ts"

/** How long a busy database is tried before that is an error. */
export const patience = "10 seconds"

/** The failures of a step, those of the driver as the journal's own. */
export type Typed<E> = Exclude<E, SqlError> | JournalError

export interface Transactions {
  /** The client. Its statements belong inside `write` and `read`, under `joined`; anywhere else they wait for ever. */
  readonly sql: SqlClient.SqlClient
  /** The database, as errors name it. */
  readonly location: string
  /**
   * Runs `body` in one write transaction; what it did is durable on return, or undone if it failed. `body` may run
   * several times, and must not wait for anything but its own statements.
   */
  readonly write: <A, E>(
    operation: string,
    body: (connection: Connection) => Effect.Effect<A, E>
  ) => Effect.Effect<A, Typed<E>>
  /** Runs one reading statement, which sees one state of the database. */
  readonly read: <A, E>(
    operation: string,
    body: (connection: Connection) => Effect.Effect<A, E>
  ) => Effect.Effect<A, Typed<E>>
}

/** Takes the client's one connection for as long as the scope lasts: taking it each time costs as much as a statement. */
export const make = (sql: SqlClient.SqlClient, location: string): Effect.Effect<Transactions, JournalError, Scope> =>
  patiently(
    location,
    "open",
    Effect.map(sql.reserve, (reserved): Transactions => {
      const connection = preparing(reserved)
      const exclusively = Turnstile.make()
      return {
        sql,
        location,
        write: (operation, body) =>
          patiently(
            location,
            operation,
            exclusively(() => transact(connection, body(connection)))
          ),
        read: (operation, body) =>
          patiently(
            location,
            operation,
            exclusively(() => body(connection))
          )
      }
    })
  )

/** Runs statements of the client's `sql` on the connection of this transaction. */
export const joined = <A, E, R>(connection: Connection, statements: Effect.Effect<A, E, R>) =>
  Effect.provideService(statements, SqlClient.TransactionConnection, [connection, 0])

/** Types the failures of a step with the database, and repeats the step while the database is busy. */
export const patiently = <A, E, R>(
  location: string,
  operation: string,
  step: Effect.Effect<A, E, R>
): Effect.Effect<A, Typed<E>, R> => {
  const typed = Effect.catchAllCause(step, (cause) => Effect.failCause(typedCause(location, operation, cause)))
  // the retry is set up only when it is needed: nearly every transaction gets through at once
  return Effect.catchIf(typed, isBusy, () => Effect.retry(typed, { schedule: whileBusy, while: isBusy }))
}

/** The error of the journal that a failure of the driver is. */
export const classify = (file: string, operation: string, cause: unknown): JournalError => {
  const code = codeOf(cause)
  if (isOneOf(code, full)) return new JournalFull({ file, cause })
  if (isOneOf(code, busy)) return new JournalBusy({ file, cause })
  if (isOneOf(code, damaged)) return new JournalCorrupt({ file, detail: "the database is malformed", cause })
  return new JournalFailed({ file, operation, cause })
}

/** The code of a driver's error; empty for anything else. */
export const codeOf = (cause: unknown): string =>
  typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string" ? cause.code : ""

// internal

/**
 * The client prepares a statement once and keeps how that went for ten minutes, a failure too: without this, a database
 * that was busy at that moment would stay busy.
 */
const preparing = (connection: Connection): Connection => ({
  ...connection,
  execute: (statement, params, transform) =>
    Effect.catchIf(connection.execute(statement, params, transform), isUnprepared, () =>
      Effect.suspend(() => connection.executeUnprepared(statement, params, transform))
    )
})

/** Nothing else tells a statement that did not run from one that failed, which must not run again. */
const isUnprepared = (error: SqlError): boolean => error.message.startsWith("Failed to prepare")

/** Runs in an uninterruptible region, so the handler below always runs. */
const transact = <A, E>(connection: Connection, body: Effect.Effect<A, E>) => {
  const control = (statement: string) => connection.execute(statement, [], undefined)
  // SQLite may have rolled back by itself, and then refuses to do it again. If ROLLBACK fails for another reason, the
  // transaction is still open, and the next BEGIN fails for that.
  const rollback = Effect.catchAllCause(control("ROLLBACK"), () => Effect.void)
  const statements = Effect.zipLeft(body, control("COMMIT"))
  return Effect.zipRight(
    control("BEGIN IMMEDIATE"),
    Effect.catchAllCause(statements, (cause) => Effect.zipRight(rollback, Effect.failCause(cause)))
  )
}

const typedCause = <E>(location: string, operation: string, cause: Cause.Cause<E>): Cause.Cause<Typed<E>> => {
  const failure = Cause.failureOption(cause)
  const thrown = Option.orElse(failure, () => Option.filter(Cause.dieOption(cause), isOfDriver))
  const error = Option.getOrUndefined(thrown)
  if (error instanceof SqlError) return Cause.fail(classify(location, operation, error.cause ?? error))
  if (Option.isNone(failure) && error !== undefined) return Cause.fail(classify(location, operation, error))
  // no failure of the driver is left in it
  return cause as Cause.Cause<Exclude<E, SqlError>>
}

const full = ["SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "ENOSPC", "EDQUOT"]
const busy = ["SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL"]
const damaged = ["SQLITE_CORRUPT", "SQLITE_NOTADB"]

/** Extended codes begin with the code that they extend. */
const isOneOf = (code: string, codes: ReadonlyArray<string>) =>
  codes.some((known) => code === known || code.startsWith(`${known}_`))

/** The driver throws where it prepares a statement outside of an effect. */
const isOfDriver = (defect: unknown): boolean => defect instanceof SqlError || codeOf(defect).startsWith("SQLITE_")

const isBusy = (error: unknown): boolean => error instanceof JournalBusy

/** From 1 ms doubling to 20 ms, each a fifth more or less, for as long as patience lasts. */
const whileBusy = Schedule.exponential("1 millis").pipe(
  Schedule.union(Schedule.spaced("20 millis")),
  Schedule.jittered,
  Schedule.upTo(patience)
)
