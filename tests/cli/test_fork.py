"""``mnemosyne fork`` writes a session of the client's own, and prints the command that continues it."""

import json
import os
from pathlib import Path
from uuid import UUID

import pytest

from mnemosyne.adapters.git_worktree import RestoredFiles
from mnemosyne.cli.fork import place_sentence
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.services.forks import ForkPoint
from tests.cli.running import run, run_json

FOURTH, CALLING, CALL = f"msg_{4:024}", f"msg_{8:024}", f"toolu_{4:024}"
LAST = "the last"


@pytest.fixture
def transcripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with Claude Code's transcript of the session ``s``."""
    folder = tmp_path / "claude/projects/-app"
    folder.mkdir(parents=True)
    entries = [
        {"type": "assistant", "uuid": number, "sessionId": "s", "message": {"id": number, "content": []}}
        for number in (*(f"msg_{number:024}" for number in range(1, 18)), LAST)
    ]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": CALL, "content": "It is there."}]}
    entries.insert(8, {"type": "user", "uuid": "result", "sessionId": "s", "message": result})
    (folder / "s.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/claude").touch(mode=0o700)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    return folder


@pytest.mark.usefixtures("conversation")
def test_fork_ends_with_the_turn_and_prints_the_command_that_continues_it(transcripts: Path, tmp_path: Path) -> None:
    made = run_json("fork", "s", "--at", "4")
    content = (transcripts / f"{made['id']}.jsonl").read_text()
    assert (FOURTH in content, LAST in content) == (True, False)
    command = f"mnemosyne run -- claude --resume {made['id']}"
    assert made == {"id": made["id"], "parent": "s", "turn": 4, "command": command}
    options = ("--mode", "off", "--data-dir", str(tmp_path), "--", "npx", "claude", "--verbose")
    sentence, _, line = run("fork", "s", *options).stdout.splitlines()
    name = sentence.split()[1]
    assert sentence == f"Session {name} begins after turn 6 of session s."
    assert line == f"  mnemosyne run --data-dir {tmp_path} --off -- npx claude --resume {name} --verbose"


@pytest.mark.usefixtures("conversation", "transcripts")
def test_command_that_undoes_the_restored_files_is_printed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    undo = "To undo: git restore --source refs/mnemosyne/before/S -- :/"
    monkeypatch.setattr("mnemosyne.cli.fork.find_kept_files", lambda _: RestoredFiles)
    monkeypatch.setattr("mnemosyne.cli.fork.restore_folder", lambda *_: f"files restored. {undo}")
    assert f"Files restored. {undo}\n" in run("fork", "s", "--at", "4", "--with-files").stdout


@pytest.mark.usefixtures("conversation")
def test_no_fork_is_made_for_a_client_that_is_not_started(transcripts: Path, tmp_path: Path) -> None:
    before = list(transcripts.iterdir())
    options = ("--data-dir", str(tmp_path / "data"), "--port", "0", "--upstream", "http://127.0.0.1:9")
    assert "claude was not started" in run("run", "--fork", "s@4", *options, "--", "claude", code=1).stderr
    assert list(transcripts.iterdir()) == before


@pytest.mark.usefixtures("conversation")
def test_no_fork_is_made_where_its_files_cannot_be_restored(transcripts: Path) -> None:
    before = {*transcripts.glob("*")}
    assert run("fork", "s", "--at", "4", "--with-files", code=1).stdout == ""
    assert {*transcripts.glob("*")} == before


@pytest.mark.usefixtures("conversation")
def test_fork_at_a_call_ends_with_its_result(transcripts: Path) -> None:
    for at in ("5", CALL):
        made = run_json("fork", "s", "--at", at)
        entries = [json.loads(line) for line in (transcripts / f"{made['id']}.jsonl").read_text().splitlines()]
        assert (made["turn"], [each["uuid"] for each in entries[-2:]]) == (5, [CALLING, "result"])
    assert run_json("fork", "s", "--branch", "fork-1", "--at", "6")["turn"] == 6
    point = ForkPoint("claude-code", "s", 7, 5, CALLING, MESSAGES, {}, {}, UUID(int=1), 0, (CALL,))
    assert place_sentence(point) == (
        "after turn 5 of session s, with the results of its calls, because turn 7 has no complete reply, or no results"
        " of its calls"
    )


@pytest.mark.usefixtures("conversation")
def test_impossible_fork_is_refused_and_writes_nothing(transcripts: Path) -> None:
    before = list(transcripts.iterdir())
    for arguments, code, sentence in (
        (("s", "--at", "99"), 1, "and not 99"),
        (
            ("s", "--at", "never-named"),
            1,
            "has no checkpoint 'never-named' (it has none), and branch main no call with this id",
        ),
        (("s", "--at", "3 or 4"), 2, "is neither a turn number, such as 30, nor the id of a call, nor a checkpoint"),
        (("s", "--mode", "off", "--", "codex"), 2, "--mode off works with Claude Code and opencode"),
        (("s", "--", "aider"), 2, "aider cannot start from another session"),
        (("another",), 1, "There is no session 'another'"),
    ):
        done = run("fork", *arguments, code=code)
        assert sentence in " ".join(done.stderr.split()), arguments
    assert list(transcripts.iterdir()) == before


@pytest.mark.usefixtures("own_conversation")
def test_archived_session_can_be_forked_while_its_file_exists_and_a_forgotten_one_never(
    transcripts: Path, tmp_path: Path
) -> None:
    (row,) = run_json("archive", "s", "--to", str(tmp_path / "old"), "--quick")["sessions"]
    assert run_json("fork", "s", "--at", "5")["turn"] == 5
    before = list(transcripts.iterdir())
    moved = Path(row["file"]).rename(tmp_path / "moved")
    assert row["file"] in run("fork", "s", "--at", "5", code=1).stderr.replace("\n", "")
    moved.rename(row["file"])
    run("forget", "s", "--yes", "--quick")
    for command in (["fork", "s"], ["run", "--fork", "s@4", "--", "claude"]):
        assert "was forgotten" in " ".join(run(*command, code=1).stderr.split())
    assert list(transcripts.iterdir()) == before
