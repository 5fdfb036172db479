/**
 * Real processes in tests: who lives, waiting for them within a bound, and a host of our own to kill.
 */
import * as ChildProcess from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"

interface Living {
  readonly pid: number
  readonly ppid: number
  readonly pgid: number
  readonly environment: string
}

const read = (path: string): string => {
  try {
    return readFileSync(path, "latin1")
  } catch {
    return ""
  }
}

/** Every process that is no zombie. A naive reading, apart from the one under test. */
const living = (): ReadonlyArray<Living> =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const [state, ppid, pgid] = read(`/proc/${name}/stat`)
        .replace(/^.*\) /s, "")
        .split(" ")
      if (state === undefined || pgid === undefined || state === "Z" || state === "X") return []
      return [{ pid: Number(name), ppid: Number(ppid), pgid: Number(pgid), environment: read(`/proc/${name}/environ`) }]
    })

/** The living processes of a group, guards included. */
export const ofGroup = (pgid: number): ReadonlyArray<number> =>
  living().flatMap((process) => (process.pgid === pgid ? [process.pid] : []))

/** The living children of a process. */
export const childrenOf = (pid: number): ReadonlyArray<number> =>
  living().flatMap((process) => (process.ppid === pid ? [process.pid] : []))

/** The living processes that have this text in their environment, this one aside. */
export const marked = (mark: string): ReadonlyArray<number> =>
  living().flatMap(({ environment, pid }) => (environment.includes(mark) && pid !== process.pid ? [pid] : []))

/** The living processes that have this text among their arguments, this one aside. */
export const named = (text: string): ReadonlyArray<number> =>
  living().flatMap(({ pid }) => (read(`/proc/${pid}/cmdline`).includes(text) && pid !== process.pid ? [pid] : []))

/** Returns once `check` holds; dies, saying what it waited for, when it does not within the bound. */
export const eventually = (
  what: string,
  check: () => boolean | Effect.Effect<boolean>,
  withinMillis = 10_000
): Effect.Effect<void> =>
  Effect.suspend(() => {
    const until = performance.now() + withinMillis
    const holds = Effect.suspend(() => {
      const answer = check()
      return Effect.isEffect(answer) ? answer : Effect.succeed(answer)
    })
    const loop: Effect.Effect<void> = Effect.flatMap(holds, (now) => {
      if (now) return Effect.void
      if (performance.now() > until) return Effect.dieMessage(`waited ${withinMillis} ms in vain: ${what}`)
      return Effect.zipRight(Effect.sleep(5), loop)
    })
    return loop
  })

/** A program of this repository, bundled so that plain node runs it, in a scoped folder of its own. */
export const bundled = Effect.fnUntraced(function* (entry: string) {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "daybook-host-" })
  const outfile = join(folder, "host.mjs")
  yield* fs.symlink(fileURLToPath(new URL("../../node_modules", import.meta.url)), join(folder, "node_modules"))
  // not imported above: a bundled program may import this file, and has no bundler with it
  const { build } = yield* Effect.promise(() => import("esbuild"))
  yield* Effect.promise(() =>
    build({
      entryPoints: [entry],
      outfile,
      bundle: true,
      platform: "node",
      format: "esm",
      target: "node20",
      external: ["esbuild", "better-sqlite3"],
      mainFields: ["module", "main"]
    })
  )
  return outfile
})

/** A node program that runs until its scope closes, and all that it printed so far. */
export const host = (file: string, args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const child = ChildProcess.spawn(process.execPath, [file, ...args], {
        env: { ...process.env, ...env },
        stdio: ["ignore", "pipe", "pipe"]
      })
      let printed = ""
      for (const stream of [child.stdout, child.stderr])
        stream.on("data", (data) => {
          printed += String(data)
        })
      const exited = new Promise<number | null>((resolve) => child.once("exit", resolve))
      return {
        pid: child.pid ?? -1,
        kill: () => child.kill("SIGKILL"),
        printed: () => printed,
        /** Its exit code; none where a signal ended it. */
        exited: Effect.promise(() => exited)
      }
    }),
    ({ kill }) => Effect.sync(kill)
  )
