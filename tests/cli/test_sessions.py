"""`mnemosyne sessions` lists what people look for: the last active first, by what their user typed."""

import json

import pytest

from mnemosyne.cli.sessions import age_text
from tests.cli.running import run


def test_a_session_is_listed_by_its_title_with_what_it_cost(conversation: str) -> None:
    row = run("sessions").stdout.splitlines()[1]
    assert row.startswith(conversation[:8])
    assert "Mend the parser" in row
    (told,) = json.loads(run("sessions", "--json").stdout)
    assert told["title"].startswith("Mend the parser")
    assert told["mode"] == "observe"
    assert told["id"] == conversation


def test_a_limit_says_how_many_more_there_are(read_files: str) -> None:
    listed = run("sessions", "--limit", "1")
    assert len(listed.stdout.splitlines()) == 2
    assert "1 session more; --limit 2 lists all." in listed.stderr
    assert len(json.loads(run("sessions", "--json").stdout)) == 2
    assert len(json.loads(run("sessions", "--json", "--limit", "1").stdout)) == 1


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_list_fits_a_terminal(conversation: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mnemosyne.cli.printing.terminal_width", lambda: width)
    lines = run("sessions").stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert lines[1].startswith(conversation[:8])


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "now"), (59, "now"), (60, "1 min"), (7_199, "1 h"), (200_000, "2 d")]
)
def test_how_long_ago(seconds: int, text: str) -> None:
    assert age_text(seconds * 1_000_000) == text
