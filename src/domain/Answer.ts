/**
 * Assembling an answer: a fold of stream chunks into the blocks of one assistant message.
 *
 * - Total: whatever order and rubbish a stream holds, there is an answer (D12). Blocks stand in order of first appearance;
 *   what comes for a closed block is ignored; empty identities say nothing.
 * - Linear: a delta costs its own length.
 */
import { type Json, wellFormed, wellFormedValue } from "../internal/Json.ts"
import type { ChatChunk, RunChunk } from "./Chunk.ts"
import { type SessionEvent, sources } from "./Event.ts"
import { answerId, callId } from "./Ids.ts"
import type { AssistantBlock, AssistantMessage, Usage } from "./Message.ts"

interface Block {
  type: "text" | "reasoning" | "tool-call" | "blob"
  readonly parts: Array<string>
  closed: boolean
  blob?: Json
  id?: string
  name?: string
}

/** A builder of one answer. It is filled in place by `add`; nothing else writes to it. */
export interface Assembly {
  readonly blocks: Map<number, Block>
  usage?: Usage
  finish?: string
}

export const make = (): Assembly => ({ blocks: new Map() })

const blockFor = (assembly: Assembly, index: number, type: Block["type"]): Block | undefined => {
  let block = assembly.blocks.get(index)
  if (block === undefined) {
    block = { type, parts: [], closed: false }
    assembly.blocks.set(index, block)
  }
  if (block.closed) return undefined
  if (block.type === "blob") block.type = type // a blob may come before what it belongs to
  return block
}

/** Takes one chunk in. False if its block is closed already: the chunk is ignored. */
export const add = (assembly: Assembly, chunk: ChatChunk): boolean => {
  switch (chunk.type) {
    case "usage":
      assembly.usage = chunk.usage
      return true
    case "finish":
      assembly.finish ??= chunk.reason
      return true
    case "end":
      return close(assembly, chunk.index)
    case "text":
    case "reasoning":
    case "tool-call":
    case "blob": {
      const block = blockFor(assembly, chunk.index, chunk.type)
      if (block === undefined) return false
      extend(block, chunk)
      return true
    }
    default:
      return chunk satisfies never
  }
}

const close = (assembly: Assembly, index: number): boolean => {
  const block = assembly.blocks.get(index)
  if (block === undefined || block.closed) return false
  block.closed = true
  return true
}

const extend = (block: Block, chunk: Exclude<RunChunk, { readonly type: "usage" }>): void => {
  switch (chunk.type) {
    case "text":
    case "reasoning":
      block.parts.push(chunk.text)
      return
    case "tool-call":
      block.parts.push(chunk.arguments)
      if (chunk.id !== undefined && chunk.id !== "") block.id ??= chunk.id
      if (chunk.name !== undefined && chunk.name !== "") block.name ??= chunk.name
      return
    case "blob":
      block.blob = wellFormedValue(chunk.blob)
      return
    default:
      chunk satisfies never
  }
}

/** The assembly of these chunks. */
export const assemble = (chunks: Iterable<RunChunk>): Assembly => {
  const assembly = make()
  for (const chunk of chunks) add(assembly, chunk)
  return assembly
}

/** Where an answer stands, and who gives it. */
export interface Place {
  readonly turn: number
  readonly step: number
  readonly provider: string
  readonly model: string
}

const joined = (block: Block): string => wellFormed(block.parts.join(""))

const closedBlock = (block: Block, index: number, calls: number, place: Place): AssistantBlock => {
  switch (block.type) {
    case "text":
      return { type: "text", text: joined(block) }
    case "reasoning":
      return { type: "reasoning", text: joined(block), ...(block.blob === undefined ? {} : { blob: block.blob }) }
    case "blob":
      return { type: "blob", blob: block.blob ?? null }
    case "tool-call":
      return {
        type: "tool-call",
        callId: callId(place.turn, place.step, calls),
        name: wellFormed(block.name ?? ""),
        arguments: joined(block),
        providerCallId: wellFormed(block.id ?? `call-${index}`)
      }
    default:
      return block.type satisfies never
  }
}

/** The whole answer: every block, or all but the calls where the token limit cut it (A14, D13). */
export const message = (assembly: Assembly, place: Place): AssistantMessage => {
  const content: Array<AssistantBlock> = []
  let calls = 0
  for (const [index, block] of assembly.blocks) {
    if (block.type === "tool-call" && assembly.finish === "max-tokens") continue
    content.push(closedBlock(block, index, calls, place))
    if (block.type === "tool-call") calls++
  }
  return answer(place, content)
}

/**
 * What an interrupted stream leaves: text and reasoning with something in them, no calls (D04, D05). Thinking that was cut
 * before its blob came cannot be replayed signed, so an open reasoning block keeps its text alone.
 */
export const partialMessage = (assembly: Assembly, place: Place): AssistantMessage | undefined => {
  const content: Array<AssistantBlock> = []
  for (const [index, block] of assembly.blocks) {
    if (block.type !== "text" && block.type !== "reasoning") continue
    const closed = closedBlock(block, index, 0, place)
    if ("text" in closed && closed.text.trim() !== "") content.push(closed)
  }
  return content.length === 0 ? undefined : answer(place, content)
}

/** The usage that a stream told, as an answer has it. */
export const usageOf = ({ usage }: Assembly): { readonly usage?: Usage } => (usage === undefined ? {} : { usage })

/** The answer so far, marked as interrupted, as the event that cites its chunks; none where nothing readable came. */
export const interrupted = (
  assembly: Assembly,
  place: Place,
  cited: ReadonlyArray<number>
): ReadonlyArray<SessionEvent> => {
  const message = partialMessage(assembly, place)
  if (message === undefined) return []
  const data = { turn: place.turn, step: place.step, message, interrupted: true, ...usageOf(assembly) } as const
  return [{ type: "assistant/message", data, sourceEventSeqs: sources(cited) }]
}

const answer = (place: Place, content: ReadonlyArray<AssistantBlock>): AssistantMessage => ({
  id: answerId(place.turn, place.step),
  role: "assistant",
  source: { provider: place.provider, model: place.model },
  content
})
