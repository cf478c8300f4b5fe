"""The life of a plugin in opencode: its six hooks fire beside our plugin, and what each would save or tell is in
Mnemosyne's record.
"""

import json
from pathlib import Path

import pytest

from campaigns.clients.test_knowledge_of_agents import command as memory
from campaigns.clients.test_plugins import INTEGRATIONS, KNOWN, WANTED, OpencodeWithPlugin, openings, run
from tests.clients import workspace as workspaces
from tests.clients.workspace import Server

pytestmark = [pytest.mark.clients, pytest.mark.soak]

PROBE = """
import { appendFileSync } from "node:fs"
const note = (...words) => appendFileSync(LOG, words.join(" ") + "\\n")
export const Probe = async () => ({
  "chat.message": async (_input, { parts }) => note("chat.message", parts.length),
  "experimental.chat.messages.transform": async (_input, { messages }) => note("transform", messages.length),
  event: async ({ event }) => note("event", event.type),
  "tool.execute.after": async ({ tool }) => note("tool.execute.after", tool),
  "experimental.session.compacting": async (_input, { context }) => note("compacting", context.length),
})
"""


def test_six_hooks_fire_and_the_record_has_what_each_would_save(programs: Path, server: Server, tmp_path: Path) -> None:
    workspace = workspaces.open_workspace(OpencodeWithPlugin(), programs, server, tmp_path)
    probe, log = tmp_path / "probe.js", tmp_path / "hooks.log"
    probe.write_text(PROBE.replace("LOG", json.dumps(str(log))), encoding="utf-8")
    plugins = [(INTEGRATIONS / "opencode/mnemosyne.js").as_uri(), probe.as_uri()]
    settings = json.dumps({"snapshot": False, "plugin": plugins})
    (workspace.home / "config/opencode/opencode.json").write_text(settings)
    memory(workspace, "remember", KNOWN, "--kind", "project-brief")
    arguments = {"text": WANTED, "kind": "progress"}
    remember = {"type": "tool_use", "name": "mnemosyne_remember", "input": arguments}
    full = {"text": "I will.", "usage": {"input_tokens": 990_000}}
    workspace.script(
        {"when": {"prompt": "Remember", "tool": "mnemosyne_remember"}, "replies": [{"content": [remember]}, full]},
        {"reply": {"text": "Nothing is left to do."}},
    )
    run(workspace, "Remember that deploys are on Mondays.")
    noted = log.read_text(encoding="utf-8").splitlines()
    fired = {line.split()[0] for line in noted}
    assert fired == {"chat.message", "transform", "event", "tool.execute.after", "compacting"}, noted
    # Messages: the first prompt got what is known, behind the user's words.
    assert "chat.message 2" in noted
    assert KNOWN in openings(workspace)[0]
    # Tools: the sixth hook is a tool of ours; its call was seen, and its entry is saved.
    assert "tool.execute.after mnemosyne_remember" in noted
    assert WANTED in [each["content"] for each in memory(workspace, "memory", "list")]
    # Compaction: its request has what is known.
    assert "compacting 1" in noted
    assert any("Keep in the summary" in json.dumps(json.loads(each.body)) for each in workspace.standin.messages)
    # Events: the session became idle, and each of its requests and replies is on record.
    assert "event session.idle" in noted
    assert sum(len(each.turns) for each in workspace.conversations()) == len(workspace.standin.messages)
