"""``mnemosyne sessions`` lists the last active sessions first, with their titles and costs."""

import pytest

from tests.cli.running import run, run_json


@pytest.mark.parametrize("width", [80, 100, 120])
def test_session_is_listed_by_its_title_in_the_width_of_the_terminal(
    width: int, conversation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemosyne.cli.printing.terminal_width", lambda: width)
    lines = run("sessions").stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert lines[1].startswith(conversation[:8])
    assert "Mend the" in lines[1]
    (row,) = run_json("sessions")
    assert row["title"].startswith("Mend the parser")
    assert (row["id"], row["mode"], row["status"], row["settings"]) == (conversation, "observe", "completed", None)


@pytest.mark.usefixtures("read_files")
def test_limit_reports_the_number_of_omitted_sessions() -> None:
    listed = run("sessions", "--limit", "1")
    assert len(listed.stdout.splitlines()) == 2
    assert "1 session more; --limit 2 lists all." in listed.stderr
    assert [len(run_json("sessions", *options)) for options in ([], ["--limit", "1"])] == [2, 1]


@pytest.mark.usefixtures("conversation")
@pytest.mark.parametrize("options", [[], ["--restore"]])
def test_the_trash_says_that_it_finds_neither_a_session_nor_an_entry(options: list[str]) -> None:
    done = run("trash", "nothing", *options, code=1)
    assert done.stderr == "Error: There is no session 'nothing' and no memory entry with this id.\n"


def test_a_session_is_renamed_and_closed_once(conversation: str) -> None:
    assert run("rename", conversation[:8], "The parser").stdout == f"session {conversation}: renamed\n"
    assert [run_json("close", conversation)["what"] for _ in range(2)] == ["closed", "unchanged"]
    assert run("close", conversation).stdout == f"session {conversation}: closed already\n"
    (row,) = run_json("sessions")
    assert (row["title"], row["status"]) == ("The parser", "completed")
    assert run("rename", conversation, "").stdout == f"session {conversation}: renamed\n"
    assert run_json("sessions")[0]["title"].startswith("Mend the parser")
