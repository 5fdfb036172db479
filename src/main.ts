#!/usr/bin/env node
/**
 * The program `daybook`: layers and `runMain`.
 */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import * as NodeTerminal from "@effect/platform-node/NodeTerminal"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agents from "./agent/Agents.ts"
import * as WorkspacePrompt from "./agent/WorkspacePrompt.ts"
import { type Asked, Composition } from "./cli/Composition.ts"
import * as Daybook from "./cli/Daybook.ts"
import * as Models from "./cli/Models.ts"
import type { Place } from "./cli/Place.ts"
import * as Shutdown from "./cli/Shutdown.ts"
import * as Stdio from "./cli/Stdio.ts"
import * as UserSettings from "./cli/UserSettings.ts"
import * as Journal from "./journal/Journal.ts"
import * as Repair from "./session/Repair.ts"
import * as Sessions from "./session/Sessions.ts"
import * as Approvals from "./tool/Approvals.ts"
import * as BuiltIn from "./tool/BuiltIn.ts"
import * as Outputs from "./tool/Outputs.ts"
import * as Pipeline from "./tool/Pipeline.ts"
import * as ProcessReaper from "./tool/ProcessReaper.ts"
import * as Workspace from "./tool/Workspace.ts"

const host = Layer.mergeAll(NodeFileSystem.layer, NodePath.layer, NodeTerminal.layer)

/** Where long outputs are kept, in the workspace: tools can read them there. */
const outputs = ".daybook/outputs"

const tools = (asked: Asked) =>
  Pipeline.layer.pipe(
    Layer.provide(asked === "nobody" ? Layer.provide(Approvals.layerUnasked, Approvals.layer) : Approvals.layer),
    Layer.provide(asked === "nobody" ? Layer.empty : asked),
    Layer.provideMerge(BuiltIn.layer),
    Layer.provide(Outputs.layer(outputs))
  )

const workspace = (place: Place) =>
  Layer.unwrapEffect(
    Effect.map(UserSettings.file, (settings) =>
      Workspace.layer(place.workspace, { reserved: [place.db, ".daybook", settings], readable: [outputs] })
    )
  )

const model = (choice: Models.Choice) =>
  Layer.merge(Models.layer(choice), Models.fallbackLayer).pipe(Layer.provide(FetchHttpClient.layer))

const sessions = (place: Place) =>
  Sessions.layer.pipe(
    Layer.provide([Repair.layerSalvage, ProcessReaper.layer]),
    Layer.provide(UserSettings.layer),
    Layer.provideMerge(Journal.layerSqlite({ filename: place.db })),
    Layer.provide(host)
  )

const agents = (place: Place, choice: Models.Choice, asked: Asked) =>
  Agents.layer.pipe(
    Layer.provide([model(choice), WorkspacePrompt.layer, tools(asked)]),
    Layer.provide(workspace(place)),
    Layer.provide(UserSettings.layer),
    Layer.provideMerge(sessions(place)),
    Layer.provide(host)
  )

const composition = Layer.succeed(Composition, {
  reading: (place) => Journal.layerSqliteReadonly({ filename: place.db }),
  sessions,
  agents
})

const words = process.argv.slice(2) // edge: what the program was asked to do

Shutdown.runMain(Effect.provide(Daybook.main(words), Layer.mergeAll(composition, host, Stdio.layer, Stdio.loggerLayer)))
