/**
 * The system prompt: sections, put together anew for each step.
 *
 * - Ascending by order, empty ones dropped, joined by a blank line (P01). The same sections give the same bytes.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { wellFormed } from "../internal/Json.ts"

export interface Section {
  readonly name: string
  /** Lower comes first: identity 0, persona 10, workspace 20, tools 30. */
  readonly order: number
  readonly text: string
}

/** The text of these sections. */
export const render = (sections: ReadonlyArray<Section>): string =>
  sections
    .filter((section) => section.text.trim() !== "")
    .toSorted((a, b) => a.order - b.order)
    .map((section) => wellFormed(section.text.trim()))
    .join("\n\n")

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

/** The fixed sections, and these. */
export const layer = (more: ReadonlyArray<Section>): Layer.Layer<SystemPrompt> =>
  Layer.succeed(SystemPrompt, { sections: Effect.succeed([identity, persona, ...more]) })
