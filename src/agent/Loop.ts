/**
 * What the loop of one agent runs on: the session, and the services that a composition chose.
 */
import type * as Context from "effect/Context"
import type { ModelConfig } from "../domain/Request.ts"
import type { ChatModel } from "../model/ChatModel.ts"
import type { Session } from "../session/Session.ts"
import type { Settings } from "../settings/Settings.ts"
import type { Pipeline } from "../tool/Pipeline.ts"
import type { Tools } from "../tool/Tools.ts"
import type { Check } from "./Guard.ts"
import type { HookPoints } from "./Hooks.ts"
import type { PromptSections } from "./SystemPrompt.ts"

export interface Loop {
  readonly session: Session
  /** The route and sampling of this agent's first request; later ones start from the logged header (P07). */
  readonly config: Partial<ModelConfig> | undefined
  readonly model: Context.Tag.Service<ChatModel>
  readonly tools: Context.Tag.Service<Tools>
  readonly pipeline: Context.Tag.Service<Pipeline>
  readonly settings: Context.Tag.Service<Settings>
  readonly hooks: HookPoints
  readonly prompt: PromptSections
  /** What each request must pass, right before it is sent. */
  readonly guard: Check
}
