import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as fc from "effect/FastCheck"
import type { SessionEvent, StoredEvent } from "../../src/domain/Event.ts"
import { type AssistantBlock, type Message, text, toolCalls } from "../../src/domain/Message.ts"
import * as Repair from "../../src/domain/Repair.ts"
import { canonicalRequest, guardDigest } from "../../src/domain/Request.ts"
import * as RequestRules from "../../src/domain/RequestRules.ts"
import * as SessionState from "../../src/domain/SessionState.ts"
import { neverStarted, outcomeUnknown } from "../../src/domain/Transcript.ts"
import * as Verification from "../../src/domain/Verification.ts"
import {
  answer,
  block,
  call,
  emptyGuardMemory,
  followedBy,
  header,
  input,
  type Log,
  logOf,
  outcome,
  partial,
  placed,
  result,
  said,
  settled,
  stateOf,
  stepEnd,
  stepStart,
  turnEnd,
  turnFailed,
  turnStart
} from "../support/Facts.ts"
import { logsOf, sampleLogs } from "../support/Logs.ts"
import { naiveRequest } from "../support/NaiveFold.ts"

const messagesOf = (log: Log): ReadonlyArray<Message> => SessionState.requestMessages(stateOf(log))

/** What a message says, in short. */
const short = (message: Message): string => {
  const said = message.content.map((part: AssistantBlock) =>
    part.type === "text" || part.type === "reasoning"
      ? part.text
      : part.type === "tool-call"
        ? `call ${part.callId}`
        : part.type
  )
  return `${message.role}: ${said.join(", ")}`
}

const shown = (log: Log): ReadonlyArray<string> => messagesOf(log).map(short)

/** The events with which the next prompt's first step begins. */
const nextPrompt = (state: SessionState.SessionState, id = "next"): ReadonlyArray<SessionEvent> => {
  const turn = state.brackets.lastTurn + 1
  return [
    turnStart(turn),
    stepStart(turn, 1),
    input(said(id, "go on")),
    header(state.header === undefined ? "initial" : "resume")
  ]
}

/** The log as repair leaves it, and then the next prompt up to its request. */
const resumed = (log: Log, id?: string): Log => {
  const repaired = followedBy(log, ...Repair.closers(stateOf(log)))
  return followedBy(repaired, ...nextPrompt(stateOf(repaired), id))
}

const accepted = (log: Log): void => {
  const request = SessionState.deriveRequest(stateOf(log))
  if (request === undefined) throw new Error("no request")
  assert.deepStrictEqual(RequestRules.violations(request), [])
  const naive = naiveRequest(log)
  assert.strictEqual(canonicalRequest(request), naive && canonicalRequest(naive))
}

/** One turn of one step: a prompt, an answer, what became of its calls, and how the turn ended. */
const oneStep =
  (
    turn: number,
    content: ReadonlyArray<AssistantBlock>,
    after: (from: number) => ReadonlyArray<SessionEvent> = () => [],
    end: SessionEvent = turnEnd(turn, "completed")
  ) =>
  (before: Log): Log => {
    const log = followedBy(
      before,
      turnStart(turn),
      stepStart(turn, 1),
      input(said(`p${turn}`, `prompt ${turn}`)),
      ...(turn === 1 ? [header()] : []),
      answer(turn, 1, content)
    )
    return followedBy(log, ...after(log.length), stepEnd(turn, 1), end)
  }

describe("law 1: the request is what the log derives", () => {
  const sample = sampleLogs(200, 1, 300)
  const quarters = [1, 2, 3, 4]
  const quarterOf = (quarter: number) => sample.slice((quarter - 1) * 50, quarter * 50)

  it.each(quarters)(
    "law 1: at every prefix of 200 generated logs fold and naive derivation agree, quarter %i",
    (quarter) => {
      let requests = 0
      for (const log of quarterOf(quarter)) {
        let state = SessionState.initial()
        for (const event of log) {
          state = Either.getOrThrow(SessionState.apply(state, event))
          const derived = SessionState.deriveRequest(state)
          const naive = naiveRequest(log.slice(0, state.head))
          assert.strictEqual(derived && canonicalRequest(derived), naive && canonicalRequest(naive))
          if (derived !== undefined) requests++
        }
      }
      assert.isAbove(requests, 1000)
    }
  )

  it.each(quarters)(
    "law 1: a strict provider accepts the next prompt's request after repair, at every prefix, quarter %i",
    (quarter) => {
      for (const log of quarterOf(quarter)) {
        let state = SessionState.initial()
        for (const event of [undefined, ...log]) {
          if (event !== undefined) state = Either.getOrThrow(SessionState.apply(state, event))
          const prefix = log.slice(0, state.head)
          const closers = placed(Repair.closers(state), prefix)
          const repaired = Either.getOrThrow(SessionState.fold(closers, state))
          const next = placed(nextPrompt(repaired), [...prefix, ...closers])
          const request = SessionState.deriveRequest(Either.getOrThrow(SessionState.fold(next, repaired)))
          const naive = naiveRequest([...prefix, ...closers, ...next])
          if (request === undefined || naive === undefined) return assert.fail("no request")
          const violations = RequestRules.violations(request)
          if (violations.length > 0) assert.deepStrictEqual(violations, [])
          assert.strictEqual(canonicalRequest(request), canonicalRequest(naive))
          assert.strictEqual(request.messages.at(-1)?.id, "next")
        }
      }
    }
  )

  it.prop(
    "law 1: the guard's digest is the log's at every event, each message hashed once",
    { log: logsOf(300) },
    ({ log }) => {
      let state = SessionState.initial()
      let memory = emptyGuardMemory
      for (const event of log) {
        state = Either.getOrThrow(SessionState.apply(state, event))
        const guarded = guardDigest(memory, SessionState.requestMessages(state))
        memory = guarded.memory
        assert.strictEqual(guarded.digest, SessionState.requestDigest(state))
        assert.strictEqual(guardDigest(emptyGuardMemory, memory.messages).digest, guarded.digest)
      }
    },
    { fastCheck: { numRuns: 30 } }
  )

  it.prop(
    "law 1: the guard notices any message that was changed, dropped, doubled or moved",
    { log: logsOf(300), at: fc.nat(), how: fc.constantFrom("change", "drop", "double", "move", "role") },
    ({ at, how, log }) => {
      const state = stateOf(log)
      const messages = SessionState.requestMessages(state)
      const { memory } = guardDigest(emptyGuardMemory, messages)
      const index = messages.length === 0 ? 0 : at % messages.length
      const message = messages[index]
      fc.pre(message !== undefined)
      if (message === undefined) return
      const tampered: Record<typeof how, ReadonlyArray<Message>> = {
        change: messages.with(index, { ...message, content: [...message.content, text("!")] } as Message),
        drop: messages.toSpliced(index, 1),
        double: messages.toSpliced(index, 0, message),
        move: [...messages.toSpliced(index, 1), message],
        role: messages.with(index, { ...message, role: message.role === "user" ? "assistant" : "user" } as Message)
      }
      fc.pre(how !== "move" || index < messages.length - 1)
      assert.notStrictEqual(guardDigest(memory, tampered[how] ?? []).digest, SessionState.requestDigest(state))
      assert.strictEqual(guardDigest(memory, messages).digest, SessionState.requestDigest(state))
    }
  )

  it("law 1: what joined the transcript cannot be changed", () => {
    const log = oneStep(1, [text("hello"), { type: "blob", blob: { deep: [{ x: 1 }] } }])([])
    const visit = (value: unknown): void => {
      if (value === null || typeof value !== "object") return
      assert.isTrue(Object.isFrozen(value))
      for (const item of Object.values(value)) visit(item)
    }
    for (const message of messagesOf(log)) visit(message)
  })

  it("law 1: the digest starts again at a replacement, once", () => {
    const two = oneStep(2, [text("two")])(oneStep(1, [text("one")])([]))
    const before = stateOf(two)
    const replaced = followedBy(two, {
      type: "context/replaced",
      data: { from: 1, to: 5, messages: [said("s", "summary", "context")] }
    })
    const after = stateOf(replaced)
    assert.notStrictEqual(SessionState.requestDigest(after), SessionState.requestDigest(before))
    const memory = guardDigest(emptyGuardMemory, SessionState.requestMessages(before)).memory
    const guarded = guardDigest(memory, SessionState.requestMessages(after))
    assert.strictEqual(guarded.digest, SessionState.requestDigest(after))
    const later = stateOf(oneStep(3, [text("three")])(replaced))
    assert.strictEqual(
      guardDigest(guarded.memory, SessionState.requestMessages(later)).digest,
      SessionState.requestDigest(later)
    )
  })
})

/** An event without the texts of its message. */
const blanked = (event: StoredEvent): StoredEvent => {
  if (event.type === "tool/result")
    return { ...event, data: { ...event.data, message: { ...event.data.message, content: [] } } }
  if (event.type !== "assistant/message") return event
  const content = event.data.message.content.map((part) => ("text" in part ? { ...part, text: "" } : part))
  return { ...event, data: { ...event.data, message: { ...event.data.message, content } } }
}

/** The messages that break the rule: each call is followed by its one result, in place, and nothing else is answered. */
const unpaired = (messages: ReadonlyArray<Message>): ReadonlyArray<string> => {
  const left = [...messages]
  const problems: Array<string> = []
  for (let message = left.shift(); message !== undefined; message = left.shift()) {
    if (message.role === "tool") problems.push(`${message.callId} answers nothing`)
    if (message.role !== "assistant") continue
    for (const { callId } of toolCalls(message)) {
      const answered = left[0]
      if (answered?.role === "tool" && answered.callId === callId) left.shift()
      else problems.push(`${callId} is not answered`)
    }
  }
  return problems
}

/** What becomes of one call: it is not started, it starts and says nothing, or it settles. */
const fate = fc.constantFrom("unstarted" as const, "started" as const, "settled" as const)

describe("law 2: every call has exactly one result, in place, in model order", () => {
  it.prop("law 2: at every prefix of a log, as it stands and repaired", { log: logsOf(300) }, ({ log }) => {
    let state = SessionState.initial()
    for (const event of log) {
      state = Either.getOrThrow(SessionState.apply(state, event))
      assert.deepStrictEqual(unpaired(SessionState.requestMessages(state)), [])
      const closers = placed(Repair.closers(state), log.slice(0, state.head))
      const repaired = Either.getOrThrow(SessionState.fold(closers, state))
      assert.deepStrictEqual(unpaired(SessionState.requestMessages(repaired)), [])
    }
  })

  it.prop(
    "law 2: whatever was started, settled and answered when a turn failed (R6)",
    {
      fates: fc.array(fate, { minLength: 1, maxLength: 6 }),
      order: fc.array(fc.nat(), { minLength: 6, maxLength: 6 })
    },
    ({ fates, order }) => {
      const open = logOf(
        turnStart(1),
        stepStart(1, 1),
        input(said("m", "go")),
        header(),
        answer(
          1,
          1,
          fates.map((_, index) => block(1, 1, index))
        )
      )
      let log = open
      const starts = new Map<number, number>()
      for (const [index, kind] of fates.entries())
        if (kind !== "unstarted") {
          starts.set(index, log.length)
          log = followedBy(log, call([1, 1, index]))
        }
      const settling = fates
        .flatMap((kind, index) => (kind === "settled" ? [{ index, key: order[index] ?? 0 }] : []))
        .sort((a, b) => a.key - b.key)
      const done = new Map<number, number>()
      for (const { index } of settling) {
        done.set(index, log.length)
        log = followedBy(log, settled([1, 1, index], outcome(`out ${index}`)))
      }
      for (const index of fates.keys()) {
        const seq = done.get(index)
        if (seq === undefined) break
        log = followedBy(log, result([1, 1, index], outcome(`out ${index}`), [starts.get(index) ?? -1, seq]))
      }
      const closed = followedBy(log, stepEnd(1, 1), turnFailed(1))
      const texts = { unstarted: neverStarted, started: outcomeUnknown }
      assert.deepStrictEqual(
        messagesOf(closed).slice(2).map(short),
        fates.map((kind, index) => `tool: ${kind === "settled" ? `out ${index}` : texts[kind]}`)
      )
      assert.deepStrictEqual(unpaired(messagesOf(closed)), [])
      accepted(resumed(closed))
      // in an open step none of it shows
      assert.deepStrictEqual(messagesOf(log), messagesOf(open))
    }
  )
})

describe("calls and their results", () => {
  it("O-A3: a call in any terminal state has its result", () => {
    const states: Record<string, (from: number) => ReadonlyArray<SessionEvent>> = {
      done: (from) => [call([1, 1, 0]), result([1, 1, 0], outcome("fine"), [from])],
      failed: (from) => [call([1, 1, 0]), result([1, 1, 0], outcome("no", "UNKNOWN"), [from])],
      cancelled: (from) => [call([1, 1, 0]), result([1, 1, 0], outcome("stopped", "TOOL_ABORTED"), [from])],
      undispatched: (from) => [
        call([1, 1, 0]),
        result([1, 1, 0], outcome("x", "TOOL_ABORTED_BEFORE_DISPATCH"), [from])
      ],
      unknown: (from) => [call([1, 1, 0]), result([1, 1, 0], outcome("x", "TOOL_OUTCOME_UNKNOWN"), [from])],
      unstarted: () => [result([1, 1, 0], outcome("x", "TOOL_NOT_STARTED"))],
      "settled and not answered": () => [call([1, 1, 0]), settled([1, 1, 0], outcome("fine"))],
      "started and not answered": () => [call([1, 1, 0])],
      "not even started": () => []
    }
    for (const [name, after] of Object.entries(states)) {
      const log = oneStep(1, [block(1, 1, 0)], after, turnFailed(1))([])
      assert.deepStrictEqual(
        messagesOf(log).map((message) => message.role),
        ["user", "assistant", "tool"],
        name
      )
      accepted(resumed(log))
    }
  })

  it("O-A4: three calls have three results, one real and two cancelled", () => {
    const log = oneStep(
      1,
      [block(1, 1, 0), block(1, 1, 1), block(1, 1, 2)],
      (from) => [
        call([1, 1, 0]),
        result([1, 1, 0], outcome("real"), [from]),
        call([1, 1, 1]),
        result([1, 1, 1], outcome("Error: aborted", "TOOL_ABORTED"), [from + 2]),
        call([1, 1, 2]),
        result([1, 1, 2], outcome("Error: aborted", "TOOL_ABORTED_BEFORE_DISPATCH"), [from + 4])
      ],
      turnEnd(1, "aborted")
    )([])
    assert.deepStrictEqual(shown(log).slice(2), ["tool: real", "tool: Error: aborted", "tool: Error: aborted"])
    accepted(resumed(log))
  })

  it("O-A5: a call that a closed turn in the middle of the history left open has its result in its place", () => {
    const failed = oneStep(1, [block(1, 1, 0), block(1, 1, 1)], () => [call([1, 1, 0])], turnFailed(1))([])
    const log = oneStep(2, [text("later")])(failed)
    assert.deepStrictEqual(shown(log), [
      "user: prompt 1",
      "assistant: call t1s1c0, call t1s1c1",
      `tool: ${outcomeUnknown}`,
      `tool: ${neverStarted}`,
      "user: prompt 2",
      "assistant: later"
    ])
    accepted(resumed(log))
  })

  it("O-A9: a call, a crash, a user message: the result stands between the call and the message", () => {
    const died = logOf(
      turnStart(1),
      stepStart(1, 1),
      input(said("p", "run it")),
      header(),
      answer(1, 1, [block(1, 1, 0)]),
      call([1, 1, 0])
    )
    const log = resumed(died)
    assert.deepStrictEqual(
      messagesOf(log).map((message) => message.role),
      ["user", "assistant", "tool", "user"]
    )
    accepted(log)
  })

  it("O-G4: a provider's id that comes twice, in one answer and in two turns, makes no two calls one", () => {
    const same = { providerCallId: "call_0" }
    const calls = [
      block(1, 1, 0, "bash", { ...same, arguments: '{"n":1}' }),
      block(1, 1, 1, "bash", { ...same, arguments: '{"n":2}' })
    ]
    const first = oneStep(1, calls, (from) => [
      call([1, 1, 0], "bash", '{"n":1}'),
      call([1, 1, 1], "bash", '{"n":2}'),
      result([1, 1, 0], outcome("one"), [from]),
      result([1, 1, 1], outcome("two"), [from + 1])
    ])([])
    const second = oneStep(2, [block(2, 1, 0, "bash", { ...same, arguments: '{"n":3}' })], (from) => [
      call([2, 1, 0], "bash", '{"n":3}'),
      result([2, 1, 0], outcome("three"), [from])
    ])(first)
    assert.deepStrictEqual(
      shown(second).filter((line) => line.startsWith("tool")),
      ["tool: one", "tool: two", "tool: three"]
    )
    accepted(resumed(second))
  })

  it("R6: in an open step a settled call changes no request", () => {
    const open = logOf(
      turnStart(1),
      stepStart(1, 1),
      input(said("p", "go")),
      header(),
      answer(1, 1, [block(1, 1, 0), block(1, 1, 1)])
    )
    const later = followedBy(open, call([1, 1, 0]), call([1, 1, 1]), settled([1, 1, 1], outcome("early")))
    assert.deepStrictEqual(messagesOf(later), messagesOf(open))
    assert.deepStrictEqual(shown(later), ["user: go"])
  })
})

describe("what is empty, and what no provider takes", () => {
  it("D11: an empty answer adds no message", () => {
    const log = oneStep(2, [])(oneStep(1, [text("one")])([]))
    assert.deepStrictEqual(shown(log), ["user: prompt 1", "assistant: one", "user: prompt 2"])
    accepted(resumed(log))
  })

  it("O-B1: empty text and white space are left out, what stands beside them stays", () => {
    const log = oneStep(1, [text(""), text(" \n"), text("kept"), { type: "reasoning", text: " " }])([])
    assert.deepStrictEqual(shown(log), ["user: prompt 1", "assistant: kept"])
    accepted(resumed(log))
    assert.deepStrictEqual(shown(oneStep(1, [text(""), text("\t")])([])), ["user: prompt 1"])
  })

  it("O-B2: requests that failed add no assistant message, however often", () => {
    let log = oneStep(1, [text("one")])([])
    for (const turn of [2, 3, 4])
      log = followedBy(
        log,
        turnStart(turn),
        stepStart(turn, 1),
        input(said(`p${turn}`, "again")),
        stepEnd(turn, 1),
        turnFailed(turn)
      )
    assert.strictEqual(messagesOf(log).filter((message) => message.role === "assistant").length, 1)
    accepted(resumed(log))
  })

  it("O-B2: reasoning alone, cut by a cancel, is one message and stays where it is", () => {
    const thought = logOf(
      turnStart(1),
      stepStart(1, 1),
      input(said("p1", "think")),
      header(),
      partial(1, 1, [{ type: "reasoning", text: "hm" }]),
      stepEnd(1, 1),
      turnEnd(1, "aborted")
    )
    let log: Log = thought
    for (const turn of [2, 3]) log = oneStep(turn, [text(`answer ${turn}`)])(log)
    assert.deepStrictEqual(
      shown(log).filter((line) => line.startsWith("assistant")),
      ["assistant: hm", "assistant: answer 2", "assistant: answer 3"]
    )
    accepted(resumed(log))
  })

  it("O-B3: a result without output says so", () => {
    for (const content of [[], [text("")], [text(" \n"), text("")]]) {
      const log = oneStep(1, [block(1, 1, 0)], (from) => [
        call([1, 1, 0]),
        result([1, 1, 0], { content, isError: false }, [from])
      ])([])
      assert.deepStrictEqual(shown(log).slice(2), ["tool: (no output)"])
      accepted(resumed(log))
    }
  })

  it("O-B4: after an answer without a turn's end the next request ends with the prompt", () => {
    const log = logOf(turnStart(1), stepStart(1, 1), input(said("p", "hi")), header(), answer(1, 1, [text("hello")]))
    for (const died of [log, followedBy(log, stepEnd(1, 1))]) {
      const next = resumed(died)
      assert.deepStrictEqual(shown(next), ["user: hi", "assistant: hello", "user: go on"])
      accepted(next)
    }
  })

  it("O-B5: an aborted turn that said nothing leaves no answer behind, the last one is the real one", () => {
    const log = followedBy(
      oneStep(1, [text("the answer")])([]),
      turnStart(2),
      stepStart(2, 1),
      input(said("p2", "more")),
      stepEnd(2, 1),
      turnEnd(2, "aborted")
    )
    const last = messagesOf(log).findLast((message) => message.role === "assistant")
    assert.strictEqual(last && short(last), "assistant: the answer")
  })

  it("O-O2: whatever an answer holds, names are legal and arguments are the text of an object that may be sent", () => {
    const raws: ReadonlyArray<readonly [raw: string, shown: string]> = [
      ['{"a":1}', '{"a":1}'],
      [' { "b" : [] } ', ' { "b" : [] } '],
      ["", "{}"],
      ['{"a":', "{}"],
      ["[1]", "{}"],
      ["null", "{}"],
      ['{"a":"\uD83D"}', '{"a":"\uFFFD"}'],
      ['{"a":"\\ud83d"}', '{"a":"\uFFFD"}'],
      ['{"\\ude00":{"x":["a\\u0000b"]}}', '{"\uFFFD":{"x":["a\uFFFDb"]}}'],
      ['{"a":"\\ud83d\\ude00"}', '{"a":"\\ud83d\\ude00"}']
    ]
    const names: ReadonlyArray<readonly [name: string, shown: string]> = [
      ["look", "look"],
      ["", "unnamed"],
      ["a.b c/d", "a_b_c_d"],
      ["é😀", "___"],
      ["n".repeat(80), "n".repeat(64)]
    ]
    const blocks = [
      ...raws.map(([raw], index) => block(1, 1, index, "look", { arguments: raw })),
      ...names.map(([name], index) => block(1, 1, raws.length + index, name))
    ]
    const log = oneStep(1, blocks, () => [], turnFailed(1))([])
    const shownCalls = messagesOf(log).flatMap((message) => (message.role === "assistant" ? toolCalls(message) : []))
    assert.deepStrictEqual(
      shownCalls.map((shown) => shown.arguments),
      [...raws.map(([, shown]) => shown), ...names.map(() => "{}")]
    )
    assert.deepStrictEqual(
      shownCalls.slice(raws.length).map((shown) => shown.name),
      names.map(([, shown]) => shown)
    )
    accepted(resumed(log))
  })

  it("O-O2: arguments nested as deeply as a model likes are no trouble", () => {
    const deep = (inside: string) => `${'{"a":'.repeat(50_000)}${inside}${"}".repeat(50_000)}`
    const log = oneStep(
      1,
      [block(1, 1, 0, "look", { arguments: deep("1") }), block(1, 1, 1, "look", { arguments: deep('"\\ud83d"') })],
      () => [],
      turnFailed(1)
    )([])
    const [whole, replaced] = messagesOf(log).flatMap((message) =>
      message.role === "assistant" ? toolCalls(message) : []
    )
    assert.strictEqual(whole?.arguments, deep("1"))
    assert.strictEqual(replaced?.arguments, "{}")
  })

  it("O-O1: half pairs and NULs in any text of a log do not reach a request", () => {
    const log = followedBy(
      oneStep(1, [text("half \uD83D"), { type: "reasoning", text: "a\0b" }, block(1, 1, 0)], (from) => [
        call([1, 1, 0]),
        result([1, 1, 0], outcome("\uDE00 out"), [from])
      ])([]),
      turnStart(2),
      stepStart(2, 1),
      input(said("p2", "in \uD83D"))
    )
    assert.deepStrictEqual(shown(log), [
      "user: prompt 1",
      "assistant: half \uFFFD, a\uFFFDb, call t1s1c0",
      "tool: \uFFFD out",
      "user: in \uFFFD"
    ])
  })

  it("keeps what a provider gave to be sent back, as it is", () => {
    const content: ReadonlyArray<AssistantBlock> = [
      { type: "reasoning", text: "", blob: { signature: "s" } },
      { type: "blob", blob: ["redacted"] },
      text("done")
    ]
    assert.deepStrictEqual(messagesOf(oneStep(1, content)([]))[1]?.content, content)
  })
})

describe("replacements", () => {
  // steps at 1..5, 8..11 and 14..17
  const three = oneStep(3, [text("three")])(oneStep(2, [text("two")])(oneStep(1, [text("one")])([])))
  const borders = three.flatMap(({ seq, type }) => (type === "step/start" || type === "step/end" ? [seq] : []))
  const replaced = (from: number, to: number, ...messages: ReadonlyArray<string>): SessionEvent => ({
    type: "context/replaced",
    data: { from, to, messages: messages.map((words, index) => said(`s${from}-${to}-${index}`, words, "context")) }
  })
  const refusal = (log: Log, event: SessionEvent): string => {
    const before = stateOf(log)
    const next = placed([event], log)
    return Either.match(SessionState.fold(next, before), { onLeft: (detail) => detail, onRight: () => "accepted" })
  }

  it("I05: the new messages stand where the old ones stood, and the old ones stay in the log", () => {
    assert.deepStrictEqual(borders, [1, 5, 8, 11, 14, 17])
    const log = followedBy(three, replaced(8, 11, "summary of two"))
    assert.deepStrictEqual(shown(log), [
      "user: prompt 1",
      "assistant: one",
      "user: summary of two",
      "user: prompt 3",
      "assistant: three"
    ])
    assert.deepStrictEqual(log.slice(0, three.length), three)
    accepted(resumed(log))
  })

  it("I05: a replacement may cover several steps, and be covered by a later one", () => {
    const first = followedBy(three, replaced(1, 11, "one and two"))
    assert.deepStrictEqual(shown(first), ["user: one and two", "user: prompt 3", "assistant: three"])
    const second = followedBy(first, replaced(1, 17, "all", " ", "of it"))
    assert.deepStrictEqual(shown(second), ["user: all", "user: of it"])
    assert.deepStrictEqual(shown(followedBy(first, replaced(1, 11, "shorter"))).slice(0, 2), [
      "user: shorter",
      "user: prompt 3"
    ])
    accepted(resumed(second))
  })

  it("O-F1: of all pairs of seqs only the borders of visible steps, in order, are accepted", () => {
    for (let from = 0; from < three.length; from++)
      for (let to = 0; to < three.length; to++) {
        const legal = [1, 8, 14].includes(from) && [5, 11, 17].includes(to) && from < to
        const said = refusal(three, replaced(from, to, "summary"))
        assert.strictEqual(said === "accepted", legal, `${from} to ${to}: ${said}`)
        if (legal) accepted(resumed(followedBy(three, replaced(from, to, "summary"))))
      }
  })

  it.each([
    ["a border that is no step's", replaced(2, 5, "x"), "seq 19: no visible step begins at 2"],
    ["an end that is no step's", replaced(1, 4, "x"), "seq 19: no visible step ends at 4"],
    ["an end that is yet to come", replaced(1, 99, "x"), "seq 19: no visible step ends at 99"],
    ["a reversed range", replaced(8, 5, "x"), "seq 19: the range 8 to 5 is reversed"],
    ["nothing in its place", replaced(1, 5), "seq 19: a replacement says nothing"],
    ["white space in its place", replaced(1, 5, " ", ""), "seq 19: a replacement says nothing"]
  ])("I04: %s is refused, and nothing changes", (_, event, detail) => {
    const before = stateOf(three)
    const request = SessionState.deriveRequest(before)
    assert.strictEqual(refusal(three, event), detail)
    assert.deepStrictEqual(SessionState.deriveRequest(before), request)
    assert.strictEqual(before.head, 19)
  })

  it("I04: what a replacement hides is no border any more", () => {
    const log = followedBy(three, replaced(1, 11, "one and two"))
    assert.strictEqual(refusal(log, replaced(8, 11, "x")), "seq 20: no visible step begins at 8")
    assert.strictEqual(refusal(log, replaced(1, 5, "x")), "seq 20: no visible step ends at 5")
    assert.strictEqual(refusal(log, replaced(1, 17, "x")), "accepted")
  })

  it("I04: inside a step nothing is replaced, between the steps of a turn it is", () => {
    const open: ReadonlyArray<SessionEvent> = [
      turnStart(4),
      stepStart(4, 1),
      input(said("p4", "four")),
      answer(4, 1, [block(4, 1, 0)])
    ]
    const inside = followedBy(three, ...open)
    assert.strictEqual(refusal(inside, replaced(1, 5, "x")), "seq 23: context replaced inside a step")
    const between = followedBy(
      inside,
      call([4, 1, 0]),
      result([4, 1, 0], outcome("ok"), [23]),
      stepEnd(4, 1),
      replaced(20, 25, "four")
    )
    const next: ReadonlyArray<StoredEvent> = followedBy(
      between,
      stepStart(4, 2),
      answer(4, 2, [text("done")]),
      stepEnd(4, 2),
      turnEnd(4, "completed")
    )
    assert.deepStrictEqual(shown(next).slice(-2), ["user: four", "assistant: done"])
    accepted(resumed(next))
  })

  // a step of two calls and one of a last word: seqs 1..9 and 10..12
  const batch = followedBy(
    oneStep(
      1,
      [text("both"), block(1, 1, 0), block(1, 1, 1)],
      (from) => [
        call([1, 1, 0]),
        call([1, 1, 1]),
        result([1, 1, 0], outcome("one"), [from]),
        result([1, 1, 1], outcome("two"), [from + 1])
      ],
      stepStart(1, 2)
    )([]),
    answer(1, 2, [text("done")]),
    stepEnd(1, 2),
    turnEnd(1, "completed")
  )

  it("I06: a result alone is not replaced, nor is any other part of a step, and it stays as it is", () => {
    const results = batch.flatMap(({ seq, type }) => (type === "tool/result" ? [seq] : []))
    assert.deepStrictEqual(results, [7, 8])
    for (const [from, to] of [
      [7, 7],
      [8, 8],
      [7, 8],
      [5, 8],
      [4, 8],
      [1, 8],
      [7, 9]
    ] as const) {
      const event = replaced(from, to, "shorter")
      assert.match(refusal(batch, event), /^seq 14: no visible step (begins|ends) at /)
      assert.isNotEmpty(Verification.verify(followedBy(batch, event)))
    }
    assert.deepStrictEqual(shown(batch).slice(2, 4), ["tool: one", "tool: two"])
  })

  it("O-F1: at every split index of a batch of two, what came before is replaced whole or not at all", () => {
    const splits = batch.flatMap(({ seq }) => (refusal(batch, replaced(1, seq, "so far")) === "accepted" ? [seq] : []))
    assert.deepStrictEqual(splits, [9, 12])
    for (const at of splits) {
      const split = followedBy(batch, replaced(1, at, "so far"))
      assert.deepStrictEqual(unpaired(messagesOf(split)), [])
      accepted(resumed(split))
    }
  })

  it("W23: a replacement is one event: before it the old list stands, with it the new one, and never half of each", () => {
    const log = oneStep(2, [text("more")])(followedBy(batch, replaced(1, 9, "so far")))
    const before = shown(batch)
    const after = ["user: so far", "assistant: done"]
    assert.deepStrictEqual(shown(log.slice(0, 14)), before)
    for (let cut = 15; cut < 17; cut++) assert.deepStrictEqual(shown(log.slice(0, cut)), after)
    assert.deepStrictEqual(shown(log).slice(0, 2), after)
  })

  it("O-F3: a result without its call is refused, and no replacement leaves one", () => {
    const lonely = followedBy(three, turnStart(4), stepStart(4, 1), answer(4, 1, [text("no call")]))
    const event = result([4, 1, 0], outcome("what?"))
    assert.strictEqual(refusal(lonely, event), "seq 22: call t4s1c0 is not in the answer of its step")
    assert.include(JSON.stringify(Verification.verify(followedBy(lonely, event))), '"law":2')
    for (const { seq: from } of batch)
      for (const { seq: to } of batch) {
        const next = replaced(from, to, "summary")
        if (refusal(batch, next) === "accepted")
          assert.deepStrictEqual(unpaired(messagesOf(followedBy(batch, next))), [])
      }
  })

  it("O-F2: an open call is closed before anything is replaced; then all of it may be, and the session goes on", () => {
    const died = followedBy(
      three,
      turnStart(4),
      stepStart(4, 1),
      input(said("p4", "four")),
      answer(4, 1, [block(4, 1, 0)]),
      call([4, 1, 0])
    )
    assert.strictEqual(refusal(died, replaced(1, 17, "before")), "seq 24: context replaced inside a step")
    const repaired = followedBy(died, ...Repair.closers(stateOf(died)))
    for (const [from, to] of [
      [1, 17],
      [1, 25],
      [20, 25]
    ] as const) {
      const compacted = followedBy(repaired, replaced(from, to, "so far"))
      assert.deepStrictEqual(unpaired(messagesOf(compacted)), [])
      accepted(resumed(compacted))
    }
  })

  it("O-F5: a compacted log that is folded again, without the texts that no request shows, gives the same list", () => {
    for (const log of [...sampleLogs(60, 12, 300), followedBy(three, replaced(1, 11, "one and two"))]) {
      const state = stateOf(log)
      const { hidden = [] } = state.summary
      const isHidden = (seq: number) => hidden.some(({ from, to }) => from <= seq && seq <= to)
      const reloaded = stateOf(log.map((event) => (isHidden(event.seq) ? blanked(event) : event)))
      assert.deepStrictEqual(messagesOf(log), SessionState.requestMessages(reloaded))
      assert.strictEqual(SessionState.requestDigest(state), SessionState.requestDigest(reloaded))
    }
  })

  it("O-F2: a call that a failed turn left open may be summarised away, or stay, and is never half of either", () => {
    const failed = oneStep(4, [block(4, 1, 0)], () => [call([4, 1, 0])], turnFailed(4))(three)
    const from = failed.length - 6
    accepted(resumed(followedBy(failed, replaced(1, 17, "all before"))))
    accepted(resumed(followedBy(failed, replaced(from, failed.length - 2, "it failed"))))
  })
})
