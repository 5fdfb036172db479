/**
 * A SQLite driver that fails: at its nth statement, whatever that is, BEGIN, COMMIT and ROLLBACK included.
 *
 * It replaces what every statement of the driver runs by, for the process of one test file.
 */
import Database from "better-sqlite3"

/** How a statement fails. `late`: it is run, and its answer is lost. */
export type Kind = "busy" | "full" | "io" | "late"

export interface Fault {
  /** Which statement, from 1. */
  readonly at: number
  readonly kind: Kind
  /** Whether all that follow fail as well. */
  readonly lasts: boolean
}

const errors: Record<Kind, { readonly code: string; readonly message: string }> = {
  busy: { code: "SQLITE_BUSY", message: "database is locked" },
  full: { code: "SQLITE_FULL", message: "database or disk is full" },
  io: { code: "SQLITE_IOERR_FSYNC", message: "disk I/O error" },
  late: { code: "SQLITE_IOERR_FSYNC", message: "disk I/O error" }
}

let fault: Fault | undefined
let run = 0
let hit: string | undefined

/** Lets the next statements be counted, and one of them fail. */
export const arm = (next: Fault): void => {
  fault = next
  run = 0
  hit = undefined
}

/** From here on everything works. The statement that failed, if one did, and how many there were. */
export const disarm = (): { readonly hit: string | undefined; readonly statements: number } => {
  fault = undefined
  return { hit, statements: run }
}

/** Whether this statement is to fail, and how. */
const due = (source: string): Kind | undefined => {
  if (fault === undefined) return undefined
  run++
  if (run < fault.at || (run > fault.at && !fault.lasts)) return undefined
  hit ??= source
  return fault.kind
}

const failure = (kind: Kind) => new Database.SqliteError(errors[kind].message, errors[kind].code)

// every statement has one prototype: that of the driver's own class
const probe = new Database(":memory:")
const statements: object = Object.getPrototypeOf(probe.prepare("SELECT 1"))
probe.close()

for (const name of ["all", "run", "get"] as const) {
  const real = Reflect.get(statements, name) as (...values: ReadonlyArray<unknown>) => unknown // a method of the driver
  Reflect.set(statements, name, function (this: Database.Statement, ...values: ReadonlyArray<unknown>): unknown {
    const kind = due(this.source)
    if (kind === undefined) return Reflect.apply(real, this, values)
    if (kind === "late") Reflect.apply(real, this, values)
    throw failure(kind)
  })
}
