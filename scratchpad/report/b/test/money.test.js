import assert from "node:assert/strict"
import { describe, it } from "node:test"
import { format, parse, split } from "../src/money.js"

describe("format", () => {
  it("writes two decimals", () => {
    assert.equal(format(1250), "12.50")
    assert.equal(format(-5), "-0.05")
  })

  it("is read back by parse", () => {
    for (let cents = -400_000; cents <= 400_000; cents++) {
      if (parse(format(cents)) !== cents) assert.fail(`${cents} was written as ${format(cents)}`)
    }
  })
})

describe("split", () => {
  it("gives everyone the same when it can", () => {
    assert.deepEqual(split(900, 3), [300, 300, 300])
  })

  it("loses no cent", () => {
    const sum = split(1000, 3).reduce((total, share) => total + share, 0)
    assert.equal(sum, 1000, "the shares of 10.00 among 3 people must add up to 10.00")
  })
})
