"""A real client repeats a recorded session offline: it sends the recorded requests and leaves the same files."""

import shutil
from pathlib import Path

import pytest

from tests.clients.agents import AGENTS
from tests.clients.workspace import Workspace, files_in, replayed

pytestmark = [pytest.mark.clients, pytest.mark.release]


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_client_repeats_the_record_in_a_copy_of_the_recorded_files(workspace: Workspace) -> None:
    """A session of 31 turns, some with two calls; `test_codex.py` has the same for Codex."""
    agent, notes, new = workspace.agent, workspace.project / "notes.txt", workspace.project / "new.txt"
    rounds = [
        [agent.read(notes)],
        [agent.edit(notes, "two", "TWO"), agent.write(new, "new\n")],
        [agent.shell(f"cat {notes}"), agent.shell("rm more.txt; mkdir sub; date > sub/time.log")],
        *([agent.shell(f"echo {number} >> sub/more.txt; cat sub/more.txt")] for number in range(26)),
        [agent.edit(new, "new", "newer")],
    ]
    replies = [*({"content": calls} for calls in rounds), {"text": "It is done."}]
    workspace.script({"when": {"prompt": "Change"}, "replies": replies})
    workspace.run("Change the notes", options=(*workspace.server.options, "--record-worktree"))
    recorded, after = workspace.conversation(), files_in(workspace.project)
    assert len(recorded.on("main")) == 31
    notes.write_text("today\n")
    shutil.rmtree(workspace.project / "sub")
    today = files_in(workspace.project)
    workspace.standin.exchanges.clear()
    command = agent.command("Change the notes")
    where = (workspace.server, workspace.environment, workspace.project.parent)
    report = replayed(command, recorded.external_id, *where, "--worktree")
    assert [each["differences"] for each in report["requests"]] == [[]] * len(recorded.turns)
    assert (report["unknown"], report["unsent"]) == (0, [])
    copy = Path(report["folder"])
    assert (files_in(copy), files_in(workspace.project)) == (after, today)
    shutil.rmtree(copy.parent)
    assert workspace.standin.exchanges == []


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_session_with_a_sub_agent_is_repeated(workspace: Workspace) -> None:
    """Several at once may end in another order, which is reported as a difference."""
    agent = workspace.agent
    workspace.script(
        {"when": {"prompt": "Do part A"}, "replies": [{"content": [agent.shell("echo a")]}, {"text": "A is done."}]},
        {
            "when": {"prompt": "Do all", "tools": True},
            "replies": [{"content": [agent.delegate("Do part A")]}, {"text": "All is done."}],
        },
        {"reply": {"text": "Noted."}},
    )
    workspace.run("Do all")
    (recorded,) = workspace.conversations()
    report = replayed(
        agent.command("Do all"),
        recorded.external_id,
        workspace.server,
        workspace.environment,
        workspace.project,
    )
    assert [each["differences"] for each in report["requests"]] == [[]] * len(recorded.turns)
    assert (report["unknown"], report["unsent"]) == (0, [])


@pytest.mark.parametrize("agent", AGENTS[:1], ids=lambda agent: agent.name)
def test_client_repeats_the_record_up_to_a_turn_and_then_asks_the_provider(workspace: Workspace) -> None:
    agent, new = workspace.agent, workspace.project / "new.txt"
    replies = [*({"content": [agent.shell(f"echo {each} >> new.txt")]} for each in "abc"), {"text": "It is done."}]
    workspace.script({"when": {"prompt": "Change"}, "replies": replies})
    workspace.run("Change the notes")
    recorded = workspace.conversation()
    new.unlink()
    workspace.standin.exchanges.clear()
    live = {"content": [agent.shell("echo live >> new.txt")]}
    workspace.script({"when": {"prompt": "Change", "rounds": 2}, "reply": live}, {"reply": {"text": "Live."}})
    command = agent.command("Change the notes")
    session, environ = recorded.external_id, workspace.environment | {"MNEMOSYNE_UPSTREAM": workspace.standin.url}
    report = replayed(command, session, workspace.server, environ, workspace.project, "--until", "2")
    assert new.read_text() == "a\nb\nlive\n"
    assert [each["turn"] for each in report["requests"]] == [1, 2]
    assert report["unknown"] == len(workspace.standin.messages) == 2
    (live_run,) = [each for each in workspace.conversations() if each.external_id != session]
    assert [turn.outcome for turn in live_run.turns] == ["200 tool_use", "200 end_turn"]


@pytest.mark.parametrize("agent", AGENTS[:1], ids=lambda agent: agent.name)
def test_client_retries_a_failed_request_and_does_not_keep_half_a_reply(workspace: Workspace) -> None:
    agent = workspace.agent
    cut = {"text": "Half a reply. " * 9, "faults": [{"kind": "cut", "at": 5}]}
    workspace.script(
        {"when": {"prompt": "Change"}, "times": 1, "reply": {"failure": {"status": 529, "retry_after": 0}}},
        {"when": {"prompt": "Change", "rounds": 1}, "times": 1, "reply": cut},
        {"when": {"prompt": "Change"}, "replies": [{"content": [agent.shell("echo a")]}, {"text": "It is done."}]},
    )
    workspace.run("Change the notes")
    recorded = workspace.recorded()
    assert [turn.attempt for turn in recorded.turns] == [1, 2, 1, 2]
    command, place = agent.command("Change the notes"), (workspace.server, workspace.environment, workspace.project)
    report = replayed(command, recorded.external_id, *place)
    assert [each["differences"] for each in report["requests"]] == [[]] * 4
    assert (report["unknown"], report["unsent"]) == (0, [])
