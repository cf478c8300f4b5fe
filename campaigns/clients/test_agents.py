"""Real agents through `mnemosyne run`: they work as on a direct connection, and the log records their work."""

import json
from pathlib import Path

import pytest

from mnemosyne_lab.provider.reading import Json
from tests.clients.agents import ONE_IN_CI, Block
from tests.clients.record import Turn
from tests.clients.workspace import MNEMOSYNE, Workspace, bare_environment, finished
from tests.http.managing import think

pytestmark = pytest.mark.clients


def loop(*rounds: list[Block], last: str) -> list[Json]:
    """One reply for each round of tool calls, then a final text."""
    return [*({"content": content} for content in rounds), {"text": last}]


def results(turn: Turn) -> dict[str, str]:
    """The result of each call, from the request of a turn. Claude Code puts the results in order of completion."""
    messages = json.loads(turn.body)["messages"]
    blocks = [block for message in messages for block in message["content"] if isinstance(block, dict)]
    return {block["tool_use_id"]: str(block["content"]) for block in blocks if block["type"] == "tool_result"}


def calls_of(turn: Turn) -> list[str]:
    """The ids of the calls in its reply."""
    return [block["id"] for block in turn.reply["content"] if block["type"] == "tool_use"]


TURNS = 7
"""Of ``editing``."""


def editing(workspace: Workspace) -> list[Json]:
    """Rounds that read, change and create files, once several in parallel, each with thinking."""
    agent, notes, made = workspace.agent, workspace.project / "notes.txt", workspace.project / "made.txt"
    rounds = [
        [{"type": "text", "text": "First I look."}, agent.read(notes)],
        [agent.edit(notes, "two", "2 (zwei, δύο)")],
        [agent.write(made, "begun\n")],
        [agent.shell("wc -l < notes.txt | tr -d ' ' > count.txt")],
        [agent.edit(made, "begun", "done")],
        [agent.read(notes), agent.read(workspace.project / "more.txt"), agent.shell("echo five > last.txt")],
    ]
    thought = [[think(f"Step {number}."), *calls] for number, calls in enumerate(rounds)]
    return loop(*thought, last="The notes are in order.")


def assert_edited(workspace: Workspace) -> None:
    files = {
        name: (workspace.project / name).read_text() for name in ("notes.txt", "made.txt", "count.txt", "last.txt")
    }
    notes = "one\n2 (zwei, δύο)\nthree\n"
    assert files == {"notes.txt": notes, "made.txt": "done\n", "count.txt": "3\n", "last.txt": "five\n"}


@pytest.mark.parametrize("agent", ONE_IN_CI)
def test_two_prompts_that_edit_files_are_one_completely_recorded_conversation(
    workspace: Workspace, tmp_path: Path
) -> None:
    """One conversation for all checks, because starting a client takes longer than its work."""
    workspace.script(
        {
            "when": {"lane": "main", "prompt": "again"},
            "replies": loop([workspace.agent.shell("wc -l *")], last="Still so."),
        },
        {"when": {"lane": "main"}, "replies": editing(workspace)},
    )
    first = workspace.run("Put the notes in order.")
    assert first.text == "The notes are in order."
    assert_edited(workspace)
    assert not (workspace.server.data_dir / "server.log").exists(), "the running server was joined"
    second = workspace.run("And again?", goes_on=True)
    assert second.text == "Still so."
    assert second.session == first.session
    conversation = workspace.conversation()
    assert conversation.external_id == first.session
    assert conversation.branches == {"main": TURNS + 2} | dict(workspace.agent.side_branches)
    turns = conversation.on("main")
    ended = [*["200 tool_use"] * (TURNS - 1), "200 end_turn"]
    assert [turn.outcome for turn in turns] == [*ended, "200 tool_use", "200 end_turn"]
    assert turns[0].text == "First I look."
    assert [turn.text for turn in turns[-3:]] == ["The notes are in order.", "", "Still so."]
    assert_parallel_results(turns)
    assert_thinking_is_given_back(workspace, turns[:TURNS])
    assert_judged_from_its_export(workspace, first.session, tmp_path)


def assert_parallel_results(turns: list[Turn]) -> None:
    """All results of parallel calls are in the next request."""
    (asked,) = (turn for turn in turns if len(calls_of(turn)) == 3)
    notes, more, last = calls_of(asked)
    given = results(turns[turns.index(asked) + 1])
    assert given.keys() >= {notes, more, last}
    assert "three" in given[notes]
    assert "four" in given[more]


def assert_thinking_is_given_back(workspace: Workspace, turns: list[Turn]) -> None:
    """Thinking is returned with its signatures, through every round."""
    said = [block for turn in turns for block in turn.reply["content"]]
    signed = [block["signature"] for block in said if block["type"] == "thinking"]
    assert len(signed) == TURNS - 1
    last = turns[-1].body.decode()
    assert [signature for signature in signed if signature in last] == signed, "the provider got each one back"
    dropped = [
        exchange.number for exchange in workspace.standin.messages if "drop_block" in str(exchange.reply_headers)
    ]
    assert dropped == [], "and believed each one"


def assert_judged_from_its_export(workspace: Workspace, session: str, folder: Path) -> None:
    """The first example of docs/evaluation.md."""
    data, file, report = ["--data-dir", str(workspace.server.data_dir)], folder / "mine.jsonl", folder / "out.json"
    for command in (
        ["export", session, "--output", str(file), *data],
        ["evaluate", str(file), "--policy", "mnemosyne", "--report", str(report)],
    ):
        finished([*MNEMOSYNE, *command], bare_environment(workspace.home), folder)
    (judged,) = json.loads(report.read_text())["policies"]["mnemosyne"]["sessions"]
    assert (judged["turns"], judged["wire_violations"]) == (TURNS + 2, 0)


@pytest.mark.parametrize("agent", ONE_IN_CI)
def test_subagent_is_a_branch_of_the_conversation_that_called_it(workspace: Workspace) -> None:
    agent, project = workspace.agent, workspace.project
    calls_and_waits = loop([agent.delegate("Read the notes.")], last="It is under way.")
    reported = loop([agent.delegate("Read the notes.")], last="It says three.")
    workspace.script(
        {"when": {"lane": "agent"}, "replies": loop([agent.read(project / "notes.txt")], last="Three.")},
        {"when": {"lane": "main", "prompt": "<task-notification>"}, "reply": {"text": "It says three."}},
        {"when": {"lane": "main"}, "replies": reported if agent.waits_for_subagents else calls_and_waits},
    )
    said = workspace.run("Have somebody read the notes.")
    assert said.text == "It says three."
    conversation = workspace.conversation()
    assert conversation.external_id == said.session
    main_turns = 2 if agent.waits_for_subagents else 3
    assert conversation.branches == {"main": main_turns, "agent-1": 2} | dict(agent.side_branches)
    opened = conversation.history.line("agent-1").opened
    assert (opened.kind.value, opened.parent) == ("agent", "main")
    # A background sub-agent may send requests before or after the main agent continues.
    assert opened.forked_at in ((1,) if agent.waits_for_subagents else (1, 2))
    assert [turn.text for turn in conversation.on("agent-1")] == ["", "Three."]
