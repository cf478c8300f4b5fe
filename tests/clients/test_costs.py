"""What real agents make of the `usage` of replies with hidden rounds: their display of costs, and when they compact."""

import json
import subprocess

import pytest

from mnemosyne_lab.provider.reading import Json
from tests.clients.agents import ONE_IN_CI, Block
from tests.clients.desk import CLIENT_SECONDS, MNEMOSYNE, Desk, finished
from tests.clients.managing import assert_managed
from tests.clients.test_managed_agents import MANAGE, recall, thinking

pytestmark = pytest.mark.clients

SUMMARIES = ("CRITICAL: Respond with TEXT ONLY", "context summarization agent")
"""What stands in a request for a summary of the history, by agent."""

AUTOCOMPACT = 990_000
"""Tokens in the window of a model that takes a million: both agents compact before that."""


def used(read: int) -> Json:
    """A round that read so much from the cache, wrote a hundredth of that to it, and said little."""
    write = read // 100
    split = {"ephemeral_5m_input_tokens": write, "ephemeral_1h_input_tokens": 0}
    counts = {"cache_read_input_tokens": read, "cache_creation_input_tokens": write, "cache_creation": split}
    return {"input_tokens": 10, "output_tokens": 100, **counts}


def dollars(*reads: int) -> float:
    """What such rounds cost at the list prices of claude-opus-5-5."""
    return sum(read * 0.20 + read // 100 * 5 + 10 * 4 + 100 * 20 for read in reads) / 1e6


def round_of(read: int, *content: Block) -> Json:
    return {"content": [thinking(f"{read}."), *content], "usage": used(read)}


def options(desk: Desk) -> tuple[str, ...]:
    return (*desk.server.options, *MANAGE)


def asked_for_a_summary(desk: Desk) -> bool:
    return any(each in request.body.decode() for request in desk.standin.messages for each in SUMMARIES)


def rounds(desk: Desk, last: int) -> list[Json]:
    """Three rounds of 400,000 tokens each, of which the agent sees one, and one that leaves so many in the window."""
    read = desk.agent.read(desk.project / "notes.txt")
    return [
        round_of(400_000, recall()),
        round_of(400_000, recall("and?")),
        round_of(400_000, read),
        round_of(last, read),
    ]


@pytest.mark.parametrize("agent", ONE_IN_CI)
def test_what_an_agent_says_that_it_cost_is_what_was_billed_where_it_reads_that_beside_its_window(desk: Desk) -> None:
    replies = [*rounds(desk, 410_000), {"text": "Read.", "usage": used(420_000)}]
    desk.script({"when": {"prompt": "Read the notes", "tools": True}, "replies": replies})
    said = desk.run("Read the notes", options=options(desk))
    assert said.text == "Read."
    assert_managed(desk)
    assert not asked_for_a_summary(desk), "1.2 million were billed for a reply, and the window held 400,000"
    billed = dollars(400_000, 400_000, 400_000, 410_000, 420_000)
    if desk.agent.name == "claude":
        assert said.cost == pytest.approx(billed)
        context = (*MNEMOSYNE, "context", said.session, "--turn", "1", "--data-dir", str(desk.server.data_dir))
        assert "usage of 3 rounds together: input_tokens 30" in finished(context, desk.environment, desk.project)
    else:  # it has one set of numbers for both; what it lacks is the input of the two rounds that it did not see
        assert said.cost == pytest.approx(billed - dollars(400_000, 400_000) + 2 * 100 * 20 / 1e6)


@pytest.mark.parametrize("agent", ONE_IN_CI)
def test_an_agent_compacts_by_the_last_rounds_window(desk: Desk) -> None:
    summary: Json = {"content": [{"type": "text", "text": "<summary>All is well.</summary>"}]}
    desk.script(
        *({"when": {"last": each}, "reply": summary} for each in SUMMARIES),
        {"when": {"system": SUMMARIES[1]}, "reply": summary},
        {"when": {"prompt": "Read the notes", "tools": True}, "replies": rounds(desk, AUTOCOMPACT)},
        {"when": {"tools": True}, "reply": {"text": "Read."}},
    )
    assert desk.run("Read the notes", options=options(desk)).text == "Read."
    assert asked_for_a_summary(desk)


@pytest.mark.soak
def test_a_limit_of_dollars_holds(desk: Desk) -> None:
    if desk.agent.name != "claude":
        pytest.skip("opencode has no such limit")
    desk.script(
        {"when": {"prompt": "Read the notes", "tools": True}, "replies": [*rounds(desk, 410_000), {"text": "Read."}]}
    )
    limit = ["--max-budget-usd", str(dollars(400_000, 400_000))]
    command = [*MNEMOSYNE, "run", *options(desk), "--", *desk.agent.command("Read the notes"), *limit]
    ended = subprocess.run(
        command, env=desk.environment, cwd=desk.project, capture_output=True, text=True, timeout=CLIENT_SECONDS
    )
    result = json.loads(ended.stdout)
    assert result["subtype"] == "error_max_budget_usd"
    assert result["total_cost_usd"] == pytest.approx(dollars(400_000, 400_000, 400_000))
    assert len(desk.standin.messages) == 3, "it stopped behind the reply that had cost more"


@pytest.mark.soak
def test_the_displays_show_the_window_and_the_bill(desk: Desk) -> None:
    if desk.agent.name != "claude":
        pytest.skip("opencode has no commands for that without a terminal")
    replies = [round_of(400_000, recall()), {"text": "Read.", "usage": used(400_000)}]
    desk.script({"when": {"prompt": "Read the notes", "tools": True}, "replies": replies})
    desk.run("Read the notes", options=options(desk))
    shown = {each: desk.run(each, goes_on=True, options=options(desk)).text for each in ("/context", "/cost")}
    assert "**Tokens:** 404k / 1m" in shown["/context"]
    assert "800.0k cache read, 8.0k cache write" in shown["/cost"]
