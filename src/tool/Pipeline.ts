/**
 * The pipeline: runs one call, from the text that a model wrote to the outcome that the log keeps (F01).
 *
 *   lookup, arguments -> before hooks -> approval -> body -> after hooks -> content
 *
 * - Every failure on the way is an error result. Only the interruption of the call leaves `run` otherwise: it is no result,
 *   but for a body that was past its point of no return.
 * - What is wrong with a call itself (no such tool, bad arguments) is known before anyone is asked, and even if the call was
 *   cancelled already (F11). Arguments are decoded once, and the body sees them frozen.
 * - `run` opens its own interruptible windows: up to the body, and the body itself unless its tool lets it finish. So it is
 *   forked while uninterruptible, and not restored: what a body returned before the cancel reached it is then kept (R4).
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FiberRef from "effect/FiberRef"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { isAllowance } from "../domain/Brackets.ts"
import type { ToolOutcome } from "../domain/Event.ts"
import { type TextBlock, type ToolCallBlock, text } from "../domain/Message.ts"
import { apart } from "../internal/Apart.ts"
import { boundary } from "../internal/Cut.ts"
import { deepFreeze, wellFormed } from "../internal/Json.ts"
import { type ApprovalPolicy, Approvals, stricter } from "./Approvals.ts"
import { type Answerer, Approver, type Question } from "./Approver.ts"
import * as Arguments from "./Arguments.ts"
import * as Inquiry from "./Inquiry.ts"
import * as Outcomes from "./Outcomes.ts"
import * as Outputs from "./Outputs.ts"
import * as Preview from "./Preview.ts"
import { type CallNotes, type PendingCall, ToolCall } from "./ToolCall.ts"
import * as ToolHooks from "./ToolHooks.ts"
import { HandlerFailed, type RegisteredTool, Tools } from "./Tools.ts"

export class Pipeline extends Context.Tag("daybook/tool/Pipeline")<
  Pipeline,
  {
    /**
     * Runs a call to its outcome, which is frozen; `notes` are those of the `ToolCall` in the context, and `inquiry` asks
     * about it where somebody must be asked. Never fails. Where it is interrupted, `notes` tells whether the body was entered
     * and what it had put out.
     */
    readonly run: (
      block: ToolCallBlock,
      notes: CallNotes,
      inquiry: Inquiry.Inquiry
    ) => Effect.Effect<ToolOutcome, never, ToolCall>
  }
>() {}

const make = Effect.gen(function* () {
  const tools = yield* Tools
  const outputs = yield* Outputs.Outputs
  const hooks = yield* ToolHooks.ToolHooks
  const judges = { hooks, approvals: yield* Approvals, approver: yield* Approver }
  return Pipeline.of({
    run: Effect.fn("Pipeline.run")(function* (block, notes, inquiry) {
      yield* Effect.annotateCurrentSpan("callId", block.callId)
      const found = tools.find(block.name)
      if (Option.isNone(found)) return finished(Outcomes.unknownTool(block.name, tools.specs))
      const tool = found.value
      yield* Effect.annotateCurrentSpan("tool", tool.spec.name)
      const args = yield* Arguments.decode(tool, block.arguments)
      if ("problem" in args) return finished(Outcomes.invalidArguments(block, args.problem))
      const { callId, sessionId, step, turn } = yield* ToolCall
      const { annotations, name } = tool.spec
      const call: PendingCall = deepFreeze({ sessionId, turn, step, callId, name, arguments: args.json, annotations })

      const refused = yield* Effect.interruptible(refusal(judges, call, inquiry))
      if (Option.isSome(refused) && !refused.value.seen) return finished(refused.value.outcome)
      const outcome = Option.isSome(refused) ? refused.value.outcome : yield* runBody(tool, args.decoded, notes)
      const { keepContext, outcome: kept } = yield* reviewed(hooks, call, finished(outcome))
      const concludes = !kept.isError && (yield* notes.concludes)
      const context = keepContext ? yield* notes.contexts : []
      return finished({
        ...kept,
        content: yield* fitted(outputs, call, kept),
        ...(concludes ? { meta: { ...kept.meta, concludes } } : {}),
        ...(context.length === 0 ? {} : { context })
      })
    }, Effect.uninterruptible)
  })
})

export const layer: Layer.Layer<Pipeline, never, Tools> = Layer.effect(Pipeline, make)

// internal

/** Who is heard before a call may run. */
interface Judges {
  readonly hooks: ToolHooks.ToolHookChain
  readonly approvals: ApprovalPolicy
  readonly approver: Answerer
}

/** None if the call may run, else its outcome, and whether the after hooks see that. */
const refusal = Effect.fnUntraced(function* (judges: Judges, call: PendingCall, inquiry: Inquiry.Inquiry) {
  const before = yield* outcomeOf(
    Effect.suspend(() => ToolHooks.judge(judges.hooks, call)),
    Outcomes.beforeHookFailed
  )
  if ("failed" in before) return Option.some({ outcome: before.failed, seen: false })
  if (before.done._tag === "Deny") return Option.some({ outcome: Outcomes.denied(before.done.reason), seen: true })
  const judged = yield* outcomeOf(
    Effect.suspend(() => judges.approvals.judge(call)),
    Outcomes.approvalFailed
  )
  if ("failed" in judged) return Option.some({ outcome: judged.failed, seen: true })
  const judgement = stricter(before.done, judged.done)
  switch (judgement._tag) {
    case "Allow":
      return Option.none()
    case "Deny":
      return Option.some({ outcome: Outcomes.denied(judgement.reason), seen: true })
    case "Ask": {
      if (yield* inquiry.isAllowed) return Option.none()
      const { reason } = judgement
      const answer = answerOf(judges.approver, { call, ...(reason === undefined ? {} : { reason }) })
      const asked = yield* outcomeOf(inquiry.ask(answer), Outcomes.approvalFailed)
      if ("failed" in asked) return Option.some({ outcome: asked.failed, seen: true })
      if (isAllowance(asked.done.decision)) return Option.none()
      return Option.some({ outcome: Outcomes.denied(asked.done.reason), seen: true })
    }
    default:
      return judgement satisfies never
  }
})

/** What the approver's answer decides; one who fails, dies or says what is no answer decides nothing (F05). */
const answerOf = (approver: Answerer, question: Question): Effect.Effect<Inquiry.Decided> =>
  Effect.map(
    outcomeOf(
      Effect.map(
        Effect.suspend(() => approver.ask(question)),
        Inquiry.decidedBy
      ),
      (error) => Inquiry.unavailable(Outcomes.messageOf(error))
    ),
    (told) => ("done" in told ? told.done : told.failed)
  )

/** The outcome of the body alone: its success as text, or its failure. */
const runBody = Effect.fnUntraced(function* (tool: RegisteredTool, args: unknown, notes: CallNotes) {
  const handled = tool.handle(args, notes.unsafeStart)
  const body =
    tool.onCancel === "finish"
      ? // one that was cancelled by now is not begun
        Effect.zipRight(Effect.interruptible(Effect.void), apart(handled))
      : keeping(inOwnFiber(handled), notes)
  const result = yield* outcomeOf(body, (error) =>
    Outcomes.bodyFailed(error instanceof HandlerFailed ? error.error : error)
  )
  if ("failed" in result) return result.failed
  const output = Effect.suspend(() => Effect.map(tool.encode(result.done), Outcomes.outputText))
  const encoded = yield* outcomeOf(output, Outcomes.invalidOutput)
  return "failed" in encoded ? encoded.failed : Outcomes.success(encoded.done)
})

/**
 * Runs a body in a fiber of its own, and comes to its exit once its children and their finalizers have ended too: a `race`
 * that is interrupted from outside does not wait for them by itself.
 */
const inOwnFiber = <A, E, R>(body: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Effect.fork(Effect.interruptible(body)), (fiber) =>
    Effect.interruptible(Fiber.await(fiber)).pipe(
      Effect.onInterrupt(() => Fiber.interruptFork(fiber)),
      Effect.exit,
      Effect.zipRight(Fiber.await(fiber)),
      Effect.flatten
    )
  )

/** A body that was interrupted past its point of no return came to what it finished with. */
const keeping = <R>(
  body: Effect.Effect<unknown, HandlerFailed, R>,
  notes: CallNotes
): Effect.Effect<unknown, HandlerFailed, R> =>
  Effect.flatMap(Effect.zip(Effect.exit(body), notes.finished), ([exit, finished]) =>
    Exit.isFailure(exit) && Cause.isInterrupted(exit.cause) && Option.isSome(finished)
      ? Exit.mapError(finished.value, (error) => new HandlerFailed({ error }))
      : exit
  )

/** An outcome under review, and whether what the body left for the next step stays with it. */
interface Reviewed {
  readonly outcome: ToolOutcome
  readonly keepContext: boolean
}

/** The outcome as the after hooks leave it. */
const reviewed = Effect.fnUntraced(function* (
  { chain }: ToolHooks.ToolHookChain,
  call: PendingCall,
  outcome: ToolOutcome
) {
  let current: Reviewed = { outcome, keepContext: true }
  for (const { after } of chain) {
    if (after === undefined) continue
    const before = current
    const decided = Effect.suspend(() => after(call, before.outcome))
    const next = yield* outcomeOf(
      apart(Effect.map(decided, (decision) => reviewedBy(decision, before))),
      Outcomes.afterHookFailed
    )
    if ("failed" in next) return { outcome: next.failed, keepContext: false }
    current = next.done
  }
  return current
})

/** Throws on a content that is none. */
const reviewedBy = (decision: ToolHooks.After, { keepContext, outcome }: Reviewed): Reviewed => {
  switch (decision._tag) {
    case "Accept":
      return { outcome, keepContext }
    case "Replace":
      return { outcome: finished({ ...outcome, content: decision.content }), keepContext }
    case "Block":
      return { outcome: finished(Outcomes.blocked(decision.feedback)), keepContext: false }
    default:
      return decision satisfies never
  }
}

/** The content as it is shown: what is too long is kept in a file, if it can be, and shown in part (F20). */
const fitted = Effect.fnUntraced(function* (
  outputs: Outputs.OutputStore,
  { callId, sessionId }: PendingCall,
  { content }: ToolOutcome
) {
  const whole = content.map((block) => block.text).join("\n")
  const total = Preview.sizeOf(whole)
  if (total <= outputs.inlineCap) return content
  return yield* Outputs.keep(outputs, { sessionId, callId, name: "result" }, piecesOf(whole)).pipe(
    Effect.map((path) =>
      Preview.make(
        whole,
        Math.min(outputs.inlineCap, maxPreview),
        (left) => `[${left} of ${total} bytes are left out here; the whole of it is in ${path}]`
      )
    ),
    Effect.map(Option.match({ onNone: () => content, onSome: (shown) => [text(shown)] })),
    Effect.catchTag("OutputUnavailable", ({ message }) =>
      Effect.as(Effect.logWarning(`the result of ${callId} is longer than is shown, but ${message}`), content)
    )
  )
})

/** How much is shown of a result that is too long, in bytes. */
const maxPreview = 32_000

/** How much of a text is encoded at once, in characters. */
const pieceLength = 65_536

/** A well-formed text as bytes, a piece at a time. */
const piecesOf = (whole: string): Stream.Stream<Uint8Array> =>
  Stream.unfold(0, (at) => {
    if (at >= whole.length) return Option.none()
    const next = boundary(whole, at + pieceLength)
    return Option.some([new TextEncoder().encode(whole.slice(at, next)), next])
  })

type Outcome<A, B> = { readonly done: A } | { readonly failed: B }

/**
 * What an effect came to: failures and defects are described. The interruption of the call is not: it passes. An effect
 * that interrupts itself, where nobody cancelled the call, has failed.
 */
const outcomeOf = <A, E, R, B>(
  effect: Effect.Effect<A, E, R>,
  describe: (error: unknown) => B
): Effect.Effect<Outcome<A, B>, never, R> =>
  Effect.flatMap(Effect.exit(effect), (exit): Effect.Effect<Outcome<A, B>> => {
    if (Exit.isSuccess(exit)) return Effect.succeed({ done: exit.value })
    const { cause } = exit
    return Effect.flatMap(FiberRef.get(FiberRef.interruptedCause), (interruption) => {
      if (Cause.isInterruptedOnly(cause))
        return Cause.isEmpty(interruption)
          ? Effect.succeed({ failed: describe(new Error("it was interrupted from inside: nobody cancelled the call")) })
          : Effect.failCause(Cause.stripFailures(cause))
      // an interrupted body whose finalizer broke was interrupted all the same
      if (Cause.isInterrupted(cause) && !Cause.isEmpty(interruption))
        return Effect.zipRight(
          Effect.logWarning("a tool call failed while it was interrupted", cause),
          Effect.failCause(interruption)
        )
      return Effect.succeed({ failed: describe(Cause.squash(cause)) })
    })
  })

/** Well-formed, and frozen: from here on nobody changes it. */
const finished = (outcome: ToolOutcome): ToolOutcome =>
  deepFreeze({ ...outcome, content: outcome.content.map((block): TextBlock => text(wellFormed(block.text))) })
