/**
 * What servers of chat completions refuse, written from their documentation and from reports, and from nothing of ours.
 *
 * - Stricter than any one server: whatever one of them refuses, this refuses.
 */

/** `openai` knows no `reasoning_content`; `deepseek` is the thinking mode, which wants it back. */
export type Dialect = "openai" | "deepseek"

type Obj = Record<string, unknown>

const isObj = (value: unknown): value is Obj => typeof value === "object" && value !== null && !Array.isArray(value)
const isFilled = (value: unknown): value is string => typeof value === "string" && value.trim() !== ""

/** Throws the words of a refusal. */
const refuse = (words: string): never => {
  throw new Error(words)
}

const onlyKeys = (object: Obj, allowed: ReadonlyArray<string>, where: string) => {
  for (const key of Object.keys(object)) if (!allowed.includes(key)) refuse(`${where}: unknown parameter '${key}'`)
}

/** Half a surrogate pair is no JSON text, a NUL cuts bodies on their way. */
const checkTexts = (value: unknown, where: string): void => {
  if (typeof value === "string" && (value.includes("\0") || /[\ud800-\udfff]/u.test(value)))
    refuse(`${where}: not a well-formed text`)
  if (Array.isArray(value)) for (const [i, item] of value.entries()) checkTexts(item, `${where}[${i}]`)
  if (isObj(value))
    for (const [key, item] of Object.entries(value)) {
      checkTexts(key, where)
      checkTexts(item, `${where}.${key}`)
    }
}

const checkTool = (tool: unknown, where: string): string => {
  if (!isObj(tool) || tool["type"] !== "function" || !isObj(tool["function"])) return refuse(`${where}: not a function`)
  onlyKeys(tool, ["type", "function"], where)
  const declared = tool["function"]
  onlyKeys(declared, ["name", "description", "parameters", "strict"], where)
  const { description, name, parameters } = declared
  if (typeof name !== "string" || !/^[a-zA-Z0-9_-]{1,64}$/.test(name)) return refuse(`${where}: bad function name`)
  if (description !== undefined && !isFilled(description)) refuse(`${where}: empty description`)
  if (!isObj(parameters) || parameters["type"] !== "object") refuse(`${where}: parameters are no object schema`)
  return name
}

const checkCall = (call: unknown, where: string): string => {
  if (!isObj(call) || call["type"] !== "function" || !isObj(call["function"]))
    return refuse(`${where}: not a function call`)
  onlyKeys(call, ["id", "type", "function"], where)
  onlyKeys(call["function"], ["name", "arguments"], where)
  const { arguments: text, name } = call["function"]
  if (typeof name !== "string" || !/^[a-zA-Z0-9_-]{1,64}$/.test(name)) refuse(`${where}: bad function name`)
  if (typeof text !== "string") return refuse(`${where}: arguments are no text`)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    refuse(`${where}: arguments are no JSON`)
  }
  if (!isObj(value)) refuse(`${where}: arguments are no JSON object`)
  checkTexts(value, where)
  const id = call["id"]
  if (typeof id !== "string" || !/^[a-zA-Z0-9_-]{1,40}$/.test(id))
    return refuse(`${where}: 'id' must be 1 to 40 letters, digits, _ or -`)
  return id
}

const checkMessage = (message: unknown, where: string, dialect: Dialect): { role: string; calls: Array<string> } => {
  if (!isObj(message)) return refuse(`${where}: not an object`)
  const { content, role } = message
  switch (role) {
    case "system":
    case "user":
      onlyKeys(message, ["role", "content"], where)
      if (!isFilled(content)) refuse(`${where}: empty content`)
      return { role, calls: [] }
    case "tool":
      onlyKeys(message, ["role", "content", "tool_call_id"], where)
      if (!isFilled(content)) refuse(`${where}: empty content`)
      if (!isFilled(message["tool_call_id"])) refuse(`${where}: missing tool_call_id`)
      return { role, calls: [] }
    case "assistant": {
      const reasoning = dialect === "deepseek" ? ["reasoning_content"] : []
      onlyKeys(message, ["role", "content", "tool_calls", ...reasoning], where)
      const calls = message["tool_calls"]
      if (calls === undefined && !isFilled(content)) refuse(`${where}: neither content nor tool_calls`)
      if (content !== null && !isFilled(content)) refuse(`${where}: empty content`)
      if (calls !== undefined && (!Array.isArray(calls) || calls.length === 0)) refuse(`${where}: empty tool_calls`)
      if (dialect === "deepseek" && typeof message["reasoning_content"] !== "string")
        refuse(`${where}: The reasoning_content in the thinking mode must be passed back to the API.`)
      const list: ReadonlyArray<unknown> = Array.isArray(calls) ? calls : []
      return { role, calls: list.map((call, i) => checkCall(call, `${where}.tool_calls[${i}]`)) }
    }
    default:
      return refuse(`${where}: unknown role`)
  }
}

const checkMessages = (messages: ReadonlyArray<unknown>, dialect: Dialect) => {
  const ids = new Set<string>()
  let due: Array<string> = []
  let before = "start"
  for (const [i, message] of messages.entries()) {
    const where = `messages[${i}]`
    const { calls, role } = checkMessage(message, where, dialect)
    if (role === "tool") {
      const id = isObj(message) ? String(message["tool_call_id"]) : ""
      if (!due.includes(id)) refuse(`${where}: no call '${id}' in the message before waits for it`)
      due = due.filter((other) => other !== id)
    } else if (due.length > 0) {
      refuse(`${where}: tool_call_ids did not have response messages: ${due.join(", ")}`)
    }
    if (role === "system" && before !== "start") refuse(`${where}: the system message is not the first`)
    if (role === "assistant" && (before === "start" || before === "system")) refuse(`${where}: begins with an answer`)
    if (role === before && role !== "tool") refuse(`${where}: two neighbours of role ${role}`)
    for (const id of calls) {
      if (ids.has(id)) refuse(`${where}: the id '${id}' was used before`)
      ids.add(id)
    }
    if (role !== "tool") due = calls
    before = role
  }
  if (due.length > 0) refuse(`tool_call_ids did not have response messages: ${due.join(", ")}`)
  if (before !== "user" && before !== "tool") refuse("the last message must be of the user or of a tool")
}

const checkBody = (body: unknown, dialect: Dialect) => {
  if (!isObj(body)) return refuse("the body is no object")
  const limit = dialect === "deepseek" ? "max_tokens" : "max_completion_tokens"
  onlyKeys(
    body,
    ["model", "messages", "tools", "temperature", "stop", limit, "reasoning_effort", "stream", "stream_options"],
    "body"
  )
  checkTexts(body, "body")
  const { messages, model, stop, stream, stream_options: streamOptions, temperature, tools } = body
  if (!isFilled(model)) refuse("you must provide a model parameter")
  if (!Array.isArray(messages) || messages.length === 0) return refuse("messages: empty")
  if (stream !== true || !isObj(streamOptions) || streamOptions["include_usage"] !== true)
    refuse("this server streams, with usage, or not at all")
  if (temperature !== undefined && !(typeof temperature === "number" && temperature >= 0 && temperature <= 2))
    refuse("temperature: out of range")
  if (stop !== undefined && !(Array.isArray(stop) && stop.length > 0 && stop.length <= 4 && stop.every(isFilled)))
    refuse("stop: not one to four texts")
  const most = body[limit]
  if (most !== undefined && !(Number.isInteger(most) && Number(most) > 0)) refuse(`${limit}: not a positive number`)
  if (tools !== undefined) {
    if (!Array.isArray(tools) || tools.length === 0) return refuse("tools: empty")
    const names = tools.map((tool, i) => checkTool(tool, `tools[${i}]`))
    if (new Set(names).size < names.length) refuse("tools: two of one name")
  }
  checkMessages(messages, dialect)
}

/** Why a body is refused; undefined where it is taken. `thoughts`: what this server's answers with calls thought, where it knows. */
export const refusal = (bytes: Uint8Array, dialect: Dialect, thoughts?: ReadonlyArray<string>): string | undefined => {
  try {
    const body: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes))
    checkBody(body, dialect)
    if (thoughts !== undefined && dialect === "deepseek" && isObj(body) && Array.isArray(body["messages"])) {
      const returned = body["messages"].flatMap((message: unknown) =>
        isObj(message) && message["tool_calls"] !== undefined && message["reasoning_content"] !== ""
          ? [message["reasoning_content"]]
          : []
      )
      if (JSON.stringify(returned) !== JSON.stringify(thoughts))
        refuse("The reasoning_content in the thinking mode must be passed back to the API.")
    }
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
