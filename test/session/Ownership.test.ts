import { spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, realpathSync, renameSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import { JournalFull, type SessionFenced } from "../../src/domain/Errors.ts"
import { MessageId, SessionId } from "../../src/domain/Ids.ts"
import * as Inbox from "../../src/domain/Inbox.ts"
import { text } from "../../src/domain/Message.ts"
import * as Host from "../../src/internal/Host.ts"
import * as Journal from "../../src/journal/Journal.ts"
import * as Reaper from "../../src/session/Reaper.ts"
import * as Repair from "../../src/session/Repair.ts"
import { leaseMillis } from "../../src/session/Session.ts"
import * as Sessions from "../../src/session/Sessions.ts"
import { header } from "../contract/journal.ts"

const id = SessionId.make("s")

type JournalService = Context.Tag.Service<Journal.Journal>

/** One journal for all that share a scope. */
const journal = Effect.map(Layer.build(Journal.layerMemory), (context) => Context.get(context, Journal.Journal))

/** Sessions of another process, as far as ownership goes: a layer of its own, with a token of its own. */
const sessionsOf = (journal: JournalService) =>
  Effect.map(
    Layer.build(
      Layer.provide(Sessions.layer, [
        Layer.succeed(Journal.Journal, journal),
        Repair.layer,
        Reaper.layerNone,
        NodeFileSystem.layer
      ])
    ),
    (context) => Context.get(context, Sessions.Sessions)
  )

const options = { cwd: "/work", create: "if-absent" } as const

const said = (name: string) =>
  Inbox.inserted(Inbox.empty, "next-step", [
    { id: MessageId.make(name), role: "user", source: { kind: "inject" }, content: [text(name)] }
  ])

/** Stores that this owner has the session, with a lease that ends then. */
const owned = Effect.fnUntraced(function* (
  journal: JournalService,
  owner: Omit<Journal.Owner, "since">,
  lease: number
) {
  yield* journal.create(header({ id }))
  const { epoch, head, leaseExpires, summary } = yield* journal.find(id)
  const more = { events: [], summary, owner: { ...owner, since: 1000 }, leaseRead: leaseExpires, leaseExpires: lease }
  yield* journal.take({ id, head, epoch, ...more })
})

const dead = Effect.map(Host.identity, (self) => ({ ...self, pid: 2 ** 30, token: "dead" }))
const live = Effect.map(Host.identity, (self) => ({ ...self, token: "live" }))

/** A process that has ended and that nobody looks after. */
const zombie = Effect.acquireRelease(
  Effect.async<{ readonly pid: number; readonly kill: () => void }>((resume) => {
    const parent = spawn("sh", ["-c", "sh -c 'exit 0' & echo $!; exec sleep 1000"], {
      stdio: ["ignore", "pipe", "ignore"]
    })
    parent.stdout.once("data", (pid) => resume(Effect.succeed({ pid: Number(pid), kill: () => parent.kill() })))
  }),
  ({ kill }) => Effect.sync(kill)
)

const acquired = (sessions: Context.Tag.Service<Sessions.Sessions>) => Effect.scoped(sessions.acquire(id, options))

const refusal = (sessions: Context.Tag.Service<Sessions.Sessions>) =>
  Effect.flatMap(Effect.flip(acquired(sessions)), (error) =>
    error._tag === "SessionOwned" ? Effect.succeed(error) : Effect.dieMessage(`it failed with ${error._tag}`)
  )

describe("ownership", () => {
  it.scoped(
    "W02 law 9 G08 J08: a second owner is refused while the first one lives, is told who and since when, and may read",
    () =>
      Effect.gen(function* () {
        const shared = yield* journal
        const [first, second] = [yield* sessionsOf(shared), yield* sessionsOf(shared)]
        yield* TestClock.adjust("1 minute")
        const scope = yield* Scope.make()
        const session = yield* Scope.extend(first.acquire(id, options), scope)
        yield* session.append(() => [said("a"), { type: "turn/start", data: { turn: 1 } }])
        yield* session.barrier
        const self = yield* Host.identity
        for (const sessions of [first, second]) {
          const { host, message, pid, since } = yield* refusal(sessions)
          assert.deepStrictEqual({ host, pid, since }, { host: self.host, pid: self.pid, since: 60_000 })
          assert.include(message, `is owned by process ${self.pid} of ${self.host}, since 1970-01-01T00:01:00.000Z`)
        }
        // its turn is open, and nobody closes it
        assert.lengthOf(yield* shared.read(id, { from: 0, limit: 10 }), 2)
        assert.deepInclude(yield* shared.find(id), { epoch: 1, head: 2 })
        yield* Scope.close(scope, Exit.void)
        const record = yield* shared.find(id)
        assert.deepStrictEqual([Option.isNone(record.owner), record.leaseExpires], [true, 0])
        yield* acquired(second)
        assert.strictEqual((yield* shared.find(id)).epoch, 2)
      }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scoped("W02: an owner of this boot that has ended is known at once, whatever its lease", () =>
    Effect.gen(function* () {
      const self = yield* Host.identity
      const { pid } = yield* zombie
      const gone: ReadonlyArray<Omit<Journal.Owner, "since">> = [
        yield* dead,
        // the number is somebody else's now
        { ...self, processStart: "1", token: "t" },
        // it has ended, and its parent has not looked yet
        { ...self, pid, processStart: yield* Host.startTimeOf(pid), token: "t" },
        // of this process, and left behind by a layer that is closed
        yield* live
      ]
      for (const owner of gone) {
        const shared = yield* journal
        yield* owned(shared, owner, 2 ** 40)
        yield* acquired(yield* sessionsOf(shared))
        // taken and given back: a session without events is removed
        assert.strictEqual((yield* Effect.flip(shared.find(id)))._tag, "SessionNotFound")
      }
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scoped("W02: an owner that cannot be looked at is waited for until its lease ends", () =>
    Effect.gen(function* () {
      const lost = yield* dead
      const elsewhere: ReadonlyArray<Omit<Journal.Owner, "since">> = [
        { ...lost, bootId: "another boot" },
        { ...lost, bootId: "unknown", processStart: "unknown" },
        { ...lost, host: "another", bootId: lost.bootId.replace(/\[.*\]/, "[1]") }
      ]
      for (const owner of elsewhere) {
        const shared = yield* journal
        const sessions = yield* sessionsOf(shared)
        const now = yield* TestClock.currentTimeMillis
        yield* owned(shared, owner, now + 1000)
        assert.deepInclude(yield* refusal(sessions), { host: owner.host, pid: owner.pid, since: 1000 })
        yield* TestClock.adjust(999)
        yield* refusal(sessions)
        yield* TestClock.adjust(1)
        yield* acquired(sessions)
      }
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scoped("law 9: a lease is renewed while the session is held, by a beat and by each append, and not after", () =>
    Effect.gen(function* () {
      const shared = yield* journal
      const renewals: Array<number> = []
      const counted = {
        ...shared,
        renew: (token: string, until: number) => {
          renewals.push(until)
          return shared.renew(token, until)
        }
      }
      const sessions = yield* sessionsOf(counted)
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(renewals, [])
      yield* Effect.scoped(
        Effect.gen(function* () {
          const session = yield* sessions.acquire(id, options)
          assert.strictEqual((yield* shared.find(id)).leaseExpires, 60_000 + leaseMillis)
          yield* TestClock.adjust("12 seconds")
          assert.deepStrictEqual(renewals, [95_000, 100_000])
          assert.strictEqual((yield* shared.find(id)).leaseExpires, 100_000)
          yield* session.append(() => [said("a")])
          yield* session.barrier
          assert.strictEqual((yield* shared.find(id)).leaseExpires, 72_000 + leaseMillis)
        })
      )
      yield* TestClock.adjust("1 minute")
      assert.isAtMost(renewals.length, 3)
      assert.strictEqual((yield* shared.find(id)).leaseExpires, 0)
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scoped("law 9: a lease that has ended writes on, as long as nobody came", () =>
    Effect.gen(function* () {
      const shared = yield* journal
      const deaf = { ...shared, renew: () => Effect.succeed([{ id, epoch: 1 }]) }
      const session = yield* (yield* sessionsOf(deaf)).acquire(id, options)
      yield* TestClock.adjust("10 minutes")
      assert.isBelow((yield* shared.find(id)).leaseExpires, yield* TestClock.currentTimeMillis)
      yield* session.append(() => [said("a")])
      yield* session.barrier
      assert.strictEqual((yield* shared.find(id)).head, 1)
    })
  )

  it.scoped(
    "O-N4 law 9: who lost a session is told by the next write or the next beat, and nothing of it is stored",
    () =>
      Effect.gen(function* () {
        for (const writes of [true, false]) {
          const shared = yield* journal
          const standing = yield* sessionsOf({ ...shared, renew: () => Effect.succeed([{ id, epoch: 1 }]) })
          const beating = yield* sessionsOf(shared)
          const session = yield* (writes ? standing : beating).acquire(id, options)
          yield* session.append(() => [said("a")])
          yield* session.barrier
          // as if it had stood still
          const { epoch, head, leaseExpires, summary } = yield* shared.find(id)
          const owner = { ...(yield* live), since: 0 }
          const more = { events: [], summary, owner, leaseRead: leaseExpires, leaseExpires: 2 ** 40 }
          yield* shared.take({ id, head, epoch, ...more })
          if (writes) {
            yield* session.append(() => [said("b")])
            assert.strictEqual((yield* Effect.flip(session.barrier))._tag, "SessionBroken")
          } else yield* TestClock.adjust("5 seconds")
          const { cause, durableHead } = yield* session.broken
          assert.strictEqual((cause as SessionFenced)._tag, "SessionFenced") // any other has none, or another one
          assert.strictEqual(durableHead, 1)
          assert.strictEqual((yield* shared.find(id)).head, 1)
          assert.isTrue(Option.isSome((yield* shared.find(id)).owner))
        }
      }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scoped("law 9: an owner that comes back to life while its session is being taken keeps it", () =>
    Effect.gen(function* () {
      const shared = yield* journal
      const lost = { ...(yield* dead), bootId: "another boot" }
      yield* owned(shared, lost, -1)
      // it beats between the moment it was read and the moment it would have been taken
      const late = {
        ...shared,
        take: (take: Journal.Take) =>
          Effect.zipRight(shared.renew("dead", take.leaseExpires - leaseMillis + 20_000), shared.take(take))
      }
      yield* refusal(yield* sessionsOf(late))
      assert.strictEqual((yield* shared.find(id)).epoch, 1)
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scoped(
    "law 9: what could not be given back is given back by the next beat, and nobody is shut out meanwhile",
    () =>
      Effect.gen(function* () {
        const shared = yield* journal
        let full = true
        const failure = Effect.fail(new JournalFull({ file: "memory", cause: new Error("no space") }))
        const sessions = yield* sessionsOf({
          ...shared,
          release: (id, epoch) => (full ? failure : shared.release(id, epoch))
        })
        const left = Effect.scoped(
          Effect.gen(function* () {
            const session = yield* sessions.acquire(id, options)
            yield* session.append(() => [said(`a${session.unsafeHead()}`)])
          })
        )
        yield* left
        const other = yield* sessions.acquire(SessionId.make("other"), options)
        assert.isTrue(Option.isSome((yield* shared.find(id)).owner))
        full = false
        yield* TestClock.adjust("5 seconds")
        assert.isTrue(Option.isNone((yield* shared.find(id)).owner))
        assert.isTrue(Option.isSome((yield* shared.find(other.id)).owner))
        full = true
        yield* left
        // this process knows that nobody here owns it
        yield* sessions.acquire(id, options)
        yield* TestClock.adjust("5 seconds")
        assert.isTrue(Option.isSome((yield* shared.find(id)).owner))
      })
  )

  it.scoped("a beat that the journal refuses is tried again, and is nothing that anybody is told", () =>
    Effect.gen(function* () {
      const shared = yield* journal
      const full = new JournalFull({ file: "memory", cause: new Error("no space") })
      let beats = 0
      const refusing = {
        ...shared,
        renew: () =>
          Effect.suspend(() =>
            Effect.zipRight(
              Effect.sync(() => beats++),
              Effect.fail(full)
            )
          )
      }
      const logged: Array<string> = []
      const keeping = Logger.replace(
        Logger.defaultLogger,
        Logger.make(({ logLevel }) => logged.push(logLevel.label))
      )
      const sessions = yield* Effect.provide(sessionsOf(refusing), keeping)
      yield* sessions.acquire(id, options)
      yield* TestClock.adjust("12 seconds")
      assert.deepStrictEqual([beats, logged], [2, []])
    })
  )

  it.scoped("J11: an id that may be created is not that of a session of another folder", () =>
    Effect.gen(function* () {
      const sessions = yield* sessionsOf(yield* journal)
      yield* Effect.scoped(
        Effect.gen(function* () {
          const session = yield* sessions.acquire(id, options)
          yield* session.append(() => [said("a")])
        })
      )
      const elsewhere = Effect.scoped(sessions.acquire(id, { ...options, cwd: "/elsewhere" }))
      const error = yield* Effect.flip(elsewhere)
      assert.deepInclude(error, { _tag: "SessionElsewhere", cwd: "/work" })
      const known = yield* Effect.scoped(sessions.acquire(id, { cwd: "/elsewhere", create: "never" }))
      assert.strictEqual(known.header.cwd, "/work")
    })
  )

  it.scoped("J11: a folder that moved is the same one by a link at its old place", () =>
    Effect.gen(function* () {
      const root = yield* Effect.acquireRelease(
        Effect.sync(() => realpathSync(mkdtempSync(join(tmpdir(), "daybook-moved-")))),
        (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
      )
      const [old, now] = [join(root, "old"), join(root, "now")]
      mkdirSync(old)
      const sessions = yield* sessionsOf(yield* journal)
      const opened = (cwd: string) =>
        Effect.scoped(
          Effect.gen(function* () {
            const session = yield* sessions.acquire(id, { cwd, create: "if-absent" })
            if (session.loadedHead === 0) yield* session.append(() => [said("a")])
            return session.header.cwd
          })
        )
      assert.strictEqual(yield* opened(old), old)
      renameSync(old, now)
      symlinkSync(now, old)
      assert.strictEqual(yield* opened(now), old)
      rmSync(old)
      mkdirSync(old)
      assert.strictEqual((yield* Effect.flip(opened(now)))._tag, "SessionElsewhere")
    })
  )

  it.scoped("J11: a folder that is given by a relative name is the one that it means now", () =>
    Effect.gen(function* () {
      const shared = yield* journal
      const session = yield* (yield* sessionsOf(shared)).acquire(id, { cwd: ".", create: "if-absent" })
      assert.strictEqual(session.header.cwd, process.cwd())
    })
  )
})
