"""The plugins in `integrations/`, in the real clients: a session gets the stored knowledge and a reminder to save
more, and its tools save entries for the next session.
"""

import json
import sys
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from campaigns.clients.test_knowledge_of_agents import command as memory
from tests.clients import workspace as workspaces
from tests.clients.agents import Agent, ClaudeCode, Opencode
from tests.clients.test_managed_agents import MANAGE
from tests.clients.workspace import MNEMOSYNE, Server, Workspace, finished
from tests.waiting import LOOKS

pytestmark = pytest.mark.clients

INTEGRATIONS = Path(__file__).parents[2] / "integrations"
KNOWN = "The billing service listens on port 8443"
WANTED = "Deploys are on Mondays"


class ClaudeCodeWithPlugin(ClaudeCode):
    def command(self, prompt: str, *, goes_on: bool = False, fork_of: str = "") -> list[str]:
        program, *rest = super().command(prompt, goes_on=goes_on, fork_of=fork_of)
        return [program, "--plugin-dir", str(INTEGRATIONS / "claude-code"), *rest]


class OpencodeWithPlugin(Opencode):
    environment: Mapping[str, str] = {**Opencode.environment, "OPENCODE_PURE": "0"}


REMEMBER = {"claude": "mcp__plugin_mnemosyne_mnemosyne__remember", "opencode": "mnemosyne_remember"}

PLUGGED = [ClaudeCodeWithPlugin(), OpencodeWithPlugin()]


@pytest.fixture(params=PLUGGED, ids=lambda agent: agent.name)
def plugged(request: pytest.FixtureRequest, programs: Path, server: Server, tmp_path: Path) -> Workspace:
    """Each client with its plugin, in a project with some stored knowledge."""
    agent: Agent = request.param
    workspace = workspaces.open_workspace(agent, programs, server, tmp_path)
    plugin = (INTEGRATIONS / "opencode/mnemosyne.js").as_uri()
    settings = json.dumps({"snapshot": False, "plugin": [plugin]})
    (workspace.home / "config/opencode/opencode.json").write_text(settings)
    memory(workspace, "remember", KNOWN, "--kind", "project-brief")
    return workspace


def run(workspace: Workspace, prompt: str, *, goes_on: bool = False, options: tuple[str, ...] = ()) -> str:
    """The client's final text; the client finds `mnemosyne` on its path, with the same log."""
    variables = {
        "PATH": f"{Path(sys.executable).parent}:{workspace.environment['PATH']}",
        "MNEMOSYNE_DATA_DIR": str(workspace.server.data_dir),
    }
    return workspace.run(prompt, goes_on=goes_on, options=(*workspace.server.options, *options), **variables).text


def openings(workspace: Workspace, start: int = 0) -> list[str]:
    """The messages before the first reply in each request of the conversation itself."""
    bodies = [json.loads(each.body) for each in workspace.standin.messages[start:]]
    return [_opening(each["messages"]) for each in bodies if each.get("tools")]


def _opening(messages: list[Any]) -> str:
    return json.dumps(list(takewhile(lambda message: message["role"] != "assistant", messages)))


IN_CI = [PLUGGED[0], pytest.param(PLUGGED[1], marks=pytest.mark.soak)]
"""The client of which a run takes less: one run of the other shows that its plugin does the same."""


@pytest.mark.parametrize("plugged", PLUGGED, indirect=True, ids=[*REMEMBER])
def test_session_gets_the_knowledge_once_and_saves_entries_for_the_next(plugged: Workspace) -> None:
    arguments = {"text": WANTED, "kind": "progress"}
    remember = {"type": "tool_use", "name": REMEMBER[plugged.agent.name], "input": arguments}
    plugged.script(
        {"when": {"prompt": "Remember"}, "replies": [{"content": [remember]}, {"text": "I will."}]},
        {"when": {"prompt": "deploy"}, "reply": {"text": "On Mondays."}},
    )
    assert run(plugged, "Remember that deploys are on Mondays.") == "I will."
    told = openings(plugged)
    assert len(told) == 2
    assert all(each.count(KNOWN) == 1 for each in told)
    (written,) = [each for each in memory(plugged, "memory", "list") if each["content"] == WANTED]
    assert (written["source"], written["kind"], written["scope"]) == ("agent", "progress", "project")
    start = len(plugged.standin.messages)
    assert run(plugged, "When do we deploy?", goes_on=True) == "On Mondays."
    resumed = openings(plugged, start)
    assert all(each.count(KNOWN) == 1 and WANTED not in each for each in resumed), "what it was told does not change"

    start = len(plugged.standin.messages)
    assert run(plugged, "On which day do we deploy?") == "On Mondays."
    (fresh,) = openings(plugged, start)
    assert KNOWN in fresh
    assert WANTED in fresh
    assert plugged.standin.violations == []


@pytest.mark.parametrize("plugged", IN_CI, indirect=True, ids=[*REMEMBER])
def test_plugin_leaves_the_knowledge_to_a_managing_server(plugged: Workspace) -> None:
    plugged.script({"when": {"prompt": "port"}, "reply": {"text": "8443."}})
    assert run(plugged, "Remember the port?", options=MANAGE) == "8443."
    (told,) = openings(plugged)
    assert told.count(KNOWN) == 1
    assert plugged.standin.violations == []


@pytest.mark.parametrize("plugged", IN_CI, indirect=True, ids=[*REMEMBER])
def test_session_is_closed_when_its_client_exits_and_reopened_by_its_next_turn(plugged: Workspace) -> None:
    plugged.script({"reply": {"text": "Yes."}})

    def read_changes(count: int) -> list[str]:
        """Read until there are ``count``: the client does not wait until the server has recorded its end."""
        (conversation,) = plugged.conversations()
        where = ("--data-dir", str(plugged.server.data_dir), "--json")
        arguments = [*MNEMOSYNE, "timeline", conversation.external_id, "--by", "client", *where]
        changes: list[str] = []
        for _ in range(LOOKS):
            listed = json.loads(finished(arguments, plugged.environment, plugged.project))
            changes = [change["what"] for change in listed if change["what"] in ("closed", "opened")]
            if len(changes) >= count:
                break
        return changes

    run(plugged, "Is it done?")
    assert read_changes(1) == ["closed"]
    run(plugged, "Is it still?", goes_on=True)
    assert read_changes(2) == ["closed", "closed"], "the turn in between reopened it"


@pytest.mark.soak
def test_claude_code_gets_the_knowledge_again_after_a_compaction(
    programs: Path, server: Server, tmp_path: Path
) -> None:
    workspace = workspaces.open_workspace(ClaudeCodeWithPlugin(), programs, server, tmp_path)
    memory(workspace, "remember", KNOWN, "--kind", "project-brief")
    summary = {"reply": {"text": "<summary>A port was asked for.</summary>"}}
    workspace.script({"when": {"prompt": "port"}, "reply": {"text": "8443."}}, summary)
    run(workspace, "Which port?")
    run(workspace, "/compact", goes_on=True)
    start = len(workspace.standin.messages)
    assert run(workspace, "Which port again?", goes_on=True) == "8443."
    (told,) = openings(workspace, start)
    assert told.count(KNOWN) == 1
    assert "SessionStart:compact" in told


def test_claude_code_accepts_the_tools_added_by_its_own_command(programs: Path, server: Server, tmp_path: Path) -> None:
    workspace = workspaces.open_workspace(ClaudeCode(), programs, server, tmp_path)
    memory(workspace, "remember", KNOWN)
    add = ["claude", "mcp", "add", "memory", "--", str(Path(sys.executable).parent / "mnemosyne"), "mcp"]
    finished(add, workspace.environment, workspace.project)
    calls = [
        {"type": "tool_use", "name": f"mcp__memory__{name}", "input": arguments}
        for name, arguments in (
            ("recall", {"question": "billing port"}),
            ("memory_search", {"query": "billing", "limit": "many"}),
            ("memory_stats", {}),
        )
    ]
    replies = [*({"content": [call]} for call in calls), {"text": "Port 8443."}]
    workspace.script({"when": {"prompt": "billing"}, "replies": replies})
    assert run(workspace, "Which port has billing?") == "Port 8443."
    results = _results(json.loads(workspace.standin.messages[-1].body)["messages"])
    assert KNOWN in results[0]
    assert "limit of memory_search must have the type integer" in results[1]
    assert "known_entries" in results[2]
    assert workspace.standin.violations == []


def _results(messages: list[Any]) -> list[str]:
    blocks = [block for message in messages for block in message["content"] if isinstance(block, dict)]
    return [str(block["content"]) for block in blocks if block["type"] == "tool_result"]


@pytest.mark.parametrize("plugged", PLUGGED[:1], indirect=True, ids=["claude"])
def test_a_chat_that_the_page_opens_about_an_entry_changes_it(plugged: Workspace) -> None:
    (entry,) = memory(plugged, "memory", "list")
    tools = REMEMBER["claude"].removesuffix("remember")
    change = {"entry": entry["id"], "text": "The billing service listens on port 8444"}
    known, update = (
        {"content": [{"type": "tool_use", "name": f"{tools}{name}", "input": given}]}
        for name, given in (("list_known", {}), ("update", change))
    )
    replies = [known, update, {"text": "The port is now 8444."}]
    plugged.script({"when": {"prompt": "talk about this memory entry"}, "replies": replies})
    assert run(plugged, f"/mnemosyne:edit {entry['id']}") == "The port is now 8444."
    sent = json.dumps([each.json()["messages"] for each in plugged.standin.messages])
    assert f"and perhaps to change it:\\n\\n{entry['id']}" in sent
    (changed,) = memory(plugged, "memory", "list")
    assert (changed["content"], changed["replaces"]) == (change["text"], entry["id"])
