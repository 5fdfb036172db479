/**
 * What the commands run on. `main.ts` says which layers; a test may say others.
 */
import * as Context from "effect/Context"
import type * as Layer from "effect/Layer"
import type { Agents } from "../agent/Agents.ts"
import type { JournalError } from "../domain/Errors.ts"
import type { Journal } from "../journal/Journal.ts"
import type { Sessions } from "../session/Sessions.ts"
import type { StartError } from "../settings/SettingsError.ts"
import type { Approver } from "../tool/Approver.ts"
import type { WorkspaceNotFound } from "../tool/Workspace.ts"
import type { Choice } from "./Models.ts"
import type { Place } from "./Place.ts"

/** Who is asked about calls that need approval; `nobody` means that they are allowed unasked. */
export type Asked = Layer.Layer<Approver> | "nobody"

export class Composition extends Context.Tag("daybook/cli/Composition")<
  Composition,
  {
    /** The journal of a place for reading: nothing is created, nobody's session is taken. */
    readonly reading: (place: Place) => Layer.Layer<Journal, JournalError>
    /** Sessions that can be taken and closed in the journal of a place, and that journal: no model, no tools. */
    readonly sessions: (place: Place) => Layer.Layer<Sessions | Journal, JournalError | StartError>
    /** Agents that write to the journal of a place and ask who was chosen, and that journal. */
    readonly agents: (
      place: Place,
      models: Choice,
      asked: Asked
    ) => Layer.Layer<Agents | Journal, JournalError | StartError | WorkspaceNotFound>
  }
>() {}
