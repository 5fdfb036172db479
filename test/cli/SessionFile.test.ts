import { execFileSync } from "node:child_process"
/**
 * A session as a file: `export`, `import`, and what is refused.
 */
import { createHash } from "node:crypto"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Gist from "../../src/cli/Gist.ts"
import * as SessionFile from "../../src/cli/SessionFile.ts"
import { JournalFull } from "../../src/domain/Errors.ts"
import type { StoredEvent } from "../../src/domain/Event.ts"
import { SessionId } from "../../src/domain/Ids.ts"
import * as Journal from "../../src/journal/Journal.ts"
import * as Fork from "../../src/session/Fork.ts"
import { header } from "../contract/journal.ts"
import { good } from "../support/BrokenLogs.ts"
import * as Facts from "../support/Facts.ts"
import * as Inside from "../support/Inside.ts"
import { sampleLogs } from "../support/Logs.ts"

type JournalService = Inside.Services["journal"]

const exported = (journal: JournalService, id = "s") =>
  Effect.map(Inside.run({ journal }, "export", id), ({ code, stderr, stdout }) => {
    assert.deepStrictEqual([code, stderr], [undefined, ""])
    return stdout
  })

/** Runs `import` on a file of this text. */
const imported = (journal: JournalService, text: string | Uint8Array) =>
  Effect.gen(function* () {
    const path = join(yield* Inside.folder, "s.jsonl")
    writeFileSync(path, text)
    return yield* Inside.run({ journal }, "import", path)
  })

const logIn = (journal: JournalService, id = "s") =>
  Effect.orDie(journal.read(SessionId.make(id), { from: 0, limit: 100_000 }))

/** What a file of these lines says, each with its line break, and the last line that belongs to them. */
const fileOf = (...lines: ReadonlyArray<string>): string => {
  const text = lines.map((line) => `${line}\n`).join("")
  const sha256 = createHash("sha256").update(text).digest("hex")
  return `${text}{"events":${lines.length - 1},"sha256":"${sha256}"}\n`
}

const headerLine = SessionFile.headerLine(header({ id: SessionId.make("s") }))
const lines = [headerLine, ...good.map(Gist.json)]
const file = fileOf(...lines)

/** Reads a file in pieces of this size. */
const read = (text: string | Uint8Array, size = 1 << 20) => {
  const bytes = Buffer.from(text)
  const reading = SessionFile.start("s.jsonl")
  for (let from = 0; from < bytes.length; from += size) {
    const taken = SessionFile.take(reading, bytes.subarray(from, from + size))
    if (Either.isLeft(taken)) return Either.left(taken.left)
  }
  return SessionFile.end(reading)
}

const refusalOf = (text: string | Uint8Array): string =>
  Either.match(read(text), { onLeft: ({ message }) => message, onRight: () => "it was read" })

describe("export and import", () => {
  it.scoped("give the same bytes again, for any log and any prefix of it, and the same session (law 8)", () =>
    Effect.gen(function* () {
      const logs = sampleLogs(24, 31).flatMap((log, index) => [log, log.slice(0, 1 + ((index * 37) % log.length))])
      for (const log of logs) {
        const here = yield* Inside.journalOf({ s: log })
        const there = yield* Inside.journalOf({})
        const first = yield* exported(here)
        const { code, stdout } = yield* imported(there, first)
        assert.deepStrictEqual([code, stdout], [undefined, "s\n"])
        assert.strictEqual(yield* exported(there), first)
        assert.deepStrictEqual(yield* logIn(there), log)
        const [before, after] = yield* Effect.all(
          [here, there].map((each) => Effect.orDie(each.find(SessionId.make("s"))))
        )
        assert.deepStrictEqual([after?.header, after?.summary], [before?.header, before?.summary])
        assert.deepStrictEqual([after?.epoch, after?.owner._tag], [0, "None"])
      }
    })
  )

  it.scoped("keep what a fork inherited, and the names of odd folders", () =>
    Effect.gen(function* () {
      const here = yield* Inside.journalOf({})
      const [from, to] = [SessionId.make("p"), SessionId.make("s")]
      const { summary } = Facts.stateOf(good)
      yield* Effect.orDie(here.create(header({ id: from, cwd: '/w "ö"\n\u2028' }), { events: good, summary }))
      yield* Effect.orDie(Effect.provideService(Fork.fork({ parent: from, child: to }), Journal.Journal, here))
      const there = yield* Inside.journalOf({})
      const first = yield* exported(here)
      assert.strictEqual((yield* imported(there, first)).stdout, "s\n")
      assert.strictEqual(yield* exported(there), first)
      assert.deepStrictEqual((yield* there.find(to)).header, (yield* here.find(to)).header)
    }).pipe(Effect.orDie)
  )

  it.scoped("J10: keep an ignorable event of a newer version as it is", () =>
    Effect.gen(function* () {
      const newer: StoredEvent = {
        type: "unrecognized",
        data: { type: "later/kind", data: { z: 1, a: ["\ud83d", null] } },
        ignorable: true,
        sourceEventSeqs: [0],
        seq: good.length,
        time: good.at(-1)?.time ?? 0
      }
      const text = fileOf(...lines, Gist.json(newer))
      const journal = yield* Inside.journalOf({})
      assert.strictEqual((yield* imported(journal, text)).stdout, "s\n")
      assert.deepStrictEqual((yield* logIn(journal)).at(-1), newer)
      assert.strictEqual(yield* exported(journal), text)
    })
  )

  it.scoped("a file has a header, the lines of events --json, and a last line; standard input reads as well", () =>
    Effect.gen(function* () {
      const journal = yield* Inside.journalOf({ s: good })
      const text = yield* exported(journal)
      const printed = yield* Inside.run({ journal }, "events", "s", "--json")
      const [first, ...rest] = text.trimEnd().split("\n")
      assert.strictEqual(
        first,
        '{"format":"daybook session","version":1,"id":"s","cwd":"/workspace","created":0,"parent":null,"seedLength":0,"depth":0}'
      )
      assert.strictEqual(`${rest.slice(0, -1).join("\n")}\n`, printed.stdout)
      assert.strictEqual(text, fileOf(first ?? "", ...rest.slice(0, -1)))
      const there = yield* Inside.journalOf({})
      assert.strictEqual((yield* Inside.run({ journal: there, input: text }, "import", "-")).stdout, "s\n")
      assert.strictEqual(yield* exported(there), text)
    })
  )

  it.scoped("J08: what is exported of a session that runs is the session as it was at first, and can be imported", () =>
    Effect.gen(function* () {
      const journal = yield* Inside.journalOf({ s: good })
      for (const head of [3, good.length - 1]) {
        const running = {
          ...journal,
          find: (id: SessionId) => Effect.map(journal.find(id), (record) => ({ ...record, head }))
        }
        const there = yield* Inside.journalOf({})
        const { stderr } = yield* imported(there, yield* exported(running))
        assert.match(
          stderr,
          /^daybook: session s: its turn \d was interrupted\. To go on: daybook run --session s --continue/
        )
        assert.deepStrictEqual(yield* logIn(there), good.slice(0, head))
      }
    })
  )

  it.scoped("says of a session that is imported what waits in it, and how to go on in the same place", () =>
    Effect.gen(function* () {
      for (const [kind, says] of [
        [
          "prompt",
          /^daybook: session s: 1 message waits\. To go on: daybook run --session s --continue --workspace \S+ --db \S+\n$/
        ],
        ["inject", /^daybook: session s: 1 message waits\n$/]
      ] as const) {
        const target = kind === "prompt" ? "next-turn" : "next-step"
        const left = Facts.followedBy(good, Facts.inserted(target, 0, Facts.said("w", "more", kind)))
        const text = yield* exported(yield* Inside.journalOf({ s: left }))
        assert.match((yield* imported(yield* Inside.journalOf({}), text)).stderr, says)
      }
    })
  )

  it.scoped("G15: a log that is damaged is exported up to there, says so, and is not taken for a whole file", () =>
    Effect.gen(function* () {
      const journal = yield* Inside.journalOf({ s: good })
      const short = { ...journal, read: () => Effect.succeed(good.slice(0, 5)) }
      const { code, stderr, stdout } = yield* Inside.run({ journal: short }, "export", "s")
      assert.strictEqual(code, 1)
      assert.include(stderr, "seq 5 is missing")
      const there = yield* Inside.journalOf({})
      const refused = yield* imported(there, stdout)
      assert.strictEqual(refused.code, 1)
      assert.match(refused.stderr, /line 7: the file is damaged: the file is cut off here\. Nothing was imported\./)
      const nobody = yield* Inside.run({ journal: there }, "export", "s")
      assert.deepStrictEqual([nobody.code, nobody.stdout], [1, ""])
      assert.match(nobody.stderr, /^daybook: session s: no such session\./)
    })
  )
})

describe("import", () => {
  it("reads a file in pieces of any size", () => {
    for (const size of [1, 2, 7, 64, 1000]) {
      const { header: given, log } = Either.getOrThrow(read(file, size))
      assert.deepStrictEqual([given.id, log.events], ["s", good])
    }
  })

  it("refuses a file that lacks its end, wherever it is cut", () => {
    for (let end = 0; end < Buffer.byteLength(file); end++)
      assert.isTrue(Either.isLeft(read(Buffer.from(file).subarray(0, end))), `${end} bytes`)
  })

  it("refuses a file of which one bit is another, wherever that is", () => {
    const bytes = Buffer.from(file)
    for (let at = 0; at < bytes.length; at++) {
      const flipped = Buffer.from(bytes)
      flipped[at] = (flipped[at] ?? 0) ^ (1 << (at % 8))
      assert.isTrue(Either.isLeft(read(flipped)), `byte ${at}`)
    }
  })

  const event = (at: number, change: (line: string) => string) =>
    fileOf(...lines.with(at + 1, change(lines[at + 1] ?? "")))
  const top = (change: (line: string) => string) => fileOf(change(headerLine), ...lines.slice(1))
  const unlike = "it is not written as `daybook export` writes it"
  const deep = `${"[".repeat(20_000)}${"]".repeat(20_000)}`

  /** A file, its line, and what is wrong with that. */
  const damaged: ReadonlyArray<readonly [what: string, text: string | Uint8Array, line: number, says: string]> = [
    ["broken JSON", event(3, (line) => line.slice(0, -1)), 5, "it is no JSON object"],
    ["a line that is no object", event(3, () => "[]"), 5, "it is no JSON object"],
    ["an empty line", event(3, () => ""), 5, "it is no JSON object"],
    [
      "an event that does not decode",
      event(1, () => '{"seq":1,"time":0,"type":"turn/start","data":{}}'),
      3,
      "is malformed"
    ],
    ["an event without data", event(1, () => '{"seq":1,"time":0,"type":"turn/start"}'), 3, "its columns are malformed"],
    ["an event without a type", event(1, () => '{"seq":1,"time":0,"data":{}}'), 3, "its columns are malformed"],
    [
      "a text by reference",
      event(1, () => '{"seq":1,"time":0,"type":"assistant/message","data":{}}'),
      3,
      "is malformed"
    ],
    ["a gap", fileOf(...lines.toSpliced(3, 1)), 4, "seq 3 stands where 2 was due"],
    ["an event that stands twice", fileOf(...lines.toSpliced(3, 0, lines[3] ?? "")), 5, "seq 2 stands where 3 was due"],
    ["time that goes back", event(2, (line) => line.replace(/"time":\d+/, '"time":1')), 4, "time goes back"],
    [
      "an event that cannot stand there",
      event(1, (line) => line.replace('"turn":1', '"turn":2')),
      3,
      "turn 2 does not follow turn 0"
    ],
    ["another order of keys", event(1, (line) => line.replace(/("seq":1),("time":\d+)/, "$2,$1")), 3, unlike],
    ["white space", event(1, (line) => `${line} `), 3, unlike],
    ["a carriage return", event(1, (line) => `${line}\r`), 3, unlike],
    ["a key that is not known", event(1, (line) => line.replace("{", '{"extra":1,')), 3, unlike],
    ["a key that stands twice", event(1, (line) => line.replace("{", '{"seq":1,')), 3, unlike],
    [
      "JSON that is too deep",
      event(1, (line) => line.replace(/"data":.*/, `"data":${deep},"ignorable":true}`).replace("turn/start", "x")),
      3,
      "it nests too deeply"
    ],
    [
      "bytes that are not UTF-8",
      Buffer.concat([Buffer.from(`${headerLine}\n"`), Uint8Array.of(0xff, 0x0a)]),
      2,
      "it is not UTF-8"
    ],
    [
      "a wrong count",
      file.replace(`"events":${good.length}`, '"events":7'),
      good.length + 2,
      `it does not say that ${good.length} events stand before it`
    ],
    [
      "a wrong digest",
      file.replace(/"sha256":"./, '"sha256":"x'),
      good.length + 2,
      "its digest is not that of what stands before it"
    ],
    ["something after the end", `${file}{}\n`, good.length + 3, "something follows the last line"],
    ["half a line after the end", `${file}{`, good.length + 3, "the file is cut off here"],
    ["no last line", file.slice(0, file.lastIndexOf("{")), good.length + 2, "the file is cut off here"],
    ["no last line break", file.slice(0, -1), good.length + 2, "the file is cut off here"],
    ["no events", fileOf(headerLine), 2, "it has fewer events than its session began with"],
    [
      "fewer events than were inherited",
      top((line) => line.replace('"parent":null,"seedLength":0', '"parent":"p","seedLength":99')),
      good.length + 2,
      "it has fewer events"
    ],
    [
      "a folder that is none",
      top((line) => line.replace(/"cwd":"[^"]*"/, '"cwd":""')),
      1,
      "its folder is no whole path"
    ],
    ["a relative folder", top((line) => line.replace('"cwd":"/', '"cwd":"')), 1, "its folder is no whole path"],
    ["a parent of itself", top((line) => line.replace('"parent":null', '"parent":"s"')), 1, "is its own parent"],
    [
      "events inherited from nobody",
      top((line) => line.replace('"seedLength":0', '"seedLength":9')),
      1,
      "its session inherited events, and has no parent"
    ],
    ["a header without an id", top((line) => line.replace('"id":"s",', "")), 1, "its header is malformed"],
    ["a header with a bad id", top((line) => line.replace('"id":"s"', '"id":"../s"')), 1, "its header is malformed"],
    ["a header with more in it", top((line) => line.replace("}", ',"x":1}')), 1, unlike]
  ]
  for (const [what, text, line, says] of damaged)
    it(`refuses ${what}, and says in which line`, () => {
      const message = refusalOf(text)
      assert.match(
        message,
        /^s\.jsonl, line \d+: the file is damaged: .*\. Nothing was imported\. Export the session again/
      )
      assert.include(message, `, line ${line}: `)
      assert.include(message, says)
    })

  it("J10: tells what another version wrote apart from what is damaged, with the direction", () => {
    const type = event(1, (line) => line.replace("turn/start", "later/kind"))
    assert.match(
      refusalOf(type),
      /^s\.jsonl, line 3: unsupported format \(newer\): seq 1 has the type "later\/kind", which .*\. Use a newer daybook\.$/
    )
    const version = (number: number) => refusalOf(top((line) => line.replace('"version":1', `"version":${number}`)))
    assert.match(version(2), /line 1: unsupported format \(newer\): it is of version 2, .* Use a newer daybook\.$/)
    assert.match(
      version(0),
      /line 1: unsupported format \(older\): it is of version 0, .* Use the daybook that wrote it\.$/
    )
  })

  it("tells a file that is none of ours", () => {
    const others = [
      "",
      "hello\n",
      "{}\n",
      "[1]\n",
      '{"format":"other"}\n',
      `\ufeff${file}`,
      Uint8Array.of(0xff, 0xfe, 0x0a)
    ]
    for (const text of others)
      assert.match(refusalOf(text), /^s\.jsonl, line 1: it is no session: .*Name a file that `daybook export` wrote\.$/)
  })

  it("refuses a line that is too long, and names the limit", () => {
    const reading = SessionFile.start("s.jsonl")
    const piece = Buffer.alloc(1024 * 1024, "x")
    let taken: ReturnType<typeof SessionFile.take> = SessionFile.take(reading, Buffer.from(`${headerLine}\n`))
    for (let size = 0; Either.isRight(taken) && size <= SessionFile.maxLineBytes; size += piece.length)
      taken = SessionFile.take(reading, piece)
    const message = Either.match(taken, { onLeft: String, onRight: () => "it was read" })
    assert.include(message, "line 2: the file is damaged: it is longer than 64 MiB.")
  })

  it.scoped("J11: a taken id is refused, and nothing is adopted", () =>
    Effect.gen(function* () {
      const own = good.slice(0, 1)
      const journal = yield* Inside.journalOf({ s: own })
      const before = yield* journal.find(SessionId.make("s"))
      const { code, stderr, stdout } = yield* imported(journal, file)
      assert.deepStrictEqual([code, stdout], [1, ""])
      assert.match(stderr, /^daybook: session s is there already; nothing was changed\./)
      assert.deepStrictEqual([yield* logIn(journal), yield* journal.find(SessionId.make("s"))], [own, before])
    }).pipe(Effect.orDie)
  )

  it.scoped("says which session was not stored, where the journal cannot be opened", () =>
    Effect.gen(function* () {
      const unopened = new JournalFull({ file: "x.db", cause: undefined })
      const { code, stderr } = yield* Inside.run(
        { journal: yield* Inside.journalOf({}), input: file, unopened },
        "import",
        "-"
      )
      assert.deepStrictEqual([code, stderr], [1, `daybook: session s: it was not stored. ${unopened.message}\n`])
    })
  )

  it.scoped("reads no file that is none, and opens no pipe: it may be that nobody writes to that", () =>
    Effect.gen(function* () {
      const journal = yield* Inside.journalOf({})
      const workspace = yield* Inside.folder
      const pipe = join(workspace, "pipe")
      execFileSync("mkfifo", [pipe])
      for (const [name, says] of [
        [
          pipe,
          /pipe cannot be read: it is no regular file\. Nothing was imported\. Name one, or - for standard input\.\n$/
        ],
        ["/dev/zero", /zero cannot be read: it is no regular file\./],
        ["", /^daybook: "" cannot be read: /]
      ] as const) {
        const { code, stderr } = yield* Inside.run({ journal, workspace }, "import", name)
        assert.strictEqual(code, 2)
        assert.match(stderr, says)
      }
    })
  )

  it.scoped("stores nothing of a file that is refused, and says so in one line", () =>
    Effect.gen(function* () {
      const journal = yield* Inside.journalOf({})
      for (const text of [fileOf(...lines.toSpliced(9, 1)), file.slice(0, -9), "no session\n"]) {
        const { code, stderr, stdout } = yield* imported(journal, text)
        assert.deepStrictEqual([code, stdout], [1, ""])
        assert.match(stderr, /^daybook: [^\n]*s\.jsonl, line \d+: [^\n]* Nothing was imported\.[^\n]*\n$/)
      }
      assert.deepStrictEqual(yield* Effect.orDie(journal.list({ offset: 0, limit: 9 })), [])
      const workspace = yield* Inside.folder
      for (const name of ["nowhere.jsonl", "."]) {
        const { code, stderr } = yield* Inside.run({ journal, workspace }, "import", join(workspace, name))
        assert.strictEqual(code, 2)
        assert.match(stderr, /^daybook: .* cannot be read: .*\. Nothing was imported\. Name a file .*\n$/)
      }
    })
  )
})
