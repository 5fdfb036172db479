/** Splits an amount in cents into shares that differ by one cent at most. */
export function split(cents, people) {
  const share = Math.floor(cents / people)
  return Array.from({ length: people }, () => share)
}

/** An amount in cents as people write it. */
export function format(cents) {
  const sign = cents < 0 ? "-" : ""
  const whole = Math.trunc(Math.abs(cents) / 100)
  const rest = String(Math.abs(cents) % 100).padStart(2, "0")
  return `${sign}${whole}.${rest}`
}

/** The amount in cents that `format` wrote. */
export function parse(text) {
  const match = /^(-?)(\d+)\.(\d\d)$/.exec(text)
  if (match === null) throw new SyntaxError(`no amount: ${text}`)
  const cents = Number(match[2]) * 100 + Number(match[3])
  return match[1] === "-" ? -cents : cents
}
