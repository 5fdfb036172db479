/**
 * What a log breaks.
 */

/** The laws of DESIGN.md that a log alone can show. */
export type Law = 1 | 2 | 3 | 6 | 7 | 8

/** One thing that breaks a law. `seq` is where it shows; it may be found later. */
export interface Violation {
  readonly seq: number
  readonly law: Law
  readonly detail: string
}

/** Notes a violation; without a seq it is that of the event being looked at. */
export type Say = (law: Law, detail: string, seq?: number) => void
