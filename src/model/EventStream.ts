/**
 * Server-sent events out of the body of an HTTP response.
 *
 * - Bytes may be cut anywhere: inside a character, between CR and LF, inside an event (O-H8).
 * - Comments are no events, but they are a sign of life (O-H9). The last event may lack its blank line.
 * - Memory is bounded: an event is at most 10 MiB.
 */
import * as Sse from "@effect/experimental/Sse"

/**
 * An event, or what stands for one: the `tail` is an event that the end of the body cut off, which may be whole all the
 * same; the `body` is the text of a body that holds no event at all.
 */
export interface ServerEvent {
  readonly kind: "event" | "tail" | "body"
  readonly name: string
  readonly data: string
}

/** The events that were complete, and why nothing more can be read, if so. */
export interface Parsed {
  readonly events: ReadonlyArray<ServerEvent>
  readonly problem?: string
}

/** Reads one body. Feed it the text as it comes, then end it. */
export interface Parser {
  readonly feed: (text: string) => Parsed
  readonly end: () => Parsed
}

/** How much of a body without events is kept, and one read more. */
const maxBody = 1024 * 1024

/** A reader of one body. */
export const makeParser = (): Parser => {
  const found: Array<ServerEvent> = []
  let kind: ServerEvent["kind"] = "event"
  let count = 0
  let head = ""
  let held = ""
  // it also tells of `retry` fields: when to try again is not for a server to say in the middle of an answer
  const sse = Sse.makeParser((event) => {
    if (event._tag === "Event" && event.data.trim() !== "") found.push({ kind, name: event.event, data: event.data })
  })
  const feed = (text: string): Parsed => {
    const whole = held + text
    held = whole.endsWith("\r") ? "\r" : ""
    // one line at a time: what it is fed at once, the parser reads again from the start for each line, and once it has seen
    // a CR in there it takes the next LF, wherever that stands, for the other half
    const lines = whole.slice(0, whole.length - held.length)
    let problem: string | undefined
    for (let from = 0; from < lines.length && problem === undefined; ) {
      const to = lines.indexOf("\n", from) + 1 || lines.length
      problem = sse.feed(lines.slice(from, to))?.message
      from = to
    }
    const events = found.splice(0)
    count += events.length
    if (count === 0 && head.length < maxBody) head += lines
    return problem === undefined ? { events } : { events, problem }
  }
  const end = (): Parsed => {
    kind = "tail"
    const rest = feed("\n\n")
    if (count > 0 || rest.problem !== undefined || head.trim() === "" || fieldLine.test(head)) return rest
    return { events: [{ kind: "body", name: "message", data: head.trim() }] }
  }
  return { feed, end }
}

// internal

/** A line of an event stream, a comment included. */
const fieldLine = /^(?::|(?:event|id|retry|data):)/m
