import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { SessionBroken } from "../../src/domain/Errors.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import * as Backlog from "../../src/session/Backlog.ts"
import { id } from "../support/World.ts"

/** A backlog of one event that is on its way, and a wait for it that has not begun. */
const sent = () => {
  const backlog = Backlog.make(SessionState.initial(0))
  const waiting = Backlog.wait(backlog, 1)
  Backlog.push(backlog, [{ type: "turn/start", data: { turn: 1 }, seq: 0, time: 0 }])
  Backlog.send(backlog, { ...SessionState.initial(0), head: 1 })
  return { backlog, waiting }
}

describe("the backlog", () => {
  it.effect("J20 W11: who begins to wait for what was stored just before is not left waiting", () =>
    Effect.gen(function* () {
      const { backlog, waiting } = sent()
      Backlog.stored(backlog)
      yield* waiting
      assert.deepStrictEqual(backlog.waiters, [])
    })
  )

  it.effect("W16: who begins to wait for what was given up just before is told so", () =>
    Effect.gen(function* () {
      const { backlog, waiting } = sent()
      const error = new SessionBroken({ sessionId: id, durableHead: 0, cause: new Error("disk") })
      Backlog.abandon(backlog, error)
      assert.strictEqual(yield* Effect.flip(waiting), error)
      assert.deepStrictEqual(backlog.waiters, [])
    })
  )
})
