/**
 * The guard: a request equals what the log derives, or it is not sent (law 1).
 *
 * - The step itself calls it right before the model, once all before the request is durable: no layer in the place of the
 *   model passes it by (H03). Who calls a model without the loop is not its matter.
 * - All of a request counts: each message, each field of its config, system and tools (H05, W04).
 * - By default it compares with the log in memory, at the cost of what is new; `layerStrict` with what is stored, at the cost
 *   of the whole log.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { SessionId } from "../domain/Ids.ts"
import * as Request from "../domain/Request.ts"
import * as SessionState from "../domain/SessionState.ts"
import * as Transcript from "../domain/Transcript.ts"
import { canonical } from "../internal/Json.ts"
import { foldStored } from "../session/Load.ts"
import type { Session } from "../session/Session.ts"

/** A request was not sent: it is not what the log of its session derives, or nobody could see whether it is. */
export class RequestRefused extends Schema.TaggedError<RequestRefused>()("RequestRefused", {
  sessionId: SessionId,
  detail: Schema.String,
  cause: Schema.optional(Schema.Defect)
}) {
  override get message() {
    return `session ${this.sessionId}: the request was not sent: ${this.detail}`
  }
}

/** Fails where a request is not what the log derives now. */
export type Check = (request: Request.ChatRequest) => Effect.Effect<void, RequestRefused>

/** The check of the requests of one session, made when its agent opens. */
export type MakeCheck = (session: Session) => Check

/** Compares a rolling digest of the messages, and the header. A message is hashed once, when it is new. */
const rolling: MakeCheck = (session) => {
  let memory = Transcript.guardMemory(session.unsafeState().transcript)
  return (request) =>
    Effect.suspend(() => {
      const state = session.unsafeState()
      const guarded = Request.guardDigest(memory, request.messages)
      memory = guarded.memory
      const differing = differences(request, state, guarded.digest === SessionState.requestDigest(state))
      return differing.length === 0 ? Effect.void : Effect.fail(refusal(session, differing))
    })
}

/** Compares the text of the request with that of the one which the stored events derive, folded from the first one on. */
const strict: MakeCheck = (session) => (request) =>
  Effect.gen(function* () {
    const first = SessionState.initial(session.header.seedLength)
    const state = yield* Effect.mapError(foldStored(first, session.read), (cause) => {
      const detail = "what is stored cannot be read, and so not compared with it"
      return new RequestRefused({ sessionId: session.id, detail, cause })
    })
    const derived = SessionState.deriveRequest(state)
    if (derived !== undefined && Request.canonicalRequest(derived) === Request.canonicalRequest(request)) return
    const areSame = canonical(derived?.messages) === canonical(request.messages)
    return yield* refusal(session, differences(request, state, areSame))
  })

/** The guard of every agent; without a layer it compares digests. */
export class Guard extends Context.Reference<Guard>()("daybook/agent/Guard", {
  defaultValue: (): { readonly make: MakeCheck } => ({ make: rolling })
}) {}

/** The guard that compares bytes. A request costs what the whole log does: for tests, and for whoever wants to pay for it. */
export const layerStrict: Layer.Layer<Guard> = Layer.succeed(Guard, { make: strict })

// internal

const refusal = ({ id }: Session, differing: ReadonlyArray<string>): RequestRefused =>
  new RequestRefused({ sessionId: id, detail: `it is not what the log derives: ${differing.join(", ")}` })

/** What of a request is not as the log has it; of its messages somebody else tells. */
const differences = (
  request: Request.ChatRequest,
  { header }: SessionState.SessionState,
  areMessagesSame: boolean
): ReadonlyArray<string> => {
  const differing = areMessagesSame ? [] : ["its messages"]
  for (const part of ["config", "system", "tools"] as const) {
    const logged = header?.data[part]
    if (request[part] !== logged && canonical(request[part]) !== canonical(logged)) differing.push(`its ${part}`)
  }
  return differing
}
