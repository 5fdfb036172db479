/** Rows of cells as comma separated text. */
export function write(rows) {
  return rows.map((row) => row.map(cell).join(",")).join("\n")
}

function cell(value) {
  return /[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value
}

/** The rows of a comma separated text. */
export function read(text) {
  const rows = [[]]
  let value = ""
  let quoted = false
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (quoted) {
      if (char !== '"') value += char
      else if (text[at + 1] === '"') value += text[at++]
      else quoted = false
    } else if (char === '"') quoted = true
    else if (char === ",") {
      rows.at(-1).push(value)
      value = ""
    } else if (char === "\n") {
      rows.at(-1).push(value)
      rows.push([])
      value = ""
    } else value += char
  }
  rows.at(-1).push(value)
  return rows
}
