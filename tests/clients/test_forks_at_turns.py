"""Real agents go on from any turn of a managed session as a session of its own, from the provider's cache."""

import json
import shlex
from pathlib import Path

import pytest

from mnemosyne_lab.provider.reading import Json
from tests.clients.agents import CLAUDE_CODE, ONE_IN_CI
from tests.clients.desk import MNEMOSYNE, Desk, bare_environment, finished, serving, visit
from tests.clients.provider import standin_in_a_thread
from tests.clients.test_codex import codex, run
from tests.clients.test_forks_of_agents import command, prompt_of, sent
from tests.clients.test_managed_agents import MANAGE, recall, text, thinking

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("agent", ONE_IN_CI)
def test_a_session_is_left_at_an_earlier_turn_and_goes_on_from_what_was_sent_there(desk: Desk) -> None:
    read = desk.agent.read(desk.project / "notes.txt")
    desk.script(
        {
            "when": {"prompt": "Read the notes"},
            "replies": [
                {"content": [thinking("Where was it?"), recall(), read]},
                {"content": [thinking("There."), text("Three lines.")]},
            ],
        },
        {"when": {"prompt": "And now"}, "reply": {"text": "It stays."}},
        {"when": {"prompt": "Something else"}, "reply": {"text": "Else."}},
    )
    options = (*desk.server.options, *MANAGE)
    desk.run("Read the notes", options=options)
    desk.run("And now", goes_on=True, options=options)
    (listed,) = [each for each in command(desk, "sessions") if each["project"] == str(desk.project)]
    before = sent(desk)
    made = command(desk, "fork", listed["id"][:8], "--turn", "2")
    program, run, *goes_on = shlex.split(made["command"])
    told = [*MNEMOSYNE, run, *options, *goes_on[goes_on.index("--") :]]
    asked = desk.agent.command("Something else")
    said = desk.agent.said(finished(_put_into(told, asked), desk.environment, desk.project))
    assert (program, said.text, said.session) == ("mnemosyne", "Else.", made["id"])
    (after,) = sent(desk)[len(before) :]
    parent = prompt_of(before[-1])
    shared = [one for one, other in zip(parent, prompt_of(after), strict=False) if one == other]
    assert len(shared) >= len(prompt_of(before[1])) - 1
    assert "And now" not in str(after)
    branches = command(desk, "branches", listed["id"])
    assert [(each["kind"], each["forked_at"]) for each in branches if each["kind"] == "fork"] == [("fork", 2)]
    assert desk.standin.violations == []


def _put_into(told: list[str], asked: list[str]) -> list[str]:
    """The line that goes on, with a prompt: what of the client's own stands behind its name is added."""
    at = told.index(asked[0]) + 1
    words = asked[1:]
    if words[0] == "run":  # opencode's command without a terminal
        return [*told[:at], "run", *told[at:], *words[1:]]
    return [*told, *words]


@pytest.mark.parametrize("agent", [pytest.param(CLAUDE_CODE, id=CLAUDE_CODE.name)])
def test_the_files_of_the_turn_that_is_gone_back_to_come_back_and_those_of_today_are_kept(desk: Desk) -> None:
    notes, new = desk.project / "notes.txt", desk.project / "new.txt"
    edit = desk.agent.edit(notes, "two", "TWO")
    spoil = [desk.agent.shell(f"echo spoilt > {notes}"), desk.agent.write(new, "new\n")]
    desk.script(
        {
            "when": {"prompt": "Change the notes"},
            "replies": [{"content": [desk.agent.read(notes)]}, {"content": [edit]}, {"text": "Changed."}],
        },
        {"when": {"prompt": "Spoil them"}, "replies": [{"content": spoil}, {"text": "Spoilt."}]},
        {"when": {"prompt": "Once more"}, "reply": {"text": "Again."}},
    )
    options = (*desk.server.options, "--record-worktree")
    desk.run("Change the notes", options=options)
    whole = desk.run("Spoil them", goes_on=True, options=options)
    assert (notes.read_text(), new.exists()) == ("spoilt\n", True)
    seen = finished(["git", "log", "--oneline", "--branches"], desk.environment, desk.project)
    assert seen.count("\n") == 1
    line = [*MNEMOSYNE, "run", *desk.server.options, "--fork", f"{whole.session}@3", "--with-files", "--"]
    said = finished([*line, *CLAUDE_CODE.command("Once more")], desk.environment, desk.project)
    assert CLAUDE_CODE.said(said).text == "Again."
    assert (notes.read_text(), new.exists()) == ("one\nTWO\nthree\n", False)
    kept = finished(
        ["git", "for-each-ref", "--format=%(refname)", "refs/mnemosyne/before/"], desk.environment, desk.project
    )
    finished(["git", "restore", "--source", kept.strip(), "--", ":/"], desk.environment, desk.project)
    assert (notes.read_text(), new.read_text()) == ("spoilt\n", "new\n")


def test_codex_goes_on_from_a_turn_by_a_conversation_that_is_written_from_the_log(
    programs: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with standin_in_a_thread() as standin, serving(standin, "--manage") as server:
        here = visit(server)
        here.script(
            {
                "when": {"prompt": "colour"},
                "replies": [
                    {"content": [thinking("Where was it?"), recall()]},
                    {"content": [thinking("Look."), run("echo teal")]},
                    {"text": "It is teal."},
                ],
            },
            {"when": {"prompt": "And now"}, "reply": {"text": "It stays."}},
            {"when": {"last": "Something else"}, "reply": {"text": "Else."}},
        )
        codex(server, programs, tmp_path, project, "Which colour is it?")
        codex(server, programs, tmp_path, project, "And now?", "resume", "--last")
        environ = bare_environment(tmp_path)
        where = ("--data-dir", str(server.data_dir), "--json")
        (listed,) = json.loads(finished([*MNEMOSYNE, "sessions", *where], environ, project))
        before = [each.json()["input"] for each in standin.messages]
        fork = ("--fork", f"{listed['id'][:8]}@2")
        assert codex(server, programs, tmp_path, project, "Something else", of_run=fork) == "Else."
        (after,) = [each.json()["input"] for each in standin.messages][len(before) :]
        assert _without_ids(after)[: len(before[-1]) - 1] == _without_ids(before[-1])[:-1]
        assert "And now" not in str(after)
        branches = json.loads(finished([*MNEMOSYNE, "branches", listed["id"], *where], environ, project))
        assert [(each["kind"], each["forked_at"]) for each in branches if each["kind"] == "fork"] == [("fork", 2)]
        assert [str(each) for each in standin.violations] == []


def _without_ids(items: list[Json]) -> list[Json]:
    """Codex names its own instructions anew in each session."""
    return [{key: value for key, value in item.items() if key != "id"} for item in items]
