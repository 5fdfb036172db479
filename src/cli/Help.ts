/**
 * Help as a person reads it: what `@effect/cli` prints, without what it says of every option alike.
 */

/** What the library says of the types of values, which our own descriptions say better. */
const boilerplate = /^ +(?:A user-defined piece of text\.|A true or false value\.|This setting is optional\.)\n+/gm

/**
 * A help text without colours, boilerplate and trailing blanks, whose usage line can be typed as it stands: `path` are the
 * names on the way to the command that it is of.
 */
export const tidy = ({ path, text }: { readonly path: ReadonlyArray<string>; readonly text: string }): string =>
  `${withoutStyle(text)}\n`
    .replace(boilerplate, "")
    .replace(/ +$/gm, "")
    .replace(/^\$ (\S+)/m, (usage, first) => (first === path.at(-1) ? `$ ${path.join(" ")}` : usage))
    .trimEnd()

/** A text without the escape sequences that colour it. */
export const withoutStyle = (text: string): string => text.replace(/\u001b\[[0-9;]*m/g, "")
