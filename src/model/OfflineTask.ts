/**
 * Which requests of a conversation count: episodes, and the task of one.
 *
 * - An episode is a prompt with what was steered in after it. A prompt opens one, and so does whatever comes after an
 *   answer without calls. "Continue" takes up the newest episode before it that asked for something; a message that asks
 *   to go on after a turn that was cut off is read as that.
 * - A part that no rule reads makes nothing of its message happen. Context that tools gathered is no instruction.
 */
import * as Either from "effect/Either"
import { type Message, textOf, toolCalls, type UserMessage } from "../domain/Message.ts"
import * as Grammar from "./OfflineGrammar.ts"

/** The requests that count together, and the range of messages up to the next episode. */
export interface Episode {
  readonly from: number
  readonly to: number
  readonly requests: ReadonlyArray<UserMessage>
}

/** Whether a message stands for a request of its own, and was not sent in while another one ran. */
const isRequest = ({ source }: UserMessage): boolean => source.kind === "prompt" || source.kind === "resume"

/** Whether `message` opens an episode after what came before it. */
const opens = (message: UserMessage, before: Message | undefined, hasPrompt: boolean): boolean => {
  if (before === undefined) return true
  if (before.role === "assistant") return toolCalls(before).length === 0 || isRequest(message)
  return isRequest(message) && (before.role === "tool" || hasPrompt)
}

/** The episodes of a conversation, in order. */
export const episodesOf = (messages: ReadonlyArray<Message>): ReadonlyArray<Episode> => {
  const starts: Array<{ readonly from: number; readonly requests: Array<UserMessage> }> = []
  let before: Message | undefined
  let hasPrompt = false
  for (const [at, message] of messages.entries()) {
    if (message.role === "user" && message.source.kind !== "context") {
      const last = starts[starts.length - 1]
      if (last === undefined || opens(message, before, hasPrompt)) starts.push({ from: at, requests: [message] })
      else last.requests.push(message)
      hasPrompt = isRequest(message) || (before?.role === "user" && hasPrompt)
    }
    if (message.role !== "user" || message.source.kind !== "context") before = message
  }
  return starts.map((start, index) => ({ ...start, to: starts[index + 1]?.from ?? messages.length }))
}

const instructionsOf = (request: UserMessage): ReturnType<typeof Grammar.parse> =>
  request.source.kind === "resume" ? Either.right([{ type: "continue" }]) : Grammar.parse(textOf(request))

/** What an episode asks for, with what it continues. */
export interface Task {
  readonly instructions: ReadonlyArray<Grammar.Instruction>
  /** The range of messages whose calls belong to it. */
  readonly from: number
  readonly to: number
  /** Where "Continue" stands, or `from`: unfinished calls before it may be made again. */
  readonly again: number
  readonly unread: ReadonlyArray<string>
}

/** The task of the episode at `index`. */
export const taskOf = (episodes: ReadonlyArray<Episode>, index: number): Task => {
  const episode = episodes[index]
  if (episode === undefined) return { instructions: [], from: 0, to: 0, again: 0, unread: [] }
  const parsed = episode.requests.map(instructionsOf)
  const own = parsed.flatMap((request) => Either.getOrElse(request, () => []))
  const unread = parsed.flatMap((request) => (Either.isLeft(request) ? [request.left] : []))
  const instructions = own.filter((instruction) => instruction.type !== "continue")
  const { from, to } = episode
  if (instructions.length === own.length) return { instructions, from, to, again: from, unread }
  for (let earlier = index - 1; earlier >= 0; earlier--) {
    const task = taskOf(episodes, earlier)
    if (task.instructions.length === 0) continue
    return { instructions: [...task.instructions, ...instructions], from: task.from, to, again: from, unread }
  }
  return { instructions, from, to, again: from, unread: [...unread, "Continue: there is nothing to continue"] }
}
