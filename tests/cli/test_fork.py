"""A session of the client's own is begun with what another one was after a turn, and how it goes on is told."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.running import run

FOURTH, LAST = "msg_000000000000000000000004", "the last"


@pytest.fixture
def transcripts(conversation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with Claude Code's transcript of the session ``s``."""
    folder = tmp_path / "claude/projects/-app"
    folder.mkdir(parents=True)
    entries = [
        {"type": "assistant", "uuid": number, "sessionId": "s", "message": {"id": number, "content": []}}
        for number in (*(f"msg_{number:024}" for number in range(1, 18)), LAST)
    ]
    (folder / "s.jsonl").write_text("".join(json.dumps(each) + "\n" for each in entries))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    return folder


def test_the_fork_ends_with_the_turn_and_the_line_that_goes_on_in_it_is_printed(transcripts: Path) -> None:
    made = json.loads(run("fork", "s", "--turn", "5", "--json").stdout)
    held = (transcripts / f"{made['id']}.jsonl").read_text()
    assert (FOURTH in held, LAST in held) == (True, False)
    line = f"mnemosyne run -- claude --resume {made['id']}"
    assert (
        "begins after turn 4 of session s, because turn 5 has no complete reply."
        in run("fork", "s", "--turn", "5").stdout
    )
    assert made == {"id": made["id"], "parent": "s", "turn": 4, "command": line}


def test_the_mode_the_log_and_the_client_that_were_named_stand_in_that_line(transcripts: Path, tmp_path: Path) -> None:
    said = run("fork", "s", "--mode", "off", "--data-dir", str(tmp_path), "--", "npx", "claude", "--verbose").stdout
    told, _, line = said.splitlines()
    name = told.split()[1]
    assert told == f"Session {name} begins after turn 6 of session s."
    assert line == f"  mnemosyne run --data-dir {tmp_path} --off -- npx claude --resume {name} --verbose"


def test_what_cannot_be_is_a_sentence_and_writes_nothing(transcripts: Path) -> None:
    before = list(transcripts.iterdir())
    for arguments, code, sentence in (
        (("s", "--turn", "99"), 1, "and not 99"),
        (("s", "--turn", "never-named"), 1, "has no checkpoint 'never-named'"),
        (("s", "--turn", "3 or 4"), 2, "is neither a turn number, such as 30, nor a checkpoint name"),
        (("s", "--mode", "off", "--", "codex"), 2, "--mode off works with Claude Code and opencode"),
        (("s", "--", "aider"), 2, "aider cannot start from another session"),
        (("another",), 1, "There is no session 'another'"),
    ):
        done = run("fork", *arguments, code=code)
        assert sentence in " ".join(done.stderr.split()), arguments
    assert list(transcripts.iterdir()) == before


def test_an_archived_session_is_left_as_any_other_and_where_its_file_is_gone_that_is_said(
    transcripts: Path, tmp_path: Path
) -> None:
    (told,) = json.loads(run("archive", "s", "--to", str(tmp_path / "old"), "--json").stdout)["sessions"]
    assert json.loads(run("fork", "s", "--turn", "5", "--json").stdout)["turn"] == 4
    before = list(transcripts.iterdir())
    Path(told["file"]).unlink()
    assert told["file"] in run("fork", "s", "--turn", "5", code=1).stderr.replace("\n", "")
    assert list(transcripts.iterdir()) == before


def test_a_forgotten_session_cannot_be_left_and_nothing_is_written(
    transcripts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/claude").touch(mode=0o700)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    before = list(transcripts.iterdir())
    run("forget", "s", "--yes", "--quick")
    assert "was forgotten" in " ".join(run("fork", "s", code=1).stderr.split())
    assert "was forgotten" in " ".join(run("run", "--fork", "s@4", "--", "claude", code=1).stderr.split())
    assert list(transcripts.iterdir()) == before
