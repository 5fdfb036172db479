/**
 * What Daybook counts, in the registry of Effect's metrics: whoever exports that exports these.
 */
import * as Metric from "effect/Metric"

/** A counter that only rises. */
const counter = (name: string, description: string) => Metric.counter(name, { description, incremental: true })

/** Deltas of text, reasoning and arguments as they came from a model, also of attempts that failed. */
export const deltas = counter("daybook_deltas", "deltas that came from a model")

/** Events that became durable. */
export const events = counter("daybook_events", "events that became durable")

/** Commits of the journal, each of the events of one or more sessions. */
export const commits = counter("daybook_commits", "commits of events")

/** Waits for the disk: those that found all durable already are not counted, those that failed or were interrupted are. */
export const barriers = counter("daybook_barriers", "barriers that had to wait")

/** How long those waited in all, in milliseconds. */
export const barrierMillis = counter("daybook_barrier_millis", "milliseconds that barriers waited in all")

/** Adds to a counter, in one synchronous step. */
export const unsafeAdd = (of: Metric.Metric.Counter<number>, amount: number): void => of.unsafeUpdate(amount, [])
