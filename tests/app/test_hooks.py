"""Hook events, recognition of a managed client, and the files saved before a call."""

import json
import subprocess
from pathlib import Path

import pytest

from mnemosyne.app.hooks import HookEvent, find_files, is_managed, keep_before_call, parse_event
from mnemosyne.config import load
from mnemosyne.errors import BadOption, NotFound

CONFIG = load({}, {})


def test_an_event_of_a_client_is_read() -> None:
    event: dict[str, object] = {
        "hook_event_name": "SessionStart",
        "cwd": "/work",
        "source": "resume",
        "session_id": "a",
        "new": [1],
    }
    assert parse_event(json.dumps(event).encode()) == HookEvent(
        "SessionStart", Path("/work"), resumed=True, session="a"
    )
    event = {"hook_event_name": "PreToolUse", "session_id": "a", "tool_use_id": "toolu_1", "tool_input": {"x": 1}}
    assert parse_event(json.dumps(event).encode()) == HookEvent("PreToolUse", Path(), session="a", call="toolu_1")
    event = {"hook_event_name": "UserPromptSubmit", "prompt": "Go on", "cwd": 5}
    assert parse_event(json.dumps(event).encode()) == HookEvent("UserPromptSubmit", Path(), "Go on")


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", "[" * 100_000, '{"hook_event_name": 5}'])
def test_invalid_hook_input_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="reads an event as JSON"):
        parse_event(text.encode())


@pytest.mark.parametrize("odd", [b"\\ud83d", b"\\uDE00", b"\xff"])
def test_an_event_with_an_odd_character_names_a_folder_that_can_be_looked_up(odd: bytes) -> None:
    event = parse_event(b'{"hook_event_name":"SessionStart","cwd":"/t%b","session_id":"s%b"}' % (odd, odd))
    assert not event.folder.exists()
    event.session.encode()


@pytest.mark.parametrize(
    ("environ", "managed"),
    [
        ({}, False),
        ({"ANTHROPIC_BASE_URL": "https://api.anthropic.com"}, False),
        ({"ANTHROPIC_CUSTOM_HEADERS": "x-a: manage\nx-mnemosyne-mode: manage"}, True),
        ({"ANTHROPIC_CUSTOM_HEADERS": "x-a: manage\nx-mnemosyne-mode: observe"}, False),
        ({"ANTHROPIC_CUSTOM_HEADERS": "x-a: manage"}, False),
        (
            {
                "OPENCODE_CONFIG_CONTENT": json.dumps(
                    {"provider": {"anthropic": {"options": {"headers": {"x-mnemosyne-mode": "manage"}}}}}
                )
            },
            True,
        ),
        ({"OPENCODE_CONFIG_CONTENT": "{"}, False),
    ],
)
def test_a_managed_client_is_recognised(environ: dict[str, str], managed: bool) -> None:
    assert is_managed(environ, CONFIG) is managed


@pytest.fixture
def project(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    return tmp_path


def call(project: Path, name: str, session: str = "s") -> HookEvent:
    return HookEvent("PreToolUse", project, session=session, call=name)


def test_the_first_saved_call_after_a_turn_has_its_files(project: Path) -> None:
    for number in (1, 2):
        (project / "a.txt").write_text(f"{number}\n")
        keep_before_call(call(project, f"toolu_{number}"))
    (project / "a.txt").write_text("spoilt\n")
    found = find_files(project, "s", ["toolu_0", "toolu_2", "toolu_1"])
    assert found is not None
    done = found.restore_files(7)
    assert (done.written, done.removed, done.ref) == (1, 0, "refs/mnemosyne/before/7")
    assert (project / "a.txt").read_text() == "2\n"


def test_without_a_saved_call_the_current_files_are_those_of_the_turn(project: Path) -> None:
    keep_before_call(call(project, "toolu_1"))
    assert find_files(project, "s", ["toolu_2"]) is None
    assert find_files(project, "s", []) is None
    with pytest.raises(NotFound, match="Session other has no saved files"):
        find_files(project, "other", ["toolu_1"])


@pytest.mark.parametrize(
    ("session", "name"), [("", "a"), ("s", ""), ("../s", "a"), ("s", "a/b"), ("s", "a b"), ("-s", "a")]
)
def test_an_invalid_name_is_refused(project: Path, session: str, name: str) -> None:
    with pytest.raises(BadOption, match="lacks a valid session or call id"):
        keep_before_call(call(project, name, session))
