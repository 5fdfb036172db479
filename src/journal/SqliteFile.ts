/**
 * The SQLite file of a journal: what it is, and how it is opened.
 *
 * - Looking reads bytes and nothing else: it takes no lock, and leaves no file beside the one it looks at.
 * - Only a file that is ours, or new, is opened; any other stays as it is. Opening for reading creates nothing.
 * - A file open for writing commits to disk (WAL, `synchronous = FULL`), waits nowhere inside the driver, and has the
 *   latest tables.
 */
import { statSync } from "node:fs"
import * as Reactivity from "@effect/experimental/Reactivity"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import type { Connection } from "@effect/sql/SqlConnection"
import type { SqlError } from "@effect/sql/SqlError"
import * as SqliteClient from "@effect/sql-sqlite-node/SqliteClient"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { Scope } from "effect/Scope"
import { JournalCorrupt, type JournalError, JournalFailed, JournalUnsupported } from "../domain/Errors.ts"
import * as Migrations from "./Migrations.ts"
import * as Transaction from "./Transaction.ts"

/** "Dybk": marks a SQLite file as a journal of ours. */
export const applicationId = 0x4479626b

type Services = FileSystem.FileSystem | Path.Path | Scope

/** Opens a file for writing and creates it where there is none; its folder must be there. */
export const open: (filename: string) => Effect.Effect<Transaction.Transactions, JournalError, Services> = Effect.fn(
  "SqliteFile.open"
)(function* (filename) {
  const file = yield* resolve(filename)
  const found = yield* look(file)
  if (found === "no folder") return yield* failed(file, new Error("its folder does not exist"))
  // what is in it is as private as what was said; SQLite gives the files beside it the same mode
  if (found === "new") yield* Effect.ignore(createEmpty(file))
  const transactions = yield* connect(file, { readonly: false, location: file })
  const stamp = stampOf(file)
  // SQLite's own view, before anything is changed: the file may have become another's since it was looked at
  yield* transactions.read("open", stamp.version)
  for (const pragma of writing) yield* set(transactions, pragma)
  yield* Migrations.run(transactions, stamp)
  const check = stillThere(file)
  yield* check
  return { ...transactions, write: (operation, body) => Effect.zipLeft(transactions.write(operation, body), check) }
})

/** Opens a file for reading, creating nothing; none where there is no journal yet. */
export const openReadonly: (
  filename: string
) => Effect.Effect<Option.Option<Transaction.Transactions>, JournalError, Services> = Effect.fn(
  "SqliteFile.openReadonly"
)(function* (filename) {
  const file = yield* resolve(filename)
  if ((yield* look(file)) !== "ours") return Option.none()
  // SQLite has to write beside a file that it reads: where it may not, a copy is read
  const { transactions, version } = yield* Effect.catchIf(opened(file, file), isUnwritable, () =>
    Effect.flatMap(copied(file), (copy) => opened(copy, file))
  )
  if (version === Migrations.latest) return Option.some(transactions)
  const detail = `its tables have version ${version}, this build reads ${Migrations.latest}`
  return yield* unsupported(file, "older", detail)
})

// internal: opening

/** A new empty file that nobody else can read; where something is, that stays. */
const createEmpty = (file: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.writeFileString(file, "", { flag: "wx", mode: 0o600 }))

/** A file for reading, whose errors name `location`, and the version of its tables. */
const opened = Effect.fnUntraced(function* (file: string, location: string) {
  const transactions = yield* connect(file, { readonly: true, location })
  return { transactions, version: yield* transactions.read("open", stampOf(location).version) }
})

const isUnwritable = (error: JournalError): boolean =>
  error._tag === "JournalFailed" && /^SQLITE_(READONLY|CANTOPEN)/.test(Transaction.codeOf(error.cause))

/** A copy of a database and its log, until the scope closes. */
const copied = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const copy = Effect.gen(function* () {
    const folder = yield* fs.makeTempDirectoryScoped({ prefix: "daybook-copy-" })
    const to = path.join(folder, "copy.db")
    // the log first: where its writer has moved it into the file meanwhile, the file has it all
    yield* Effect.catchIf(fs.copyFile(`${file}-wal`, `${to}-wal`), isNotFound, () => Effect.void)
    yield* fs.copyFile(file, to)
    return to
  })
  return yield* Effect.mapError(copy, (cause) => failed(file, cause))
})

// internal: staying

/**
 * Fails once the file, or the log beside it, is not the one that was there when this was first asked: SQLite goes on
 * writing to a file that was removed, and nobody would ever read that. Asked after each commit: it is one system call a
 * file, and waits for nothing.
 */
const stillThere = (file: string): Effect.Effect<void, JournalCorrupt> => {
  const known = new Map<string, string>()
  const isSame = (path: string): boolean => {
    const found = statSync(path, { throwIfNoEntry: false })
    const identity = found === undefined ? "nothing" : `${found.dev} ${found.ino}`
    if (!known.has(path)) known.set(path, identity)
    return known.get(path) === identity
  }
  return Effect.suspend(() => {
    if ([file, `${file}-wal`].every(isSame)) return Effect.void
    const detail = "it was removed or replaced while it was open, and what was written since is lost"
    return Effect.fail(new JournalCorrupt({ file, detail, cause: undefined }))
  })
}

// internal: looking

/** What lies at a path: a journal, an empty database or nothing yet, or not even the folder. */
type Found = "ours" | "new" | "no folder"

/** What a database says of itself. */
interface Marks {
  readonly applicationId: number
  readonly userVersion: number
  readonly hasTables: boolean
}

interface Header extends Marks {
  /** The length that the file has at least, in bytes; 0 where the header does not tell. */
  readonly length: number
  readonly pageSize: number
}

/** Looks again at a file that seems cut off: another process may have been writing it at that moment. */
const look = (file: string): Effect.Effect<Found, JournalError, FileSystem.FileSystem | Path.Path> =>
  Effect.retry(lookOnce(file), { times: 1, while: (error) => error._tag === "JournalCorrupt" })

const lookOnce = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const inspect = Effect.mapError((cause: PlatformError) => failed(file, cause))
  const found = yield* inspect(statOf(fs, file))
  if (Option.isNone(found)) return (yield* inspect(fs.exists(path.dirname(file)))) ? "new" : "no folder"
  if (found.value.type !== "File") return yield* failed(file, new Error(`it is no file but a ${found.value.type}`))
  const wal = Option.map(yield* inspect(statOf(fs, `${file}-wal`)), (info) => info.size)
  const walIsEmpty = Option.getOrElse(wal, () => FileSystem.Size(0)) === FileSystem.Size(0)
  const header = parseHeader(yield* inspect(readStart(fs, file)))
  if (header === "empty") return "new"
  if (header === "foreign") return yield* unsupported(file, "foreign", "it is no SQLite database")
  if (header === "cut off") return yield* cutOff(file)
  // the tables may all be in the log yet: that of a journal whose first process was killed, or of somebody else's file
  if (!walIsEmpty && !header.hasTables && header.applicationId === 0) return yield* lookAtCopy(file)
  const version = yield* versionOf(file, header)
  if (version === 0) return "new"
  const size = Number(found.value.size)
  if (walIsEmpty && (size < header.length || size % header.pageSize !== 0)) return yield* cutOff(file)
  return "ours"
})

/** Reads the marks of a copy: SQLite itself would write beside the file, and into it when it closes. */
const lookAtCopy = (file: string) =>
  Effect.scoped(
    copied(file).pipe(
      Effect.flatMap((copy) => connect(copy, { readonly: false, location: file })),
      Effect.flatMap(({ read }) => read("open", marksOf)),
      Effect.flatMap((marks) => versionOf(file, marks)),
      Effect.map((version): Found => (version === 0 ? "new" : "ours"))
    )
  )

const statOf = (fs: FileSystem.FileSystem, file: string) =>
  Effect.catchIf(Effect.asSome(fs.stat(file)), isNotFound, () => Effect.succeed(Option.none<FileSystem.File.Info>()))

const isNotFound = (error: PlatformError): boolean => error._tag === "SystemError" && error.reason === "NotFound"

/** The header of a SQLite file and that of its first page. */
const startLength = 108

const readStart = (fs: FileSystem.FileSystem, file: string) =>
  Effect.scoped(
    Effect.map(
      Effect.flatMap(fs.open(file, { flag: "r" }), (handle) => handle.readAlloc(startLength)),
      Option.getOrElse(() => new Uint8Array())
    )
  )

const magic = "SQLite format 3\0"

/** Reads what https://sqlite.org/fileformat.html says stands at the start of a database file. */
const parseHeader = (start: Uint8Array): Header | "empty" | "foreign" | "cut off" => {
  if (start.length === 0) return "empty"
  if (new TextDecoder("latin1").decode(start.subarray(0, magic.length)) !== magic) return "foreign"
  if (start.length < startLength) return "cut off"
  const view = new DataView(start.buffer, start.byteOffset, start.byteLength)
  const stored = view.getUint16(16)
  const pageSize = stored === 1 ? 65_536 : stored
  // the page count is only good if it was written with the change counter
  const pages = view.getUint32(24) === view.getUint32(92) ? view.getUint32(28) : 0
  const leaf = 13
  return {
    applicationId: view.getInt32(68),
    userVersion: view.getInt32(60),
    hasTables: view.getUint8(100) !== leaf || view.getUint16(103) > 0,
    length: pages * pageSize,
    pageSize
  }
}

/** The version of a journal's tables, 0 for an empty database; fails for one that is not ours to open. */
const versionOf = (file: string, marks: Marks): Either.Either<number, JournalUnsupported> => {
  const { applicationId: id, hasTables, userVersion } = marks
  if (id === 0 && userVersion === 0 && !hasTables) return Either.right(0)
  if (id !== applicationId) return Either.left(unsupported(file, "foreign", "it is another program's SQLite database"))
  if (userVersion >= 1 && userVersion <= Migrations.latest) return Either.right(userVersion)
  const detail = `its tables have version ${userVersion}, this build knows up to ${Migrations.latest}`
  return Either.left(unsupported(file, userVersion > Migrations.latest ? "newer" : "older", detail))
}

const failed = (file: string, cause: unknown) => new JournalFailed({ file, operation: "open", cause })

const unsupported = (file: string, direction: "older" | "newer" | "foreign", detail: string) =>
  new JournalUnsupported({ file, direction, detail })

const cutOff = (file: string) =>
  new JournalCorrupt({ file, detail: "its end is missing", cause: new Error("shorter than its header says") })

// internal: connecting

interface Pragma {
  readonly name: string
  readonly value: string | number
  /** How SQLite tells the value, where that is not how it is set. */
  readonly told?: number
}

/** Waits inside the driver stop the whole process; `Transaction` waits instead. */
const noWait: Pragma = { name: "busy_timeout", value: 0 }

const writing: ReadonlyArray<Pragma> = [
  { name: "journal_mode", value: "wal" },
  // not the default of a file that is opened again
  { name: "synchronous", value: "FULL", told: 2 },
  // what a checkpoint leaves of the log at most, in bytes: twice what it waits for
  { name: "journal_size_limit", value: 8_388_608 }
]

/**
 * The file's absolute path, through links: SQLite takes `file:…`, `:memory:` and an empty name for something else, and
 * keeps its log beside the file itself.
 */
const resolve = Effect.fnUntraced(function* (filename: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const absolute = path.resolve(filename)
  const file = yield* Effect.catchAll(fs.realPath(absolute), () => Effect.succeed(absolute))
  // the driver trims names, and would open another file than the one that was looked at
  if (file.trim() !== file) return yield* failed(file, new Error("its name ends with white space"))
  return file
})

const connect = (filename: string, options: { readonly readonly: boolean; readonly location: string }) =>
  SqliteClient.make({ filename, readonly: options.readonly, disableWAL: true }).pipe(
    Effect.provideServiceEffect(Reactivity.Reactivity, Reactivity.make),
    // the constructor of the driver throws
    Effect.catchAllDefect((cause) => Effect.fail(Transaction.classify(options.location, "open", cause))),
    Effect.flatMap((sql) => Transaction.make(sql, options.location)),
    Effect.tap((transactions) => set(transactions, noWait))
  )

/** Sets a pragma and reads it back: SQLite keeps silent about what it does not take. */
const set = ({ location, read }: Transaction.Transactions, { name, told, value }: Pragma) =>
  read("open", (connection) =>
    Effect.gen(function* () {
      yield* connection.executeUnprepared(`PRAGMA ${name} = ${value}`, [], undefined)
      const [row] = yield* connection.executeUnprepared(`PRAGMA ${name}`, [], undefined)
      const [set]: ReadonlyArray<unknown> = Object.values(row ?? {})
      if (set === (told ?? value)) return
      return yield* failed(location, new Error(`${name} is ${String(set)}, not ${value}`))
    })
  )

const marksQuery = `SELECT
  (SELECT application_id FROM pragma_application_id) AS id,
  (SELECT user_version FROM pragma_user_version) AS version,
  (SELECT count(*) FROM sqlite_schema) AS tables`

/** The marks as SQLite sees them. One statement, so that no migration can come between them. */
const marksOf = (connection: Connection): Effect.Effect<Marks, SqlError> =>
  Effect.map(
    Effect.suspend(() => connection.executeUnprepared(marksQuery, [], undefined)),
    ([row]) => ({ applicationId: Number(row?.id), userVersion: Number(row?.version), hasTables: row?.tables !== 0 })
  )

const stampOf = (file: string): Migrations.Stamp => ({
  version: (connection) => Effect.flatMap(marksOf(connection), (marks) => versionOf(file, marks)),
  write: (connection, version) =>
    Effect.zipRight(
      connection.executeUnprepared(`PRAGMA application_id = ${applicationId}`, [], undefined),
      connection.executeUnprepared(`PRAGMA user_version = ${version}`, [], undefined)
    )
})
