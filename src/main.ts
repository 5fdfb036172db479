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
import * as SystemPrompt from "./agent/SystemPrompt.ts"
import { Composition } from "./cli/Composition.ts"
import * as Daybook from "./cli/Daybook.ts"
import * as Models from "./cli/Models.ts"
import type { Place } from "./cli/Place.ts"
import * as Shutdown from "./cli/Shutdown.ts"
import * as Stdio from "./cli/Stdio.ts"
import * as Journal from "./journal/Journal.ts"
import * as Repair from "./session/Repair.ts"
import * as Sessions from "./session/Sessions.ts"
import * as Settings from "./settings/Settings.ts"
import * as BuiltIn from "./tool/BuiltIn.ts"
import * as Outputs from "./tool/Outputs.ts"
import * as Pipeline from "./tool/Pipeline.ts"
import * as ProcessReaper from "./tool/ProcessReaper.ts"
import * as Workspace from "./tool/Workspace.ts"

const host = Layer.mergeAll(NodeFileSystem.layer, NodePath.layer, NodeTerminal.layer)

/** Where long outputs are kept, in the workspace: tools can read them there. */
const outputs = ".daybook/outputs"

const tools = (place: Place) =>
  Pipeline.layer.pipe(
    Layer.provideMerge(BuiltIn.layer),
    Layer.provide(Outputs.layer(outputs)),
    Layer.provide(Workspace.layer(place.workspace, { reserved: [place.db, ".daybook"], readable: [outputs] }))
  )

const prompt = (place: Place) =>
  SystemPrompt.layer([{ name: "workspace", order: 20, text: `The workspace is ${place.workspace}.` }])

const model = (choice: Models.Choice) =>
  Layer.merge(Models.layer(choice), Models.fallbackLayer).pipe(Layer.provide(FetchHttpClient.layer))

const sessions = (place: Place) =>
  Sessions.layer.pipe(
    Layer.provide([Repair.layerSalvage, ProcessReaper.layer]),
    Layer.provide(Settings.layer),
    Layer.provideMerge(Journal.layerSqlite({ filename: place.db })),
    Layer.provide(host)
  )

const agents = (place: Place, choice: Models.Choice) =>
  Agents.layer.pipe(
    Layer.provide([model(choice), prompt(place), tools(place)]),
    Layer.provide(Settings.layer),
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
