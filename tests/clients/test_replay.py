"""A real client repeats a recorded session offline: it sends the recorded requests and leaves the same files."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients.agents import AGENTS
from tests.clients.test_codex import codex, run
from tests.clients.workspace import CLIENT_SECONDS, MNEMOSYNE, Server, Workspace, bare_environment, visit
from tests.profiles import rarely

pytestmark = pytest.mark.clients


def replayed(
    command: list[str], session: str, server: Server, environ: dict[str, str], project: Path, *options: str
) -> Any:
    """Replay a session with a client that has no key, unless it goes live; return the report."""
    if "--until" not in options:
        environ = {name: value for name, value in environ.items() if not name.endswith("API_KEY")}
    done = subprocess.run(
        [*MNEMOSYNE, "replay", session, *options, "--json", "--data-dir", str(server.data_dir), "--", *command],
        cwd=project,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CLIENT_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout[done.stdout.index('{\n  "session"') :])


@pytest.mark.parametrize("agent", [AGENTS[0], *rarely(AGENTS[1:])], ids=lambda agent: agent.name)
@pytest.mark.parametrize("more", [0, pytest.param(26, marks=pytest.mark.release)])
def test_client_repeats_each_recorded_request_and_leaves_the_same_files(workspace: Workspace, more: int) -> None:
    """A session of 5 turns, and one of 31."""
    agent, notes, new = workspace.agent, workspace.project / "notes.txt", workspace.project / "new.txt"
    calls = [
        agent.read(notes),
        agent.edit(notes, "two", "TWO"),
        agent.write(new, "new\n"),
        agent.shell("cat new.txt notes.txt"),
        *(agent.shell(f"echo {number} >> new.txt; cat new.txt") for number in range(more)),
    ]
    replies = [*({"content": [call]} for call in calls), {"text": "It is done."}]
    workspace.script({"when": {"prompt": "Change"}, "replies": replies})
    assert workspace.run("Change the notes").text == "It is done."
    recorded = workspace.conversation()
    after = notes.read_text(), new.read_text()
    notes.write_text("one\ntwo\nthree\n")
    new.unlink()
    workspace.standin.exchanges.clear()
    command = agent.command("Change the notes")
    report = replayed(command, recorded.external_id, workspace.server, workspace.environment, workspace.project)
    assert (notes.read_text(), new.read_text()) == after
    assert [each["differences"] for each in report["requests"]] == [[]] * len(recorded.turns)
    assert (report["unknown"], report["unsent"]) == (0, [])
    assert workspace.standin.exchanges == []


@pytest.mark.parametrize("agent", AGENTS[:1], ids=lambda agent: agent.name)
@pytest.mark.release
def test_client_repeats_the_record_in_a_copy_of_the_recorded_files(workspace: Workspace) -> None:
    agent, notes = workspace.agent, workspace.project / "notes.txt"
    calls = [agent.read(notes), agent.edit(notes, "two", "TWO"), agent.shell(f"cat {notes}")]
    replies = [*({"content": [call]} for call in calls), {"text": "It is done."}]
    workspace.script({"when": {"prompt": "Change"}, "replies": replies})
    workspace.run("Change the notes", options=(*workspace.server.options, "--record-worktree"))
    recorded = workspace.conversation()
    notes.write_text("today\n")
    command = agent.command("Change the notes")
    where = (workspace.server, workspace.environment, workspace.project.parent)
    report = replayed(command, recorded.external_id, *where, "--worktree")
    assert [each["differences"] for each in report["requests"]] == [[]] * len(recorded.turns)
    assert (report["unknown"], report["unsent"]) == (0, [])
    assert notes.read_text() == "today\n"
    copy = Path(report["folder"])
    assert (copy / "notes.txt").read_text() == "one\nTWO\nthree\n"
    shutil.rmtree(copy.parent)


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
@pytest.mark.release
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
@pytest.mark.release
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


@pytest.mark.release
@pytest.mark.parametrize("more", [0, 28])
def test_codex_repeats_each_recorded_request(programs: Path, server: Server, tmp_path: Path, more: int) -> None:
    project = tmp_path / "project"
    project.mkdir()
    here = visit(server)
    commands = ["echo more > more.txt", "cat more.txt", *(f"echo {number}" for number in range(more))]
    replies = [*({"content": [run(command)]} for command in commands), {"text": "Done."}]
    here.script({"when": {"prompt": "more"}, "replies": replies})
    assert codex(server, programs, tmp_path, project, "Write more.") == "Done."
    recorded = here.recorded()
    (project / "more.txt").unlink()
    environ = bare_environment(tmp_path) | {"CODEX_HOME": str(tmp_path / "codex")}
    environ["PATH"] = f"{programs}:{environ['PATH']}"
    command = [
        "codex",
        "-s",
        "danger-full-access",
        "exec",
        "--skip-git-repo-check",
        "-c",
        "model=gpt-5.5",
        "Write more.",
    ]
    report = replayed(command, recorded.external_id, server, environ, project)
    assert (project / "more.txt").read_text() == "more\n"
    assert [each["differences"] for each in report["requests"]] == [[]] * (3 + more)
    assert (report["unknown"], report["unsent"]) == (0, [])
