/**
 * Valid, varied logs, made by simulating a session against a tape of numbers.
 *
 * - A log is a function of its tape and its words alone, so `sampleLogs(count, seed)` gives the same logs for ever. A number
 *   that the tape lacks is 0, and 0 is always the plain choice, so a shorter tape is a shorter and plainer log.
 * - Every log folds, and every prefix is one that an owner may have left when it died; where the real loop appends several
 *   events at once, a prefix may still end between them.
 * - The texts of answers, results and arguments are as bad as a model and a tool can make them.
 */
import * as FastCheck from "effect/FastCheck"
import { type StoredOf, sources } from "../../src/domain/Event.ts"
import { answerId, callId } from "../../src/domain/Ids.ts"
import { type AssistantBlock, text, type UserMessage } from "../../src/domain/Message.ts"
import type { TurnEnding } from "../../src/domain/TurnEnding.ts"
import { header, type Log } from "./Facts.ts"
import { simulateCalls } from "./LogCalls.ts"
import { LogWorld, type Way } from "./LogWorld.ts"

// what models and tools say

const oddTexts: ReadonlyArray<string> = [
  "Done.",
  "",
  " \n\t",
  "é 漢字 👩‍👩‍👧",
  "half \uD83D",
  "\uDE00 half",
  "a\0b",
  "\u2028\uFEFF",
  "\uFEFF",
  '"quoted" \\ and\nlines',
  "x".repeat(300)
]
const oddArguments: ReadonlyArray<string> = [
  '{"id":"a"}',
  "{}",
  "",
  " ",
  '{"id":',
  "[1]",
  "null",
  '"text"',
  ' { "b" : 1, "a" : [true, null] } ',
  '{"half":"\uD83D"}',
  '{"half":"\\ud83d","nul":"\\u0000"}',
  '{"\\ude00":1}',
  '{"__proto__":{"x":1},"10":1,"9":2}',
  '{"a":1}{"b":2}'
]
const oddNames: ReadonlyArray<string> = ["look", "put", "bash", "no such tool", "", "naïve.tool", "😀", "n".repeat(80)]
const finishes: ReadonlyArray<string> = ["stop", "tool-calls", "content_filter"]

const words = FastCheck.array(
  FastCheck.oneof(FastCheck.constantFrom(...oddTexts), FastCheck.string16bits({ maxLength: 12 })),
  { minLength: 12, maxLength: 12, size: "max" }
)

/** Numbers enough for `length` choices. */
const tape = (length: number) =>
  FastCheck.noBias(FastCheck.array(FastCheck.nat(0xffff), { maxLength: length, size: "max" }))

/** Valid logs of a few turns, every turn closed. Their length is about a third of `choices`. */
export const logsOf = (choices: number): FastCheck.Arbitrary<Log> =>
  FastCheck.tuple(tape(choices), words).map(([numbers, texts]) => simulate(numbers, texts))

export const logs: FastCheck.Arbitrary<Log> = logsOf(700)

/** The same logs for the same seed, always. */
export const sampleLogs = (count: number, seed: number, choices = 700): ReadonlyArray<Log> =>
  FastCheck.sample(logsOf(choices), { numRuns: count, seed })

// the simulation

const simulate = (numbers: ReadonlyArray<number>, texts: ReadonlyArray<string>): Log => {
  const world = new LogWorld(numbers, texts)
  while (!world.isOver) {
    switch (world.draw(8)) {
      case 1:
        world.interject(1)
        break
      case 2:
        world.insert("next-step", [world.message(world.pick(["inject", "steer"] as const))])
        break
      case 3:
        world.replace()
        break
      case 4:
        if (world.rarely(4)) world.dropAll()
        break
      default:
        world.insert("next-turn", [world.message("prompt")])
    }
    if (world.wakes) simulateTurn(world)
  }
  return world.log
}

const failure = { message: "it broke", code: "SERVER", details: { status: 500 } }

const simulateTurn = (world: LogWorld): void => {
  world.turn++
  world.push({ type: "turn/start", data: { turn: world.turn } })
  const reason = simulateSteps(world)
  world.push({ type: "turn/end", data: { turn: world.turn, reason } }, reason.kind === "interrupted")
  if (reason.kind === "interrupted" && world.due === undefined) world.due = "resume"
}

const simulateSteps = (world: LogWorld): TurnEnding => {
  let cut = false
  let toolsRan = false
  for (let step = 1; ; step++) {
    world.interject(4)
    const inputWaits = world.inbox["next-step"].length > 0 || (step === 1 && world.inbox["next-turn"].length > 0)
    if (!inputWaits && !toolsRan) return { kind: cut ? "max-tokens" : "completed" }
    switch (world.draw(24)) {
      case 1:
        claim(world, step)
        return { kind: "blocked", message: "not now" }
      case 2:
        return { kind: "error", error: failure }
      case 3:
        if (world.rarely(2)) world.dropAll()
        return { kind: "aborted" }
      case 4:
        return { kind: "interrupted" }
      case 5:
        if (step > 1) world.replace()
        break
      default:
    }
    const done = simulateStep(world, step)
    cut ||= done.cut
    toolsRan = done.toolsRan
    if (done.way === "error") return { kind: "error", error: failure }
    if (done.way === "cancel") return { kind: "aborted" }
    if (done.way === "crash") return { kind: "interrupted" }
    if (done.concluded) return { kind: cut ? "max-tokens" : "completed" }
  }
}

/** Takes what waits for this step out of the inbox; a claim is one splice a list. */
const claim = (world: LogWorld, step: number): ReadonlyArray<UserMessage> => {
  const next = [...world.inbox["next-step"]]
  const prompt = step === 1 ? world.inbox["next-turn"].slice(0, 1) : []
  world.take("next-step", 0, next.length)
  world.take("next-turn", 0, prompt.length, undefined, true)
  return [...next, ...prompt]
}

interface StepDone {
  readonly way: Way
  readonly cut: boolean
  readonly toolsRan: boolean
  readonly concluded: boolean
}

const simulateStep = (world: LogWorld, step: number): StepDone => {
  const at = { turn: world.turn, step }
  const claimed = claim(world, step)
  world.push({ type: "step/start", data: at }, true)
  const added: ReadonlyArray<UserMessage> = world.rarely(8)
    ? [world.message("context"), { ...world.message("context"), content: [text(" "), text("")] }]
    : []
  for (const message of [...claimed, ...added]) world.push({ type: "user/message", data: message }, true)
  const close = (way: Way, rest: Partial<StepDone> = {}): StepDone => {
    world.push({ type: "step/end", data: at }, way === "crash")
    return { way, cut: false, toolsRan: false, concluded: false, ...rest }
  }
  if (world.due === "initial" && world.rarely(12)) return close("error")
  if (world.due !== undefined) world.push(header(world.due))
  else if (world.rarely(10)) world.push(header("change", `model-${world.log.length}`))
  world.due = undefined

  const { blocks, way } = simulateAttempts(world, at)
  if (way !== "on") return close(way)
  const cut = blocks.at(-1)?.finish === "max-tokens"
  const calls = blocks.flatMap(({ block }) => (block.type === "tool-call" ? [block] : []))
  if (calls.length === 0) return close("on", { cut })
  const ran = simulateCalls(world, at, calls)
  return close(ran.way, { toolsRan: ran.way === "on", concluded: ran.concluded })
}

/** A block of an answer, cut into the runs that the journal keeps of it. */
interface Streamed {
  readonly block: AssistantBlock
  readonly finish: string
}

const cutInTwo = (world: LogWorld, whole: string): ReadonlyArray<string> => {
  const at = world.draw(whole.length + 1)
  return [whole.slice(0, at), whole.slice(at)].filter((part) => part !== "")
}

const answerBlocks = (
  world: LogWorld,
  at: { readonly turn: number; readonly step: number }
): ReadonlyArray<Streamed> => {
  const finish = world.rarely(10) ? "max-tokens" : world.pick(finishes)
  const count = world.rarely(10) ? 0 : 1 + world.draw(3)
  const calls = finish === "max-tokens" ? 0 : Math.max(0, world.draw(7) - 2)
  const spoken = Array.from({ length: count }, (): AssistantBlock => {
    const kind = world.draw(6)
    if (kind === 1) return { type: "reasoning", text: world.word() }
    if (kind === 2) return { type: "reasoning", text: world.word(), blob: { signature: `s${world.log.length}` } }
    if (kind === 3) return { type: "blob", blob: { encrypted: ["x", 1] } }
    return text(world.word())
  })
  const called = Array.from({ length: calls }, (_, index): AssistantBlock => {
    const block = {
      type: "tool-call" as const,
      callId: callId(at.turn, at.step, index),
      name: world.pick(oddNames),
      arguments: world.pick(oddArguments)
    }
    return world.rarely(3) ? block : { ...block, providerCallId: world.rarely(4) ? "same" : `call-${index}` }
  })
  return [...spoken, ...called].map((block) => ({ block, finish }))
}

const runsOf = (
  world: LogWorld,
  block: AssistantBlock,
  index: number
): ReadonlyArray<StoredOf<"assistant/chunk">["data"]["chunk"]> => {
  switch (block.type) {
    case "text":
      return cutInTwo(world, block.text).map((part) => ({ type: "text", index, text: part }))
    case "reasoning":
      return [
        ...cutInTwo(world, block.text).map((part) => ({ type: "reasoning" as const, index, text: part })),
        ...(block.blob === undefined ? [] : [{ type: "blob" as const, index, blob: block.blob }])
      ]
    case "blob":
      return [{ type: "blob", index, blob: block.blob }]
    case "tool-call": {
      const start = { type: "tool-call" as const, index, name: block.name, arguments: "" }
      const id = block.providerCallId
      const rest = cutInTwo(world, block.arguments).map((part) => ({
        type: "tool-call" as const,
        index,
        arguments: part
      }))
      return [id === undefined ? start : { ...start, id }, ...rest]
    }
    default:
      return block satisfies never
  }
}

/** Runs of several blocks in one order: each block's own order stays, blocks may take turns. */
const interleaved = <A>(world: LogWorld, lists: ReadonlyArray<ReadonlyArray<A>>): ReadonlyArray<A> => {
  const rest = lists.map((list) => [...list]).filter((list) => list.length > 0)
  const merged: Array<A> = []
  while (rest.length > 0) {
    const at = world.rarely(6) ? world.draw(rest.length) : 0
    const [next] = rest[at]?.splice(0, 1) ?? []
    if (next !== undefined) merged.push(next)
    if (rest[at]?.length === 0) rest.splice(at, 1)
  }
  return merged
}

/** Attempts until one answers, or nothing does. On return `on`, the answer is in the log. */
const simulateAttempts = (
  world: LogWorld,
  at: { readonly turn: number; readonly step: number }
): { readonly way: Way; readonly blocks: ReadonlyArray<Streamed> } => {
  const source = { provider: "scripted", model: "script" }
  for (let attempt = 1; ; attempt++) {
    const blocks = answerBlocks(world, at)
    const runs = interleaved(
      world,
      blocks.map(({ block }, index) => runsOf(world, block, index))
    )
    const usage = { inputTokens: 10, outputTokens: runs.length }
    const end = world.draw(12)
    const cutAt = end >= 1 && end <= 4 ? world.draw(runs.length + 1) : runs.length
    const cited: Array<number> = []
    for (const chunk of runs.slice(0, cutAt)) {
      cited.push(world.push({ type: "assistant/chunk", data: { ...at, chunk } }))
      world.interject(30)
    }
    if (end === 1) {
      world.push({ type: "request/retry", data: { ...at, attempt, delayMillis: 500 * attempt, failure } })
      continue
    }
    if (end === 2) return { way: "error", blocks: [] }
    if (end === 3 || end === 4) {
      const way = end === 3 ? "crash" : "cancel"
      const content = partial(runs.slice(0, cutAt))
      // one policy of repair keeps it as a cancel does, the other does not
      if (content.length > 0 && (way === "cancel" || world.rarely(2)))
        world.push(
          {
            type: "assistant/message",
            data: {
              ...at,
              message: { id: answerId(at.turn, at.step), role: "assistant", source, content },
              interrupted: true
            },
            sourceEventSeqs: sources(cited)
          },
          way === "crash"
        )
      return { way, blocks: [] }
    }
    if (world.rarely(3))
      cited.push(world.push({ type: "assistant/chunk", data: { ...at, chunk: { type: "usage", usage } } }))
    world.push({
      type: "assistant/message",
      data: {
        ...at,
        message: {
          id: answerId(at.turn, at.step),
          role: "assistant",
          source,
          content: blocks.map(({ block }) => block)
        },
        finish: blocks.at(-1)?.finish ?? "stop",
        ...(world.rarely(2) ? { usage } : {})
      },
      sourceEventSeqs: sources(cited)
    })
    return { way: "on", blocks }
  }
}

/** What a cancel keeps of these runs: text and reasoning with something in them. */
const partial = (runs: ReadonlyArray<StoredOf<"assistant/chunk">["data"]["chunk"]>): ReadonlyArray<AssistantBlock> => {
  const parts = new Map<number, { readonly type: "text" | "reasoning"; readonly text: string }>()
  for (const run of runs)
    if (run.type === "text" || run.type === "reasoning")
      parts.set(run.index, { type: run.type, text: (parts.get(run.index)?.text ?? "") + run.text })
  return [...parts.values()].filter((block) => block.text.trim() !== "")
}
