/**
 * The command line before `@effect/cli` reads it: what it would misread is refused, or written so that it cannot be.
 *
 * - It takes an option that it does not know, or that lacks its value, for a positional argument: `run --sesion X` would
 *   send `--sesion` to a model. Here such a word is an error; words after `--` are taken as they are.
 * - It takes a value that is also a command's name for that command: `--db events` becomes `--db=events`.
 * - It trims values, and stumbles over line breaks: such a value is carried between two NULs, which no argument can hold.
 */
import type * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as LogLevel from "effect/LogLevel"
import { type Grammar, type Known, pathOf } from "./Grammar.ts"
import { brief } from "./Line.ts"

/** An option, and what the help says of it. */
export interface OptionText {
  readonly name: string
  readonly description: string
}

/** An option whose value is a text, exactly as it was given. */
export const text = (name: string): Options.Options<string> =>
  Options.map(Options.text(name), (value) => (isCarried(value) ? value.slice(1, -1) : value))

/** An option whose value is a text that means something: `read` tells what, or what is wrong with it. */
export const reading = <A>(
  { description, name, value }: OptionText & { readonly value: string },
  read: (text: string) => Effect.Effect<A, HelpDoc.HelpDoc>
): Options.Options<A> =>
  text(name).pipe(
    Options.withPseudoName(value),
    Options.withDescription(description),
    Options.mapEffect((given) => Effect.mapError(read(given), ValidationError.invalidValue))
  )

/** The words after the program's name, each option joined with its value; or what is wrong with them, in one line. */
export const normalize = (
  grammar: Grammar,
  words: ReadonlyArray<string>
): Either.Either<ReadonlyArray<string>, string> => {
  const dashes = words.includes("--") ? words.indexOf("--") : words.length
  const before = words.slice(0, dashes)
  const asked = before.findIndex((word) => asking.has(nameOf(word)))
  if (asked !== -1) return ask(grammar, words, asked)
  const result: Array<string> = []
  const given: Array<string> = []
  const path = [grammar.name]
  let known = grammar.root
  let seen = new Set<string>()
  for (let i = 0; i < before.length; i++) {
    const word = before[i] ?? ""
    if (isOption(word)) {
      const read = readOption(known, word, before[i + 1])
      if (Either.isLeft(read)) return Either.left(`${read.left} ${see(path)}`)
      if (seen.has(nameOf(word))) return Either.left(`${nameOf(word)} is given twice. ${see(path)}`)
      seen.add(nameOf(word))
      result.push(...read.right.words)
      if (read.right.tookNext) i++
      continue
    }
    result.push(word)
    if (known.commands.size === 0) {
      given.push(word)
      continue
    }
    const chosen = known.commands.get(word)
    if (chosen === undefined) return Either.left(unknownCommand(known, path, word))
    path.push(word)
    known = chosen
    seen = new Set()
  }
  given.push(...words.slice(dashes + 1))
  if (known.commands.size > 0) return Either.left(noCommand(known, path))
  const problem = miscounted(known, given)
  if (problem !== undefined) return Either.left(`${path.slice(1).join(" ")} ${problem} ${see(path)}`)
  return Either.right([...result, ...words.slice(dashes)])
}

// internal

const isCarried = (value: string): boolean => value.length > 1 && value.startsWith("\0") && value.endsWith("\0")

/** An option and its value, as `@effect/cli` leaves them alone. */
const joined = (name: string, value: string): ReadonlyArray<string> =>
  value.trim() === value && !/[\r\n]/.test(value) ? [`${name}=${value}`] : [name, `\0${value}\0`]

/** What `--log-level` takes. `@effect/cli` would call another value an unknown argument. */
const levels: ReadonlyArray<string> = LogLevel.allLevels.map((level) => level._tag.toLowerCase())

/** Options that only ask for something to read: whatever else is said then does not matter. */
const asking: ReadonlySet<string> = new Set(["--help", "-h", "--version", "--completions"])

/** The shells that there are completions for. */
const shells: ReadonlyArray<string> = ["sh", "bash", "fish", "zsh"]

/** What is asked for, and nothing of what else is said: `@effect/cli` would take an option after another one for an argument. */
const ask = (
  grammar: Grammar,
  words: ReadonlyArray<string>,
  at: number
): Either.Either<ReadonlyArray<string>, string> => {
  const word = words[at] ?? ""
  const name = nameOf(word)
  if (name === "--version") return Either.right([name])
  if (name !== "--completions") return Either.right([...pathOf(grammar, words.slice(0, at)).slice(1), "--help"])
  const shell = word.includes("=") ? word.slice(word.indexOf("=") + 1) : (words[at + 1] ?? "")
  return shells.includes(shell)
    ? Either.right([name, shell])
    : Either.left(`--completions takes ${shells.join(", ")}. ${see([grammar.name])}`)
}

/** Whether a word is meant as an option: `-` alone is standard input, and a prompt may begin with a dash and a space. */
const isOption = (word: string): boolean => /^--?[a-zA-Z][\w-]*(=|$)/.test(word)

const nameOf = (word: string): string => word.split("=", 1)[0] ?? word

const readOption = (
  { options }: Known,
  word: string,
  next: string | undefined
): Either.Either<{ readonly words: ReadonlyArray<string>; readonly tookNext: boolean }, string> => {
  const name = nameOf(word)
  const kind = options.get(name)
  const hasValue = word.length > name.length
  if (kind === undefined) return Either.left(`there is no option ${brief(name, 40)}.`)
  if (kind === "switch") {
    return hasValue ? Either.left(`${name} takes no value.`) : Either.right({ words: [word], tookNext: false })
  }
  const value = hasValue ? word.slice(name.length + 1) : next
  if (name === "--log-level" && value !== undefined && !levels.includes(value))
    return Either.left(`--log-level takes ${levels.join(", ")}.`)
  if (hasValue) {
    return value === "" || value === undefined
      ? Either.left(`${name} needs a value.`)
      : Either.right({ words: joined(name, value), tookNext: false })
  }
  if (next === undefined || next === "" || options.has(nameOf(next))) return Either.left(`${name} needs a value.`)
  return Either.right({ words: joined(name, next), tookNext: true })
}

/** What is wrong with the number of arguments. */
const miscounted = ({ args, required }: Known, given: ReadonlyArray<string>): string | undefined => {
  const missing = args[given.length]
  if (missing !== undefined && given.length < required) return `needs ${missing}.`
  const extra = given[args.length]
  if (extra === undefined) return undefined
  return args.length === 0
    ? `takes no argument, and "${brief(extra, 40)}" is one.`
    : `takes ${args.join(" and ")} alone, and "${brief(extra, 40)}" is one word too many: put words that belong together in quotes.`
}

const namesOf = ({ commands }: Known): string => `The commands are: ${[...commands.keys()].join(", ")}.`

const unknownCommand = (known: Known, path: ReadonlyArray<string>, word: string): string =>
  `there is no command "${brief([...path.slice(1), word].join(" "), 40)}". ${namesOf(known)} ${see(path)}`

const noCommand = (known: Known, path: ReadonlyArray<string>): string =>
  `a command is missing${path.length > 1 ? ` after ${path.slice(1).join(" ")}` : ""}. ${namesOf(known)} ${see(path)}`

const see = (path: ReadonlyArray<string>): string => `See ${path.join(" ")} --help.`
