/**
 * Sessions: taking one over and giving it back.
 *
 * - A session has one live owner (law 9). A second open fails; in this process it waits while the first one closes.
 * - Taking is: see that no owner lives, load, end what a dead one left running, compute the closing events, and store them
 *   together with the ownership in one transaction (law 8). If anything moved meanwhile, all of it is done again.
 * - Releasing makes everything durable, then gives the lease back. Until then the lease is renewed.
 */
import { isAbsolute } from "node:path"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { Scope } from "effect/Scope"
import {
  JournalBusy,
  JournalCorrupt,
  type JournalError,
  SeqConflict,
  SessionElsewhere,
  type SessionNotFound,
  SessionOwned
} from "../domain/Errors.ts"
import type { SessionId } from "../domain/Ids.ts"
import type { LeftOver, ReapReport } from "../domain/Repair.ts"
import * as closing from "../domain/Repair.ts"
import type * as SessionState from "../domain/SessionState.ts"
import { asOne } from "../internal/AsOne.ts"
import * as Journal from "../journal/Journal.ts"
import * as Leases from "./Leases.ts"
import { load } from "./Load.ts"
import * as Ownership from "./Ownership.ts"
import { Reaper } from "./Reaper.ts"
import * as Registry from "./Registry.ts"
import { Repair } from "./Repair.ts"
import * as Session from "./Session.ts"
import * as Writer from "./Writer.ts"

/** How often a take is tried again because the log moved. */
const maxTakes = 20

/** Why a session was not taken. Nothing was changed. */
export type AcquireError = SessionNotFound | SessionOwned | SessionElsewhere | JournalError

/** What to do about an id that is not stored. */
export interface AcquireOptions {
  /** The folder of a session that is created, or that may have been. */
  readonly cwd: string
  /** `never`: an unknown id fails, and a known one may be of any folder. `if-absent`: an unknown one is created. */
  readonly create: "never" | "if-absent"
  readonly parent?: SessionId
  readonly depth?: number
}

export class Sessions extends Context.Tag("daybook/session/Sessions")<
  Sessions,
  {
    /**
     * Takes a session until the scope closes. On return the log balances and is ours. Fails with `SessionOwned` while it
     * is live elsewhere, with `SessionNotFound` for an unknown id that is not to be created, with `SessionElsewhere` where
     * the id that might be created is that of a session of another folder (J11). Closing the scope makes everything durable
     * and gives the session back.
     */
    readonly acquire: (id: SessionId, options: AcquireOptions) => Effect.Effect<Session.Session, AcquireError, Scope>
  }
>() {}

const make = Effect.gen(function* () {
  const journal = yield* Journal.Journal
  const self = yield* Ownership.self
  const services: Services = {
    journal,
    repair: yield* Repair,
    reaper: yield* Reaper,
    files: yield* FileSystem.FileSystem,
    self
  }
  const clock = yield* Effect.clock
  const writer = yield* Writer.make(journal.append)
  const registry = yield* Registry.make
  yield* Leases.renewing(journal, self.token, registry)

  const acquire = Effect.fn("Sessions.acquire")(
    function* (id: SessionId, given: AcquireOptions) {
      const place = yield* Registry.reserve(registry, id, self)
      const options = { ...given, cwd: yield* absolute(services, given.cwd) }
      const taken = yield* Effect.retry(take(services, id, options), {
        times: maxTakes,
        while: (error) => error._tag === "SeqConflict"
      }).pipe(
        // owners came and went each time
        Effect.catchTag("SeqConflict", (cause) => Effect.fail(new JournalBusy({ file: journal.location, cause })))
      )
      const read = (from: number, limit: number) => journal.read(id, { from, limit })
      const leave = () => Registry.leave(place)
      const { end, session } = Session.make(taken, { writer, clock, read, leave })
      Registry.hold(place, { epoch: taken.epoch, unsafeLose: session.unsafeBreak })
      yield* Effect.addFinalizer(() =>
        Effect.suspend(() => {
          leave()
          return Effect.zipRight(Effect.ignore(session.barrier), end)
        })
      )
      return session
    },
    (acquiring) => asOne(acquiring)
  )

  return { acquire }
})

/** Sessions of this process over a journal. Leave every session's scope before this layer's. */
export const layer: Layer.Layer<Sessions, never, Journal.Journal | Repair | Reaper | FileSystem.FileSystem> =
  Layer.scoped(Sessions, make)

// internal

/** The groups that calls of the open step started and that no result tells about. */
const leftOvers = (state: SessionState.SessionState): ReadonlyArray<LeftOver> =>
  state.brackets.open?.step?.calls.flatMap((call) => (call.result === undefined ? call.processes : [])) ?? []

/**
 * What became of those groups. They are ended with their owner and no one else's: an owner that fell silent ends its own once
 * it finds out, and of a session that nobody owned the original may run, whose copy this is.
 */
const leftBehind = ({ reaper }: Services, stands: Ownership.Standing, processes: ReadonlyArray<LeftOver>) => {
  if (processes.length === 0) return Effect.succeed<ReapReport>([])
  return stands._tag === "Ended" ? reaper.reap(processes) : reaper.look(processes)
}

/** What taking a session needs. */
interface Services {
  readonly journal: Context.Tag.Service<Journal.Journal>
  readonly repair: Context.Tag.Service<Repair>
  readonly reaper: Context.Tag.Service<Reaper>
  readonly files: FileSystem.FileSystem
  readonly self: Ownership.Self
}

/** A folder by a name that means it from anywhere. */
const absolute = ({ files }: Services, cwd: string): Effect.Effect<string> =>
  isAbsolute(cwd) ? Effect.succeed(cwd) : Effect.orElseSucceed(files.realPath(cwd), () => cwd)

/** Whether two names mean one folder now. */
const isSameFolder = (files: FileSystem.FileSystem, one: string, other: string): Effect.Effect<boolean> =>
  one === other
    ? Effect.succeed(true)
    : Effect.orElseSucceed(
        Effect.zipWith(files.realPath(one), files.realPath(other), (a, b) => a === b),
        () => false
      )

/** The stored record; a new one where there is none and one may be created. */
const find = Effect.fnUntraced(function* ({ files, journal }: Services, id: SessionId, options: AcquireOptions) {
  const stored = journal.find(id)
  if (options.create === "never") return yield* stored
  const created = Effect.flatMap(Clock.currentTimeMillis, (now) =>
    journal.create({
      id,
      version: Journal.formatVersion,
      cwd: options.cwd,
      created: now,
      parent: Option.fromNullable(options.parent),
      seedLength: 0,
      depth: options.depth ?? 0
    })
  )
  const record = yield* Effect.catchTag(stored, "SessionNotFound", () => Effect.zipRight(created, stored))
  const { cwd } = record.header
  if (yield* isSameFolder(files, cwd, options.cwd)) return record
  return yield* new SessionElsewhere({ sessionId: id, cwd })
})

/** Takes ownership and stores the closing events, in one transaction. */
const own = Effect.fnUntraced(function* (
  { journal, repair, self }: Services,
  record: Journal.SessionRecord,
  loaded: SessionState.SessionState,
  report: ReapReport
) {
  const { after, events } = yield* Effect.orDieWith(
    // a policy whose events do not fit the log is a bug of that policy
    closing.closed(loaded, repair.closers(loaded, report)),
    (detail) => new Error(`repair does not fit: ${detail}`)
  )
  const since = yield* Clock.currentTimeMillis
  const epoch = yield* journal.take({
    id: record.header.id,
    head: loaded.head,
    epoch: record.epoch,
    events,
    summary: after.summary,
    owner: { ...self, since },
    leaseRead: record.leaseExpires,
    leaseExpires: since + Session.leaseMillis
  })
  return { header: record.header, epoch, found: loaded.head, state: after }
})

/** The log went on while it was read, or its events and its record disagree for good. */
const moved = Effect.fnUntraced(function* (
  journal: Context.Tag.Service<Journal.Journal>,
  record: Journal.SessionRecord,
  head: number
) {
  const { id } = record.header
  const now = yield* journal.find(id)
  if (now.head !== record.head) return yield* new SeqConflict({ sessionId: id, head: record.head })
  const detail = `it holds ${head} events, its record says ${record.head}`
  return yield* new JournalCorrupt({ file: journal.location, sessionId: id, detail, cause: undefined })
})

/** Takes a session until the scope closes. Fails with `SeqConflict` where it moved meanwhile. */
const take = Effect.fn("Sessions.take")(function* (services: Services, id: SessionId, options: AcquireOptions) {
  const { files, journal, self } = services
  const record = yield* find(services, id, options)
  const stands = yield* Effect.provideService(Ownership.standing(record), FileSystem.FileSystem, files)
  // what this layer owned before is its own: the registry says that it is not live any more
  if (stands._tag === "Live" && stands.owner.token !== self.token) {
    const { host, pid, since } = stands.owner
    return yield* new SessionOwned({ sessionId: id, host, pid, since })
  }
  const loaded = yield* load(journal, record)
  if (loaded.head !== record.head) return yield* moved(journal, record, loaded.head)
  // it may take a while, so it is no part of what cannot be interrupted
  const report = yield* leftBehind(services, stands, leftOvers(loaded))
  return yield* Effect.acquireRelease(own(services, record, loaded, report), ({ epoch }) =>
    Effect.ignore(journal.release(id, epoch))
  )
})
