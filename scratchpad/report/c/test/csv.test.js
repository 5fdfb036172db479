import assert from "node:assert/strict"
import { test } from "node:test"
import { read, write } from "../src/csv.js"

test("quotes only what needs it", () => {
  assert.equal(write([["plain", "with, comma", 'with "quotes"']]), 'plain,"with, comma","with ""quotes"""')
})

test("keeps empty cells", () => {
  assert.deepEqual(read("a,,c\n,,"), [
    ["a", "", "c"],
    ["", "", ""]
  ])
})

test("reads back a large table", () => {
  const rows = Array.from({ length: 25_000 }, (_, row) => [`row ${row}`, "a, b", 'say "hi"', "two\nlines"])
  const again = read(write(rows))
  assert.equal(again.length, rows.length)
  for (const [index, row] of rows.entries()) {
    if (row.join("|") !== again[index].join("|")) assert.fail(`row ${index} came back as ${again[index].join("|")}`)
  }
})

test("reads a quoted line break as part of its cell", () => {
  assert.deepEqual(read('"one\ntwo",three'), [["one\ntwo", "three"]])
})
