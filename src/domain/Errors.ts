/**
 * Errors that cross rooms.
 *
 * - One class per way of recovering. Each says what happened, to which session, what was kept, and what to do next.
 */
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { SessionId } from "./Ids.ts"

const ofSession = { sessionId: SessionId }
const cause = { cause: Schema.Defect }

// the journal

/** The log's head is not where the writer thought: nothing was written. Load the session again. */
export class SeqConflict extends Schema.TaggedError<SeqConflict>()("SeqConflict", {
  ...ofSession,
  /** The head that the writer expected. */
  head: Schema.Int
}) {
  override get message() {
    return `session ${this.sessionId}: its log does not end at ${this.head}; nothing was written. Open it again.`
  }
}

/** Another owner took the session: nothing was written, and nothing will be under this epoch. */
export class SessionFenced extends Schema.TaggedError<SessionFenced>()("SessionFenced", {
  ...ofSession,
  epoch: Schema.Int
}) {
  override get message() {
    return `session ${this.sessionId}: another process took it over; nothing more is written here. What was stored before is kept.`
  }
}

/** No room to write: nothing of this write was kept. Free some space and open the session again. */
export class JournalFull extends Schema.TaggedError<JournalFull>()("JournalFull", { file: Schema.String, ...cause }) {
  override get message() {
    return `${this.file}: the disk is full; this write was not kept, everything before it is. Free some space and try again.`
  }
}

/** Another process holds the database: nothing of this write was kept. It may be tried again as it is. */
export class JournalBusy extends Schema.TaggedError<JournalBusy>()("JournalBusy", { file: Schema.String, ...cause }) {
  override get message() {
    return `${this.file}: another process holds the database; this write was not kept, everything before it is. Try again.`
  }
}

/** Stored bytes that are not what was written. The file is left as it is. */
export class JournalCorrupt extends Schema.TaggedError<JournalCorrupt>()("JournalCorrupt", {
  file: Schema.String,
  sessionId: Schema.optional(SessionId),
  detail: Schema.String,
  ...cause
}) {
  override get message() {
    const what = this.sessionId === undefined ? this.file : `session ${this.sessionId} in ${this.file}`
    const others = this.sessionId === undefined ? "" : "; other sessions still open"
    return `${what} is damaged: ${this.detail}. Nothing was changed${others}. Restore it from a copy.`
  }
}

/** A format that this build does not know: a foreign file, or one of an older or newer version. The file is left as it is. */
export class JournalUnsupported extends Schema.TaggedError<JournalUnsupported>()("JournalUnsupported", {
  file: Schema.String,
  sessionId: Schema.optional(SessionId),
  direction: Schema.Literal("older", "newer", "foreign"),
  detail: Schema.String
}) {
  override get message() {
    const what = this.sessionId === undefined ? this.file : `session ${this.sessionId} in ${this.file}`
    const next =
      this.direction === "newer"
        ? "Use a newer daybook."
        : this.direction === "older"
          ? this.sessionId === undefined
            ? "A command that writes, such as `daybook run`, brings it up to date."
            : "Use the daybook that wrote it."
          : "Name another file with --db."
    return `${what}: unsupported format (${this.direction}): ${this.detail}. Nothing was changed. ${next}`
  }
}

/** Whether the system does not let a file be written. */
const isDenied = (cause: unknown): boolean =>
  Predicate.hasProperty(cause, "code") &&
  /^(SQLITE_(READONLY|CANTOPEN|PERM)|EACCES|EPERM|EROFS)/.test(String(cause.code))

/** The database cannot be opened, read or written, and no other error says why. What was stored before is kept. */
export class JournalFailed extends Schema.TaggedError<JournalFailed>()("JournalFailed", {
  file: Schema.String,
  operation: Schema.String,
  ...cause
}) {
  override get message() {
    const why = this.cause instanceof Error ? this.cause.message : String(this.cause)
    return isDenied(this.cause)
      ? `${this.file} cannot be written: ${why}. What was stored before is kept. Make the file and its folder writable, or name another one.`
      : `${this.file}: ${this.operation} failed: ${why}. What was stored before is kept.`
  }
}

/** Any failure of the store itself. */
export type JournalError = JournalFull | JournalBusy | JournalCorrupt | JournalUnsupported | JournalFailed

// sessions

/** No such session is stored. */
export class SessionNotFound extends Schema.TaggedError<SessionNotFound>()("SessionNotFound", ofSession) {
  override get message() {
    return `session ${this.sessionId}: no such session. \`daybook sessions\` lists those that there are.`
  }
}

/** The id that a new session was to get is that of another one. Nothing was changed, and nothing of it adopted. */
export class SessionExists extends Schema.TaggedError<SessionExists>()("SessionExists", ofSession) {
  override get message() {
    return `session ${this.sessionId} is there already; nothing was changed. Go on with that one, or take another database (--db) or, for a fork, another id (--as).`
  }
}

/** The session has a live owner: a process of a host, since a time in Unix milliseconds. Reading is free, writing is not. */
export class SessionOwned extends Schema.TaggedError<SessionOwned>()("SessionOwned", {
  ...ofSession,
  host: Schema.String,
  pid: Schema.Int,
  since: Schema.Int
}) {
  override get message() {
    const since = new Date(this.since).toISOString()
    return `session ${this.sessionId} is owned by process ${this.pid} of ${this.host}, since ${since}; nothing was changed. Wait until it is released, or read it.`
  }
}

/** The session works in another folder than the one that was asked for. Nothing was changed. */
export class SessionElsewhere extends Schema.TaggedError<SessionElsewhere>()("SessionElsewhere", {
  ...ofSession,
  cwd: Schema.String
}) {
  override get message() {
    return `session ${this.sessionId} works in ${this.cwd}; nothing was changed. Open it with that workspace, or name another session.`
  }
}

/** A write failed: what is stored up to `durableHead` is kept, what came after it is gone. Open the session again. */
export class SessionBroken extends Schema.TaggedError<SessionBroken>()("SessionBroken", {
  ...ofSession,
  durableHead: Schema.Int,
  ...cause
}) {
  override get message() {
    const why = (this.cause instanceof Error ? this.cause.message : String(this.cause)).replace(/\.$/, "")
    // of a damaged journal nothing is promised
    const kept = this.cause instanceof JournalCorrupt ? "" : ` The ${this.durableHead} events before are kept.`
    return `session ${this.sessionId} stopped: ${why}.${kept} Open it again to go on.`
  }
}

// agents

/** The agent is being disposed, or was: the message was not accepted. */
export class AgentDisposed extends Schema.TaggedError<AgentDisposed>()("AgentDisposed", ofSession) {
  override get message() {
    return `session ${this.sessionId}: its agent is closed; the message was not accepted. Open the session again.`
  }
}

/** Called from the turn that it would wait for. */
export class InsideTurn extends Schema.TaggedError<InsideTurn>()("InsideTurn", {
  ...ofSession,
  operation: Schema.String
}) {
  override get message() {
    return `session ${this.sessionId}: ${this.operation} waits for the turn that called it. Call it from outside the turn.`
  }
}

/** The message was not accepted, and why. Nothing was stored. */
export class InvalidMessage extends Schema.TaggedError<InvalidMessage>()("InvalidMessage", {
  ...ofSession,
  reason: Schema.Literal("empty", "too-large", "bad-id", "used-id")
}) {
  override get message() {
    const why = {
      empty: "it says nothing",
      "too-large": "it is over 4 MiB",
      "bad-id": "its id is empty or no well-formed text",
      "used-id": "its id was used before, or is one that only the log gives"
    }
    return `session ${this.sessionId}: the message was not accepted: ${why[this.reason]}.`
  }
}
