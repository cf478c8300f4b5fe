"""What a session of Claude Code cost, three times: as the provider billed it, as its evaluation says, and as its own
transcript tells.
"""

import json

import pytest

from tests.clients.agents import CLAUDE_CODE, Agent
from tests.clients.desk import MNEMOSYNE, Desk, finished

pytestmark = pytest.mark.clients

CLOSE = 0.02
"""How far an evaluation may be from the bill, as a share of it."""


@pytest.fixture
def agent() -> Agent:
    """Its transcripts alone are read."""
    return CLAUDE_CODE


def worked(desk: Desk) -> float:
    """Some work with tools, gone on with later; what the client says that all of it cost."""
    agent, notes, more = desk.agent, desk.project / "notes.txt", desk.project / "more.txt"
    think = {"type": "thinking", "thinking": "Let me see what is in there."}
    calls = [
        [agent.read(notes)],
        [agent.read(more), agent.shell("seq 1 3000")],
        *([agent.shell(f"seq {number} {number + 1500}")] for number in range(4_000, 10_000, 1_000)),
        [agent.edit(notes, "two", "TWO")],
    ]
    replies = [*({"content": [think, *each]} for each in calls), {"text": "All is read."}]
    again = [{"content": [agent.shell("seq 1 2000")]}, {"text": "Done."}]
    desk.script(
        {"when": {"prompt": "Read the notes", "tools": True}, "replies": replies},
        {"when": {"prompt": "And again", "tools": True}, "replies": again},
    )
    desk.run("Read the notes")
    return desk.run("And again", goes_on=True).cost


@pytest.mark.soak
def test_an_exported_session_and_its_transcript_are_said_to_have_cost_what_they_cost(desk: Desk) -> None:
    """One conversation for both: to hold it takes longer than all that is asked of it."""
    cost = worked(desk)
    assert_exported(desk, cost)
    assert_transcribed(desk, cost)


def assert_exported(desk: Desk, cost: float) -> None:
    """It is billed so, and its simulation is near that."""
    data = ("--data-dir", str(desk.server.data_dir))
    name = desk.conversation().external_id
    exported, report = desk.home / "mine.jsonl", desk.home / "report.json"

    def told(*words: str) -> str:
        return finished((*MNEMOSYNE, *words), desk.environment, desk.project)

    told("export", name, *data, "--output", str(exported))
    used = json.loads(told("usage", "--by", "session", "--json", *data))
    (billed,) = (each["dollars"] for each in used if each["external_id"] == name)
    assert billed == pytest.approx(cost)
    told("evaluate", str(exported), "--policy", "unmanaged", "--report", str(report))
    judged = json.loads(report.read_text())["policies"]["unmanaged"]["totals"]["dollars"]
    assert judged == pytest.approx(billed, rel=CLOSE)


def assert_transcribed(desk: Desk, cost: float) -> None:
    """The same of what the client itself wrote down."""
    told = json.loads(finished((*MNEMOSYNE, "what-if", "--json"), desk.environment, desk.project))
    assert told["dollars"] == told["dollars_judged"] == pytest.approx(cost)
    assert (told["skipped"], told["tariff"], told["sessions"]) == ([], "api-5m", 1)
    simulated = told["evaluation"]["policies"]["unmanaged"]["totals"]["dollars"]
    assert simulated == pytest.approx(cost, rel=CLOSE)
