/**
 * The explorer: runs a program of fibers the same way each time, and lets something happen at any one step of it.
 *
 * - One thread: the fibers that can run take turns in the order in which they became able to, and run until they wait; or,
 *   by a seed, in any order, and for any time. The clock stands still while any fiber can run, then jumps to the next timer.
 * - A step is an operation of any fiber. The same program takes the same steps, so what happened at step k happens again.
 * - A program that waits for something outside of it (a file, a socket, a promise) hangs here, and is told to.
 */
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import type * as Scheduler from "effect/Scheduler"
import * as Supervisor from "effect/Supervisor"
import { PCGRandom } from "effect/Utils"

/** What a run came to. */
export interface Outcome<A, E> {
  /** How the program ended; none if it hangs: nothing can run, and no timer is set. */
  readonly exit: Option.Option<Exit.Exit<A, E>>
  /** How many steps were counted, from `Controls.unsafeArm` on. */
  readonly steps: number
  /** Fibers that still live, and timers that are still set, after all that could run has. */
  readonly fibers: number
  readonly timers: number
}

/** What a program can do in its world. */
export interface Controls {
  /** Steps are counted from here on, and what is to happen at those that were named is this. */
  readonly unsafeArm: (act: () => void) => void
  /** They are counted no more. */
  readonly unsafeDisarm: () => void
  /** Starts an effect as somebody outside the program would, at once. */
  readonly unsafeFork: <A, E>(effect: Effect.Effect<A, E>) => void
}

/** How many steps a run may take before it counts as one that never ends. */
export const maxSteps = 2_000_000

/** How a program is run. */
export interface Options {
  /** The steps at which it acts, in ascending order. */
  readonly at?: ReadonlyArray<number>
  /** Who runs next, and for how long, is drawn from this seed; without one, each in turn until it waits. */
  readonly seed?: number
}

/** Runs a program to where nothing more can happen. */
export const run = <A, E>(
  program: (controls: Controls) => Effect.Effect<A, E>,
  options: Options = {}
): Outcome<A, E> => {
  const world = new World(options)
  const main = world.fork(Effect.suspend(() => program(world.controls)))
  world.drain()
  return {
    exit: Option.fromNullable(main.unsafePoll()),
    steps: world.steps,
    fibers: world.fibers.size,
    timers: world.timers.size
  }
}

// internal

/** How many steps a fiber runs by a seed until it lets others run, on average. */
const meanSlice = 32

interface Timer {
  readonly at: number
  readonly run: () => void
}

class World implements Scheduler.Scheduler {
  steps = 0
  readonly timers = new Set<Timer>()
  readonly fibers = new Set<Fiber.RuntimeFiber<unknown, unknown>>()
  private now = 0
  private total = 0
  private act: (() => void) | undefined
  private readonly tasks: Array<() => void> = []
  private readonly at: Array<number>
  private readonly dice: PCGRandom | undefined
  /** One for all: what two fibers draw differs. */
  private readonly random = Random.make("explorer")

  constructor({ at, seed }: Options) {
    this.at = [...(at ?? [])]
    this.dice = seed === undefined ? undefined : new PCGRandom(seed)
  }

  readonly controls: Controls = {
    unsafeArm: (act) => {
      this.act = act
    },
    unsafeDisarm: () => {
      this.act = undefined
    },
    unsafeFork: <A, E>(effect: Effect.Effect<A, E>) => {
      this.fork(effect)
    }
  }

  shouldYield(): number | false {
    if (++this.total > maxSteps) throw new Error(`the program took more than ${maxSteps} steps`)
    if (this.act !== undefined) this.steps++
    while (this.act !== undefined && this.at[0] === this.steps) {
      this.at.shift()
      this.act()
    }
    return this.dice?.integer(meanSlice) === 0 ? 0 : false
  }

  scheduleTask(task: () => void): void {
    this.tasks.push(task)
  }

  fork<A, E>(effect: Effect.Effect<A, E>): Fiber.RuntimeFiber<A, E> {
    const inside = effect.pipe(
      Effect.supervised(this.census),
      Effect.withClock(this.clock),
      Effect.withRandom(this.random)
    )
    return Effect.runFork(inside, { scheduler: this })
  }

  /** Runs whatever can run, and lets time pass, until nothing is left. */
  drain(): void {
    for (;;) {
      const [task] = this.tasks.splice(this.dice?.integer(this.tasks.length) ?? 0, 1)
      if (task !== undefined) task()
      else {
        // the earliest, and of those the first that was set
        const next = [...this.timers].reduce<Timer | undefined>(
          (first, timer) => (first === undefined || timer.at < first.at ? timer : first),
          undefined
        )
        if (next === undefined) return
        this.timers.delete(next)
        this.now = Math.max(this.now, next.at)
        next.run()
      }
    }
  }

  private readonly clock: Clock.Clock = {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: () => this.now,
    unsafeCurrentTimeNanos: () => BigInt(Math.round(this.now * 1e6)),
    currentTimeMillis: Effect.sync(() => this.now),
    currentTimeNanos: Effect.sync(() => BigInt(Math.round(this.now * 1e6))),
    sleep: (duration) =>
      Effect.async<void>((resume) => {
        const timer: Timer = { at: this.now + Duration.toMillis(duration), run: () => resume(Effect.void) }
        this.timers.add(timer)
        return Effect.sync(() => this.timers.delete(timer))
      })
  }

  /** Knows every fiber of the program that lives. */
  private readonly census = new (class extends Supervisor.AbstractSupervisor<void> {
    private readonly fibers: Set<Fiber.RuntimeFiber<unknown, unknown>>
    constructor(fibers: Set<Fiber.RuntimeFiber<unknown, unknown>>) {
      super()
      this.fibers = fibers
    }
    override readonly value = Effect.void
    override onStart<A, E, R>(
      _context: Context.Context<R>,
      _effect: Effect.Effect<A, E, R>,
      _parent: Option.Option<Fiber.RuntimeFiber<unknown, unknown>>,
      fiber: Fiber.RuntimeFiber<A, E>
    ): void {
      this.fibers.add(fiber)
    }
    override onEnd<A, E>(_value: Exit.Exit<A, E>, fiber: Fiber.RuntimeFiber<A, E>): void {
      this.fibers.delete(fiber)
    }
  })(this.fibers)
}
