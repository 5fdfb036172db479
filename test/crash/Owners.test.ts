import { hostname } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { textOf } from "../../src/domain/Message.ts"
import { eventually, ofGroup } from "../support/processes.ts"
import * as Killer from "./Killer.ts"
import { live, type Orders, type Round } from "./Life.ts"
import * as Oracle from "./Oracle.ts"
import * as Outside from "./Outside.ts"
import * as Racers from "./Racers.ts"
import type { Answer } from "./racer.ts"

const races = 200
/** How long two writers write beside each other: `DAYBOOK_LOAD_SECONDS` says otherwise. */
const loadSeconds = Number(process.env["DAYBOOK_LOAD_SECONDS"] ?? 30)

/** Whether that answer names the owner. */
const names = (answer: Answer, pid: number) =>
  answer.became === "refused" && answer.pid === pid && answer.host === hostname() && answer.since > 0

/** A last life in this process, its clock so far ahead. It tells outside what it does. */
const here = (orders: Orders, aheadMillis = 0) => {
  const clock = Clock.make()
  const ahead = new Proxy(clock, {
    get: (_, key) =>
      key === "unsafeCurrentTimeMillis"
        ? () => clock.unsafeCurrentTimeMillis() + aheadMillis
        : key === "currentTimeMillis"
          ? Effect.map(clock.currentTimeMillis, (now) => now + aheadMillis)
          : Reflect.get(clock, key, clock)
  })
  const tell = (line: Outside.Line) => Outside.append(orders.outside, line)
  return Effect.withClock(live({ orders, tell, go: Effect.unsafeMakeLatch(true) }), ahead)
}

const sessionOf = ({ folder }: Killer.Place, file: string, session: string) => ({
  file,
  session,
  outside: join(folder, session)
})

/** Reads what is new of a session, for ever. */
const follow = (orders: Orders): Effect.Effect<never> => {
  let seq = 0
  const more = Effect.map(
    Effect.suspend(() => Killer.look(orders, { seq, line: 0 })),
    ({ events }) => {
      seq += events.length
    }
  )
  return Effect.forever(Effect.zipRight(Effect.sleep(50), more))
}

/** What is wrong with what lies there. */
const judged = (orders: Pick<Orders, "file" | "outside" | "session">) =>
  Effect.map(Killer.look(orders), (look) => Oracle.judge(Oracle.make(), look))

describe("processes on one file", () => {
  it.live(
    `law 9 W02 O-N1: ${races} races for one session: each has one owner, and whoever lost is told who that is`,
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const at = yield* Racers.racers
          const file = join(at.folder, "race.db")
          const racers = yield* Effect.replicateEffect(Racers.start(at, file), 3)
          const wins = new Map<number, number>()
          for (let race = 0; race < races; race++) {
            // every tenth race is for a session that is not there yet
            const session = `raced-${Math.floor(race / 10)}`
            const go = Date.now() + 15
            const answers = yield* Effect.forEach(racers, (racer) => racer.ask({ do: "acquire", session, at: go }), {
              concurrency: "unbounded"
            })
            const owners = racers.filter((_, index) => answers[index]?.became === "owner")
            const [owner] = owners
            assert.strictEqual(owners.length, 1, JSON.stringify(answers))
            if (owner === undefined) continue
            for (const answer of answers)
              assert.isTrue(answer.became === "owner" || names(answer, owner.pid), JSON.stringify(answer))
            yield* owner.ask({ do: "release" })
            wins.set(owner.pid, (wins.get(owner.pid) ?? 0) + 1)
          }
          // else there was no race
          assert.isAbove(wins.size, 1)
          const last = sessionOf(at, file, "raced-0")
          assert.strictEqual((yield* Killer.look(last)).epoch, 10)
          assert.deepStrictEqual(yield* judged(last), [])
        })
      ),
    120_000
  )

  it.live(
    "law 9 W02 O-N2 J08: while its owner lives a session is refused, naming the owner, and read; after SIGKILL it is taken at once",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const at = yield* Racers.racers
          const file = join(at.folder, "kill.db")
          const session = "killed"
          let owner = yield* Racers.start(at, file)
          assert.deepStrictEqual(yield* owner.ask({ do: "acquire", session, at: 0 }), { became: "owner" })
          for (let deaths = 1; deaths <= 5; deaths++) {
            const next = yield* Racers.start(at, file)
            const refused = yield* next.ask({ do: "acquire", session, at: 0 })
            assert.isTrue(names(refused, owner.pid), JSON.stringify(refused))
            const look = yield* Killer.look(sessionOf(at, file, session))
            assert.strictEqual(look.epoch, deaths)
            assert.strictEqual(look.events.length, 2 * deaths)
            yield* owner.kill
            assert.deepStrictEqual(yield* next.ask({ do: "acquire", session, at: 0 }), { became: "owner" })
            owner = next
          }
        })
      ),
    120_000
  )

  it.live(
    "law 9 law 4 O-N4 W02 W25: an owner that stood still past its lease is fenced off: it writes nothing, its turn stops, and it ends its processes",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const at = yield* Killer.victims
          const files = sessionOf(at, join(at.folder, "stop.db"), "stopped")
          const paused = yield* Killer.host(at, { ...files, life: 1, rounds: [{ shape: "wait" }, { shape: "talk" }] })
          const marks = () => Outside.read(files.outside).filter(({ word }) => word === "mark").length
          yield* eventually("both bodies have begun", () => marks() === 2)
          paused.signal("SIGSTOP")
          const before = yield* Killer.look(files)
          const [pgid = 0] = before.events.flatMap((event) => (event.type === "tool/process" ? [event.data.pgid] : []))
          // its lease lasts 30 s from its last write on: until then it is an owner like any other
          const orders: Orders = { ...files, life: 2, rounds: [{ shape: "brief" }] }
          const early = yield* Effect.flip(here(orders))
          assert.strictEqual(early._tag, "SessionOwned")
          yield* here(orders, 31_000)
          const taken = yield* Killer.look(files)
          assert.strictEqual(taken.epoch, before.epoch + 1)
          // what it runs is its own to end: whoever takes the session only tells of it
          assert.isAbove(ofGroup(pgid).length, 0)
          const told = taken.events.flatMap((event) => (event.type === "tool/result" ? textOf(event.data.message) : []))
          assert.include(told[1], `Its process ${pgid} still runs.`)
          // its body returns, and what that came to is to be stored
          paused.signal("SIGCONT")
          paused.signal("SIGUSR2")
          const { lines } = yield* paused.ended
          assert.deepStrictEqual(
            lines.filter(({ word }) => word === "rest" || word === "failed").map(({ args }) => args),
            [
              ["error", "false"],
              ["SessionBroken", "SessionFenced"]
            ]
          )
          assert.deepStrictEqual(ofGroup(pgid), [])
          const after = yield* Killer.look(files)
          assert.deepStrictEqual(after.events, taken.events)
          assert.deepStrictEqual(yield* judged(files), [])
        })
      ),
    120_000
  )

  it.live(
    `O-M5: two sessions are written beside each other for ${loadSeconds} s, a third one beside them by 50 MB, all of them read, and nobody is told that the file is busy`,
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const at = yield* Killer.victims
          const file = join(at.folder, "load.db")
          const beside: ReadonlyArray<Round> = [
            { shape: "burst" },
            { shape: "tools" },
            { shape: "brief", also: ["followup"] }
          ]
          const flood: ReadonlyArray<Round> = Array.from({ length: 10 }, () => ({ shape: "flood" }))
          const writers = [beside, beside, flood].map(
            (rounds, index): Orders => ({
              ...sessionOf(at, file, `load-${index}`),
              life: index + 1,
              rounds,
              forMillis: rounds === flood ? 0 : loadSeconds * 1000
            })
          )
          const ends = yield* Effect.raceFirst(
            Effect.forEach(writers, (orders) => Killer.life(at, orders), { concurrency: "unbounded" }),
            Effect.forEach(writers, follow, { concurrency: "unbounded" })
          )
          for (const { errors, lines } of ends) {
            assert.strictEqual(lines.at(-1)?.word, "ended", errors)
            assert.strictEqual(errors, "")
            const rests = lines.flatMap(({ args, word }) => (word === "rest" ? [args.join(" ")] : []))
            assert.deepStrictEqual([...new Set(rests)], ["completed true"])
          }
          for (const orders of writers) assert.deepStrictEqual(yield* judged(orders), [])
        })
      ),
    60_000 + loadSeconds * 3_000
  )
})
