"""Claude Code in a terminal: a fact that a person types in two sessions reaches a later session, and a fact in the
argument of a script does not.
"""

import json
import os
import pty
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.agents import CLAUDE_CODE
from tests.clients.provider import standin_in_a_thread
from tests.clients.workspace import MNEMOSYNE, Server, Workspace, finished, open_workspace, serving
from tests.waiting import DEADLINE

pytestmark = pytest.mark.clients

FACT = "My project is called velodrome, a Go benchmark runner."
ASKED = "What is our benchmark runner called?"
FACTS = {"facts": [{"kind": "fact", "quote": FACT, "corrects": ""}]}
SEEN = {
    "hasCompletedOnboarding": True,
    "theme": "dark",
    "customApiKeyResponses": {"approved": ["a-dummy-key"], "rejected": []},
}


@pytest.fixture
def server() -> Iterator[Server]:
    """A managing server with a helper model that quotes the fact."""
    options = ("--manage", "--helper", "anthropic", "--helper-budget-share", "1")
    with standin_in_a_thread() as standin, serving(standin, *options) as server:
        yield server


def entries(workspace: Workspace) -> list[Any]:
    where = ("--data-dir", str(workspace.server.data_dir), "--project", str(workspace.project), "--json")
    found: list[Any] = json.loads(
        finished([*MNEMOSYNE, "memory", "list", *where], workspace.environment, workspace.home)
    )
    return [each for each in found if each["content"] == FACT]


def type_prompt(workspace: Workspace, prompt: str, config: Path, until: Callable[[list[Any]], bool]) -> None:
    """Type a prompt into a new session; kill the client when ``until`` is true of the entries about the fact."""
    command = [*MNEMOSYNE, "run", *workspace.server.options, "--", "claude"]
    process, terminal = pty.fork()
    if not process:
        os.chdir(workspace.project)
        variables = {"TERM": "xterm-256color", "CLAUDE_CONFIG_DIR": str(config)}
        os.execvpe(command[0], command, workspace.environment | variables)
    try:
        _read_until(terminal, "for shortcuts")
        os.write(terminal, prompt.encode())
        _read_until(terminal, prompt.split()[-1])
        os.write(terminal, b"\r")
        end = time.monotonic() + DEADLINE
        while not until(entries(workspace)):
            assert time.monotonic() < end, entries(workspace)
            _read(terminal)
    finally:
        os.kill(process, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(process, 0)


def _read(terminal: int) -> bytes:
    ready, _, _ = select.select([terminal], [], [], 0.1)
    return os.read(terminal, 1 << 16) if ready else b""


def _read_until(terminal: int, words: str) -> None:
    shown, end = b"", time.monotonic() + DEADLINE
    while words.encode() not in shown:
        assert time.monotonic() < end, shown
        shown += _read(terminal)


@pytest.mark.release
def test_a_fact_typed_in_two_sessions_reaches_a_later_one(programs: Path, server: Server, tmp_path: Path) -> None:
    workspace = open_workspace(CLAUDE_CODE, programs, server, tmp_path)
    config = server.data_dir.parent / ".claude"  # where the server looks for transcripts
    config.mkdir()
    trusted = {str(workspace.project): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}}
    (config / ".claude.json").write_text(json.dumps(SEEN | {"projects": trusted}))
    workspace.script(
        {"when": {"system": "Task: facts"}, "reply": {"text": json.dumps(FACTS)}},
        {"when": {"system": "Task: "}, "reply": {"text": "{}"}},
        {"reply": {"text": "As you say."}},
    )
    type_prompt(workspace, f"Fix the clock. {FACT}", config, lambda found: len(found) == 1)
    for prompt in (FACT, f"Look at it. {FACT}"):
        workspace.run(prompt, CLAUDE_CONFIG_DIR=str(config))
    assert [each["confirmed_at"] for each in entries(workspace)] == [None]
    type_prompt(workspace, f"Now the tests. {FACT}", config, lambda found: found[0]["confirmed_at"] is not None)
    server.standin.exchanges.clear()
    workspace.run(ASKED, CLAUDE_CONFIG_DIR=str(config))
    assert any(FACT in each.body.decode() for each in server.standin.messages)
