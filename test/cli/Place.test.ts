/**
 * Where a command works: folders that moved or are gone, and the folder of the database.
 */
import { mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { SystemError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it, vi } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { explain } from "../../src/cli/Failure.ts"
import * as Place from "../../src/cli/Place.ts"
import { SessionOwned } from "../../src/domain/Errors.ts"
import { SessionId } from "../../src/domain/Ids.ts"
import { good } from "../support/BrokenLogs.ts"
import { stateOf } from "../support/Facts.ts"
import * as Inside from "../support/Inside.ts"

const none: Place.Given = { workspace: Option.none(), db: Option.none() }

/** What is said of a failure, and its exit code. */
const refusal = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(Effect.sandbox(effect)), (cause) => Option.getOrThrow(explain(cause)))

const defaultIn = (workspace: string): Place.Place => ({
  workspace,
  db: join(workspace, ".daybook/daybook.db"),
  dbFrom: "default"
})

describe("the folder that a session was begun in", () => {
  /** How `run` in a workspace opens a session that was begun in another folder. */
  const opening = (begun: string, workspace: string) =>
    Effect.gen(function* () {
      const id = SessionId.make("s")
      const journal = yield* Inside.journalOf({})
      const header = { id, version: 1, cwd: begun, created: 0, parent: Option.none(), seedLength: 0, depth: 0 } as const
      yield* Effect.orDie(journal.create(header, { events: good, summary: stateOf(good).summary }))
      let create: string | undefined
      const agents = {
        open: (_: SessionId, options: { readonly create: string }) => {
          create = options.create
          return new SessionOwned({ sessionId: id, host: "box", pid: 7, since: 0 })
        }
      }
      yield* Inside.run({ journal, agents, workspace }, "run", "--session", "s", "x")
      return create
    })

  it.scoped("J11: is gone where it is no folder any more, and only there", () =>
    Effect.gen(function* () {
      const root = realpathSync(yield* Inside.folder)
      const at = (name: string) => join(root, name)
      for (const name of ["here", "other"]) mkdirSync(at(name))
      writeFileSync(at("file"), "")
      symlinkSync(at("nowhere"), at("dangling"))
      symlinkSync(at("loop"), at("loop"))
      for (const gone of ["missing", "file", "file/below", "dangling", "loop"])
        assert.strictEqual(yield* opening(at(gone), at("here")), "never", gone)
      for (const there of ["here", "other"])
        assert.strictEqual(yield* opening(at(there), at("here")), "if-absent", there)
    })
  )
})

describe("the options that name a place again", () => {
  it("are those that were given, as a shell takes them", () => {
    const some = (workspace?: string, db?: string): Place.Given => ({
      workspace: Option.fromNullable(workspace),
      db: Option.fromNullable(db)
    })
    assert.strictEqual(Place.again(none, none), "")
    assert.strictEqual(Place.again(some("w"), some("root", "x.db")), " --workspace w --db x.db")
    assert.strictEqual(Place.again(some(), some(undefined, "it's mine.db")), " --db 'it'\\''s mine.db'")
  })
})

describe("the current folder", () => {
  it.scoped("where it is gone, is told of as a slip of the command line, and is not needed for whole paths", () =>
    Effect.gen(function* () {
      const root = realpathSync(yield* Inside.folder)
      const gone = vi.spyOn(process, "cwd").mockImplementation(() => {
        throw new Error("ENOENT: no such file or directory, uv_cwd")
      })
      yield* Effect.addFinalizer(() => Effect.sync(() => gone.mockRestore()))
      const whole = Option.some(root)
      for (const given of [
        none,
        { ...none, workspace: Option.some("w") },
        { ...none, db: Option.some(join(root, "x.db")) },
        { workspace: whole, db: Option.some("x.db") }
      ]) {
        const { code, line } = yield* refusal(Place.resolve(given, none))
        assert.strictEqual(code, 2)
        assert.match(line ?? "", /^the current folder is gone .* --workspace, and files by whole paths\.$/)
      }
      const place = yield* Place.resolve({ ...none, workspace: whole }, none)
      assert.strictEqual(place.db, join(root, ".daybook/daybook.db"))
    }).pipe(Effect.provide(NodeContext.layer))
  )
})

describe("the folder of the database", () => {
  it.scoped("is hidden from git also where whoever created it did not come that far", () =>
    Effect.gen(function* () {
      for (const left of [undefined, "", "mine\n"]) {
        const root = yield* Inside.folder
        mkdirSync(join(root, ".daybook"))
        const ignore = join(root, ".daybook/.gitignore")
        if (left !== undefined) writeFileSync(ignore, left)
        yield* Place.prepare(defaultIn(root))
        assert.strictEqual(readFileSync(ignore, "utf8"), left === "mine\n" ? left : "*\n")
        assert.deepStrictEqual(readdirSync(join(root, ".daybook")), [".gitignore"])
      }
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("where the disk is full, is told of with what is missing, and leaves no part of a file; exit 1", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const failing = (method: string) =>
        new SystemError({ reason: "Unknown", module: "FileSystem", method, description: "ENOSPC: no space left" })
      const root = yield* Inside.folder
      const onFull = (host: Partial<FileSystem.FileSystem>) =>
        refusal(Effect.provideService(Place.prepare(defaultIn(root)), FileSystem.FileSystem, { ...fs, ...host }))
      const next = "No session was changed. Once that is mended, try again; or name a database with --db."
      assert.deepStrictEqual(yield* onFull({ makeDirectory: () => failing("makeDirectory") }), {
        line: `${root}/.daybook cannot be created: ENOSPC: no space left. ${next}`,
        code: 1
      })
      const rest = { writeFileString: () => failing("writeFile"), rename: () => failing("rename") }
      assert.deepStrictEqual(yield* onFull(rest), {
        line: `${root}/.daybook/.gitignore cannot be written: ENOSPC: no space left. ${next}`,
        code: 1
      })
      assert.deepStrictEqual(readdirSync(join(root, ".daybook")), [])
      rmSync(join(root, ".daybook"), { recursive: true })
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("is no place for what is no file", () =>
    Effect.gen(function* () {
      for (const to of ["read", "write"] as const) {
        const { code, line } = yield* refusal(Place.check({ ...defaultIn("/"), db: "/dev/null", dbFrom: "--db" }, to))
        assert.strictEqual(code, 2)
        assert.match(line ?? "", /^--db: \/dev\/null is no regular file, and no database\./)
      }
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
