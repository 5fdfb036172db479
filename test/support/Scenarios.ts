/**
 * The scenarios of the every-point tests: one for each way in which a turn can be under way.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import { call, fail, type Script, say, send, wait } from "../../src/model/ScriptedModel.ts"
import { Judgement } from "../../src/tool/Approvals.ts"
import { Answer } from "../../src/tool/Approver.ts"
import { After } from "../../src/tool/ToolHooks.ts"
import { phases, type Scenario } from "./EveryPoint.ts"

const said = (text: string, index = 0) => send({ type: "text", index, text })
const thought = (text: string, index = 0) => send({ type: "reasoning", index, text })
const stop = send({ type: "finish", reason: "stop" })
const pause = (millis: number) => wait(Effect.sleep(millis))
const slowly = (id: string) => Effect.as(Effect.sleep(10), `did ${id}`)

const usage = { inputTokens: 5, outputTokens: 1 }

/** The phases of a turn whose request is sent more than once. */
const retried: Scenario["has"] = ["before the request", "streaming", "between attempts", "in the ending"]

const idOf = (args: unknown) => (Predicate.hasProperty(args, "id") ? args.id : undefined)

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
    has: retried
  },
  {
    name: "a wait that the server asks for, longer than a lease goes unrenewed",
    scripts: [[said("half "), fail("RATE_LIMIT", "slow down", 12_000)], say("done")],
    has: retried
  },
  {
    name: "two waits between tools, after half a call and after nothing",
    scripts: [
      call(["look", { id: "a" }]),
      [
        said("half "),
        send({ type: "tool-call", index: 1, name: "touch", arguments: '{"id":' }, { type: "usage", usage }),
        pause(60),
        fail("CUT")
      ],
      [fail("EMPTY_RESPONSE")],
      call(["touch", { id: "b" }]),
      say("done")
    ],
    has: [...phases, "between attempts"]
  },
  {
    name: "waits until the last attempt has failed",
    scripts: Array.from({ length: 6 }, () => [thought("hm "), fail("TIMEOUT")]),
    has: retried
  },
  {
    name: "the stopping hook",
    scripts: [say("done")],
    composed: { hooks: { stopping: () => Effect.sleep(5) } },
    has: ["before the request", "streaming", "in the ending"]
  },
  {
    name: "every hook, and a request that fails",
    scripts: [[said("half "), fail("INVALID_REQUEST")], call(["look", { id: "a" }]), say("done")],
    composed: {
      hooks: {
        preStep: (_, messages) => Effect.as(Effect.sleep(3), { _tag: "Enter", messages }),
        request: (_, config) => Effect.as(Effect.sleep(3), config),
        requestError: () => Effect.as(Effect.sleep(3), "retry"),
        stopping: () => Effect.sleep(3)
      },
      toolHooks: {
        before: () => Effect.as(Effect.sleep(3), Judgement.Allow()),
        after: () => Effect.as(Effect.sleep(3), After.Accept())
      }
    },
    has: phases
  },
  {
    name: "questions, and a call that nobody asks about",
    scripts: [
      call(["look", { id: "a" }], ["look", { id: "free" }], ["touch", { id: "b" }], ["touch", { id: "c" }]),
      say("done")
    ],
    composed: {
      approvals: {
        judge: (asked) =>
          Effect.succeed(idOf(asked.arguments) === "free" ? Judgement.Allow() : Judgement.Ask({ reason: "so" }))
      },
      approver: {
        ask: ({ call: { arguments: args } }) =>
          Effect.as(
            Effect.sleep(5),
            idOf(args) === "a" ? Answer.AllowOnce() : idOf(args) === "b" ? Answer.AllowAlways() : Answer.Reject({})
          )
      }
    },
    has: phases
  },
  {
    name: "two queued prompts",
    scripts: [say("first"), streaming],
    prompts: 2,
    has: ["before the request", "streaming", "in the ending"]
  }
]
