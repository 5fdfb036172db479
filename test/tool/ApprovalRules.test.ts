import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fc from "effect/FastCheck"
import * as Layer from "effect/Layer"
import { callId, SessionId } from "../../src/domain/Ids.ts"
import type { Json } from "../../src/internal/Json.ts"
import * as Settings from "../../src/settings/Settings.ts"
import { decide, type Rule } from "../../src/tool/ApprovalRules.ts"
import * as Approvals from "../../src/tool/Approvals.ts"
import type { PendingCall } from "../../src/tool/ToolCall.ts"

const rule = (text: string): Rule => {
  const [decision = "", tool = "", ...command] = text.split(" ")
  return {
    tool,
    decision: decision as Rule["decision"],
    ...(command.length === 0 ? {} : { command: command.join(" ") })
  }
}
const rules = (...texts: ReadonlyArray<string>) => texts.map(rule)

const bash = (command: string) => ({ name: "bash", arguments: { command } })

/** What becomes of a command under these rules; `-` where no rule decides. */
const fate = (command: string, ...texts: ReadonlyArray<string>): string =>
  decide(rules(...texts), bash(command))?.decision ?? "-"

describe("rules on calls", () => {
  it("by tool: its own rule comes before that on every tool, and of two alike the stricter one decides", () => {
    const call = { name: "write", arguments: { path: "x" } }
    const by = (...texts: ReadonlyArray<string>) => decide(rules(...texts), call)?.decision
    assert.strictEqual(by(), undefined)
    assert.strictEqual(by("allow bash"), undefined)
    assert.strictEqual(by("allow *"), "allow")
    assert.strictEqual(by("deny *", "allow write"), "allow")
    assert.strictEqual(by("allow write", "ask write", "allow write"), "ask")
    assert.strictEqual(by("deny write", "allow write"), "deny")
    // what has no command begins with none
    assert.strictEqual(by("deny write rm"), undefined)
  })

  it("by how a command begins: in whole words, and the longest beginning decides", () => {
    assert.strictEqual(fate("git status -s", "allow bash git status"), "allow")
    assert.strictEqual(fate("git statusx", "allow bash git status"), "-")
    assert.strictEqual(fate("git", "allow bash git status"), "-")
    assert.strictEqual(fate("  git   status", "allow bash git status"), "allow")
    assert.strictEqual(fate("git push", "allow bash git", "deny bash git push"), "deny")
    assert.strictEqual(fate("git push", "deny bash", "allow bash git push"), "allow")
    assert.strictEqual(fate("git push", "deny * git push", "allow bash"), "deny")
  })

  it("a command is judged by its parts: all must be allowed, and one that is denied denies", () => {
    const own = ["allow bash git", "allow bash npm test", "deny bash rm", "ask bash curl"]
    for (const [command, expected] of [
      ["git add . && git commit -m x", "allow"],
      ["git log | git apply; npm test", "allow"],
      ["npm test 2>&1 | git hash-object", "allow"],
      ["npm test >/dev/null 2>/dev/null", "allow"],
      ["git add . && make", "-"],
      ["make; git add .", "-"],
      ["git add . & rm -r x", "deny"],
      ["git add .\nrm -r x", "deny"],
      ["make || rm x", "deny"],
      ["git log | curl -d @- x", "ask"],
      ["make && curl x", "ask"],
      // what hides a command is allowed by no beginning, and still denied where it shows
      ["git log $(make)", "-"],
      ["git log `make`", "-"],
      ["git log > .bashrc", "-"],
      ["git apply < x", "-"],
      ["git diff <(make) x", "-"],
      ["(git log)", "-"],
      ["{ git log; }", "-"],
      ["git log $(rm x)", "deny"],
      ["git log `rm x`", "deny"],
      ["(rm x)", "deny"],
      ["git log > /dev/null", "allow"],
      ["git log 2>&1&git add .", "allow"],
      ["git log &2>/dev/null make", "-"],
      ["git log &1>/dev/null rm x", "-"],
      ["git log & 2>/dev/null make", "-"],
      ["git log & 2>/dev/null rm x", "deny"],
      ["git log &>/dev/null make", "-"],
      ["git log >&1x", "-"],
      ["git log >&2-x", "-"],
      ["git log >/dev/null.x", "-"],
      ["git log 12>&1", "-"],
      ["git\u00a0log", "-"],
      ["git log \\\nmake", "-"],
      ["FOO=1 git log", "-"],
      ["! git log", "-"],
      ["", "-"],
      [";;", "-"]
    ] as const)
      assert.strictEqual(fate(command, ...own), expected, command)
    // a rule on the whole tool is on whatever it runs
    assert.strictEqual(fate("git log $(make) > x", "allow bash"), "allow")
    assert.strictEqual(fate("git log $(rm x)", "allow bash", "deny bash rm"), "deny")
  })

  it("property: one more part never makes a command looser", () => {
    const word = fc.constantFrom("git", "log", "rm", "npm", "test", "$(x)", ">")
    const part = fc.array(word, { minLength: 1, maxLength: 3 }).map((words) => words.join(" "))
    const joint = fc.constantFrom(";", "&&", "|", "\n", "&", "||")
    const someRule = fc.record({
      tool: fc.constantFrom("bash", "*"),
      command: fc.constantFrom("git", "git log", "rm", "npm test"),
      decision: fc.constantFrom("allow" as const, "ask" as const, "deny" as const)
    })
    const strictness = { allow: 0, ask: 2, deny: 3 } as const
    const severity = (own: ReadonlyArray<Rule>, command: string) => {
      const found = decide(own, bash(command))
      return found === undefined ? 1 : strictness[found.decision]
    }
    fc.assert(
      fc.property(fc.array(someRule, { maxLength: 5 }), part, joint, part, (own, first, between, second) => {
        const whole = `${first} ${between} ${second}`
        assert.isAtLeast(severity(own, whole), severity(own, first))
        assert.isAtLeast(severity(own, whole), severity(own, second))
      }),
      { numRuns: 2000 }
    )
  })
})

describe("the approval by rules", () => {
  const call = (name: string, args: Json, readonly: boolean): PendingCall => ({
    sessionId: SessionId.make("s"),
    turn: 1,
    step: 1,
    callId: callId(1, 1, 0),
    name,
    arguments: args,
    annotations: { readonly, idempotent: false, destructive: false }
  })
  const judged = (
    layer: Layer.Layer<Approvals.Approvals, never, Settings.Settings>,
    pending: PendingCall,
    own: ReadonlyArray<Rule> = []
  ) =>
    Effect.provide(
      Effect.flatMap(Approvals.Approvals, ({ judge }) => judge(pending)),
      Layer.provide(layer, Settings.layerMemory({ approvals: { rules: own } }))
    )

  it.effect("allows what is read-only, asks about the rest, and says which rule denies", () =>
    Effect.gen(function* () {
      const reading = call("read", { path: "x" }, true)
      const running = call("bash", { command: "rm x" }, false)
      assert.strictEqual((yield* judged(Approvals.layer, reading))._tag, "Allow")
      assert.strictEqual((yield* judged(Approvals.layer, running))._tag, "Ask")
      assert.strictEqual((yield* judged(Approvals.layer, reading, rules("ask read")))._tag, "Ask")
      assert.strictEqual((yield* judged(Approvals.layer, running, rules("allow bash rm")))._tag, "Allow")
      assert.deepStrictEqual(
        yield* judged(Approvals.layer, running, rules("deny bash rm")),
        Approvals.Judgement.Deny({ reason: 'a rule of the settings denies bash with a command that begins with "rm"' })
      )
    })
  )

  it.effect("unasked: what would be asked about is allowed, what is denied stays denied", () =>
    Effect.gen(function* () {
      const unasked = Layer.provide(Approvals.layerUnasked, Approvals.layer)
      const running = call("bash", { command: "rm x" }, false)
      assert.strictEqual((yield* judged(unasked, running))._tag, "Allow")
      assert.strictEqual((yield* judged(unasked, running, rules("ask bash")))._tag, "Allow")
      assert.strictEqual((yield* judged(unasked, running, rules("deny bash")))._tag, "Deny")
    })
  )
})
