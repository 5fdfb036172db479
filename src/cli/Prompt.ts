/**
 * The prompt: from the command line, or from standard input.
 *
 * - Reading stops at the first byte that is too many.
 * - What no journal and no wire would keep (NUL, lone surrogates, bytes that are not UTF-8) becomes U+FFFD.
 */
import { isUtf8 } from "node:buffer"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { maxMessageBytes } from "../agent/Agent.ts"
import { wellFormed } from "../internal/Json.ts"
import { UsageError } from "./Failure.ts"
import { Stdio } from "./Stdio.ts"

/** A prompt that can be sent, and whether part of it had to be replaced. */
export interface Prompt {
  readonly text: string
  readonly replaced: boolean
}

/** What is said where part of a prompt was replaced. */
export const replacedLine =
  "part of the prompt is no text (NUL, half a surrogate pair, or bytes that are not UTF-8): it was replaced by U+FFFD."

/** The prompt of this argument; `-` means standard input. Fails where there is nothing to send, or too much. */
export const read = Effect.fn("Prompt.read")(function* (argument: string) {
  return yield* accepted(argument === "-" ? yield* fromInput : yield* fromArgument(argument))
})

/** Bytes as text. */
export const decode = (bytes: Uint8Array): Prompt => {
  const clean = cleaned(new TextDecoder().decode(bytes))
  return { text: clean.text, replaced: clean.replaced || !isUtf8(bytes) }
}

/** A text without what would not be kept. */
export const cleaned = (text: string): Prompt => {
  const clean = wellFormed(text)
  return { text: clean, replaced: clean !== text }
}

// internal

const usage = (message: string) => new UsageError({ message })

const tooLarge = usage("the prompt is over 4 MiB. Nothing was sent. Put it into a file, and ask to read that.")

const accepted = (prompt: Prompt): Effect.Effect<Prompt, UsageError> => {
  if (prompt.text.trim() === "") return Effect.fail(usage("the prompt is empty. Nothing was sent. Say what to do."))
  // a character that was replaced is longer than what it stands for
  return Buffer.byteLength(prompt.text) > maxMessageBytes ? Effect.fail(tooLarge) : Effect.succeed(prompt)
}

const nothing = { chunks: Chunk.empty<Uint8Array>(), size: 0 }

const fromInput = Effect.gen(function* () {
  const { input } = yield* Stdio
  const { chunks, size } = yield* Stream.runFoldWhile(
    input,
    nothing,
    (read) => read.size <= maxMessageBytes,
    (read, chunk) => ({ chunks: Chunk.append(read.chunks, chunk), size: read.size + chunk.length })
  ).pipe(Effect.catchAllDefect((defect) => Effect.fail(usage(`standard input cannot be read: ${String(defect)}.`))))
  return size > maxMessageBytes ? yield* tooLarge : decode(Buffer.concat(Chunk.toReadonlyArray(chunks)))
})

/** Node has replaced the bytes that are not UTF-8 by the time it hands an argument over: only the host still knows. */
const fromArgument = Effect.fnUntraced(function* (argument: string) {
  const prompt = cleaned(argument)
  if (!argument.includes("\uFFFD")) return prompt
  const fs = yield* FileSystem.FileSystem
  const given = yield* Effect.orElseSucceed(fs.readFile("/proc/self/cmdline"), () => new Uint8Array())
  return { ...prompt, replaced: prompt.replaced || !isUtf8(given) }
})
