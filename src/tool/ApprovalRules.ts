/**
 * Rules on calls: by tool, and by how a command begins. Pure.
 *
 * - A command is judged part by part, as its shell would run it: the strictest part decides. `git status && rm -r x` is
 *   allowed only where both of its parts are.
 * - What hides a command from this reading (substitutions, groups, files it is read from or written to) is never allowed by a
 *   beginning. A denial by a beginning keeps nobody out who writes the command another way: it is no sandbox.
 */
import * as Schema from "effect/Schema"
import type { PendingCall } from "./ToolCall.ts"

/** A rule: on a tool, or on all of them; on every call, or on those whose `command` has a part that begins with these words. */
export const Rule = Schema.Struct({
  /** The name of a tool; `*` for any. */
  tool: Schema.NonEmptyString,
  /** Whole words: `git log` is the beginning of `git log -1`, and not of `git logs`. */
  command: Schema.optional(Schema.NonEmptyTrimmedString),
  decision: Schema.Literal("allow", "ask", "deny")
})
export type Rule = typeof Rule.Type

/** The rule that decides on a call; none where no rule does for some part of it, unless a rule denies another part. */
export const decide = (rules: ReadonlyArray<Rule>, call: Pick<PendingCall, "name" | "arguments">): Rule | undefined => {
  const own = rules.filter(({ tool }) => tool === call.name || tool === "*")
  const { isPlain, parts } = partsOf(commandOf(call.arguments))
  const found = parts.map((part) =>
    own
      .filter((rule) => matches(rule, part) && (rule.command === undefined || rule.decision !== "allow" || isPlain))
      .reduce(moreSpecific, undefined)
  )
  return found.reduce((a, b) => (severity(b) > severity(a) ? b : a))
}

/** What a rule is about, in words. */
export const named = ({ command, tool }: Rule): string => {
  const calls = tool === "*" ? "every tool" : tool
  return command === undefined ? calls : `${calls} with a command that begins with "${command}"`
}

// internal

/** The parts of a command, and whether they are all there is to it. What has no command is one part without words. */
interface Parts {
  readonly isPlain: boolean
  readonly parts: readonly [ReadonlyArray<string>, ...ReadonlyArray<ReadonlyArray<string>>]
}

const commandOf = (args: unknown): string =>
  typeof args === "object" && args !== null && "command" in args && typeof args.command === "string" ? args.command : ""

/** Goes nowhere: to another stream of the same command, or away. Only where it stands as words of its own. */
const harmless = /(?<=[ \t])[12]?>(?:&[12]|[ \t]*\/dev\/null)(?=[ \t\n;&|]|$)/g

const partsOf = (command: string): Parts => {
  const bare = command.replaceAll(harmless, " ")
  const [first = [], ...rest] = bare
    .split(/[;&|\n(){}`<>]/)
    // what else looks blank is part of a word to a shell
    .map((part) => part.split(/[ \t]+/).filter((word) => word !== ""))
    .filter((words) => words.length > 0)
  return { isPlain: !/[(){}`<>]/.test(bare), parts: [first, ...rest] }
}

const wordsOf = (rule: Rule): ReadonlyArray<string> => rule.command?.split(/\s+/) ?? []

const matches = (rule: Rule, part: ReadonlyArray<string>): boolean =>
  wordsOf(rule).every((word, index) => part[index] === word)

/** First by the words of the command, then by the name of the tool, then by what is stricter. */
const rank = (rule: Rule): ReadonlyArray<number> => [
  wordsOf(rule).length,
  rule.tool === "*" ? 0 : 1,
  strictness[rule.decision]
]

const strictness = { allow: 1, ask: 2, deny: 3 } as const

const moreSpecific = (best: Rule | undefined, rule: Rule): Rule => {
  if (best === undefined) return rule
  const differing = rank(rule)
    .map((value, index) => value - (rank(best)[index] ?? 0))
    .find((difference) => difference !== 0)
  return differing !== undefined && differing > 0 ? rule : best
}

/** What no rule decides is asked about or not by what its tool declares: that is stricter than a rule that allows. */
const severity = (rule: Rule | undefined): number => (rule === undefined ? 1.5 : strictness[rule.decision])
