/**
 * What can be wrong with settings. Each says what happened, what was kept, and what to do next.
 */
import * as Schema from "effect/Schema"

/** Which value it is about: `field` is its path in the section, names joined with dots. */
const ofField = { section: Schema.String, field: Schema.String, detail: Schema.String }

/** A value was refused: nothing was changed. */
export class InvalidSetting extends Schema.TaggedError<InvalidSetting>()("InvalidSetting", ofField) {
  override get message() {
    return `${this.detail}. Nothing was changed.`
  }
}

/** A stored value is refused. It is left as it is. */
export class InvalidStoredSetting extends Schema.TaggedError<InvalidStoredSetting>()("InvalidStoredSetting", {
  ...ofField,
  file: Schema.String
}) {
  override get message() {
    const path = this.field === "" ? this.section : `${this.section}.${this.field}`
    return `${this.file}: ${this.detail}. It was left as it is. Set it right, or take it out with \`daybook settings unset ${path}\`.`
  }
}

/** The file is no JSON with comments: nothing was changed, and nothing is until it is mended. */
export class SettingsBroken extends Schema.TaggedError<SettingsBroken>()("SettingsBroken", {
  file: Schema.String,
  line: Schema.Int,
  column: Schema.Int,
  detail: Schema.String
}) {
  /** What is wrong, without what follows from it. */
  get what() {
    return `${this.file}:${this.line}:${this.column} is no JSON: ${this.detail}`
  }
  override get message() {
    return `${this.what}. It was left as it is. Mend it by hand, or move it away.`
  }
}

/** The file cannot be read, or not be written; it is as it was. */
export class SettingsFailed extends Schema.TaggedError<SettingsFailed>()("SettingsFailed", {
  file: Schema.String,
  operation: Schema.Literal("read", "written"),
  detail: Schema.String
}) {
  /** What is wrong, without what follows from it. */
  get what() {
    return `${this.file} cannot be ${this.operation}: ${this.detail}`
  }
  override get message() {
    return `${this.what}. It was left as it is. Make it a file that you may read and write, or name another one.`
  }
}

/** Another process has held the lock all the time; the file is as it was. */
export class SettingsLocked extends Schema.TaggedError<SettingsLocked>()("SettingsLocked", {
  file: Schema.String,
  patience: Schema.String
}) {
  override get message() {
    return `${this.file} has been locked for ${this.patience} by another process that writes it. It was left as it is. Try again once that process is done.`
  }
}

/** What is stored cannot be told. */
export type ReadError = SettingsBroken | SettingsFailed

/** A change was not made. */
export type EditError = InvalidSetting | ReadError | SettingsLocked

/** A store does not begin well. */
export type StartError = InvalidStoredSetting | ReadError
