"""opencode through the proxy with its OpenAI provider: the Responses API, as the vendor's own library uses it."""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne_lab.provider.reading import Json
from tests.clients.agents import OPENCODE
from tests.clients.workspace import Server, bare_environment, finished, visit
from tests.http.managing import recall, think

pytestmark = pytest.mark.clients

OPENAI, COMPATIBLE = "openai", "openai-compatible"
"""Its providers: that of Responses, and that of whoever speaks Chat Completions."""

MANAGED = {"x-mnemosyne-mode": "manage"}


def run(command: str) -> Json:
    return {"type": "tool_use", "name": "bash", "input": {"command": command, "description": "Run it."}}


def opencode(
    server: Server,
    programs: Path,
    home: Path,
    *words: str,
    provider: str = OPENAI,
    directory: Path | None = None,
    headers: Mapping[str, str] | None = None,
) -> str:
    """Run `opencode run` in a directory (or its home) to its end; return its output."""
    options = {"baseURL": f"{server.url}/v1", "apiKey": "a-dummy-key", "headers": dict(headers or {})}
    way = {"npm": f"@ai-sdk/{provider}"} if provider == COMPATIBLE else {}
    named = {provider: {**way, "options": options, "models": {"gpt-5.5": {}}}}
    config = {"provider": named, "permission": {"bash": "allow"}, "snapshot": False}
    environment = bare_environment(home) | dict(OPENCODE.environment)
    environment |= {"OPENCODE_CONFIG_CONTENT": json.dumps(config), "NO_PROXY": "127.0.0.1"}
    command = [str(programs / "opencode"), "run", "-m", f"{provider}/gpt-5.5", *words]
    return finished(command, environment, directory or home)


@pytest.mark.parametrize(
    "resumed", [False, pytest.param(True, marks=pytest.mark.release)], ids=["one run", "and its resumption"]
)
def test_managed_tool_loop_is_one_history_to_the_provider(
    programs: Path, server: Server, tmp_path: Path, *, resumed: bool
) -> None:
    at = visit(server)
    at.script(
        {
            "when": {"prompt": "colour", "tools": True},
            "replies": [
                {"content": [think("What was it?"), recall()]},
                {"content": [think("Look."), run("echo teal"), recall("and that?")]},
                {"content": [recall("once more?")]},
                {"content": [run("echo more > more.txt")]},
                {"text": "It is teal."},
            ],
        },
        {"when": {"prompt": "again", "tools": True}, "replies": [{"content": [recall()]}, {"text": "Teal it is."}]},
    )
    assert "It is teal." in opencode(server, programs, tmp_path, "Which colour is it?", headers=MANAGED)
    if resumed:
        assert "Teal it is." in opencode(server, programs, tmp_path, "--continue", "And again.", headers=MANAGED)
    assert (tmp_path / "more.txt").read_text() == "more\n"
    assert [str(each) for each in at.standin.violations] == []
    sent = [body["input"] for each in at.standin.messages if (body := each.json()).get("tools")]
    assert len(sent) == (7 if resumed else 5)
    assert all(after[: len(before)] == before for before, after in pairwise(sent))
    stored = [file for file in tmp_path.rglob("*") if file.is_file() and file.stat().st_size < 10_000_000]
    assert stored
    assert not [file for file in stored if any(name.encode() in file.read_bytes() for name in NAMES)]
