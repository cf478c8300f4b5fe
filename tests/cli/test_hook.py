"""`mnemosyne hook` says what a client's model is to be told, and keeps nobody from working."""

import json
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.cli.support import environ_for, invoked, serving
from tests.waiting import DEADLINE


def ask(environ: dict[str, str], event: object) -> tuple[str, str]:
    """What the hook prints, and what it complains about."""
    done = invoked("hook", environ=environ, given=event if isinstance(event, str) else json.dumps(event))
    assert done.exit_code == 0
    return done.stdout.rstrip("\n"), done.stderr


def remember(environ: dict[str, str], folder: Path, *words: str) -> None:
    assert invoked("remember", *words, "--project", str(folder), environ=environ).exit_code == 0


@pytest.fixture
def environ(dsn: str, tmp_path: Path) -> dict[str, str]:
    """One in which something is known of the project."""
    environ = environ_for(tmp_path, MNEMOSYNE_DSN=dsn, MNEMOSYNE_UPSTREAM="http://127.0.0.1:9")
    remember(environ, tmp_path, "A shop for bicycles", "--kind", "project-brief")
    remember(environ, tmp_path, "The parser of dates is slow", "--kind", "fact")
    return environ


def begins(folder: Path, **more: str) -> dict[str, str]:
    return {"hook_event_name": "SessionStart", "cwd": str(folder), "source": "startup", **more}


def test_a_session_that_begins_is_told_what_is_known_of_its_folder(environ: dict[str, str], tmp_path: Path) -> None:
    told, complaints = ask(environ, begins(tmp_path))
    assert (told.startswith("[MEMORY]"), "A shop for bicycles" in told, complaints) == (True, True, "")
    assert "parser" not in told
    assert "parser of dates" in ask(environ, begins(tmp_path, prompt="Make the parser of dates fast"))[0]
    assert "bicycles" in ask(environ, begins(tmp_path, source="compact"))[0]
    assert ask(environ, begins(tmp_path, source="resume")) == ("", "")
    assert ask(environ, begins(tmp_path / "elsewhere")) == ("", "")


def test_where_a_server_manages_by_default_it_tells_by_itself(environ: dict[str, str], tmp_path: Path) -> None:
    for mode, told in (("manage", False), ("observe", True)):
        with serving(environ={**environ, "MNEMOSYNE_MODE": mode}) as url:
            answer, _ = ask({**environ, "ANTHROPIC_BASE_URL": url}, begins(tmp_path))
            assert ("bicycles" in answer) is told


def test_where_nothing_was_ever_recorded_nothing_is_told_and_nothing_is_made(tmp_path: Path) -> None:
    assert ask(environ_for(tmp_path), begins(tmp_path)) == ("", "")
    assert not (tmp_path / "data").exists()


def test_other_events_are_let_go_and_what_is_wrong_is_said_aside(tmp_path: Path) -> None:
    assert ask(environ_for(tmp_path), {"hook_event_name": "Stop"}) == ("", "")
    prompt = {"hook_event_name": "UserPromptSubmit", "prompt": "Remember the port", "cwd": str(tmp_path)}
    assert ask(environ_for(tmp_path), prompt) == ("", "")
    told, complaints = ask(environ_for(tmp_path), "no event")
    assert (told, "reads an event as JSON" in complaints) == ("", True)
    away = environ_for(tmp_path, MNEMOSYNE_DSN="postgresql://127.0.0.1:9/nothing")
    told, complaints = ask(away, begins(tmp_path))
    assert (told, len(complaints.splitlines())) == ("", 1)


def test_before_a_call_the_files_are_kept_and_where_they_cannot_be_nobody_is_kept_from_working(tmp_path: Path) -> None:
    environ, project = environ_for(tmp_path), tmp_path / "project"
    project.mkdir()
    event = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_use_id": "toolu_1", "cwd": str(project)}
    told, complaints = ask(environ, event)
    assert (told, "in no working tree of git" in complaints) == ("", True)
    git = ["git", "-C", str(project)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    (project / "a.txt").write_text("one\n")
    assert ask(environ, event) == ("", "")
    for name in ("../s", ""):
        assert "lacks a valid session or call id" in ask(environ, {**event, "session_id": name})[1]
    shown = subprocess.run([*git, "show", "refs/mnemosyne/s/toolu_1:a.txt"], capture_output=True, text=True, check=True)
    assert shown.stdout == "one\n"


def test_a_hook_presents_its_session_so_that_the_next_credential_in_it_is_the_owner_s(
    environ: dict[str, str], tmp_path: Path
) -> None:
    event = {"hook_event_name": "UserPromptSubmit", "prompt": "Go on", "cwd": str(tmp_path), "session_id": "mine"}
    with serving(environ=environ) as url:

        def speak(session: str, key: str) -> None:
            body = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": session}]})
            headers = {"x-api-key": key, "x-claude-code-session-id": session, "content-type": "application/json"}
            with suppress(HTTPError):  # there is no provider
                urlopen(Request(f"{url}/v1/messages", body.encode(), headers), timeout=DEADLINE)

        speak("theirs", "their-key")
        deadline = time.monotonic() + DEADLINE
        listed: list[dict[str, str]] = []
        while not listed and time.monotonic() < deadline:  # a server that is too busy to hear a hook is not waited for
            assert ask({**environ, "ANTHROPIC_BASE_URL": url}, event) == ("", "")
            speak("mine", "my-key")
            listed = json.loads(invoked("memory", "admit", "--list", "--json", environ=environ).stdout)
    assert [each["how"] for each in listed] == ["presented"]


@pytest.mark.parametrize("folder", ["/t\ud83d", "\ude00", "/t\0", "/" + "a" * 5000])
def test_an_odd_folder_keeps_no_client_from_working(folder: str, environ: dict[str, str]) -> None:
    for name in ("SessionStart", "PreToolUse", "UserPromptSubmit"):
        event = {"hook_event_name": name, "cwd": folder, "session_id": "s\ud83d", "prompt": "Go \ud83d on"}
        told, complaints = ask(environ, event)
        assert told == ""
        assert "Traceback" not in complaints
