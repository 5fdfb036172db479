/**
 * The writer: one fiber that makes the appends of all sessions durable.
 *
 * - It turns to the journal as soon as somebody waits for that, else a moment after the first append, so that what is
 *   appended together is committed together. What waits then goes in one commit; each session is judged alone.
 * - A session's events become durable in order, and are told of only after their commit.
 * - A failed write breaks its session and no other; the journal itself retries a busy database.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import type { Scope } from "effect/Scope"
import type { JournalError, SeqConflict, SessionFenced } from "../domain/Errors.ts"
import * as Metrics from "../internal/Metrics.ts"
import type { Append } from "../journal/Journal.ts"

/** A session as the writer sees it. All of it is synchronous. */
export interface Client {
  /** All events that wait, and the summary after them; none after a failure. How many there can be is the client's to bound. */
  readonly waiting: () => Append | undefined
  /** What it gave last is stored. */
  readonly stored: () => void
  /** The write failed; nothing more is asked of this client. */
  readonly failed: (cause: unknown) => void
}

export interface Writer {
  /** Something is to be stored, in a moment. Never waits itself. */
  readonly unsafeWake: (client: Client) => void
  /** Somebody waits for what is to be stored: it is time. Never waits itself. */
  readonly unsafeHurry: () => void
}

/** How long an append may wait for others to share its commit. */
export const lingerMillis = 2

const gone = "the journal was closed while the session was open"

type Verdicts = ReadonlyArray<Either.Either<number, SeqConflict | SessionFenced>>

type Store = (batches: ReadonlyArray<Append>) => Effect.Effect<Verdicts, JournalError>

interface Turn {
  readonly client: Client
  readonly append: Append
}

/** Starts the writer; it stops with the scope, after the commit under way. What waits by then, or comes later, has failed. */
export const make = (store: Store): Effect.Effect<Writer, never, Scope> =>
  Effect.gen(function* () {
    const dirty = new Set<Client>()
    let stopped = false
    /** Open while something is to be stored, and while it is time to. */
    const waiting = yield* Effect.makeLatch(false)
    const due = yield* Effect.makeLatch(false)

    const collect = (): ReadonlyArray<Turn> => {
      const turns: Array<Turn> = []
      for (const client of dirty) {
        const append = client.waiting()
        if (append !== undefined) turns.push({ client, append })
      }
      dirty.clear()
      waiting.unsafeClose()
      due.unsafeClose()
      return turns
    }

    const tell = (client: Client, index: number, exit: Exit.Exit<Verdicts, JournalError>) => {
      if (Exit.isFailure(exit)) return client.failed(Cause.squash(exit.cause))
      const verdict = exit.value[index]
      if (verdict === undefined) return client.failed(new Error("the journal gave no verdict on this session"))
      return Either.match(verdict, { onLeft: client.failed, onRight: client.stored })
    }

    /** A client that throws breaks, and does not take the writer of all the others with it. */
    const settle = (turns: ReadonlyArray<Turn>, exit: Exit.Exit<Verdicts, JournalError>) => {
      if (Exit.isSuccess(exit)) Metrics.unsafeAdd(Metrics.commits, 1)
      return Effect.forEach(
        turns,
        ({ client }, index) =>
          Effect.catchAllDefect(
            Effect.sync(() => tell(client, index, exit)),
            (defect) => Effect.sync(() => client.failed(defect))
          ),
        { discard: true }
      )
    }

    const commit = Effect.suspend(() => {
      const turns = collect()
      if (turns.length === 0) return Effect.void
      const stored = Effect.exit(Effect.suspend(() => store(turns.map((turn) => turn.append))))
      return Effect.flatMap(stored, (exit) => settle(turns, exit))
    })

    // added first, so it runs last
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        stopped = true
        for (const client of dirty) client.failed(new Error(gone))
      })
    )
    yield* Effect.forkScoped(
      Effect.uninterruptibleMask((restore) => Effect.forever(Effect.zipRight(restore(due.await), commit)))
    )
    const linger = Effect.all([waiting.await, waiting.close, Effect.sleep(lingerMillis), due.open], { discard: true })
    yield* Effect.forkScoped(Effect.forever(linger))
    return {
      unsafeWake: (client) => {
        if (stopped) return client.failed(new Error(gone))
        dirty.add(client)
        waiting.unsafeOpen()
      },
      unsafeHurry: () => {
        due.unsafeOpen()
      }
    }
  })
