"""How real agents interpret the `usage` of replies with hidden rounds: their cost display, and when they compact."""

import pytest

from mnemosyne_lab.provider.reading import Json
from tests.clients.agents import ONE_IN_CI, Block
from tests.clients.managing import assert_managed
from tests.clients.test_managed_agents import MANAGE
from tests.clients.workspace import MNEMOSYNE, Workspace, finished
from tests.http.managing import recall, think

pytestmark = pytest.mark.clients

SUMMARIES = ("CRITICAL: Respond with TEXT ONLY", "context summarization agent")
"""What stands in a request for a summary of the history, by agent."""

AUTOCOMPACT = 990_000
"""Tokens in the window of a model that takes a million: both agents compact before that."""


def used(read: int) -> Json:
    """A round that read this much from the cache, wrote a hundredth of it to the cache, and produced little output."""
    write = read // 100
    split = {"ephemeral_5m_input_tokens": write, "ephemeral_1h_input_tokens": 0}
    counts = {"cache_read_input_tokens": read, "cache_creation_input_tokens": write, "cache_creation": split}
    return {"input_tokens": 10, "output_tokens": 100, **counts}


def dollars(*reads: int) -> float:
    """The cost of such rounds at the list prices of claude-opus-5-5."""
    return sum(read * 0.20 + read // 100 * 5 + 10 * 4 + 100 * 20 for read in reads) / 1e6


def round_of(read: int, *content: Block) -> Json:
    return {"content": [think(f"{read}."), *content], "usage": used(read)}


def options(workspace: Workspace) -> tuple[str, ...]:
    return (*workspace.server.options, *MANAGE)


def asked_for_a_summary(workspace: Workspace) -> bool:
    return any(each in request.body.decode() for request in workspace.standin.messages for each in SUMMARIES)


def rounds(workspace: Workspace, last: int) -> list[Json]:
    """Three rounds of 400,000 tokens each, of which the agent sees one, and one that leaves this many in the window."""
    read = workspace.agent.read(workspace.project / "notes.txt")
    return [
        round_of(400_000, recall()),
        round_of(400_000, recall("and?")),
        round_of(400_000, read),
        round_of(last, read),
    ]


@pytest.mark.parametrize("agent", ONE_IN_CI)
def test_displayed_cost_is_the_bill_for_agents_that_read_it_apart_from_the_window(workspace: Workspace) -> None:
    replies = [*rounds(workspace, 410_000), {"text": "Read.", "usage": used(420_000)}]
    workspace.script({"when": {"prompt": "Read the notes", "tools": True}, "replies": replies})
    said = workspace.run("Read the notes", options=options(workspace))
    assert said.text == "Read."
    assert_managed(workspace)
    assert not asked_for_a_summary(workspace), "1.2 million were billed for a reply, and the window held 400,000"
    billed = dollars(400_000, 400_000, 400_000, 410_000, 420_000)
    if workspace.agent.name == "claude":
        assert said.cost == pytest.approx(billed)
        context = (*MNEMOSYNE, "context", said.session, "--turn", "1", "--data-dir", str(workspace.server.data_dir))
        assert "usage of 3 rounds together: input_tokens 30" in finished(
            context, workspace.environment, workspace.project
        )
    else:  # It has one set of numbers for both, which lacks the input of the two hidden rounds.
        assert said.cost == pytest.approx(billed - dollars(400_000, 400_000) + 2 * 100 * 20 / 1e6)


@pytest.mark.parametrize("agent", ONE_IN_CI)
def test_agent_compacts_by_the_window_of_the_last_round(workspace: Workspace) -> None:
    summary: Json = {"content": [{"type": "text", "text": "<summary>All is well.</summary>"}]}
    workspace.script(
        *({"when": {"last": each}, "reply": summary} for each in SUMMARIES),
        {"when": {"system": SUMMARIES[1]}, "reply": summary},
        {"when": {"prompt": "Read the notes", "tools": True}, "replies": rounds(workspace, AUTOCOMPACT)},
        {"when": {"tools": True}, "reply": {"text": "Read."}},
    )
    assert workspace.run("Read the notes", options=options(workspace)).text == "Read."
    assert asked_for_a_summary(workspace)
