/**
 * Scenarios of one agent, run step by step: things happen at any steps, and then all must still be well.
 *
 * A run is judged by the laws on its stored log, by what the next request would be, by what each act was answered, and by
 * what is left: no fiber, no timer, no body or stream that was entered and not left.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import { assert } from "@effect/vitest"
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { SessionId } from "../../src/domain/Ids.ts"
import type { SessionState } from "../../src/domain/SessionState.ts"
import { Journal } from "../../src/journal/Journal.ts"
import type { ChatModel } from "../../src/model/ChatModel.ts"
import * as ScriptedModel from "../../src/model/ScriptedModel.ts"
import * as Explorer from "../../src/testing/Explorer.ts"
import { ToolCall } from "../../src/tool/ToolCall.ts"
import * as Acts from "./Acts.ts"
import * as World from "./World.ts"

/** Where a turn stood when something happened to it. */
export const phases = ["before the request", "streaming", "between calls", "in a body", "in the ending"] as const
export type Phase = (typeof phases)[number] | "between attempts" | "at rest"

export interface Scenario {
  readonly name: string
  /** One a request; the requests after them are answered with a word. */
  readonly scripts: ReadonlyArray<ScriptedModel.Script>
  readonly body?: World.Body
  /** What is composed besides. */
  readonly composed?: Composed
  /** How many prompts are sent at once; 1 by default. */
  readonly prompts?: number
  /** The phases that the scenario has. */
  readonly has: ReadonlyArray<Phase>
}

/** Who has a say in the turns of a scenario. */
export type Composed = Pick<World.Options, "hooks" | "toolHooks" | "approvals" | "approver">

export type { Act } from "./Acts.ts"
export { cancelling, disposing, following, injecting, keeping, removing, steering } from "./Acts.ts"

/** When something happens: at a step of the program, when a subscriber sees its n-th item, or in the n-th body. */
export type Moment = number | { readonly item: number } | { readonly body: number }

/** What happens, and when; that at steps in ascending order. */
export type Plan = ReadonlyArray<readonly [at: Moment, act: Acts.Act]>

export interface Options {
  /** Draws another order of the fibers from it. */
  readonly seed?: number
  /** Instead of a journal in memory: this one, and a session of its own in it. */
  readonly stored?: { readonly journal: Context.Tag.Service<Journal>; readonly id: SessionId }
}

/** What a run showed. */
export interface Run {
  readonly steps: number
  /** Where the turn stood at each act that came at a step. */
  readonly phases: ReadonlyArray<Phase>
  /** The log, in the shorthand of the catalogue. */
  readonly log: string
  readonly problems: ReadonlyArray<string>
}

/** Runs a scenario, and does what is planned to its agent. */
export const run = (scenario: Scenario, plan: Plan = [], options: Options = {}): Run => {
  const seen: Seen = { phases: [], asked: "", hasFailed: false, alive: new Map() }
  const at = plan.flatMap(([moment]) => (typeof moment === "number" ? [moment] : []))
  const outcome = Explorer.run(program(scenario, plan, options, seen), {
    at,
    ...(options.seed === undefined ? {} : { seed: options.seed })
  })
  const problems: Array<string> = []
  if (outcome.fibers > 0) problems.push(`${outcome.fibers} fibers are left`)
  if (outcome.timers > 0) problems.push(`${outcome.timers} timers are left`)
  for (const [turn, count] of seen.alive)
    if (count !== 0) problems.push(`${count} bodies and streams of turn ${turn} are left`)
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

/** What many runs of one scenario showed. */
export interface Landed {
  /** How many acts came in each phase. */
  readonly phases: Map<Phase, number>
  readonly logs: Set<string>
  runs: number
}

/** Runs each of these cases, one after another, and fails at the first one with a problem; others may run in between. */
export const each = <A>(cases: Iterable<A>, runOne: (one: A) => Run): Effect.Effect<Landed> =>
  Effect.gen(function* () {
    const landed: Landed = { phases: new Map(), logs: new Set(), runs: 0 }
    for (const one of cases) {
      const { log, phases, problems } = runOne(one)
      assert.strictEqual(problems.join("; "), "", `at ${JSON.stringify(one)}: ${log}`)
      for (const phase of phases) landed.phases.set(phase, (landed.phases.get(phase) ?? 0) + 1)
      landed.logs.add(log)
      // the test runner wants to hear of its worker
      if (++landed.runs % 20 === 0) yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
    }
    return landed
  })

/** Every step up to the last one, or every one of a stride from an offset on. */
export const everyStep = (
  { from = 1, stride = 1, to }: { readonly from?: number; readonly to: number; readonly stride?: number },
  runAt: (step: number) => Run
): Effect.Effect<Landed> =>
  each(
    Array.from({ length: Math.max(0, Math.ceil((to - from + 1) / stride)) }, (_, index) => from + index * stride),
    runAt
  )

/** How many logs there were, and how many acts in each phase. */
export const told = ({ logs, phases }: Landed): string =>
  [`${logs.size} logs`, ...[...phases].map(([phase, count]) => `${count} ${phase}`)].join(", ")

// internal

interface Seen {
  readonly phases: Array<Phase>
  /** The step of the last request, and whether that has failed. */
  asked: string
  hasFailed: boolean
  /** How many bodies and streams of each turn were entered and not left. */
  readonly alive: Map<number, number>
}

/** No file is there: nothing in such a world may wait for what is outside of it. */
const host = FileSystem.layerNoop({})

/** What the model says when the scripts are over. */
const well = Array.from({ length: 30 }, () => ScriptedModel.say("well"))

/** The body of the run under way, which is done before the next one begins. */
const current: { body: World.Body } = { body: () => Effect.dieMessage("nothing runs") }

/** What a scenario chooses, built once for all of its runs. */
const chosenBy = (scenario: Scenario): World.Chosen => {
  const known = chosen.get(scenario.composed)
  if (known !== undefined) return known
  const options: World.Options = {
    ...scenario.composed,
    body: (id) => Effect.suspend(() => current.body(id)),
    host
  }
  const built = Effect.runSync(Effect.scoped(World.choose(options)))
  chosen.set(scenario.composed, built)
  return built
}
const chosen = new Map<Composed | undefined, World.Chosen>()

/** Whatever runs in it belongs to this turn and is counted. */
const counted = ({ alive }: Seen, turn: number) =>
  Effect.acquireRelease(
    Effect.sync(() => alive.set(turn, (alive.get(turn) ?? 0) + 1)),
    () => Effect.sync(() => alive.set(turn, (alive.get(turn) ?? 0) - 1))
  )

const program =
  (scenario: Scenario, plan: Plan, { stored }: Options, seen: Seen) =>
  (controls: Explorer.Controls) =>
    Effect.scoped(
      Effect.gen(function* () {
        const at = (isAt: (moment: Moment) => boolean) => plan.flatMap(([moment, act]) => (isAt(moment) ? [act] : []))
        const perform = (acts: ReadonlyArray<Acts.Act>) =>
          Effect.forEach(acts, (act) => watched.perform(act), { discard: true })
        const { model: scripted } = yield* ScriptedModel.make([...scenario.scripts, ...well])
        const stream: ChatModel["Type"]["stream"] = (request) =>
          Stream.unwrapScoped(
            Effect.suspend(() => {
              const state = world.unsafeState()
              seen.asked = placeOf(state)
              seen.hasFailed = false
              const failing = Effect.sync(() => {
                seen.hasFailed = true
              })
              const stream = Stream.tapError(scripted.stream(request), () => failing)
              return Effect.as(counted(seen, state?.brackets.lastTurn ?? 0), stream)
            })
          )
        let bodies = 0
        current.body = (id) =>
          Effect.gen(function* () {
            const nth = bodies++
            yield* counted(seen, (yield* ToolCall).turn)
            yield* perform(at((moment) => typeof moment === "object" && "body" in moment && moment.body === nth))
            return yield* scenario.body?.(id) ?? Effect.succeed(`did ${id}`)
          }).pipe(Effect.scoped)
        const world: World.World = yield* World.make({
          ...(stored === undefined ? {} : { journal: Layer.succeed(Journal, stored.journal), id: stored.id }),
          model: { stream },
          chosen: chosenBy(scenario)
        })
        const scope = yield* Scope.make()
        const agent = yield* Scope.extend(world.open(), scope)
        const watched: Acts.Watched = Acts.watch({ agent, scope, world }, (turn) => seen.alive.get(turn) ?? 0)
        let items = 0
        const seeing = Effect.suspend(() => {
          const nth = items++
          return perform(at((moment) => typeof moment === "object" && "item" in moment && moment.item === nth))
        })
        if (plan.some(([moment]) => typeof moment === "object" && "item" in moment)) {
          yield* Effect.fork(Stream.runForEach(agent.events, () => seeing))
          // it subscribes
          yield* Effect.yieldNow()
        }
        let step = 0
        const stepped = at((moment) => typeof moment === "number")
        controls.unsafeArm(() => {
          const act = stepped[step++]
          seen.phases.push(phaseOf(world, seen))
          if (act !== undefined) controls.unsafeFork(watched.perform(act))
        })
        for (let prompt = 1; prompt <= (scenario.prompts ?? 1); prompt++) yield* watched.perform(Acts.following)
        yield* agent.idle
        controls.unsafeDisarm()
        yield* watched.settled
        yield* agent.idle
        yield* Scope.close(scope, Exit.void)
        yield* watched.settled
        const log = yield* world.log
        return { log: World.shorthand(log), problems: watched.judge(log) }
      })
    )

const placeOf = (state: SessionState | undefined): string =>
  `${state?.brackets.open?.turn}.${state?.brackets.open?.steps}`

const phaseOf = (world: World.World, seen: Seen): Phase => {
  const state = world.unsafeState()
  const open = state?.brackets.open
  // its end is in the log, and not yet durable or not yet told
  const isEnding = world.notices.filter(({ type }) => type === "ended").length < (state?.brackets.lastTurn ?? 0)
  if (open === undefined) return isEnding ? "in the ending" : "at rest"
  const { step } = open
  if (step === undefined) return open.steps === 0 ? "before the request" : "in the ending"
  if (step.answer === undefined && seen.asked !== placeOf(state)) return "before the request"
  if (step.answer === undefined) return seen.hasFailed ? "between attempts" : "streaming"
  if (step.calls.every((call) => call.result !== undefined)) return "in the ending"
  return (seen.alive.get(open.turn) ?? 0) > 0 ? "in a body" : "between calls"
}
