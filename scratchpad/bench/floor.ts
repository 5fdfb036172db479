/**
 * The floor: raw better-sqlite3, full sync, the same bytes, each statement prepared once.
 */
import Database from "better-sqlite3"

const millisOf = (work: () => void): number => {
  const from = performance.now()
  work()
  return performance.now() - from
}

/** Milliseconds for so many deltas of 12 bytes, packed 4 KiB a row and a commit each. */
export const streaming = (file: string, deltas: number): number => {
  const { db, insert } = writing(file)
  const text = "twelve bytes".repeat(341)
  const millis = millisOf(() => {
    for (let written = 0; written < deltas; written += 341) insert.run("chunk", text)
  })
  db.close()
  return millis
}

/** Makes one unit of work of these commits, each of so many rows; each run gives its milliseconds. */
export const commits = (file: string, rows: ReadonlyArray<number>): (() => number) => {
  const { db, insert } = writing(file)
  const commit = db.transaction((count: number) => {
    for (let row = 0; row < count; row++) insert.run("some/event", '{"turn":1,"step":1,"callId":"t1s1c0"}')
  })
  return () =>
    millisOf(() => {
      for (const count of rows) commit(count)
    })
}

/** Milliseconds to read every row of a journal and parse it. */
export const reading = (file: string): number => {
  const db = new Database(file, { readonly: true })
  const millis = millisOf(() => {
    // each row has what the statement selects
    for (const row of db.prepare("SELECT data FROM session_event ORDER BY seq").iterate())
      JSON.parse((row as { data: string }).data)
  })
  db.close()
  return millis
}

/** How many rows of chunks a journal holds. */
export const chunkRows = (file: string): number => {
  const db = new Database(file, { readonly: true })
  const row = db.prepare("SELECT count(*) AS n FROM session_event WHERE type = 'assistant/chunk'").get()
  db.close()
  return (row as { n: number }).n // what the statement selects
}

// internal

const writing = (file: string) => {
  const db = new Database(file)
  db.pragma("journal_mode = WAL")
  db.pragma("synchronous = FULL")
  db.exec("CREATE TABLE IF NOT EXISTS event (seq INTEGER PRIMARY KEY, type TEXT, data TEXT)")
  return { db, insert: db.prepare("INSERT INTO event (type, data) VALUES (?, ?)") }
}
