/**
 * Approvals: what is to become of a call that is right and that no hook refused: it runs, it does not, or a person is asked.
 *
 * - A call is never run undecided: a policy that fails denies it, and the reason says so.
 * - A policy asks nobody itself: the pipeline asks the `Approver`, and the log keeps question and answer.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Settings from "../settings/Settings.ts"
import * as ApprovalRules from "./ApprovalRules.ts"
import type { PendingCall } from "./ToolCall.ts"

/** What a policy says of a call. The model reads the reason of a denial, and a person that of a question. */
export type Judgement = Data.TaggedEnum<{
  Allow: object
  Deny: { readonly reason: string }
  Ask: { readonly reason?: string }
}>
export const Judgement = Data.taggedEnum<Judgement>()

/** Who judges calls. */
export interface ApprovalPolicy {
  readonly judge: (call: PendingCall) => Effect.Effect<Judgement>
}

/** The approval of calls; without a layer every call is allowed, and nothing is logged. */
export class Approvals extends Context.Reference<Approvals>()("daybook/tool/Approvals", {
  defaultValue: (): ApprovalPolicy => ({ judge: () => Effect.succeed(Judgement.Allow()) })
}) {}

/** The rules on calls, as a person sets them. */
export const Rules = Settings.section(
  "approvals",
  Schema.Struct({
    /** Of all that match a call the most specific one decides, and of several such the strictest. */
    rules: Schema.optionalWith(Schema.Array(ApprovalRules.Rule), { default: () => [] })
  })
)

/**
 * Judges by the rules of the settings, read at each call. Where none matches, what its tool declares to be read-only is
 * allowed, and anything else is asked about.
 */
export const layer: Layer.Layer<Approvals, never, Settings.Settings> = Layer.effect(
  Approvals,
  Effect.map(Settings.Settings, (settings) => ({
    judge: (call) => Effect.map(settings.get(Rules), ({ rules }) => byRules(rules, call))
  }))
)

/** Allows whatever the policy below would ask about, and asks nobody: nothing is logged. What it denies stays denied. */
export const layerUnasked: Layer.Layer<Approvals> = Layer.effect(
  Approvals,
  Effect.map(Approvals, ({ judge }) => ({
    judge: (call) => Effect.map(judge(call), (judged) => (judged._tag === "Ask" ? Judgement.Allow() : judged))
  }))
)

/** The stricter of two: one denial denies, and one question asks. Of two alike the first. */
export const stricter = (a: Judgement, b: Judgement): Judgement => (strictness[b._tag] > strictness[a._tag] ? b : a)

// internal

const strictness = { Allow: 0, Ask: 1, Deny: 2 } as const

const byRules = (rules: ReadonlyArray<ApprovalRules.Rule>, call: PendingCall): Judgement => {
  const rule = ApprovalRules.decide(rules, call)
  if (rule === undefined) return call.annotations.readonly ? Judgement.Allow() : Judgement.Ask({})
  switch (rule.decision) {
    case "allow":
      return Judgement.Allow()
    case "deny":
      return Judgement.Deny({ reason: `a rule of the settings denies ${ApprovalRules.named(rule)}` })
    case "ask":
      return Judgement.Ask({ reason: `a rule of the settings asks about ${ApprovalRules.named(rule)}` })
    default:
      return rule.decision satisfies never
  }
}
