/**
 * What a terminal shows after some output: it obeys line breaks, `cursor up` and `erase below`, leaves colours out, and knows
 * nothing else.
 */
export const onScreen = (output: string): ReadonlyArray<string> => {
  const screen: Array<string> = [""]
  let row = 0
  for (const [token] of output.replaceAll(/\u001b\[\d*m/g, "").matchAll(/\r?\n|\r|\u001b\[\d*[A-Z]|[^\r\n\u001b]+/g)) {
    if (token.endsWith("\n")) {
      row++
      screen[row] ??= ""
    } else if (/^\u001b\[\d+A$/.test(token)) row -= Number(token.slice(2, -1))
    else if (token === "\u001b[J") screen.splice(row, screen.length, "")
    else if (token !== "\r") screen[row] += token
  }
  return screen.slice(0, screen.at(-1) === "" ? -1 : undefined)
}
