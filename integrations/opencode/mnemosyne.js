// Memory beyond sessions for opencode. All that is decided is decided by `mnemosyne`; this file carries it over.
//
// - The first prompt of a session gets what is known as a part that opencode keeps, so it is the same in each request.
// - A compaction is told what is known, so that its summary keeps what the work needs of it.
// - The server gets the hash of each prompt that the user submits, except the texts of commands, which are files.
// - A session is closed when the user deletes or archives it, or opencode exits. No event says that the user has left
//   one, so all that are idle are closed when the user begins another one.
// - The tools are those of `mnemosyne mcp`.

import { spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { homedir } from "node:os"
import { join } from "node:path"

/** The plugin's file, in JSON with comments and trailing commas: `command`, and `settings` of Mnemosyne by name. */
function readConfig() {
  const folder = process.env.XDG_CONFIG_HOME || join(homedir(), ".config")
  try {
    const text = readFileSync(join(folder, "opencode", "mnemosyne.jsonc"), "utf8")
    const bare = text.replace(/("(?:\\.|[^"\\])*")|\/\/[^\n]*|\/\*[^]*?\*\//g, (_, quoted) => quoted ?? " ")
    return JSON.parse(bare.replace(/("(?:\\.|[^"\\])*")|,(?=\s*[\]}])/g, (_, quoted) => quoted ?? "")) ?? {}
  } catch {
    return {} // an unreadable file must not stop the user's work
  }
}

const CONFIG = readConfig()
const COMMAND = [process.env.MNEMOSYNE_COMMAND || CONFIG.command || "mnemosyne"].flat() // a list as in opencode's file
const SETTINGS = Object.fromEntries(
  Object.entries(CONFIG.settings ?? {})
    .map(([name, value]) => [`MNEMOSYNE_${name.toUpperCase()}`, String(value)])
    .filter(([name]) => !(name in process.env)),
)
const LONGEST_WAIT = 10_000 // ms; a prompt goes without memory then

/** What `mnemosyne hook` prints about an event; nothing if it cannot be asked, for nobody is to be kept from working. */
function ask(event) {
  return new Promise((resolve) => {
    const env = { ...process.env, ...SETTINGS }
    const stdio = ["pipe", "pipe", "ignore"]
    const child = spawn(COMMAND[0], [...COMMAND.slice(1), "hook"], { cwd: event.cwd, env, stdio, timeout: LONGEST_WAIT })
    let told = ""
    child.stdout.setEncoding("utf8").on("data", (piece) => (told += piece))
    child.stdin.on("error", () => {})
    child.on("error", () => resolve(""))
    child.on("close", (code) => resolve(code === 0 ? told.trim() : ""))
    child.stdin.end(JSON.stringify(event))
  }).catch(() => "") // of what no program can be started with, such as a NUL
}

/** An id that puts a part behind that one: opencode orders the parts of a message by their ids. */
function idBehind(part) {
  return part.id.slice(0, 16).padEnd(part.id.length, "z")
}

export const Mnemosyne = async ({ client, directory }) => {
  const begun = new Map() // session id -> true for a session of the user, false for one of a subagent
  const open = new Set() // the user's sessions to close
  const running = new Set() // sessions that answer a prompt
  const commanded = new Set() // sessions whose next message is the text of a command

  /** Whether a session begins with this message: an agent that another one calls is told by that one. */
  async function begins(sessionID) {
    if (begun.get(sessionID)) open.add(sessionID)
    if (begun.has(sessionID)) return false
    begun.set(sessionID, false)
    const session = (await client.session.get({ path: { id: sessionID } })).data
    const before = (await client.session.messages({ path: { id: sessionID } })).data
    const isNew = !session?.parentID && !before?.length
    if (isNew) void end([...open].filter((id) => !running.has(id))) // the prompt does not wait for it
    if (!session?.parentID) open.add(sessionID)
    begun.set(sessionID, !session?.parentID)
    return isNew
  }

  async function end(ids) {
    const event = { hook_event_name: "SessionEnd", cwd: directory }
    await Promise.all(ids.filter((id) => open.delete(id)).map((id) => ask({ ...event, session_id: id })))
  }

  return {
    config: async (config) => {
      const server = { type: "local", command: [...COMMAND, "mcp"], environment: SETTINGS }
      config.mcp = { mnemosyne: server, ...config.mcp }
    },

    dispose: () => end([...open]),

    event: async ({ event: { type, properties } }) => {
      const id = properties.sessionID ?? properties.info?.id
      if (type === "session.status") properties.status.type === "idle" ? running.delete(id) : running.add(id)
      if (type === "session.deleted" || properties.info?.time?.archived) await end([id])
    },

    "command.execute.before": async ({ sessionID }) => {
      commanded.add(sessionID)
    },

    "chat.message": async ({ sessionID }, { message, parts }) => {
      const isCommand = commanded.delete(sessionID)
      const last = parts.at(-1)
      const prompt = parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text).join("\n")
      if (!last || !prompt) return
      const submitted = { hook_event_name: "UserPromptSubmit", cwd: directory, session_id: sessionID }
      const asked = [ask(isCommand ? submitted : { ...submitted, prompt })]
      if (await begins(sessionID)) asked.unshift(ask({ hook_event_name: "SessionStart", cwd: directory, prompt }))
      const text = (await Promise.all(asked)).filter(Boolean).join("\n\n")
      if (!text) return
      parts.push({ id: idBehind(last), messageID: message.id, sessionID, type: "text", text, synthetic: true })
    },

    "experimental.session.compacting": async (_input, output) => {
      const block = await ask({ hook_event_name: "SessionStart", cwd: directory })
      if (block) output.context.push(`Keep in the summary what the work at hand needs of this:\n${block}`)
    },
  }
}
