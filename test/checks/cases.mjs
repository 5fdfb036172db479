// Every case id in cases.txt stands in the title of a test. `checkCases` is pure: texts in, one line per finding out.
import { read } from "./source.mjs"

const idShape = /^([A-Z]\d{2}|O-[A-Z]\d+|law \d+)$/
const callers = new Set(["it", "test", "describe", "layer"])
/** A test that does not run holds nothing. */
const idle = new Set(["skip", "todo", "fails"])

/** The titles of a test file: the string that an `it`, `test` or `describe`, or a method of one, starts with.
 * @type {(text: string) => ReadonlyArray<string>} */
export const titlesOf = (text) => {
  const { tokens } = read(text)
  const at = (/** @type {number} */ i) => tokens[i]?.text
  /** The place after the bracket that closes the one at `i`. @type {(i: number) => number} */
  const after = (i) => {
    let depth = 0
    for (; i < tokens.length; i++) {
      if (at(i) === "(") depth++
      if (at(i) === ")" && --depth === 0) return i + 1
    }
    return i
  }
  return tokens.flatMap((token, start) => {
    if (!callers.has(token.text) || at(start - 1) === ".") return []
    let i = start + 1
    while (at(i) === ".") {
      if (idle.has(at(i + 1) ?? "")) return []
      i += 2
    }
    // `it.each(rows)("title")`, `it.layer(services)("title")`
    if (at(i) === "(" && at(after(i)) === "(") i = after(i)
    if (at(i) !== "(") return []
    let title = ""
    while (tokens[++i]?.string !== undefined) {
      title += tokens[i]?.string
      if (at(i + 1) === "+") i++
    }
    return title === "" ? [] : [title]
  })
}

/**
 * @param {string} list One id a line, `#` starts a comment.
 * @param {ReadonlyMap<string, string>} tests The text of each file under test, by its path.
 * @returns {ReadonlyArray<string>}
 */
export const checkCases = (list, tests) => {
  const titles = [...tests.values()].flatMap(titlesOf)
  const ids = list.split("\n").map((line) => line.replace(/#.*/, "").trim())
  return ids.flatMap((id, i) => {
    const place = `test/cases.txt:${i + 1}`
    if (id === "") return []
    if (!idShape.test(id)) return [`${place} ${id} is no case id`]
    if (ids.indexOf(id) < i) return [`${place} ${id} is listed twice`]
    const word = new RegExp(`(?<![\\w-])${id}(?![\\w-])`)
    return titles.some((title) => word.test(title)) ? [] : [`${place} ${id} is in no test title`]
  })
}
