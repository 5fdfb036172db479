const digits = [
  ["M", 1000],
  ["CM", 900],
  ["D", 500],
  ["CD", 400],
  ["C", 100],
  ["XC", 90],
  ["L", 50],
  ["XL", 40],
  ["X", 10],
  ["IX", 9],
  ["V", 5],
  ["IV", 4],
  ["I", 1]
]

/** A number from 1 to 3999 in Roman digits. */
export function toRoman(number) {
  if (!Number.isInteger(number) || number < 1 || number > 3999) throw new RangeError(`no Roman number: ${number}`)
  let rest = number
  let text = ""
  for (const [digit, value] of digits) {
    while (rest >= value) {
      text += digit
      rest -= value
    }
  }
  return text
}

/** The number that a text in Roman digits means. */
export function fromRoman(text) {
  let at = 0
  let number = 0
  for (const [digit, value] of digits) {
    while (text.startsWith(digit, at)) {
      number += value
      at += digit.length
    }
  }
  if (number < 1 || number > 3999 || toRoman(number) !== text) throw new SyntaxError(`no Roman number: ${text}`)
  return number
}
