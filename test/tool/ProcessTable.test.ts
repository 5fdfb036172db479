import * as ChildProcess from "node:child_process"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as ProcessTable from "../../src/tool/ProcessTable.ts"
import { newMark } from "./commands.ts"
import { node } from "./support.ts"

/** A process as the manual of `proc` numbers its fields. */
interface Row {
  readonly pid: number
  readonly fields?: Readonly<Record<number, number | string>>
  readonly environment?: string
}

const own = { 50: 1000, 51: 2000 }

/** The line of `stat`: whatever is not said is zero, and the name is as bad as a name can be. */
const statOf = ({ fields = {}, pid }: Row): string => {
  const rest = Array.from({ length: 50 }, (_, index) => fields[index + 3] ?? (index === 0 ? "S" : 0))
  return `${pid} (a) R 1 (b) ${rest.join(" ")}\n`
}

/** A table of these processes. */
const table = Effect.fnUntraced(function* (rows: ReadonlyArray<Row>) {
  const fs = yield* FileSystem.FileSystem
  const proc = yield* fs.makeTempDirectoryScoped()
  const put = Effect.fnUntraced(function* (row: Row) {
    yield* fs.makeDirectory(`${proc}/${row.pid}`, { recursive: true })
    yield* fs.writeFileString(`${proc}/${row.pid}/stat`, statOf(row))
    yield* fs.writeFileString(`${proc}/${row.pid}/environ`, row.environment ?? "HOME=/\0")
  })
  yield* fs.makeDirectory(`${proc}/self`)
  yield* fs.writeFileString(`${proc}/self/stat`, statOf({ pid: 1, fields: own }))
  yield* Effect.forEach(rows, put)
  return { proc, put, remove: (pid: number) => fs.remove(`${proc}/${pid}`, { recursive: true }) }
})

const wanted = { pgid: 50, mark: "DAYBOOK_CALL=a", guardMark: "DAYBOOK_GUARD=a" }
const marked = "HOME=/\0DAYBOOK_CALL=a\0"
/** Field 4 is the parent, 5 the group, 6 the session, 9 flags, 20 threads, 22 the start, 50 and 51 the environment. */
const stranger = { ...own, 4: 1, 5: 7, 6: 7, 22: 200 }

describe("ProcessTable", () => {
  it.scoped("law 4, O-J6: who belongs to a call: its group, its session, its mark, and the children of all those", () =>
    Effect.gen(function* () {
      const { proc } = yield* table([
        { pid: 7, fields: stranger },
        { pid: 8, fields: { ...stranger, 4: 62 } },
        { pid: 50, fields: { ...stranger, 5: 50, 6: 50 }, environment: marked },
        { pid: 51, fields: { ...stranger, 5: 50, 6: 50 }, environment: `${marked}DAYBOOK_GUARD=a\0` },
        { pid: 52, fields: { ...stranger, 5: 50 }, environment: "" },
        { pid: 60, fields: { ...stranger, 5: 60, 6: 50 } },
        { pid: 61, fields: { ...stranger, 5: 61 }, environment: marked },
        { pid: 62, fields: { ...stranger, 4: 52, 5: 62 } },
        // a mark is a whole assignment, and of this very call
        { pid: 70, fields: stranger, environment: "XDAYBOOK_CALL=a\0DAYBOOK_CALL=ab\0" },
        // older than the call, gone, and a zombie
        { pid: 71, fields: { ...stranger, 22: 99 }, environment: marked },
        { pid: 72, fields: { ...stranger, 3: "X" }, environment: marked },
        { pid: 73, fields: { ...stranger, 3: "Z", 20: 1 }, environment: marked },
        // a process whose first thread alone has ended
        { pid: 53, fields: { ...stranger, 3: "Z", 5: 50, 20: 2 }, environment: "" }
      ])
      const found = ProcessTable.looks(proc, wanted)(100)
      assert.deepStrictEqual([...found.members].sort(), [50, 52, 53])
      assert.deepStrictEqual([...found.escaped].sort(), [60, 61, 62, 8].sort())
      assert.deepStrictEqual(found.guards, [51])
      assert.isTrue(found.sure)
    }).pipe(Effect.provide(node))
  )

  it.scoped(
    "law 4, O-J6: who was seen to belong does so when its parent is gone, and another of its number does not",
    () =>
      Effect.gen(function* () {
        const parent = { pid: 50, fields: { ...stranger, 5: 50, 6: 50 } }
        const child = { pid: 60, fields: { ...stranger, 4: 50, 5: 60, 6: 60 } }
        const { proc, put, remove } = yield* table([parent, child])
        const look = ProcessTable.looks(proc, wanted)
        assert.deepStrictEqual(look(100).escaped, [60])
        yield* remove(50)
        yield* put({ ...child, fields: { ...child.fields, 4: 1 } })
        assert.deepStrictEqual(look(100).escaped, [60])
        yield* put({ ...child, fields: { ...child.fields, 4: 1, 22: 300 } })
        assert.deepStrictEqual(look(100), { members: [], escaped: [], guards: [], sure: true })
      }).pipe(Effect.provide(node))
  )

  it.scoped(
    "law 4, O-J6: who was seen in the group and left it belongs by nothing else, and another of its number not",
    () =>
      Effect.gen(function* () {
        const member = { pid: 60, fields: { ...stranger, 4: 50, 5: 50, 6: 50 }, environment: marked }
        const leader = { pid: 50, fields: { ...stranger, 5: 50, 6: 50 }, environment: marked }
        const { proc, put, remove } = yield* table([leader, member])
        const look = ProcessTable.looks(proc, wanted)
        assert.deepStrictEqual(look(100).members.toSorted(), [50, 60])
        // in a session of its own, as another program without an environment, and with another parent
        const gone = { pid: 60, fields: { ...stranger, 5: 60, 6: 60, 51: 1000 }, environment: "" }
        yield* remove(50)
        yield* put(gone)
        assert.deepStrictEqual(look(100), { members: [], escaped: [60], guards: [], sure: true })
        yield* put({ ...gone, fields: { ...gone.fields, 22: 300 } })
        assert.deepStrictEqual(look(100), { members: [], escaped: [], guards: [], sure: true })
      }).pipe(Effect.provide(node))
  )

  it.scoped(
    "law 4: who has no environment yet leaves a look unsure; who has an empty one, or is of the kernel, does not",
    () =>
      Effect.gen(function* () {
        const row = (fields: Row["fields"]) => [{ pid: 60, fields: { ...stranger, ...fields }, environment: "" }]
        const sure = (rows: ReadonlyArray<Row>) =>
          Effect.map(table(rows), ({ proc }) => ProcessTable.looks(proc, wanted)(100).sure)
        assert.isFalse(yield* sure(row({ 50: 0, 51: 0 })))
        // it has one by the time it is asked for again
        assert.isFalse(yield* sure(row({})))
        assert.isTrue(yield* sure(row({ 51: 1000 })))
        assert.isTrue(yield* sure(row({ 9: 0x200040, 50: 0, 51: 0 })))
        assert.isTrue(yield* sure(row({ 22: 99, 50: 0, 51: 0 })))
        // a host that tells nobody where an environment lies
        const { proc, put } = yield* table(row({ 50: 0, 51: 0 }))
        yield* put({ pid: 1, fields: {} })
        const fs = yield* FileSystem.FileSystem
        yield* fs.writeFileString(`${proc}/self/stat`, statOf({ pid: 1 }))
        assert.isTrue(ProcessTable.looks(proc, wanted)(100).sure)
      }).pipe(Effect.provide(node))
  )

  it.scopedLive("law 4, O-J6: no look takes a process for gone that is always becoming another program", () =>
    Effect.gen(function* () {
      const mark = newMark()
      const child = yield* Effect.acquireRelease(
        Effect.sync(() =>
          ChildProcess.spawn("bash", ["-c", 'echo up; exec bash -c "$HOP"'], {
            detached: true,
            stdio: ["ignore", "pipe", "ignore"],
            env: { PATH: "/usr/bin:/bin", HOP: 'exec bash -c "$HOP"', TEST_MARK: mark }
          })
        ),
        (child) => Effect.sync(() => child.kill("SIGKILL"))
      )
      yield* Effect.async<void>((resume) => void child.stdout.once("data", () => resume(Effect.void)))
      // as of a group that has gone: the mark alone tells
      const look = ProcessTable.looks("/proc", { pgid: 999_999_999, mark: `TEST_MARK=${mark}`, guardMark: "NONE=" })
      for (let count = 0; count < 100; count++) {
        const { escaped, sure } = look(0)
        assert.isTrue(!sure || escaped.includes(child.pid ?? -1))
      }
    })
  )
})
