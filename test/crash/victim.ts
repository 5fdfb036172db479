/**
 * A host to be killed: one life, told line by line on stdout and outside.
 */
import { writeSync } from "node:fs"
import Database from "better-sqlite3"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import { live, type Orders } from "./Life.ts"
import * as Outside from "./Outside.ts"

const orders = JSON.parse(process.argv[2] ?? "{}") as Orders // the killer wrote it

const tell = (line: Outside.Line): void => {
  Outside.append(orders.outside, line)
  writeSync(1, `${Outside.written(line)}\n`)
}

/** Lets every statement commit by itself, and takes its time before it inserts events. */
const untie = (): void => {
  Database.prototype.prepare = new Proxy(Database.prototype.prepare, {
    apply: (prepare, self, [source]: [string]) => {
      const text = /^(BEGIN|COMMIT|ROLLBACK)/.test(source) ? "SELECT 1" : source
      const statement: Database.Statement<Array<unknown>> = Reflect.apply(prepare, self, [text])
      const run = statement.run.bind(statement)
      if (text.startsWith("INSERT INTO session_event"))
        statement.run = (...values) => {
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)
          return run(...values)
        }
      return statement
    }
  })
}

/** The tags of an error and of what caused it. */
const tagsOf = (error: unknown): ReadonlyArray<string> =>
  Predicate.hasProperty(error, "_tag")
    ? [String(error._tag), ...tagsOf(Predicate.hasProperty(error, "cause") ? error.cause : undefined)]
    : []

if (orders.sabotage === "transaction") untie()
const go = Effect.unsafeMakeLatch(false)
process.on("SIGUSR2", () => go.unsafeOpen())

Effect.runCallback(live({ orders, tell, go }), {
  onExit: (exit) => {
    if (Exit.isSuccess(exit)) return
    tell({ life: orders.life, word: "failed", args: tagsOf(Option.getOrUndefined(Cause.failureOption(exit.cause))) })
    process.stderr.write(`${Cause.pretty(exit.cause)}\n`)
    process.exitCode = 1
  }
})
