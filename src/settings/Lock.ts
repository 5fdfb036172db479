/**
 * The lock beside a settings file: one process at a time writes.
 *
 * - The system holds it for its owner and gives it back when that dies: no lock is ever stale, and none is stolen, however
 *   old its file is. It is SQLite's lock on a file that stays empty.
 * - Waiting is done here and never inside the driver: it is interruptible, and has its limit.
 */
import Database from "better-sqlite3"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type { Scope } from "effect/Scope"

/** How long a lock is waited for. */
export const patience = "10 seconds"

/** The lock was not had: another one holds it all the time (`busy`), or its file cannot be used. */
export class LockNotHeld extends Schema.TaggedError<LockNotHeld>()("LockNotHeld", {
  reason: Schema.Literal("busy", "failed"),
  cause: Schema.Defect
}) {}

/** Takes the lock, and holds it until the scope closes. */
export const hold = (file: string): Effect.Effect<void, LockNotHeld, Scope> =>
  Effect.acquireRelease(
    attempt(() => new Database(file, { timeout: 0 })),
    (database) =>
      // what it holds goes with it
      Effect.sync(() => database.close())
  ).pipe(
    Effect.flatMap((database) =>
      Effect.retry(
        attempt(() => database.exec("BEGIN IMMEDIATE")),
        {
          schedule: whileBusy,
          while: ({ reason }) => reason === "busy"
        }
      )
    ),
    Effect.asVoid
  )

// internal

const whileBusy = Schedule.upTo(Schedule.spaced("25 millis"), patience)

const attempt = <A>(step: () => A): Effect.Effect<A, LockNotHeld> =>
  Effect.try({ try: step, catch: (cause) => new LockNotHeld({ reason: isBusy(cause) ? "busy" : "failed", cause }) })

const isBusy = (cause: unknown): boolean =>
  Predicate.hasProperty(cause, "code") && String(cause.code).startsWith("SQLITE_BUSY")
