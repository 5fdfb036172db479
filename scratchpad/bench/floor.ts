/**
 * The floor: raw better-sqlite3, full sync, the same bytes, one statement prepared once.
 */
import Database from "better-sqlite3"

const open = (file: string) => {
  const db = new Database(file)
  db.pragma("journal_mode = WAL")
  db.pragma("synchronous = FULL")
  db.exec("CREATE TABLE IF NOT EXISTS event (seq INTEGER PRIMARY KEY, type TEXT, data TEXT)")
  return { db, insert: db.prepare("INSERT INTO event (type, data) VALUES (?, ?)") }
}

const medianOf = (times: number, work: () => void): number => {
  const each = Array.from({ length: times }, () => {
    const from = performance.now()
    work()
    return performance.now() - from
  })
  return each.toSorted((a, b) => a - b)[times >> 1] ?? 0
}

/** Deltas a second, packed 4 KiB a row and a commit each. */
export const streaming = (file: string, count: number): number => {
  const { db, insert } = open(file)
  const text = "twelve bytes".repeat(341)
  const from = performance.now()
  for (let written = 0; written < count; written += 341) insert.run("chunk", text)
  const millis = performance.now() - from
  db.close()
  return (count / millis) * 1000
}

const rowsInCommits = (file: string, times: number, commits: ReadonlyArray<number>): number => {
  const { db, insert } = open(file)
  const write = db.transaction((rows: number) => {
    for (let row = 0; row < rows; row++) insert.run("some/event", '{"turn":1,"step":1,"callId":"t1s1c0"}')
  })
  const millis = medianOf(times, () => {
    for (const rows of commits) write(rows)
  })
  db.close()
  return millis
}

/** Milliseconds for the commits of a turn with one tool step and one text step. */
export const steps = (file: string, times: number): number => rowsInCommits(file, times, [2, 4, 6, 5, 5, 3])

/** Milliseconds for the commits of a short turn. */
export const turns = (file: string, times: number): number => rowsInCommits(file, times, [2, 4, 4])

/** Milliseconds for one commit. */
export const commits = (file: string, times: number): number => rowsInCommits(file, times, [19])

/** How many rows of one type a journal holds. */
export const count = (file: string, type: string): number => {
  const db = new Database(file, { readonly: true })
  const row = db.prepare("SELECT count(*) AS n FROM session_event WHERE type = ?").get(type)
  db.close()
  return (row as { n: number }).n // what the statement selects
}

/** Milliseconds to read every row of a journal and parse it. */
export const reading = (file: string): number => {
  const db = new Database(file, { readonly: true })
  const from = performance.now()
  // each row has what the statement selects
  for (const row of db.prepare("SELECT data FROM session_event ORDER BY seq").iterate())
    JSON.parse((row as { data: string }).data)
  const millis = performance.now() - from
  db.close()
  return millis
}
