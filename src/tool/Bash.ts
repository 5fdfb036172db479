/**
 * The tool `bash`: a shell command in the workspace. It starts there and is no sandbox.
 *
 * - A command that exits with an error, or that takes too long, is a result like any other (N05, N06); only one that could
 *   not be started is a failure.
 * - Each stream is a tail of its own and, where that is not all of it, a file (N07). Interrupted, its output so far is what
 *   is left of it.
 */
import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { SessionBroken } from "../domain/Errors.ts"
import { noOutput } from "../domain/Transcript.ts"
import type { View } from "./Capture.ts"
import { maxShown } from "./Outputs.ts"
import { type Ended, type Ending, Process } from "./Process.ts"
import { SpawnFailed } from "./SpawnFailed.ts"
import { ToolCall } from "./ToolCall.ts"
import { Parallel } from "./Tools.ts"
import { Workspace } from "./Workspace.ts"

const defaultTimeout = Duration.minutes(10)
const maxTimeout = Duration.hours(24)

/** Runs a shell command. */
export const tool = Tool.make("bash", {
  description:
    `Runs a shell command in the workspace folder and returns its output; it is not sandboxed. Standard input is empty. ` +
    `Of stdout and of stderr only the last ${maxShown} bytes are shown; the result says in which file all of it is, where it was kept. ` +
    `Processes left in the background are ended with the command.`,
  parameters: {
    command: Schema.NonEmptyString.annotations({ title: "command", description: "The command, as for bash -c." }),
    parallel: Schema.optional(
      Schema.Boolean.annotations({
        description: "True if the command can run beside other calls of the same answer. False by default."
      })
    ),
    timeoutMillis: Schema.optional(
      Schema.Int.pipe(
        Schema.between(1, Duration.toMillis(maxTimeout), {
          title: "milliseconds",
          description: `After how many milliseconds to end the command. ${Duration.toMillis(defaultTimeout)} by default.`
        })
      )
    )
  },
  success: Schema.String,
  failure: Schema.Union(SpawnFailed, SessionBroken),
  dependencies: [ToolCall]
})
  .annotate(Parallel, (args) => Predicate.hasProperty(args, "parallel") && args.parallel === true)
  .annotate(Tool.Destructive, true)

/** Runs commands with bash, or with sh where there is no bash. */
export const layer = Toolkit.make(tool).toLayer(
  Effect.gen(function* () {
    const processes = yield* Process
    const workspace = yield* Workspace
    const bash = yield* processes.which("bash")
    const program = Option.getOrElse(bash, () => "/bin/sh")
    return {
      bash: ({ command, timeoutMillis }) =>
        Effect.scoped(
          Effect.gen(function* () {
            const call = yield* ToolCall
            const timeout = timeoutMillis === undefined ? defaultTimeout : Duration.millis(timeoutMillis)
            const { ended, ending, output, over } = yield* processes.spawn({
              program,
              args: ["-c", command],
              cwd: workspace.root,
              timeout
            })
            yield* call.onAbort(() => rendered([...sections(output()), ...endingMarkers(ending(), timeout)]))
            yield* over
            // how it ended is known, and a cancel changes nothing about that
            return yield* call.finish(
              Effect.map(ended, (end) => {
                const shown = sections(output())
                return rendered([...(shown.length === 0 ? [noOutput] : shown), ...endMarkers(end, timeout)])
              })
            )
          })
        )
    }
  })
)

// internal

const rendered = (parts: ReadonlyArray<string>): string =>
  parts.map((part, index) => (index < parts.length - 1 && !part.endsWith("\n") ? `${part}\n` : part)).join("")

const sections = (output: { readonly stdout: View; readonly stderr: View }): ReadonlyArray<string> => [
  ...section(output.stdout, "stdout"),
  ...(output.stderr.total === 0 ? [] : ["[stderr]", ...section(output.stderr, "stderr")])
]

const section = ({ cut, file, text, total }: View, name: string): ReadonlyArray<string> => [
  ...(cut === 0
    ? []
    : [`[${name} is truncated: the first ${cut} of its ${total} bytes are left out${whereabouts(file)}]`]),
  ...(text === "" ? [] : [text])
]

const whereabouts = (file: View["file"]): string =>
  Option.match(file, {
    onNone: () => "",
    onSome: Either.match({
      onLeft: (unavailable) => `; ${unavailable.message}`,
      onRight: (path) => `; the whole of it is in ${path}`
    })
  })

/** What there is to say of an end other than a plain success. */
const endMarkers = (end: Ended, timeout: Duration.Duration): ReadonlyArray<string> => {
  const several = (count: number) => (count === 1 ? "1 process" : `${count} processes`)
  return [
    ...(end.background === 0 ? [] : [`[${several(end.background)} left in the background, ended with the command]`]),
    ...endingMarkers(end, timeout),
    ...Option.match(end.signal, { onNone: () => [], onSome: (signal) => [`[signal ${signal}]`] }),
    ...Option.match(end.code, { onNone: () => [], onSome: (code) => (code === 0 ? [] : [`[exit code ${code}]`]) })
  ]
}

/** The same of one that was interrupted. */
const endingMarkers = ({ left, searched, timedOut }: Ending, timeout: Duration.Duration): ReadonlyArray<string> => [
  ...(left.length === 0 ? [] : [`[still running, with no right to end them: ${left.join(", ")}]`]),
  ...(searched ? [] : ["[no /proc on this host: processes that left the command's group were not looked for]"]),
  ...(timedOut ? [`[timed out after ${Duration.toMillis(timeout)} ms]`] : [])
]
