"""Real agents through `mnemosyne run`: they work as if nobody stood between, and the log tells what they did."""

import json
from pathlib import Path

import pytest

from mnemosyne.lab.provider.reading import Json
from tests.clients.agents import Block
from tests.clients.desk import MNEMOSYNE, Desk, bare_environment, finished
from tests.clients.record import Turn

pytestmark = pytest.mark.clients


def thinking(text: str) -> Block:
    return {"type": "thinking", "thinking": text}


def loop(*rounds: list[Block], last: str) -> list[Json]:
    """One reply for each round of tool calls, then words."""
    return [*({"content": content} for content in rounds), {"text": last}]


def results(turn: Turn) -> dict[str, str]:
    """What each call gave, as the request of a turn tells it. Claude Code puts first what was finished first."""
    messages = json.loads(turn.body)["messages"]
    blocks = [block for message in messages for block in message["content"] if isinstance(block, dict)]
    return {block["tool_use_id"]: str(block["content"]) for block in blocks if block["type"] == "tool_result"}


def editing(desk: Desk) -> list[Json]:
    """Five rounds that read, change and make files."""
    agent, notes, made = desk.agent, desk.project / "notes.txt", desk.project / "made.txt"
    return loop(
        [{"type": "text", "text": "First I look."}, agent.read(notes)],
        [agent.edit(notes, "two", "2 (zwei, δύο)")],
        [agent.write(made, "begun\n")],
        [agent.shell("wc -l < notes.txt | tr -d ' ' > count.txt")],
        [agent.edit(made, "begun", "done")],
        last="The notes are in order.",
    )


def assert_edited(desk: Desk) -> None:
    files = {name: (desk.project / name).read_text() for name in ("notes.txt", "made.txt", "count.txt")}
    assert files == {"notes.txt": "one\n2 (zwei, δύο)\nthree\n", "made.txt": "done\n", "count.txt": "3\n"}


def test_five_rounds_of_tools_change_the_files_and_are_one_conversation_of_six_turns(desk: Desk) -> None:
    desk.script({"when": {"lane": "main"}, "replies": editing(desk)})
    said = desk.run("Put the notes in order.")
    assert said.text == "The notes are in order."
    assert_edited(desk)
    assert not (desk.server.data_dir / "server.log").exists(), "the running server was joined"
    conversation = desk.conversation()
    assert conversation.external_id == said.session
    assert conversation.branches == {"main": 6} | dict(desk.agent.side_branches)
    assert [turn.outcome for turn in conversation.on("main")] == ["200 tool_use"] * 5 + ["200 end_turn"]
    assert conversation.on("main")[0].text == "First I look."
    assert conversation.on("main")[-1].text == said.text


def test_a_server_that_runs_for_one_agent_keeps_the_same_record(desk: Desk) -> None:
    data_dir = desk.home.parent / "data"
    desk.script({"when": {"lane": "main"}, "replies": editing(desk)})
    said = desk.run(
        "Put the notes in order.",
        options=["--data-dir", str(data_dir), "--upstream", desk.standin.url, "--port", "0"],
    )
    assert said.text == "The notes are in order."
    assert_edited(desk)
    conversation = desk.conversation(data_dir)
    assert conversation.external_id == said.session
    assert conversation.branches == {"main": 6} | dict(desk.agent.side_branches)


def test_what_an_agent_did_is_judged_from_its_export(desk: Desk, tmp_path: Path) -> None:
    """The first example of docs/evaluation.md."""
    desk.script({"when": {"lane": "main"}, "replies": editing(desk)})
    session = desk.run("Put the notes in order.").session
    data, file, report = ["--data-dir", str(desk.server.data_dir)], tmp_path / "mine.jsonl", tmp_path / "out.json"
    for command in (
        ["export", session, "--output", str(file), *data],
        ["evaluate", str(file), "--policy", "mnemosyne", "--report", str(report)],
    ):
        finished([*MNEMOSYNE, *command], bare_environment(desk.home), tmp_path)
    (judged,) = json.loads(report.read_text())["policies"]["mnemosyne"]["sessions"]
    assert (judged["turns"], judged["wire_violations"]) == (6, 0)


def test_tools_called_at_once_are_all_answered_in_one_turn(desk: Desk) -> None:
    agent, project = desk.agent, desk.project
    calls = [agent.read(project / "notes.txt"), agent.read(project / "more.txt"), agent.shell("echo five > last.txt")]
    desk.script({"when": {"lane": "main"}, "replies": loop(calls, last="Read.")})
    assert desk.run("Read it all.").text == "Read."
    assert (project / "last.txt").read_text() == "five\n"
    conversation = desk.conversation()
    assert conversation.branches == {"main": 2} | dict(desk.agent.side_branches)
    asked, answered = conversation.on("main")
    notes, more, last = [block["id"] for block in asked.reply["content"] if block["type"] == "tool_use"]
    given = results(answered)
    assert given.keys() == {notes, more, last}
    assert "three" in given[notes]
    assert "four" in given[more]


def test_a_continued_conversation_goes_on_in_the_same_session_and_branch(desk: Desk) -> None:
    agent, project = desk.agent, desk.project
    desk.script(
        {"when": {"lane": "main", "prompt": "again"}, "replies": loop([agent.shell("cat more.txt")], last="Still so.")},
        {"when": {"lane": "main"}, "replies": loop([agent.read(project / "notes.txt")], last="Three lines.")},
    )
    first = desk.run("How long are the notes?")
    assert first.text == "Three lines."
    second = desk.run("And again?", goes_on=True)
    assert second.text == "Still so."
    assert second.session == first.session
    conversation = desk.conversation()
    assert conversation.external_id == first.session
    assert conversation.branches == {"main": 4} | dict(desk.agent.side_branches)
    assert [turn.text for turn in conversation.on("main")] == ["", "Three lines.", "", "Still so."]


def test_a_subagent_is_a_branch_of_the_conversation_that_called_it(desk: Desk) -> None:
    agent, project = desk.agent, desk.project
    calls_and_waits = loop([agent.delegate("Read the notes.")], last="It is under way.")
    reported = loop([agent.delegate("Read the notes.")], last="It says three.")
    desk.script(
        {"when": {"lane": "agent"}, "replies": loop([agent.read(project / "notes.txt")], last="Three.")},
        {"when": {"lane": "main", "prompt": "<task-notification>"}, "reply": {"text": "It says three."}},
        {"when": {"lane": "main"}, "replies": reported if agent.waits_for_subagents else calls_and_waits},
    )
    said = desk.run("Have somebody read the notes.")
    assert said.text == "It says three."
    conversation = desk.conversation()
    assert conversation.external_id == said.session
    main_turns = 2 if agent.waits_for_subagents else 3
    assert conversation.branches == {"main": main_turns, "agent-1": 2} | dict(agent.side_branches)
    opened = conversation.history.line("agent-1").opened
    assert (opened.kind.value, opened.parent) == ("agent", "main")
    # A sub-agent in the background may ask before or after the main agent goes on.
    assert opened.forked_at in ((1,) if agent.waits_for_subagents else (1, 2))
    assert [turn.text for turn in conversation.on("agent-1")] == ["", "Three."]


def test_two_subagents_at_once_are_two_branches(desk: Desk) -> None:
    agent, project = desk.agent, desk.project
    both = [agent.delegate("Read the notes."), agent.delegate("Read what else there is.")]
    desk.script(
        {"when": {"lane": "agent", "prompt": "notes"}, "replies": loop([agent.read(project / "notes.txt")], last="3")},
        {"when": {"lane": "agent"}, "replies": loop([agent.read(project / "more.txt")], last="1")},
        {"when": {"lane": "main"}, "replies": loop(both, last="Four lines.")},
    )
    said = desk.run("Have it all read.", CLAUDE_CODE_DISABLE_BACKGROUND_TASKS="1")
    assert said.text == "Four lines."
    conversation = desk.conversation()
    assert conversation.branches == {"main": 2, "agent-1": 2, "agent-2": 2} | dict(agent.side_branches)
    opened = [conversation.history.line(name).opened for name in ("agent-1", "agent-2")]
    assert [(each.parent, each.forked_at) for each in opened] == [("main", 1)] * 2
    assert {conversation.on(name)[-1].text for name in ("agent-1", "agent-2")} == {"3", "1"}


def test_thinking_is_given_back_with_its_signatures_through_every_round(desk: Desk) -> None:
    rounds = [[thinking(f"Step {n}."), desk.agent.shell(f"echo {n} >> steps.txt")] for n in range(1, 5)]
    desk.script({"when": {"lane": "main"}, "replies": loop(*rounds, last="Four steps.")})
    assert desk.run("Go step by step.").text == "Four steps."
    assert (desk.project / "steps.txt").read_text() == "1\n2\n3\n4\n"
    conversation = desk.conversation()
    assert conversation.branches == {"main": 5} | dict(desk.agent.side_branches)
    said = [block for turn in conversation.on("main") for block in turn.reply["content"]]
    signed = [block["signature"] for block in said if block["type"] == "thinking"]
    assert len(signed) == 4
    last = conversation.on("main")[-1].body.decode()
    assert [signature for signature in signed if signature in last] == signed, "the provider got each one back"
    dropped = [exchange.number for exchange in desk.standin.messages if "drop_block" in str(exchange.reply_headers)]
    assert dropped == [], "and believed each one"
