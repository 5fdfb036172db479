/**
 * The grammar of the command line: which commands there are, and what each of them takes.
 *
 * - It is read from the commands themselves.
 */
import * as CommandDescriptor from "@effect/cli/CommandDescriptor"
import type { Usage } from "@effect/cli/Usage"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"

/** What a command takes: its options by name, and whether they take a value; the names of its arguments. */
export interface Known {
  readonly options: ReadonlyMap<string, "value" | "switch">
  readonly args: ReadonlyArray<string>
  /** How many of the arguments must be given. */
  readonly required: number
  /** Its own commands. Where there are some, one of them must follow. */
  readonly commands: ReadonlyMap<string, Known>
}

/** What a program understands: its root, and the commands below it. */
export interface Grammar {
  readonly name: string
  readonly root: Known
}

/** A command of whatever type, as far as it tells what may be typed. */
interface Described {
  readonly descriptor: CommandDescriptor.Command<unknown>
}

/** The grammar of a command with subcommands. Those that have some themselves are named: the library does not show these. */
export const of = ({ descriptor }: Described, groups: ReadonlyArray<Described> = []): Grammar => ({
  name: nameOfCommand(descriptor),
  root: {
    ...knownBy(CommandDescriptor.getUsage(descriptor)),
    commands: commandsOf(
      descriptor,
      groups.map((group) => group.descriptor)
    )
  }
})

/** The names on the way to the command that words mean: the program's, and those of commands. */
export const pathOf = ({ name, root }: Grammar, words: ReadonlyArray<string>): ReadonlyArray<string> => {
  let known = root
  const path = [name]
  for (const word of words) {
    const next = known.commands.get(word)
    if (next === undefined) continue
    path.push(word)
    known = next
  }
  return path
}

// internal

/** The options that `@effect/cli` adds to every command. */
const builtIns: Known["options"] = new Map([
  ["--help", "switch"],
  ["-h", "switch"],
  ["--version", "switch"],
  ["--log-level", "value"],
  ["--completions", "value"]
])

type Descriptor = CommandDescriptor.Command<unknown>

const nameOfCommand = (command: Descriptor): string => [...CommandDescriptor.getNames(command)][0] ?? ""

const commandsOf = (command: Descriptor, groups: ReadonlyArray<Descriptor>): Known["commands"] =>
  new Map(
    HashMap.toEntries(CommandDescriptor.getSubcommands(command))
      .map(([name, descriptor]): readonly [string, Known] => {
        const group = groups.find((group) => nameOfCommand(group) === name)
        const commands: Known["commands"] = group === undefined ? new Map() : commandsOf(group, [])
        return [name, { ...knownBy(CommandDescriptor.getUsage(descriptor)), commands }]
      })
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
  )

const knownBy = (usage: Usage): Omit<Known, "commands"> => {
  const all = named(usage)
  const options = all.filter(({ name }) => name.startsWith("-")).map(({ kind, name }) => [name, kind] as const)
  return {
    options: new Map([...options, ...builtIns]),
    args: all.flatMap(({ name }) => argumentIn(name) ?? []),
    required: all.filter(({ isOptional, name }) => !isOptional && argumentIn(name) !== undefined).length
  }
}

const argumentIn = (name: string): string | undefined => /^<(.+)>$/.exec(name)?.[1]

interface Named {
  readonly name: string
  readonly kind: "value" | "switch"
  readonly isOptional: boolean
}

const named = (usage: Usage, isOptional = false): ReadonlyArray<Named> => {
  switch (usage._tag) {
    case "Named": {
      const kind = Option.isSome(usage.acceptedValues) ? "value" : "switch"
      return usage.names.map((name) => ({ name, kind, isOptional }))
    }
    case "Optional":
      return named(usage.usage, true)
    case "Repeated":
      return named(usage.usage, isOptional)
    case "Alternation":
    case "Concat":
      return [...named(usage.left, isOptional), ...named(usage.right, isOptional)]
    case "Empty":
    case "Mixed":
      return []
    default:
      return usage satisfies never
  }
}
