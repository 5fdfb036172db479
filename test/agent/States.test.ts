import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import type { Agent } from "../../src/agent/Agent.ts"
import { JournalFull } from "../../src/domain/Errors.ts"
import { MessageId } from "../../src/domain/Ids.ts"
import { call, say } from "../../src/model/ScriptedModel.ts"
import * as HeldJournal from "../support/HeldJournal.ts"
import { at, door, endings, inputs, others } from "../support/Watching.ts"
import * as World from "../support/World.ts"

/** An agent in one of its states. `letGo` lets what holds it go on. */
interface Subject {
  readonly agent: Agent
  readonly scope: Scope.CloseableScope
  readonly world: World.World
  readonly letGo: Effect.Effect<unknown>
  readonly recover: Effect.Effect<unknown>
}

/** An agent at rest; a prompt that was kept waits, or something that was injected. */
const resting = (waits: "nothing" | "a prompt" | "an injection") =>
  Effect.gen(function* () {
    let isFirst = waits === "a prompt"
    const first = Effect.suspend(() => {
      const assembled = isFirst ? Effect.never : Effect.succeed([])
      isFirst = false
      return assembled
    })
    const world = yield* World.make({ scripts: Array.from({ length: 9 }, () => say("so")), sections: first })
    const scope = yield* Scope.make()
    // left by another owner, and not run by itself
    if (waits === "a prompt") yield* Effect.scoped(Effect.flatMap(world.open(), parking))
    const agent = yield* Scope.extend(world.open(), scope)
    if (waits === "an injection") yield* agent.inject("w")
    const subject: Subject = { agent, scope, world, letGo: Effect.void, recover: Effect.void }
    return subject
  })

const parking = (agent: Agent) =>
  Effect.zipRight(agent.followup({ id: w, text: "w" }), agent.cancel("user", { keepInbox: true }))

const w = MessageId.make("w")

/** An agent whose turn is in a body, with a prompt that waits. */
const running = Effect.gen(function* () {
  const body = yield* door
  const world = yield* World.make({
    scripts: [call(["finish", { id: "a" }]), ...Array.from({ length: 9 }, () => say("so"))],
    body: () => Effect.as(body.pass, "done")
  })
  const scope = yield* Scope.make()
  const agent = yield* Scope.extend(world.open(), scope)
  yield* agent.followup("p")
  yield* body.entered
  yield* agent.followup({ id: w, text: "w" })
  const subject: Subject = { agent, scope, world, letGo: body.letGo, recover: Effect.void }
  return subject
})

const after = (act: (subject: Subject) => Effect.Effect<unknown, unknown>) =>
  Effect.gen(function* () {
    const subject = yield* running
    const acting = yield* Effect.fork(act(subject))
    yield* others
    return { ...subject, letGo: Effect.zipRight(subject.letGo, Effect.exit(Fiber.join(acting))) }
  })

/** An agent whose turn has decided how it ends, and waits for the disk. */
const decided = Effect.gen(function* () {
  const answer = yield* door
  const held = yield* HeldJournal.make
  const world = yield* World.make({
    journal: held.layer,
    scripts: [at(answer.pass), ...Array.from({ length: 9 }, () => say("so"))]
  })
  const scope = yield* Scope.make()
  const agent = yield* Scope.extend(world.open(), scope)
  yield* agent.followup("p")
  yield* answer.entered
  yield* agent.followup({ id: w, text: "w" })
  yield* held.gate.close
  yield* Effect.zipRight(answer.letGo, others)
  const subject: Subject = { agent, scope, world, letGo: held.gate.open, recover: Effect.void }
  return subject
})

const broken = Effect.gen(function* () {
  const held = yield* HeldJournal.make
  const world = yield* World.make({ journal: held.layer, scripts: [say("so")] })
  const scope = yield* Scope.make()
  const agent = yield* Scope.extend(world.open(), scope)
  yield* agent.inject({ id: w, text: "w" })
  held.failWith(new JournalFull({ file: "memory", cause: new Error("no space") }))
  yield* Effect.zipRight(Effect.exit(agent.inject("lost")), others)
  const subject: Subject = { agent, scope, world, letGo: Effect.void, recover: Effect.sync(held.recover) }
  return subject
})

const disposed = Effect.tap(resting("an injection"), ({ scope }) => Scope.close(scope, Exit.void))

const acts = {
  followup: ({ agent }: Subject) => Effect.as(agent.followup("n"), "accepted"),
  steer: ({ agent }: Subject) => Effect.as(agent.steer("n"), "accepted"),
  inject: ({ agent }: Subject) => Effect.as(agent.inject("n"), "accepted"),
  remove: ({ agent }: Subject) => agent.remove(w),
  resume: ({ agent }: Subject) => agent.resume,
  cancel: ({ agent }: Subject) =>
    Effect.map(agent.cancel("parent"), ({ _tag, dropped }) => `${_tag} -${dropped.length}`),
  keep: ({ agent }: Subject) =>
    Effect.map(agent.cancel("parent", { keepInbox: true }), ({ _tag, dropped }) => `${_tag} -${dropped.length}`),
  idle: ({ agent }: Subject) => Effect.map(agent.idle, ({ parked }) => `idle, ${parked}`),
  close: ({ scope }: Subject) => Effect.as(Scope.close(scope, Exit.void), "closed")
}
type Act = keyof typeof acts

/** What an act is answered in a state; then the status once all is at rest, the endings of the turns, and their input. */
type Row = readonly [answer: string, status: string, endings: string, inputs: string]

const refused = (answer: string, status: string, ended = "", entered = ""): Record<Act, Row> => ({
  followup: [answer, status, ended, entered],
  steer: [answer, status, ended, entered],
  inject: [answer, status, ended, entered],
  remove: ["false", status, ended, entered],
  resume: [answer, status, ended, entered],
  cancel: ["Idle -0", status, ended, entered],
  keep: ["Idle -0", status, ended, entered],
  idle: ["idle, 0", status, ended, entered],
  close: ["closed", status === "Broken" ? "Broken" : "Disposed", ended, entered]
})

const states: ReadonlyArray<{
  readonly name: string
  readonly make: Effect.Effect<Subject, unknown, Scope.Scope>
  readonly rows: Record<Act, Row>
}> = [
  {
    name: "at rest",
    make: resting("nothing"),
    rows: {
      followup: ["accepted", "Idle 0", "completed", "n"],
      steer: ["accepted", "Idle 0", "completed", "n"],
      inject: ["accepted", "Idle 0", "", ""],
      remove: ["false", "Idle 0", "", ""],
      resume: ["false", "Idle 0", "", ""],
      cancel: ["Idle -0", "Idle 0", "", ""],
      keep: ["Idle -0", "Idle 0", "", ""],
      idle: ["idle, 0", "Idle 0", "", ""],
      close: ["closed", "Disposed", "", ""]
    }
  },
  {
    name: "at rest, with an injection",
    make: resting("an injection"),
    rows: {
      followup: ["accepted", "Idle 0", "completed", "w n"],
      steer: ["accepted", "Idle 0", "completed", "w n"],
      inject: ["accepted", "Idle 0", "", ""],
      remove: ["false", "Idle 0", "", ""],
      resume: ["false", "Idle 0", "", ""],
      cancel: ["Idle -1", "Idle 0", "", ""],
      keep: ["Idle -0", "Idle 0", "", ""],
      idle: ["idle, 0", "Idle 0", "", ""],
      close: ["closed", "Disposed", "", ""]
    }
  },
  {
    name: "at rest, with a prompt",
    make: resting("a prompt"),
    rows: {
      followup: ["accepted", "Idle 0", "aborted completed completed", "w n"],
      steer: ["accepted", "Idle 0", "aborted completed", "n w"],
      inject: ["accepted", "Idle 1", "aborted", ""],
      remove: ["true", "Idle 0", "aborted", ""],
      resume: ["true", "Idle 0", "aborted completed", "w"],
      cancel: ["Idle -1", "Idle 0", "aborted", ""],
      keep: ["Idle -0", "Idle 1", "aborted", ""],
      idle: ["idle, 1", "Idle 1", "aborted", ""],
      close: ["closed", "Disposed", "aborted", ""]
    }
  },
  {
    name: "running",
    make: running,
    rows: {
      followup: ["accepted", "Idle 0", "completed completed completed", "p w n"],
      steer: ["accepted", "Idle 0", "completed completed", "p n w"],
      inject: ["accepted", "Idle 0", "completed completed", "p n w"],
      remove: ["true", "Idle 0", "completed", "p"],
      resume: ["false", "Idle 0", "completed completed", "p w"],
      cancel: ["Settled -1", "Idle 0", "aborted", "p"],
      keep: ["Settled -0", "Idle 1", "aborted", "p"],
      idle: ["idle, 0", "Idle 0", "completed completed", "p w"],
      close: ["closed", "Disposed", "aborted", "p"]
    }
  },
  {
    name: "cancelled, keeping the inbox",
    make: after(({ agent }) => agent.cancel("user", { keepInbox: true })),
    rows: {
      followup: ["accepted", "Idle 0", "aborted completed completed", "p w n"],
      steer: ["accepted", "Idle 0", "aborted completed", "p n w"],
      inject: ["accepted", "Idle 1", "aborted", "p"],
      remove: ["true", "Idle 0", "aborted", "p"],
      resume: ["false", "Idle 1", "aborted", "p"],
      cancel: ["Settled -1", "Idle 0", "aborted", "p"],
      keep: ["Settled -0", "Idle 1", "aborted", "p"],
      idle: ["idle, 1", "Idle 1", "aborted", "p"],
      close: ["closed", "Disposed", "aborted", "p"]
    }
  },
  {
    name: "cancelled, with a prompt behind it",
    make: after(({ agent }) =>
      Effect.zipRight(
        Effect.fork(agent.cancel("user")),
        Effect.zipRight(Effect.yieldNow(), agent.followup({ id: MessageId.make("again"), text: "b" }))
      )
    ),
    rows: {
      followup: ["accepted", "Idle 0", "aborted completed completed", "p b n"],
      steer: ["accepted", "Idle 0", "aborted completed", "p n b"],
      inject: ["accepted", "Idle 0", "aborted completed", "p n b"],
      remove: ["false", "Idle 0", "aborted completed", "p b"],
      resume: ["false", "Idle 0", "aborted completed", "p b"],
      cancel: ["Settled -1", "Idle 0", "aborted", "p"],
      keep: ["Settled -0", "Idle 1", "aborted", "p"],
      idle: ["idle, 0", "Idle 0", "aborted completed", "p b"],
      close: ["closed", "Disposed", "aborted", "p"]
    }
  },
  {
    name: "decided, and not stored",
    make: decided,
    rows: {
      followup: ["accepted", "Idle 0", "completed completed completed", "p w n"],
      steer: ["accepted", "Idle 0", "completed completed", "p n w"],
      inject: ["accepted", "Idle 0", "completed completed", "p n w"],
      remove: ["true", "Idle 0", "completed", "p"],
      resume: ["false", "Idle 0", "completed completed", "p w"],
      cancel: ["Idle -1", "Idle 0", "completed", "p"],
      keep: ["Idle -0", "Idle 1", "completed", "p"],
      idle: ["idle, 0", "Idle 0", "completed completed", "p w"],
      close: ["closed", "Disposed", "completed", "p"]
    }
  },
  {
    name: "closing",
    make: after(({ scope }) => Scope.close(scope, Exit.void)),
    rows: {
      ...refused("AgentDisposed", "Disposed", "aborted", "p"),
      remove: ["true", "Disposed", "aborted", "p"],
      cancel: ["Settled -1", "Disposed", "aborted", "p"],
      keep: ["Settled -0", "Disposed", "aborted", "p"],
      idle: ["idle, 1", "Disposed", "aborted", "p"]
    }
  },
  { name: "closed", make: disposed, rows: refused("AgentDisposed", "Disposed") },
  {
    name: "broken",
    make: broken,
    rows: { ...refused("SessionBroken", "Broken"), remove: ["SessionBroken", "Broken", "", ""] }
  }
]

const statusOf = (agent: Agent) =>
  Effect.map(agent.status, (status) => (status._tag === "Idle" ? `Idle ${status.parked}` : status._tag))

describe("an agent", () => {
  it.scoped.each(states)(
    "B09 B15 B16 W30 R9 R10 R11 R12 law 5 law 7: answers everything as its state says: $name",
    ({ make, rows }) =>
      Effect.gen(function* () {
        const found: Record<string, Row> = {}
        for (const [name, act] of Object.entries(acts)) {
          const subject = yield* make
          const acting = yield* Effect.fork(
            // an act has its own type of answer, and all that counts here is how it reads
            Effect.either(act(subject) as Effect.Effect<unknown, { readonly _tag: string }>)
          )
          yield* Effect.zipRight(others, subject.letGo)
          const answer = Either.match(yield* Fiber.join(acting), { onLeft: (error) => error._tag, onRight: String })
          yield* subject.agent.idle
          found[name] = [
            answer,
            yield* statusOf(subject.agent),
            (yield* endings(subject.world)).join(" "),
            (yield* inputs(subject.world)).join(" ")
          ]
          yield* subject.recover
          yield* Scope.close(subject.scope, Exit.void)
        }
        assert.deepStrictEqual(found, rows)
      })
  )
})
