"""Real agents continue from any turn of a managed session in a session of its own, with the provider's cache."""

import json
import shlex
from pathlib import Path

import pytest

from campaigns.clients.test_forks_of_agents import command, prompt_of, sent
from mnemosyne_lab.provider.reading import Json
from tests.clients.agents import CLAUDE_CODE, ONE_IN_CI
from tests.clients.provider import standin_in_a_thread
from tests.clients.test_codex import codex, run
from tests.clients.test_managed_agents import MANAGE, recall, text, thinking
from tests.clients.workspace import MNEMOSYNE, Workspace, bare_environment, finished, serving, visit

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("agent", ONE_IN_CI)
def test_fork_at_an_earlier_turn_continues_from_the_sent_history(workspace: Workspace) -> None:
    read = workspace.agent.read(workspace.project / "notes.txt")
    workspace.script(
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
    options = (*workspace.server.options, *MANAGE)
    workspace.run("Read the notes", options=options)
    workspace.run("And now", goes_on=True, options=options)
    (listed,) = [each for each in command(workspace, "sessions") if each["project"] == str(workspace.project)]
    before = sent(workspace)
    made = command(workspace, "fork", listed["id"][:8], "--turn", "2")
    program, run, *goes_on = shlex.split(made["command"])
    told = [*MNEMOSYNE, run, *options, *goes_on[goes_on.index("--") :]]
    asked = workspace.agent.command("Something else")
    said = workspace.agent.parse_output(finished(_put_into(told, asked), workspace.environment, workspace.project))
    assert (program, said.text, said.session) == ("mnemosyne", "Else.", made["id"])
    (after,) = sent(workspace)[len(before) :]
    parent = prompt_of(before[-1])
    shared = [one for one, other in zip(parent, prompt_of(after), strict=False) if one == other]
    assert len(shared) >= len(prompt_of(before[1])) - 1
    assert "And now" not in str(after)
    branches = command(workspace, "branches", listed["id"])
    assert [(each["kind"], each["forked_at"]) for each in branches if each["kind"] == "fork"] == [("fork", 2)]
    assert workspace.standin.violations == []


def _put_into(told: list[str], asked: list[str]) -> list[str]:
    """The command line that continues the fork, with a prompt; the client's own options are appended after its name."""
    at = told.index(asked[0]) + 1
    words = asked[1:]
    if words[0] == "run":  # opencode's command without a terminal
        return [*told[:at], "run", *told[at:], *words[1:]]
    return [*told, *words]


@pytest.mark.parametrize("agent", [pytest.param(CLAUDE_CODE, id=CLAUDE_CODE.name)])
def test_fork_restores_the_files_of_its_turn_and_keeps_todays(workspace: Workspace) -> None:
    notes, new = workspace.project / "notes.txt", workspace.project / "new.txt"
    edit = workspace.agent.edit(notes, "two", "TWO")
    spoil = [workspace.agent.shell(f"echo spoilt > {notes}"), workspace.agent.write(new, "new\n")]
    workspace.script(
        {
            "when": {"prompt": "Change the notes"},
            "replies": [{"content": [workspace.agent.read(notes)]}, {"content": [edit]}, {"text": "Changed."}],
        },
        {"when": {"prompt": "Spoil them"}, "replies": [{"content": spoil}, {"text": "Spoilt."}]},
        {"when": {"prompt": "Once more"}, "reply": {"text": "Again."}},
    )
    options = (*workspace.server.options, "--record-worktree")
    workspace.run("Change the notes", options=options)
    whole = workspace.run("Spoil them", goes_on=True, options=options)
    assert (notes.read_text(), new.exists()) == ("spoilt\n", True)
    seen = finished(["git", "log", "--oneline", "--branches"], workspace.environment, workspace.project)
    assert seen.count("\n") == 1
    line = [*MNEMOSYNE, "run", *workspace.server.options, "--fork", f"{whole.session}@3", "--with-files", "--"]
    said = finished([*line, *CLAUDE_CODE.command("Once more")], workspace.environment, workspace.project)
    assert CLAUDE_CODE.parse_output(said).text == "Again."
    assert (notes.read_text(), new.exists()) == ("one\nTWO\nthree\n", False)
    kept = finished(
        ["git", "for-each-ref", "--format=%(refname)", "refs/mnemosyne/before/"],
        workspace.environment,
        workspace.project,
    )
    finished(["git", "restore", "--source", kept.strip(), "--", ":/"], workspace.environment, workspace.project)
    assert (notes.read_text(), new.read_text()) == ("spoilt\n", "new\n")


def test_codex_continues_from_a_turn_by_a_conversation_rebuilt_from_the_log(programs: Path, tmp_path: Path) -> None:
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
    """Codex gives its own instructions new ids in each session."""
    return [{key: value for key, value in item.items() if key != "id"} for item in items]
