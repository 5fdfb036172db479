/**
 * The scenarios of the every-point tests: one for each way in which a turn can be under way.
 */
import * as Effect from "effect/Effect"
import { call, fail, type Script, say, send, wait } from "../../src/model/ScriptedModel.ts"
import { phases, type Scenario } from "./EveryPoint.ts"

const said = (text: string, index = 0) => send({ type: "text", index, text })
const thought = (text: string, index = 0) => send({ type: "reasoning", index, text })
const stop = send({ type: "finish", reason: "stop" })
const pause = (millis: number) => wait(Effect.sleep(millis))
const slowly = (id: string) => Effect.as(Effect.sleep(10), `did ${id}`)

const streaming: Script = [said("one "), pause(20), said("two "), pause(60), said("three"), stop]

export const scenarios: ReadonlyArray<Scenario> = [
  { name: "text only", scripts: [streaming], has: ["before the request", "streaming", "in the ending"] },
  {
    name: "reasoning, then text",
    scripts: [[thought("hm "), pause(20), thought("so"), said("one ", 1), pause(60), said("two", 1), stop]],
    has: ["before the request", "streaming", "in the ending"]
  },
  {
    name: "three parallel tools and one exclusive",
    scripts: [
      call(["look", { id: "a" }], ["look", { id: "b" }], ["look", { id: "c" }], ["touch", { id: "d" }]),
      say("done")
    ],
    body: slowly,
    has: phases
  },
  {
    name: "a failing tool",
    scripts: [call(["look", { id: "a" }], ["touch", { id: "b" }]), say("done")],
    body: (id) => Effect.zipRight(Effect.sleep(5), id === "a" ? Effect.fail("no") : Effect.die("worse")),
    has: phases
  },
  {
    name: "a tool annotated to finish",
    scripts: [call(["finish", { id: "a" }], ["look", { id: "b" }], ["touch", { id: "c" }]), say("done")],
    body: slowly,
    has: phases
  },
  {
    name: "a tool that races inside",
    scripts: [call(["look", { id: "a" }]), say("done")],
    body: (id) => Effect.race(slowly(id), Effect.zipRight(Effect.sleep(3), slowly("other"))),
    has: phases
  },
  {
    name: "a retry wait",
    scripts: [[said("half "), fail("SERVER")], streaming],
    has: ["before the request", "streaming", "in the ending"]
  },
  {
    name: "the stopping hook",
    scripts: [say("done")],
    hooks: { stopping: () => Effect.sleep(5) },
    has: ["before the request", "streaming", "in the ending"]
  },
  {
    name: "two queued prompts",
    scripts: [say("first"), streaming],
    prompts: 2,
    has: ["before the request", "streaming", "in the ending"]
  }
]
