import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { StoredEvent } from "../../src/domain/Event.ts"
import { eventually, ofGroup } from "../support/processes.ts"
import * as Killer from "./Killer.ts"
import { type Orders, policyOf } from "./Life.ts"
import * as Oracle from "./Oracle.ts"
import * as Outside from "./Outside.ts"

const filesOf = ({ folder }: Killer.Place) => ({
  file: join(folder, "bodies.db"),
  outside: join(folder, "bodies"),
  session: "bodies"
})

type Script = ReadonlyArray<Pick<Orders, "rounds" | "slowMillis"> & { readonly moment?: Killer.Moment }>

/** Lives on one session, one after another; each is killed at its moment, or lives to its end. */
const lives = (...script: Script) =>
  Effect.gen(function* () {
    const at = yield* Killer.victims
    const files = filesOf(at)
    const oracle = Oracle.make()
    const events: Array<StoredEvent> = []
    for (const [index, { moment, ...doing }] of script.entries()) {
      const orders: Orders = { ...files, ...doing, life: index + 1 }
      const end = yield* Killer.life(at, orders, moment)
      assert.strictEqual(end.killed, moment !== undefined, end.errors)
      const look = yield* Killer.look(files, Oracle.seen(oracle))
      events.push(...look.events)
      assert.deepStrictEqual(Oracle.judge(oracle, look, policyOf(orders.life)), [])
    }
    return { events, oracle }
  })

/** What became of each call of a turn, in order: its code, or nothing where it has the result of its body. */
const fates = (events: ReadonlyArray<StoredEvent>, turn: number) =>
  events.flatMap((event) =>
    event.type === "tool/result" && event.data.turn === turn ? [event.data.error?.code ?? "real"] : []
  )

const entered = (events: ReadonlyArray<StoredEvent>) =>
  events.flatMap((event) => (event.type === "user/message" ? [String(event.data.id)] : []))

describe("SIGKILL at a chosen moment", () => {
  it.live(
    "O-Q1 O-Q2 O-Q3 O-L6 O-G1 W25: a line that a command appended stands there once, finished calls keep their results, and two more lives run none of it again",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const held = { word: "held", nth: 1, afterMillis: 0 } as const
          const { events, oracle } = yield* lives(
            { rounds: [{ shape: "hold" }], moment: held },
            { rounds: [{ shape: "talk" }] },
            { rounds: [{ shape: "talk" }] }
          )
          // three bodies began, each once; the oracle has compared the lines that they left
          assert.deepStrictEqual([...oracle.marked.keys()].toSorted(), ["t1s1c0", "t1s1c1", "t1s1c2"])
          assert.deepStrictEqual(fates(events, 1), ["real", "TOOL_OUTCOME_UNKNOWN", "real"])
          // the turn without an owner was closed, and the prompt of it is no prompt any more
          const endings = events.flatMap((event) => (event.type === "turn/end" ? [event.data.reason.kind] : []))
          assert.deepStrictEqual(endings, ["interrupted", "completed", "completed"])
          assert.deepStrictEqual(entered(events), ["1-0", "2-0", "3-0"])
          const pgid = events.flatMap((event) => (event.type === "tool/process" ? [event.data.pgid] : []))[0] ?? 0
          yield* eventually("its guard is gone", () => ofGroup(pgid).length === 0)
        })
      ),
    120_000
  )

  it.live(
    "W25: a command that ran when its host was killed is gone, and its outcome is unknown",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const at = yield* Killer.victims
          const files = filesOf(at)
          const host = yield* Killer.host(at, { ...files, life: 1, rounds: [{ shape: "wait" }] })
          // one body waits for ever, the other is a command that would sleep for a quarter of an hour
          const marks = () => Outside.read(files.outside).filter(({ word }) => word === "mark").length
          yield* eventually("both bodies have begun", () => marks() === 2)
          host.signal("SIGKILL")
          yield* host.ended
          const { events } = yield* Killer.look(files)
          const pgid = events.flatMap((event) => (event.type === "tool/process" ? [event.data.pgid] : []))[0] ?? 0
          yield* eventually("its group is gone", () => ofGroup(pgid).length === 0)
          yield* Killer.life(at, { ...files, life: 2, rounds: [{ shape: "talk" }] })
          const look = yield* Killer.look(files)
          assert.deepStrictEqual(Oracle.judge(Oracle.make(), look), [])
          assert.deepStrictEqual(fates(look.events, 1), ["TOOL_OUTCOME_UNKNOWN", "TOOL_OUTCOME_UNKNOWN"])
        })
      ),
    120_000
  )

  for (const kind of ["followup", "steer", "inject"] as const)
    it.live(
      `law 7 W33 O-L4: right after a ${kind} returned, the message is in the log, and it is used once`,
      () =>
        Effect.scoped(
          Effect.gen(function* () {
            const second = { word: "sent", nth: 2, afterMillis: 0 } as const
            const { events } = yield* lives(
              // on a slow disk, what did not wait for it would be lost
              { rounds: [{ shape: "talk", also: [kind] }], moment: second, slowMillis: 50 },
              { rounds: [{ shape: "talk" }] }
            )
            assert.deepStrictEqual(
              entered(events).filter((id) => id === "1-0-0"),
              ["1-0-0"]
            )
          })
        ),
      120_000
    )
})
