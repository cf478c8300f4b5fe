"""How real agents interpret the `usage` of replies with hidden rounds: their cost display, the size of their window,
and when they compact.
"""

import json
from pathlib import Path

import pytest

from campaigns.clients.agents import CODEX, work
from mnemosyne_lab.provider.reading import Json
from tests.clients.agents import CLAUDE_CODE, ONE_IN_CI, Block
from tests.clients.managing import assert_managed
from tests.clients.provider import standin_in_a_thread
from tests.clients.test_managed_agents import MANAGE
from tests.clients.workspace import MNEMOSYNE, Workspace, finished, open_workspace, serving
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


def test_codex_shows_the_window_of_the_last_round(programs: Path, tmp_path: Path) -> None:
    """It is that of the provider's last prompt, not of the rounds before it or of the client's own longer history."""
    rounds = {"content": [think("What was it?"), recall()]}, {"content": [recall("and that?")]}, {"text": "It is teal."}
    with standin_in_a_thread() as standin, serving(standin, "--manage") as server:
        workspace = open_workspace(CODEX, programs, server, tmp_path)
        workspace.script({"when": {"prompt": "colour"}, "replies": rounds})
        assert work(workspace, "Which colour is it?") == "It is teal."
        (rollout,) = (workspace.home / ".codex/sessions").rglob("*.jsonl")
        entries = [json.loads(line)["payload"] for line in rollout.read_text().splitlines()]
        told = [each["info"] for each in entries if each.get("type") == "token_count" and each.get("info")]
        lines = [line for line in bytes(standin.messages[-1].payload).splitlines() if line.startswith(b"data: {")]
        usage = json.loads(lines[-1].removeprefix(b"data: "))["response"]["usage"]
        assert told[-1]["last_token_usage"]["input_tokens"] == usage["input_tokens"]


def test_claude_code_continues_with_the_session_s_system_prompt_so_that_only_a_switched_model_is_a_miss(
    programs: Path, tmp_path: Path
) -> None:
    """An option for another system prompt changes no byte of a continued session."""
    with standin_in_a_thread() as standin, serving(standin) as server:
        workspace = open_workspace(CLAUDE_CODE, programs, server, tmp_path)
        workspace.script({"reply": {"text": "All is done."}})
        workspace.run("Begin here")
        go_on = [*MNEMOSYNE, "run", *server.options, "--", *CLAUDE_CODE.command("Go on", goes_on=True)]
        for option in (("--append-system-prompt", "Be brief."), ("--model", "claude-opus-4-8")):
            finished([*go_on, *option], workspace.environment, workspace.project)
        workspace.conversations()
        assert not any(b"Be brief" in each.body for each in standin.messages)
        usage = [*MNEMOSYNE, "usage", "--misses", "--json", "--data-dir", str(server.data_dir)]
        rows = json.loads(finished(usage, workspace.environment, workspace.project))
        assert [row["cause"] for row in rows if row["is_miss"]] == ["the model was switched"]
