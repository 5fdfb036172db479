/**
 * A long session: turns that streamed their answers in twenty runs each.
 */
import { type Event, Ids, Message, Sessions } from "daybook"
import { Effect } from "effect"
import { id, sessions } from "./agent.ts"

/** The events of one turn, from seq `head` on. */
const turnEvents = (turn: number, head: number): ReadonlyArray<Event.SessionEvent> => {
  const at = { turn, step: 1 }
  const prompt = {
    id: Ids.MessageId.make(`prompt-${turn}`),
    role: "user" as const,
    source: { kind: "prompt" as const },
    content: [Message.text("go")]
  }
  const source = { provider: "bench", model: "bench" }
  const header: ReadonlyArray<Event.SessionEvent> =
    turn > 1 ? [] : [{ type: "request/header", data: { reason: "initial", config: source, system: "", tools: [] } }]
  const run = "a run of text ".repeat(10)
  const chunks = Array.from({ length: 20 }, (): Event.SessionEvent => {
    return { type: "assistant/chunk", data: { ...at, chunk: { type: "text", index: 0, text: run } } }
  })
  const first = head + 5 + header.length
  const message = {
    id: Ids.answerId(turn, 1),
    role: "assistant" as const,
    source,
    content: [Message.text(run.repeat(20))]
  }
  return [
    { type: "agent/inbox/spliced", data: { target: "next-turn", start: 0, inserted: [prompt] } },
    { type: "turn/start", data: { turn } },
    { type: "agent/inbox/spliced", data: { target: "next-turn", start: 0, removedCount: 1, inserted: [] } },
    { type: "step/start", data: at },
    { type: "user/message", data: prompt },
    ...header,
    ...chunks,
    {
      type: "assistant/message",
      data: { ...at, message, finish: "stop" },
      sourceEventSeqs: { from: first, to: first + 19 }
    },
    { type: "step/end", data: at },
    { type: "turn/end", data: { turn, reason: { kind: "completed" } } }
  ]
}

/** Puts one message in the place of all steps but those of the last turn. */
const replaced = (turns: number, head: number): Event.SessionEvent => ({
  type: "context/replaced",
  data: {
    from: 3,
    to: head - 30,
    messages: [
      {
        id: Ids.MessageId.make("so-far"),
        role: "user",
        source: { kind: "context" },
        content: [Message.text(`${turns} turns of text`)]
      }
    ]
  }
})

/** Writes a session of at least so many events; with all but its last turn replaced, if asked to. How many there are. */
export const longSession = (filename: string, events: number, compacted = false) =>
  Effect.gen(function* () {
    const session = yield* (yield* Sessions.Sessions).acquire(id, { cwd: "/", create: "if-absent" })
    let turn = 1
    for (; session.unsafeState().head < events; turn++) yield* session.append((state) => turnEvents(turn, state.head))
    if (compacted) yield* session.append((state) => [replaced(turn - 1, state.head)])
    yield* session.barrier
    return session.unsafeHead()
  }).pipe(Effect.scoped, Effect.provide(sessions(filename)))
