// Reads TypeScript as tokens, so that a rule never trips over a comment, a string or a template.
import { createScanner, SyntaxKind } from "typescript/unstable/ast"

/**
 * @typedef {object} Token
 * @property {string} text As written.
 * @property {string | undefined} string The value of a string, or of a template up to its first `${`.
 * @property {number} line From 1.
 *
 * @typedef {object} Source
 * @property {ReadonlyArray<Token>} tokens
 * @property {ReadonlyMap<number, string>} comments The comment text on each line that has one.
 * @property {ReadonlySet<number>} codeLines The lines that hold a token.
 */

const trivia = new Set([SyntaxKind.WhitespaceTrivia, SyntaxKind.NewLineTrivia])
const comment = new Set([SyntaxKind.SingleLineCommentTrivia, SyntaxKind.MultiLineCommentTrivia])
const withString = new Set([
  SyntaxKind.StringLiteral,
  SyntaxKind.NoSubstitutionTemplateLiteral,
  SyntaxKind.TemplateHead
])
/** After one of these a slash divides; after anything else it starts a regular expression. */
const endsValue = /[\w$)\]}"'`]$|^(\+\+|--)$|^\/.+\/$/s
const beforeValue = new Set([
  "return",
  "typeof",
  "case",
  "in",
  "of",
  "yield",
  "await",
  "else",
  "do",
  "void",
  "delete",
  "new"
])

/** @type {(text: string) => Source} */
export const read = (text) => {
  const scanner = createScanner(false, undefined, text.replace(/^#!.*/, ""))
  /** @type {Array<Token>} */
  const tokens = []
  /** @type {Map<number, string>} */
  const comments = new Map()
  /** @type {Set<number>} */
  const codeLines = new Set()
  /** Open braces within each open template. @type {Array<number>} */
  const templates = []
  let line = 1
  let previous = ""
  for (let kind = scanner.scan(); kind !== SyntaxKind.EndOfFile; kind = scanner.scan()) {
    const slash = kind === SyntaxKind.SlashToken || kind === SyntaxKind.SlashEqualsToken
    if (slash && (!endsValue.test(previous) || beforeValue.has(previous))) kind = scanner.reScanSlashToken()
    const top = templates.length - 1
    if (kind === SyntaxKind.TemplateHead) templates.push(0)
    else if (kind === SyntaxKind.OpenBraceToken && top >= 0) templates[top] = (templates[top] ?? 0) + 1
    else if (kind === SyntaxKind.CloseBraceToken && top >= 0) {
      if (templates[top] === 0) {
        kind = scanner.reScanTemplateToken(false)
        if (kind === SyntaxKind.TemplateTail) templates.pop()
      } else templates[top] = (templates[top] ?? 0) - 1
    }
    const written = scanner.getTokenText()
    const lines = written.split("\n")
    if (comment.has(kind)) {
      for (const [i, part] of lines.entries()) comments.set(line + i, `${comments.get(line + i) ?? ""}${part}\n`)
    } else if (!trivia.has(kind)) {
      tokens.push({ text: written, string: withString.has(kind) ? scanner.getTokenValue() : undefined, line })
      for (const i of lines.keys()) codeLines.add(line + i)
      previous = written
    }
    line += lines.length - 1
  }
  return { tokens, comments, codeLines }
}
