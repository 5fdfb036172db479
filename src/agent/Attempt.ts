/**
 * One attempt at an answer: the stream of chunks on its way into the log.
 *
 * - Deltas are shown at once; the log gets them in runs, a run 50 ms after its first delta at the latest.
 * - What is pending joins the log before anything that follows it, also when the stream is cut.
 * - What came of a failed attempt never becomes an answer (D14, O08).
 */
import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Answer from "../domain/Answer.ts"
import { attemptOf } from "../domain/Brackets.ts"
import * as Chunks from "../domain/Chunk.ts"
import type { SessionBroken } from "../domain/Errors.ts"
import { type EventOf, type SessionEvent, sources } from "../domain/Event.ts"
import type { SessionState } from "../domain/SessionState.ts"
import * as Metrics from "../internal/Metrics.ts"
import { ChatError } from "../model/ChatModel.ts"
import type { Session } from "../session/Session.ts"

/** How long shown text may wait before it joins the log. */
export const runMillis = 50

/** An attempt under way. It is filled in place by `receive`; whoever closes the step reads it afterwards. */
export interface Attempt {
  readonly place: Answer.Place
  readonly assembly: Answer.Assembly
  readonly runs: Chunks.RunBuffer
  /** Set once its stream has failed, by whoever received it. */
  hasFailed: boolean
}

export const make = (place: Answer.Place): Attempt => ({
  place,
  assembly: Answer.make(),
  runs: Chunks.emptyRuns(),
  hasFailed: false
})

const received = (attempt: Attempt, runs: ReadonlyArray<Chunks.RunChunk>): ReadonlyArray<SessionEvent> =>
  runs.map((chunk) => ({
    type: "assistant/chunk",
    data: { turn: attempt.place.turn, step: attempt.place.step, chunk }
  }))

const isDelta = (chunk: Chunks.ChatChunk): boolean =>
  chunk.type === "text" || chunk.type === "reasoning" || chunk.type === "tool-call"

const saysNothing = (chunk: Chunks.ChatChunk): boolean =>
  (chunk.type === "text" || chunk.type === "reasoning") && chunk.text === ""

/** Takes chunks in and shows them; the runs that are complete. What comes for a closed block is neither shown nor kept. */
const take = (
  attempt: Attempt,
  chunks: Chunk.Chunk<Chunks.ChatChunk>,
  show: (chunk: Chunks.ChatChunk) => void
): ReadonlyArray<Chunks.RunChunk> => {
  const ended: Array<Chunks.RunChunk> = []
  for (const chunk of chunks) {
    if (saysNothing(chunk) || !Answer.add(attempt.assembly, chunk)) continue
    show(chunk)
    if (chunk.type === "end" || chunk.type === "finish") ended.push(...Chunks.endRun(attempt.runs))
    else ended.push(...Chunks.pushDelta(attempt.runs, chunk))
  }
  return ended
}

/** Ends a run 50 ms after its first delta, however slow the stream is. */
const clockwork = (session: Session, attempt: Attempt, pending: Effect.Latch) =>
  Effect.forever(
    Effect.zipRight(
      pending.await,
      Effect.gen(function* () {
        yield* Effect.sleep(runMillis)
        pending.unsafeClose()
        yield* session.append(() => received(attempt, Chunks.cutRun(attempt.runs)))
        yield* session.hurry
      })
    )
  )

const messageOf = (defect: unknown): string => (defect instanceof Error ? defect.message : String(defect))

/** Why a stream gave no more: its end, or a failure. One that dies, or was interrupted by nobody here, has failed (D15, O09). */
const stopped = (cause: Cause.Cause<Option.Option<ChatError>>): Effect.Effect<Option.Option<never>, ChatError> =>
  Option.match(Cause.failureOption(cause), {
    onNone: () => {
      const defect = Cause.squash(cause)
      return Effect.fail(new ChatError({ reason: "UNKNOWN", message: messageOf(defect), cause: defect }))
    },
    onSome: Option.match({ onNone: () => Effect.succeedNone, onSome: Effect.fail })
  })

/** What a faulty adapter sends is a failure of the model, and never reaches the log. */
const checked = (chunks: Chunk.Chunk<Chunks.ChatChunk>): Effect.Effect<void, ChatError> =>
  Chunk.every(chunks, Chunks.isChunk)
    ? Effect.void
    : Effect.fail(new ChatError({ reason: "MALFORMED", message: "the model's adapter sent what is no chunk" }))

/**
 * Receives the stream to its end. Fails as the stream does; a stream that dies is a failure like any other (D15). When it
 * is interrupted, what came so far is in `attempt`, and what is not yet in the log is its open run.
 */
export const receive = (
  session: Session,
  attempt: Attempt,
  stream: Stream.Stream<Chunks.ChatChunk, ChatError>
): Effect.Effect<void, ChatError | SessionBroken> =>
  Effect.scoped(
    Effect.gen(function* () {
      const { step, turn } = attempt.place
      const show = (chunk: Chunks.ChatChunk) => session.unsafeNotify({ type: "delta", turn, step, chunk })
      const next = Effect.catchAllCause(Effect.asSome(yield* Stream.toPull(stream)), stopped)
      const pending = yield* Effect.makeLatch(false)
      /** The clock is started late: most answers that call tools come in few pieces, and never need it. */
      let isTicking = false
      for (;;) {
        const came = yield* next
        if (Option.isNone(came)) return
        yield* checked(came.value)
        Metrics.unsafeAdd(Metrics.deltas, Chunk.filter(came.value, isDelta).length)
        const ended = take(attempt, came.value, show)
        if (ended.length > 0) yield* session.append(() => received(attempt, ended))
        if (attempt.runs.open === undefined) continue
        pending.unsafeOpen()
        // it fails only when the session is broken, and then the next append fails too
        if (!isTicking) yield* Effect.forkScoped(Effect.ignore(clockwork(session, attempt, pending)))
        isTicking = true
      }
    })
  )

/** The pending run, and what is made of all chunks of the attempt: it cites these seqs. */
const withRun = (
  attempt: Attempt,
  state: SessionState,
  answer: (cited: ReadonlyArray<number>) => ReadonlyArray<SessionEvent>
): ReadonlyArray<SessionEvent> => {
  const runs = received(attempt, Chunks.endRuns(attempt.runs))
  const stored = attemptOf(state.brackets).map((event) => event.seq)
  return [...runs, ...answer([...stored, ...runs.map((_, index) => state.head + index)])]
}

/** The pending run and the whole answer, which cites its own attempt's chunks. */
export const answered = (attempt: Attempt, state: SessionState): ReadonlyArray<SessionEvent> =>
  withRun(attempt, state, (cited) => [
    {
      type: "assistant/message",
      data: {
        turn: attempt.place.turn,
        step: attempt.place.step,
        message: Answer.message(attempt.assembly, attempt.place),
        ...Answer.usageOf(attempt.assembly),
        finish: attempt.assembly.finish ?? "stop"
      },
      sourceEventSeqs: sources(cited)
    }
  ])

/** The pending run and, if anything readable came before a cancel, the answer so far, marked as interrupted. */
export const interrupted = (attempt: Attempt, state: SessionState): ReadonlyArray<SessionEvent> =>
  attempt.hasFailed
    ? failed(attempt)
    : withRun(attempt, state, (cited) => Answer.interrupted(attempt.assembly, attempt.place, cited))

/** The pending run alone: what a failed attempt leaves (D14). */
export const failed = (attempt: Attempt): ReadonlyArray<SessionEvent> => received(attempt, Chunks.endRuns(attempt.runs))

/**
 * The pending run, and that another attempt follows. To be appended as one: where the log has all that came of a failed
 * attempt, it has that it failed, and no repair takes it for half an answer.
 */
export const retried = (
  attempt: Attempt,
  retry: Pick<EventOf<"request/retry">["data"], "attempt" | "delayMillis" | "failure">
): ReadonlyArray<SessionEvent> => [
  ...failed(attempt),
  {
    type: "request/retry",
    data: { turn: attempt.place.turn, step: attempt.place.step, ...retry, ...Answer.usageOf(attempt.assembly) }
  }
]
