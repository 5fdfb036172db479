/**
 * The calls of one answer under simulation: who starts, settles and is answered when is the tape's choice, within what the
 * laws allow.
 */
import type { ToolOutcome } from "../../src/domain/Event.ts"
import { type CallId, MessageId } from "../../src/domain/Ids.ts"
import { type TextBlock, type ToolCallBlock, text } from "../../src/domain/Message.ts"
import type { LogWorld, Way } from "./LogWorld.ts"

/** A call of the open step, as far as it has come. */
interface Running {
  readonly block: ToolCallBlock
  started?: number
  asked: boolean
  refused: boolean
  settled?: { readonly seq: number; readonly outcome: ToolOutcome }
  done: boolean
}

const outcome = (content: ReadonlyArray<TextBlock>, code?: string): ToolOutcome => ({
  content,
  isError: code !== undefined,
  ...(code === undefined ? {} : { error: { name: "ToolError", code } })
})

const bodyOutcome = (world: LogWorld, call: Running): ToolOutcome => {
  if (call.refused) return outcome([text("Error: denied")], "TOOL_DENIED")
  const content = world.rarely(5) ? [] : [text(world.word()), ...(world.rarely(4) ? [text(world.word())] : [])]
  const told = world.rarely(5)
    ? outcome(content, world.pick(["UNKNOWN", "INVALID_ARGS", "TOOL_TIMEOUT"]))
    : outcome(content)
  const concludes = !told.isError && world.rarely(12) ? { meta: { concludes: true } } : {}
  const context = world.rarely(6) ? { context: [world.message("context")] } : {}
  return { ...told, ...concludes, ...context }
}

/** The calls of one answer: who starts, settles and is answered when is the tape's choice, within what R7 allows. */
export const simulateCalls = (
  world: LogWorld,
  at: { readonly turn: number; readonly step: number },
  blocks: ReadonlyArray<ToolCallBlock>
): { readonly way: Way; readonly concluded: boolean } => {
  const calls = blocks.map((block): Running => ({ block, asked: false, refused: false, done: false }))
  const group = new CallGroup(world, at, calls)
  while (calls.some((call) => !call.done)) {
    world.interject(20)
    switch (world.draw(40)) {
      case 1:
        return { way: group.leave("error"), concluded: false }
      case 2:
        return { way: group.leave("cancel"), concluded: false }
      case 3:
        return { way: group.leave("crash"), concluded: false }
      default:
        group.advance()
    }
  }
  return { way: "on", concluded: group.concluded }
}

class CallGroup {
  concluded = false
  readonly world: LogWorld
  readonly at: { readonly turn: number; readonly step: number }
  readonly calls: ReadonlyArray<Running>

  constructor(world: LogWorld, at: { readonly turn: number; readonly step: number }, calls: ReadonlyArray<Running>) {
    this.world = world
    this.at = at
    this.calls = calls
  }

  place(call: Running): { readonly turn: number; readonly step: number; readonly callId: CallId } {
    return { ...this.at, callId: call.block.callId }
  }

  /** One thing happens to one call. */
  advance(): void {
    const { calls, world } = this
    const running = calls.filter((call) => call.started !== undefined && !call.done && call.settled === undefined)
    const next = calls.find((call) => call.started === undefined)
    if (next !== undefined && (running.length === 0 || world.rarely(2))) this.start(next)
    else this.goOn(world.pick(running))
  }

  goOn(call: Running): void {
    const { world } = this
    const place = this.place(call)
    if (call.asked) {
      const decision = world.pick(["allowed-once", "allowed-always", "rejected", "unavailable"] as const)
      call.asked = false
      call.refused = !decision.startsWith("allowed")
      world.push({ type: "approval/decided", data: { ...place, decision } })
      return
    }
    const next = call.refused ? "settle" : world.pick(["settle", "ask", "spawn", "settle", "settle"] as const)
    call.asked = next === "ask"
    if (next === "ask") world.push({ type: "approval/asked", data: place })
    else if (next === "spawn")
      world.push({ type: "tool/process", data: { ...place, pgid: world.log.length, startTime: "77", bootId: "b" } })
    else this.settle(call, bodyOutcome(world, call))
  }

  start(call: Running): void {
    const { arguments: raw, name } = call.block
    call.started = this.world.push({ type: "tool/call", data: { ...this.place(call), name, arguments: raw } })
  }

  /** In its place in model order it is a result, before that it is settled (R7). */
  settle(call: Running, told: ToolOutcome): void {
    const { calls, world } = this
    if (calls.find((other) => !other.done) === call) {
      this.answer(call, told)
      this.answerSettled()
      return
    }
    call.settled = {
      seq: world.push({ type: "tool/settled", data: { ...this.place(call), outcome: told } }),
      outcome: told
    }
  }

  /** The results whose place has come, with what their calls settled with. */
  answerSettled(timeless = false): void {
    for (const call of this.calls) {
      if (call.done) continue
      if (call.settled === undefined) return
      this.answer(call, call.settled.outcome, timeless)
    }
  }

  answer(call: Running, told: ToolOutcome, timeless = false): void {
    const { callId: id, ...at } = this.place(call)
    const cited = [call.started, call.settled?.seq].filter((seq) => seq !== undefined)
    const message = {
      id: MessageId.make(id),
      role: "tool" as const,
      callId: id,
      content: told.content,
      isError: told.isError
    }
    this.world.push(
      {
        type: "tool/result",
        data: {
          ...at,
          message,
          ...(told.error === undefined ? {} : { error: told.error }),
          ...(told.meta === undefined ? {} : { meta: told.meta })
        },
        ...(cited.length === 0 ? {} : { sourceEventSeqs: cited })
      },
      timeless
    )
    call.done = true
    if (told.meta?.["concludes"] === true) this.concluded = true
    if (told.context !== undefined) this.world.insert("next-step", told.context, true)
  }

  /** The step ends early: a fault leaves its bare scene, a cancel answers every call, repair completes the log. */
  leave(way: "error" | "cancel" | "crash"): Way {
    const { calls, world } = this
    if (way === "error") {
      for (const call of calls.filter(({ asked }) => asked))
        world.push({ type: "approval/decided", data: { ...this.place(call), decision: "unavailable" } })
      this.answerSettled()
    }
    if (way === "cancel") {
      if (world.rarely(2)) world.dropAll()
      for (const call of calls.filter(({ asked }) => asked)) {
        world.push({ type: "approval/decided", data: { ...this.place(call), decision: "canceled" } })
        call.refused = true
      }
      for (const call of calls) if (!call.done) this.answerCancelled(call)
    }
    if (way === "crash") {
      for (const call of calls.filter(({ asked }) => asked)) {
        world.push({ type: "approval/decided", data: { ...this.place(call), decision: "interrupted" } }, true)
        call.refused = true
      }
      for (const call of calls) if (!call.done) this.answer(call, call.settled?.outcome ?? repaired(call), true)
    }
    return way
  }

  /** R4: what settled is kept, what ran was interrupted or finished all the same, what never ran is announced and closed. */
  answerCancelled(call: Running): void {
    const { world } = this
    const neverRan = call.started === undefined
    if (neverRan) this.start(call)
    if (call.settled !== undefined) this.answer(call, call.settled.outcome)
    else if (neverRan)
      this.answer(call, outcome([text("Error: tool call aborted before dispatch")], "TOOL_ABORTED_BEFORE_DISPATCH"))
    else if (call.refused || world.rarely(2))
      this.answer(call, outcome([text(`Error: tool call aborted${world.word()}`)], "TOOL_ABORTED"))
    else this.answer(call, { ...outcome([text(world.word())]), meta: { finishedAfterCancel: true } })
  }
}

const repaired = (call: Running): ToolOutcome =>
  call.started === undefined || call.refused
    ? outcome([text("Error: never started")], "TOOL_NOT_STARTED")
    : outcome([text("Error: outcome unknown")], "TOOL_OUTCOME_UNKNOWN")
