"""The plugins in `integrations/`, in the real clients: a session is told what is known, is nudged where it is asked to
remember, and its tools write what the next one is told.
"""

import json
import sys
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from mnemosyne.domain.knowledge.nudge import NUDGE
from tests.clients import desk as desks
from tests.clients.agents import Agent, ClaudeCode, Opencode
from tests.clients.desk import MNEMOSYNE, Desk, Server, finished
from tests.clients.test_managed_agents import MANAGE

pytestmark = pytest.mark.clients

INTEGRATIONS = Path(__file__).parents[2] / "integrations"
KNOWN = "The billing service listens on port 8443"
WANTED = "Deploys are on Mondays"


class ClaudeCodeWithPlugin(ClaudeCode):
    """Claude Code as it is with our plugin."""

    def command(self, prompt: str, *, goes_on: bool = False, fork_of: str = "") -> list[str]:
        program, *rest = super().command(prompt, goes_on=goes_on, fork_of=fork_of)
        return [program, "--plugin-dir", str(INTEGRATIONS / "claude-code"), *rest]


class OpencodeWithPlugin(Opencode):
    """opencode as it is with our plugin."""

    environment: Mapping[str, str] = {**Opencode.environment, "OPENCODE_PURE": "0"}


REMEMBER = {"claude": "mcp__plugin_mnemosyne_mnemosyne__remember", "opencode": "mnemosyne_remember"}
"""How each calls the tool."""

PLUGGED = [ClaudeCodeWithPlugin(), OpencodeWithPlugin()]


@pytest.fixture(params=PLUGGED, ids=lambda agent: agent.name)
def plugged(request: pytest.FixtureRequest, programs: Path, server: Server, tmp_path: Path) -> Desk:
    """Each client with its plugin, in a project of which something is known."""
    agent: Agent = request.param
    desk = desks.desk(agent, programs, server, tmp_path)
    plugin = (INTEGRATIONS / "opencode/mnemosyne.js").as_uri()
    settings = json.dumps({"snapshot": False, "plugin": [plugin]})
    (desk.home / "config/opencode/opencode.json").write_text(settings)
    memory(desk, "remember", KNOWN, "--kind", "project-brief")
    return desk


def memory(desk: Desk, *arguments: str) -> Any:
    """What a command prints as JSON about the desk's project."""
    where = ("--data-dir", str(desk.server.data_dir), "--project", str(desk.project), "--json")
    return json.loads(finished([*MNEMOSYNE, *arguments, *where], desk.environment, desk.project))


def run(desk: Desk, prompt: str, *, goes_on: bool = False, options: tuple[str, ...] = ()) -> str:
    """The client's last words; it finds `mnemosyne` on its path, and the same log."""
    variables = {
        "PATH": f"{Path(sys.executable).parent}:{desk.environment['PATH']}",
        "MNEMOSYNE_DATA_DIR": str(desk.server.data_dir),
    }
    return desk.run(prompt, goes_on=goes_on, options=(*desk.server.options, *options), **variables).text


def openings(desk: Desk, start: int = 0) -> list[str]:
    """What stands before the first reply in each request of the conversation itself."""
    bodies = [json.loads(each.body) for each in desk.standin.messages[start:]]
    return [_opening(each["messages"]) for each in bodies if each.get("tools")]


def _opening(messages: list[Any]) -> str:
    return json.dumps(list(takewhile(lambda message: message["role"] != "assistant", messages)))


IN_CI = [PLUGGED[0], pytest.param(PLUGGED[1], marks=pytest.mark.soak)]
"""The client of which a run takes less: one run of the other shows that its plugin does the same."""


def remembers(plugged: Desk) -> None:
    """In a session that is told what is known, the client writes down what is wanted, as it is asked to."""
    arguments = {"text": WANTED, "kind": "progress"}
    remember = {"type": "tool_use", "name": REMEMBER[plugged.agent.name], "input": arguments}
    plugged.script(
        {"when": {"prompt": "Remember"}, "replies": [{"content": [remember]}, {"text": "I will."}]},
        {"when": {"prompt": "deploy"}, "reply": {"text": "On Mondays."}},
    )
    assert run(plugged, "Remember that deploys are on Mondays.") == "I will."
    told = openings(plugged)
    assert len(told) == 2
    assert all(each.count(KNOWN) == 1 and each.count("MEMORY TRIGGER DETECTED") == 1 for each in told)
    (written,) = [each for each in memory(plugged, "memory", "list") if each["content"] == WANTED]
    assert (written["source"], written["kind"], written["scope"]) == ("agent", "progress", "project")


@pytest.mark.parametrize("plugged", [PLUGGED[1]], indirect=True, ids=["opencode"])
def test_a_session_is_told_what_is_known_and_writes_what_it_is_asked_to(plugged: Desk) -> None:
    remembers(plugged)
    assert plugged.standin.violations == []


@pytest.mark.parametrize("plugged", IN_CI, indirect=True, ids=[*REMEMBER])
def test_a_session_is_told_once_what_is_known_and_writes_what_the_next_is_told(plugged: Desk) -> None:
    remembers(plugged)
    start = len(plugged.standin.messages)
    assert run(plugged, "When do we deploy?", goes_on=True) == "On Mondays."
    resumed = openings(plugged, start)
    assert all(each.count(KNOWN) == 1 and WANTED not in each for each in resumed), "what it was told does not change"

    start = len(plugged.standin.messages)
    assert run(plugged, "On which day do we deploy?") == "On Mondays."
    (fresh,) = openings(plugged, start)
    assert KNOWN in fresh
    assert WANTED in fresh
    assert json.dumps(NUDGE)[1:-1] not in fresh
    assert plugged.standin.violations == []


@pytest.mark.parametrize("plugged", IN_CI, indirect=True, ids=[*REMEMBER])
def test_where_a_server_manages_the_plugin_leaves_the_telling_to_it(plugged: Desk) -> None:
    plugged.script({"when": {"prompt": "port"}, "reply": {"text": "8443."}})
    assert run(plugged, "Remember the port?", options=MANAGE) == "8443."
    (told,) = openings(plugged)
    assert told.count(KNOWN) == 1
    assert "MEMORY TRIGGER DETECTED" not in told
    assert plugged.standin.violations == []


@pytest.mark.soak
def test_claude_code_finds_nothing_wrong_with_the_plugin_and_installs_it(
    programs: Path, server: Server, tmp_path: Path
) -> None:
    desk = desks.desk(ClaudeCode(), programs, server, tmp_path)

    def ask(*arguments: str) -> str:
        return finished(["claude", "plugin", *arguments], desk.environment, desk.project)

    assert "Validation passed" in ask("validate", str(INTEGRATIONS / "claude-code"))
    ask("marketplace", "add", str(INTEGRATIONS))
    ask("install", "mnemosyne@mnemosyne")
    assert "enabled" in ask("list")


@pytest.mark.soak
def test_after_a_compaction_claude_code_is_told_again(programs: Path, server: Server, tmp_path: Path) -> None:
    desk = desks.desk(ClaudeCodeWithPlugin(), programs, server, tmp_path)
    memory(desk, "remember", KNOWN, "--kind", "project-brief")
    summary = {"reply": {"text": "<summary>A port was asked for.</summary>"}}
    desk.script({"when": {"prompt": "port"}, "reply": {"text": "8443."}}, summary)
    run(desk, "Which port?")
    run(desk, "/compact", goes_on=True)
    start = len(desk.standin.messages)
    assert run(desk, "Which port again?", goes_on=True) == "8443."
    (told,) = openings(desk, start)
    assert told.count(KNOWN) == 1
    assert "SessionStart:compact" in told


def test_claude_code_takes_the_tools_as_its_own_command_adds_them(
    programs: Path, server: Server, tmp_path: Path
) -> None:
    desk = desks.desk(ClaudeCode(), programs, server, tmp_path)
    memory(desk, "remember", KNOWN)
    add = ["claude", "mcp", "add", "memory", "--", str(Path(sys.executable).parent / "mnemosyne"), "mcp"]
    finished(add, desk.environment, desk.project)
    calls = [
        {"type": "tool_use", "name": f"mcp__memory__{name}", "input": arguments}
        for name, arguments in (
            ("recall", {"question": "billing port"}),
            ("memory_search", {"query": "billing", "limit": "many"}),
            ("memory_stats", {}),
        )
    ]
    replies = [*({"content": [call]} for call in calls), {"text": "Port 8443."}]
    desk.script({"when": {"prompt": "billing"}, "replies": replies})
    assert run(desk, "Which port has billing?") == "Port 8443."
    results = _results(json.loads(desk.standin.messages[-1].body)["messages"])
    assert KNOWN in results[0]
    assert "limit of memory_search is to be of type integer" in results[1]
    assert "known_entries" in results[2]
    assert desk.standin.violations == []


def _results(messages: list[Any]) -> list[str]:
    """What the calls gave, in their order."""
    blocks = [block for message in messages for block in message["content"] if isinstance(block, dict)]
    return [str(block["content"]) for block in blocks if block["type"] == "tool_result"]
