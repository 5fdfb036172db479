/**
 * The scheduler: runs the calls of one answer, in groups.
 *
 * - Neighbouring parallel calls are a group and run together, at most `maxParallelToolCalls` at once; an exclusive call is a
 *   group of one. Each call's mode is read just before it starts, the limit when its group starts (E07). A call that is asked
 *   about counts for none of them: it holds no other one up (W14).
 * - No body runs before its `tool/call` is durable (law 6). What a body settles with is in the log at once, in its place in
 *   model order or as `tool/settled` before it (R7).
 * - Interrupted, it interrupts the calls and waits for them, their finalizers included; a body annotated to finish does so.
 *   When something else fails, nothing more starts, questions are taken back, and running bodies are awaited (R6). A pool
 *   of its own, because `Effect.forEach({ concurrency })` can hang when it is interrupted.
 */
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Brackets from "../domain/Brackets.ts"
import { SessionBroken } from "../domain/Errors.ts"
import type { SessionEvent, ToolOutcome } from "../domain/Event.ts"
import type { CallId } from "../domain/Ids.ts"
import type { ToolCallBlock } from "../domain/Message.ts"
import * as Results from "../domain/Results.ts"
import type { SessionState } from "../domain/SessionState.ts"
import type { Session } from "../session/Session.ts"
import { AgentLoop, type Settings } from "../settings/Settings.ts"
import * as Inquiry from "./Inquiry.ts"
import { defaultInlineCap } from "./Outputs.ts"
import type { Pipeline } from "./Pipeline.ts"
import * as Preview from "./Preview.ts"
import * as ToolCall from "./ToolCall.ts"
import type { Tools } from "./Tools.ts"

/** What the scheduler works with. */
export interface Services {
  readonly session: Session
  readonly tools: Context.Tag.Service<Tools>
  readonly pipeline: Context.Tag.Service<Pipeline>
  readonly settings: Context.Tag.Service<Settings>
}

type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

const hostOf = (
  session: Session,
  at: { readonly turn: number; readonly step: number },
  block: ToolCallBlock
): ToolCall.CallHost => ({
  sessionId: session.id,
  ...at,
  callId: block.callId,
  name: block.name,
  progress: (line) =>
    Effect.sync(() => {
      // what a body left behind may still tell something: nothing is shown of a call that is over
      if (Brackets.running(session.unsafeState().brackets).some(({ callId }) => callId === block.callId))
        session.unsafeNotify({ type: "tool-progress", callId: block.callId, text: line })
    }),
  recordProcess: (identity) =>
    Effect.zipRight(
      session.append(() => [{ type: "tool/process", data: { ...at, callId: block.callId, ...identity } }]),
      Effect.asVoid(session.barrier)
    )
})

/** How a call came out that was interrupted: never begun, or cut with whatever it had put out and left behind (R4). */
const interruptedOutcome = (notes: ToolCall.CallNotes): Effect.Effect<ToolOutcome> =>
  Effect.gen(function* () {
    if (!(yield* notes.started)) return Results.abortedBeforeDispatch
    const output = yield* notes.partialOutput
    const message = "Error: tool call aborted"
    // all that `bash` has to say, and of anything else its ends
    const shown =
      Preview.sizeOf(output) <= defaultInlineCap
        ? Option.some(output)
        : Preview.make(output, defaultInlineCap, (left) => `[${left} bytes of it are left out here]`)
    const aborted = Results.failure(
      "TOOL_ABORTED",
      output === "" ? message : `${message}. Its output until then:\n${Option.getOrElse(shown, () => "")}`,
      "AbortError"
    )
    const context = yield* notes.contexts
    return context.length === 0 ? aborted : { ...aborted, context }
  })

/** A success that came although the turn was cancelled is kept, and says so (R4). */
const marked = (outcome: ToolOutcome, cancelled: boolean): ToolOutcome =>
  cancelled && !outcome.isError ? { ...outcome, meta: { ...outcome.meta, finishedAfterCancel: true } } : outcome

/** A settled call joins the log: with its result if its place has come, and those that waited for it; else as settled. */
const settled =
  (block: ToolCallBlock, outcome: ToolOutcome) =>
  (state: SessionState): ReadonlyArray<SessionEvent> => {
    const step = state.brackets.open?.step
    if (step === undefined) return []
    const first = step.calls.find(Brackets.isUnanswered)
    if (first?.block.callId !== block.callId)
      return [{ type: "tool/settled", data: { turn: step.turn, step: step.step, callId: block.callId, outcome } }]
    return Results.answerCalls(state, (call) =>
      call.block.callId === block.callId ? outcome : Results.settledOutcome(call)
    )
  }

/** The pool of one answer. */
const makePool = (
  services: Services,
  at: { readonly turn: number; readonly step: number },
  restore: Restore,
  cancelled: () => boolean
) => {
  const { pipeline, session } = services
  const running = new Map<CallId, Fiber.RuntimeFiber<void, SessionBroken>>()
  /** Those of them that are asked about, or that wait for a slot since. */
  const aside = new Set<CallId>()
  const changed = Effect.unsafeMakeLatch(false)
  /** How many slots there are. */
  let slots = 0
  let fault: Cause.Cause<SessionBroken> = Cause.empty
  let concluded = false

  const hasRoom = () => running.size - aside.size < slots

  /** Returns once it is so; it is looked at whenever a call ends or steps aside. */
  const until = (isSo: () => boolean): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (isSo()) return Effect.void
      changed.unsafeClose()
      return Effect.zipRight(changed.await, until(isSo))
    })

  const slotOf = ({ callId }: ToolCallBlock): Inquiry.Slot => ({
    leave: Effect.sync(() => {
      aside.add(callId)
      changed.unsafeOpen()
    }),
    enter: Effect.suspend(() => Effect.map(until(hasRoom), () => void aside.delete(callId)))
  })

  const runCall = (block: ToolCallBlock) =>
    Effect.gen(function* () {
      const { call, notes } = yield* ToolCall.make(hostOf(session, at, block))
      const inquiry = Inquiry.make(session, at, block, slotOf(block))
      const exit = yield* Effect.exit(
        Effect.provideService(pipeline.run(block, notes, inquiry), ToolCall.ToolCall, call)
      )
      // the pipeline makes a result of every failure: what is left is an interrupt, or a fault of its own
      if (Exit.isFailure(exit) && !Cause.isInterruptedOnly(exit.cause)) return yield* Effect.failCause(exit.cause)
      // its question was taken back because another call broke: nothing is made up for it (R6)
      if (Exit.isFailure(exit) && !Cause.isEmpty(fault) && !cancelled()) return
      const outcome = Exit.isSuccess(exit) ? marked(exit.value, cancelled()) : yield* interruptedOutcome(notes)
      if (outcome.meta?.["concludes"] === true) concluded = true
      yield* session.append(settled(block, outcome))
      // others may run for long; a cancel is over soon, and its end waits for all
      if (running.size > 1 && !cancelled()) yield* session.hurry
    })

  const launch = (block: ToolCallBlock) =>
    Effect.map(Effect.fork(runCall(block)), (fiber) => {
      running.set(block.callId, fiber)
      fiber.addObserver((exit) => {
        running.delete(block.callId)
        aside.delete(block.callId)
        if (Exit.isFailure(exit)) fault = exit.cause
        changed.unsafeOpen()
      })
    })

  /** Announces these calls in one append, waits until that is durable, and starts them. */
  const start = (blocks: ReadonlyArray<ToolCallBlock>) =>
    Effect.gen(function* () {
      yield* session.append(() =>
        blocks.map(({ arguments: raw, callId, name }) => ({
          type: "tool/call",
          data: { ...at, callId, name, arguments: raw }
        }))
      )
      yield* restore(session.barrier)
      yield* Effect.forEach(blocks, launch, { discard: true })
    })

  /** Returns once it is so, or fails as one of the calls did. */
  const unlessBroken = (isSo: () => boolean): Effect.Effect<void, SessionBroken> =>
    Effect.zipRight(
      restore(until(() => isSo() || !Cause.isEmpty(fault))),
      Effect.suspend(() => Effect.failCause(fault)).pipe(Effect.when(() => !Cause.isEmpty(fault)))
    )

  /** Waits for every call. First it interrupts all of them, or those alone whose body has not begun. */
  const drain = (whom: "all" | "aside") =>
    Effect.suspend(() => {
      const stopped = [...running].flatMap(([id, fiber]) => (whom === "all" || aside.has(id) ? [fiber] : []))
      return Effect.zipRight(
        Effect.forEach(stopped, Fiber.interruptFork, { discard: true }),
        Effect.forEach([...running.values()], Fiber.await, { discard: true })
      )
    })

  return {
    /** Opens a group with so many slots. */
    open: (limit: number) => {
      slots = limit
    },
    /** How many calls may start now. */
    free: () => Math.max(0, slots - (running.size - aside.size)),
    start,
    /** Returns once a call may start, or none is left that one could wait for. */
    room: unlessBroken(() => hasRoom()),
    done: unlessBroken(() => running.size === 0),
    drain,
    fault: () => fault,
    concluded: () => concluded
  }
}

const isParallel = (services: Services, block: ToolCallBlock): boolean =>
  Option.exists(services.tools.find(block.name), (tool) => tool.isParallel(block.arguments))

/**
 * Runs the calls of the open step's answer. On return each has its result in the log; true if one of them asked to
 * conclude the turn. On failure or interruption every started call is settled, and the turn closes the rest.
 */
export const run = (
  services: Services,
  at: { readonly turn: number; readonly step: number },
  cancelled: () => boolean
): Effect.Effect<boolean, SessionBroken> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const { session, settings } = services
      const blocks = session.unsafeState().brackets.open?.step?.calls.map((call) => call.block) ?? []
      const pool = makePool(services, at, restore, cancelled)
      let next = 0

      /** The parallel calls that may start now, given how many more have room. */
      const takeParallel = (free: number): ReadonlyArray<ToolCallBlock> => {
        const pass: Array<ToolCallBlock> = []
        for (let block = blocks[next]; block !== undefined && pass.length < free; block = blocks[next]) {
          if (!isParallel(services, block)) break
          pass.push(block)
          next++
        }
        return pass
      }

      const runGroup = Effect.gen(function* () {
        const limit = (yield* settings.get(AgentLoop)).maxParallelToolCalls
        pool.open(limit)
        let pass = takeParallel(limit)
        if (pass.length === 0) {
          pool.open(1)
          const alone = blocks.slice(next, next + 1)
          next++
          yield* pool.start(alone)
        }
        while (pass.length > 0) {
          yield* pool.start(pass)
          yield* pool.room
          pass = takeParallel(pool.free())
        }
        yield* pool.done
      })

      const exit = yield* Effect.exit(
        Effect.whileLoop({ while: () => next < blocks.length, body: () => runGroup, step: () => {} })
      )
      if (Exit.isSuccess(exit)) return pool.concluded()
      const broken = Option.exists(Cause.failureOption(exit.cause), (error) => error instanceof SessionBroken)
      yield* pool.drain(broken || Cause.isInterruptedOnly(exit.cause) ? "all" : "aside")
      // a fault while a cancel was waited for is one all the same (R6)
      return yield* Effect.failCause(Cause.parallel(exit.cause, pool.fault()))
    })
  )
