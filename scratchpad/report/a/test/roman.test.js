import assert from "node:assert/strict"
import { test } from "node:test"
import { fromRoman, toRoman } from "../src/roman.js"

test("writes numbers in Roman digits", () => {
  assert.equal(toRoman(1), "I")
  assert.equal(toRoman(1994), "MCMXCIV")
  assert.equal(toRoman(3999), "MMMCMXCIX")
})

test("reads back every number that it writes", () => {
  for (let round = 0; round < 60; round++) {
    for (let number = 1; number <= 3999; number++) {
      if (fromRoman(toRoman(number)) !== number) assert.fail(`${number} came back as ${fromRoman(toRoman(number))}`)
    }
  }
})

test("refuses what is no Roman number", () => {
  for (const text of ["", "IIII", "VX", "MMMM", "abc"]) assert.throws(() => fromRoman(text), SyntaxError)
  for (const number of [0, 4000, 1.5]) assert.throws(() => toRoman(number), RangeError)
})
