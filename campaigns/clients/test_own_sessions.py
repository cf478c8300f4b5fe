"""The cost of a Claude Code session from three sources: the provider's bill, the evaluation, and the client's
transcript.
"""

import json

import pytest

from tests.clients.agents import CLAUDE_CODE, Agent
from tests.clients.workspace import MNEMOSYNE, Workspace, finished

pytestmark = pytest.mark.clients

CLOSE = 0.02
"""How far an evaluation may be from the bill, as a share of it."""


@pytest.fixture
def agent() -> Agent:
    """The agent whose transcripts the command can read."""
    return CLAUDE_CODE


def worked(workspace: Workspace) -> float:
    """Work with tools, continued later; return the total cost that the client displays."""
    agent, notes, more = workspace.agent, workspace.project / "notes.txt", workspace.project / "more.txt"
    think = {"type": "thinking", "thinking": "Let me see what is in there."}
    calls = [
        [agent.read(notes)],
        [agent.read(more), agent.shell("seq 1 3000")],
        *([agent.shell(f"seq {number} {number + 1500}")] for number in range(4_000, 10_000, 1_000)),
        [agent.edit(notes, "two", "TWO")],
    ]
    replies = [*({"content": [think, *each]} for each in calls), {"text": "All is read."}]
    again = [{"content": [agent.shell("seq 1 2000")]}, {"text": "Done."}]
    workspace.script(
        {"when": {"prompt": "Read the notes", "tools": True}, "replies": replies},
        {"when": {"prompt": "And again", "tools": True}, "replies": again},
    )
    workspace.run("Read the notes")
    return workspace.run("And again", goes_on=True).cost


@pytest.mark.soak
def test_export_and_transcript_of_a_session_have_the_billed_cost(workspace: Workspace) -> None:
    """And their simulation is close to it."""
    cost, data = worked(workspace), ("--data-dir", str(workspace.server.data_dir))
    name, exported = workspace.conversation().external_id, workspace.home / "mine.jsonl"

    def run(*words: str) -> str:
        return finished((*MNEMOSYNE, *words), workspace.environment, workspace.project)

    run("export", name, *data, "--output", str(exported))
    (billed,) = (
        each["dollars"]
        for each in json.loads(run("usage", "--by", "session", "--json", *data))
        if each["external_id"] == name
    )
    assert billed == pytest.approx(cost)
    report = workspace.home / "report.json"
    run("evaluate", str(exported), "--policy", "unmanaged", "--report", str(report))
    told = json.loads(run("what-if", "--json"))  # from the transcript that the client itself wrote
    assert told["dollars"] == pytest.approx(cost)
    assert (told["skipped"], told["tariff"], told["sessions"]) == ([], "api-5m", 1)
    for judged in (json.loads(report.read_text()), told["evaluation"]):
        assert judged["policies"]["unmanaged"]["totals"]["dollars"] == pytest.approx(cost, rel=CLOSE)
