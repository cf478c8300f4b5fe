"""Hook events, and recognition of a managed client."""

import json
from pathlib import Path

import pytest

from mnemosyne.app.hooks import HookEvent, is_managed, parse_event
from mnemosyne.config import load
from mnemosyne.errors import BadOption

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
