"""Real agents at a limit on cost: they end their work, show the refusal of the next prompt, and do not repeat it."""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from campaigns.clients.test_costs import used
from mnemosyne_lab.provider.reading import Json
from tests.clients.agents import CLAUDE_CODE, OPENCODE
from tests.clients.test_codex import command_for, environment, run
from tests.clients.workspace import CLIENT_SECONDS, MNEMOSYNE, Server, Visit, open_workspace, visit

pytestmark = [pytest.mark.clients, pytest.mark.soak]

Command = Callable[[str, bool], Sequence[str]]


def begin(client: str, programs: Path, server: Server, folder: Path) -> tuple[Visit, Command, dict[str, str], Json]:
    """The client's command for a prompt, its environment, and a call of one of its tools."""
    if client == "codex":
        project = folder / "project"
        (folder / "codex").mkdir()
        project.mkdir()

        def resume(prompt: str, goes_on: bool) -> Sequence[str]:
            return command_for(prompt, *(["resume", "--last"] if goes_on else []))

        return visit(server), resume, environment(programs, folder), run("echo one")
    agent = {each.name: each for each in (CLAUDE_CODE, OPENCODE)}[client]
    space = open_workspace(agent, programs, server, folder)

    def go_on(prompt: str, goes_on: bool) -> Sequence[str]:
        return agent.command(prompt, goes_on=goes_on)

    return space, go_on, space.environment, agent.shell("echo one")


@pytest.mark.parametrize("client", ["claude", "opencode", "codex"])
def test_refusal_is_shown_once_with_the_way_to_go_on_and_not_repeated(
    client: str, programs: Path, server: Server, tmp_path: Path
) -> None:
    here, command, environ, call = begin(client, programs, server, tmp_path)
    usage = used(20_000) if client != "codex" else {"input_tokens": 20_000, "output_tokens": 100}
    loop = [{"content": [call], "usage": usage} for _ in range(4)]
    here.script(
        {"when": {"prompt": "Work", "tools": True}, "replies": [*loop, {"text": "Done.", "usage": usage}]},
        {"when": {"prompt": "And again", "tools": True}, "reply": {"text": "Again.", "usage": usage}},
    )

    def ask(prompt: str, budget: str, *, goes_on: bool = False) -> tuple[int, str]:
        run = [*MNEMOSYNE, "run", *server.options, "--budget", budget, "--", *command(prompt, goes_on)]
        done = subprocess.run(
            run, cwd=tmp_path / "project", env=environ, capture_output=True, text=True, timeout=CLIENT_SECONDS
        )
        return done.returncode, done.stdout + done.stderr

    status, text = ask("Work on it.", "0.01")
    assert status == 0
    assert "session_budget_dollars" in text
    worked = len(here.standin.messages)
    _, text = ask("And again.", "0.01", goes_on=True)
    assert "mnemosyne run --budget" in text
    assert len(here.standin.messages) == worked
    refused = [turn for each in here.conversations() for turn in each.turns if "not sent" in turn.outcome]
    assert len(refused) == 1
    status, text = ask("And again.", "9", goes_on=True)
    assert (status, "Again." in text) == (0, True)
