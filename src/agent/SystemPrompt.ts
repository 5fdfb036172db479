/**
 * The system prompt: sections, put together anew for each step.
 *
 * - Ascending by order, empty ones dropped, joined by a blank line (P01). The same sections give the same bytes.
 * - A layer adds to the prompt below it: a section takes the place of one with its name, which is then not asked (P02).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { SessionId } from "../domain/Ids.ts"
import { wellFormed } from "../internal/Json.ts"

/** More than one section is said to be all of the prompt. The turn ends as `error`; nothing was sent. */
export class PromptConflict extends Schema.TaggedError<PromptConflict>()("PromptConflict", {
  names: Schema.Array(Schema.String)
}) {
  override get message() {
    return `each of the sections ${this.names.join(", ")} is said to be the whole system prompt: leave one of them complete`
  }
}

/** What a prompt is for. None of it changes while an agent lives. */
export interface Occasion {
  readonly sessionId: SessionId
  /** When the session was created, in Unix milliseconds: the same after a restore. */
  readonly created: number
  /** The names of the tools that a model is shown, in that order. */
  readonly tools: ReadonlyArray<string>
}

export interface Section {
  readonly name: string
  /** Lower comes first: identity 0, persona 10, workspace 20, date 25, tools 30, instructions 40. */
  readonly order: number
  /** The text, or what finds it out, once a step. */
  readonly text: string | ((occasion: Occasion) => Effect.Effect<string>)
  /** It is the whole prompt: nothing else is in it (P05). */
  readonly complete?: true
}

/** The text of these sections: that of the complete one alone, where there is one. */
export const assemble = Effect.fnUntraced(function* (sections: ReadonlyArray<Section>, occasion: Occasion) {
  const complete = sections.filter(isComplete)
  if (complete.length > 1) return yield* new PromptConflict({ names: complete.map((section) => section.name) })
  const asked = (complete.length === 1 ? complete : sections).toSorted((a, b) => a.order - b.order)
  const texts = yield* Effect.forEach(asked, ({ text }) =>
    typeof text === "string" ? Effect.succeed(text) : text(occasion)
  )
  const shown = texts.map((text) => wellFormed(text.trim())).filter((text) => text !== "")
  return shown.join("\n\n")
})

/** Who the agent is. */
export const identity: Section = {
  name: "identity",
  order: 0,
  text: "You are an agent that works in a workspace on a person's computer, by calling the tools you are given."
}

/** How to work. */
export const persona: Section = {
  name: "persona",
  order: 10,
  text: "Do what was asked, check your work with the tools, and say plainly what you did and what you could not do."
}

/** Where the sections come from. */
export interface PromptSections {
  /** The sections as they are now. A change shows in the next step's request header (P08). */
  readonly sections: Effect.Effect<ReadonlyArray<Section>>
}

/** The system prompt; without a layer it has the fixed sections. */
export class SystemPrompt extends Context.Reference<SystemPrompt>()("daybook/agent/SystemPrompt", {
  defaultValue: (): PromptSections => ({ sections: Effect.succeed([identity, persona]) })
}) {}

/** The prompt below, edited: what `edit` returns is what counts, but a complete section of it stays (P05). */
export const edited = (edit: (sections: ReadonlyArray<Section>) => ReadonlyArray<Section>): Layer.Layer<SystemPrompt> =>
  Layer.effect(
    SystemPrompt,
    Effect.map(SystemPrompt, ({ sections }) => ({
      sections: Effect.map(sections, (below) => joined(edit(below), below.filter(isComplete)))
    }))
  )

/** The prompt below, and these sections. */
export const layer = (more: ReadonlyArray<Section>): Layer.Layer<SystemPrompt> => edited((below) => joined(below, more))

// internal

const isComplete = (section: Section): boolean => section.complete === true

/** Some sections and others, which take the place of those with their names. */
const joined = (some: ReadonlyArray<Section>, others: ReadonlyArray<Section>): ReadonlyArray<Section> => [
  ...some.filter((section) => !others.some((other) => other.name === section.name)),
  ...others
]
