"""Real agents at a limit on cost: they end their work, show the refusal of the next prompt, and do not repeat it."""

import subprocess
from pathlib import Path

import pytest

from campaigns.clients.agents import CODEX
from campaigns.clients.test_costs import used
from tests.clients.agents import CLAUDE_CODE, OPENCODE, Agent
from tests.clients.workspace import CLIENT_SECONDS, MNEMOSYNE, Server, open_workspace

pytestmark = [pytest.mark.clients, pytest.mark.soak]


@pytest.mark.parametrize("agent", [CLAUDE_CODE, OPENCODE, CODEX], ids=lambda agent: agent.name)
def test_refusal_is_shown_once_with_the_way_to_go_on_and_not_repeated(
    agent: Agent, programs: Path, server: Server, tmp_path: Path
) -> None:
    here = open_workspace(agent, programs, server, tmp_path)
    usage = used(20_000) if agent is not CODEX else {"input_tokens": 20_000, "output_tokens": 100}
    loop = [{"content": [agent.shell("echo one")], "usage": usage} for _ in range(4)]
    here.script(
        {"when": {"prompt": "Work", "tools": True}, "replies": [*loop, {"text": "Done.", "usage": usage}]},
        {"when": {"prompt": "And again", "tools": True}, "reply": {"text": "Again.", "usage": usage}},
    )

    def ask(prompt: str, budget: str, *, goes_on: bool = False) -> tuple[int, str]:
        run = [*MNEMOSYNE, "run", *server.options, "--budget", budget, "--", *agent.command(prompt, goes_on=goes_on)]
        done = subprocess.run(
            run, cwd=here.project, env=here.environment, capture_output=True, text=True, timeout=CLIENT_SECONDS
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
