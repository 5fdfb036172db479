/**
 * Scenarios of one agent, run step by step: something happens at any one step, and then all must still be well.
 *
 * A run is judged by the laws on its stored log, by what the next request would be, and by what is left: no fiber, no timer,
 * no body that was entered and not left.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Agent } from "../../src/agent/Agent.ts"
import * as Repair from "../../src/domain/Repair.ts"
import type { ChatRequest } from "../../src/domain/Request.ts"
import * as RequestRules from "../../src/domain/RequestRules.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import * as ScriptedModel from "../../src/model/ScriptedModel.ts"
import * as Explorer from "../../src/testing/Explorer.ts"
import { said } from "./Facts.ts"
import * as World from "./World.ts"

/** Where a turn stood when something happened to it. */
export const phases = ["before the request", "streaming", "between calls", "in a body", "in the ending"] as const
export type Phase = (typeof phases)[number]

export interface Scenario {
  readonly name: string
  readonly scripts: ReadonlyArray<ScriptedModel.Script>
  readonly body?: World.Body
  readonly hooks?: World.Options["hooks"]
  /** How many prompts are sent at once; 1 by default. */
  readonly prompts?: number
  /** The phases that the scenario has. */
  readonly has: ReadonlyArray<Phase>
}

/** What happens at a step, to the agent and the scope that it lives in. */
export type Act = (agent: Agent, scope: Scope.CloseableScope) => Effect.Effect<unknown, unknown>

export const cancelling: Act = (agent) => agent.cancel("user")
export const keeping: Act = (agent) => agent.cancel("user", { keepInbox: true })
export const steering: Act = (agent) => agent.steer("another thing")
export const following: Act = (agent) => agent.followup("one more")
export const disposing: Act = (_, scope) => Scope.close(scope, Exit.void)

/** What a run showed. */
export interface Run {
  readonly steps: number
  /** Where the turn stood at each act. */
  readonly phases: ReadonlyArray<Phase>
  /** The log, in the shorthand of the catalogue. */
  readonly log: string
  readonly problems: ReadonlyArray<string>
}

/** Runs a scenario with these acts, each at its step. */
export const run = (scenario: Scenario, acts: ReadonlyArray<readonly [step: number, act: Act]> = []): Run => {
  const seen: Seen = { phases: [], asked: "", entered: 0, left: 0 }
  const outcome = Explorer.run(
    program(
      scenario,
      acts.map(([, act]) => act),
      seen
    ),
    acts.map(([step]) => step)
  )
  const problems: Array<string> = []
  if (outcome.fibers > 0) problems.push(`${outcome.fibers} fibers are left`)
  if (outcome.timers > 0) problems.push(`${outcome.timers} timers are left`)
  if (seen.entered !== seen.left) problems.push(`${seen.entered} bodies were entered, ${seen.left} left`)
  const log = Option.match(outcome.exit, {
    onNone: () => {
      problems.push("it hangs")
      return ""
    },
    onSome: Exit.match({
      onFailure: (cause) => {
        problems.push(Cause.pretty(cause))
        return ""
      },
      onSuccess: (result) => {
        problems.push(...result.problems)
        return result.log
      }
    })
  })
  return { steps: outcome.steps, phases: seen.phases, log, problems }
}

// internal

interface Seen {
  readonly phases: Array<Phase>
  /** The step of the last request. */
  asked: string
  /** Bodies. */
  entered: number
  left: number
}

/** No file is there: nothing in such a world may wait for what is outside of it. */
const host = FileSystem.layerNoop({})

const program = (scenario: Scenario, acts: ReadonlyArray<Act>, seen: Seen) => (controls: Explorer.Controls) =>
  Effect.scoped(
    Effect.gen(function* () {
      const { model: scripted } = yield* ScriptedModel.make(scenario.scripts)
      const stream = (request: ChatRequest) =>
        Stream.suspend(() => {
          seen.asked = placeOf(world.unsafeState())
          return scripted.stream(request)
        })
      const body: World.Body = (id) =>
        Effect.acquireUseRelease(
          Effect.sync(() => seen.entered++),
          () => (scenario.body ?? ((name) => Effect.succeed(`did ${name}`)))(id),
          () => Effect.sync(() => seen.left++)
        )
      const hooks = scenario.hooks === undefined ? {} : { hooks: scenario.hooks }
      const world = yield* World.make({ ...hooks, model: { stream }, body, host })
      const scope = yield* Scope.make()
      const agent = yield* Scope.extend(world.open(), scope)
      let next = 0
      controls.unsafeArm(() => {
        const act = acts[next++]
        seen.phases.push(phaseOf(world.unsafeState(), seen))
        if (act !== undefined) controls.unsafeFork(act(agent, scope))
      })
      for (let prompt = 1; prompt <= (scenario.prompts ?? 1); prompt++)
        yield* Effect.ignore(agent.followup(`prompt ${prompt}`))
      yield* agent.idle
      controls.unsafeDisarm()
      yield* Scope.close(scope, Exit.void)
      const log = yield* world.log
      return { log: World.shorthand(log), problems: judged(SessionState.fold(log)) }
    })
  )

const placeOf = (state: SessionState.SessionState | undefined): string =>
  `${state?.brackets.open?.turn}.${state?.brackets.open?.steps}`

const phaseOf = (state: SessionState.SessionState | undefined, seen: Seen): Phase => {
  const open = state?.brackets.open
  if (open === undefined) return "in the ending"
  const { step } = open
  if (step === undefined) return open.steps === 0 ? "before the request" : "in the ending"
  if (step.answer === undefined) return seen.asked === placeOf(state) ? "streaming" : "before the request"
  if (step.calls.every((call) => call.result !== undefined)) return "in the ending"
  return seen.entered > seen.left ? "in a body" : "between calls"
}

/** What is wrong with a log, beside the laws that every world checks: it balances, and the next request is acceptable. */
const judged = (folded: Either.Either<SessionState.SessionState, string>): ReadonlyArray<string> => {
  if (Either.isLeft(folded)) return [folded.left]
  const state = folded.right
  if (Repair.closers(state).length > 0) return ["a turn stands open"]
  const request = SessionState.deriveRequest(state)
  if (request === undefined) return []
  return RequestRules.violations({ ...request, messages: [...request.messages, said("next", "next")] }).map(
    ({ at, rule }) => `the next request: ${rule} at ${at}`
  )
}
