"""The files of a working tree are saved at a request, and found by it."""

import fcntl
import subprocess
from pathlib import Path
from uuid import UUID

import pytest
import trio
from trio.testing import MockClock

from mnemosyne.adapters.git_worktree import GitWorktree
from mnemosyne.app.kept_files import FOLDER_VARIABLE, LONGEST_WAIT, find_files, find_keeper, keep_files
from mnemosyne.errors import NotFound

SESSION, OTHER = UUID(int=1), UUID(int=2)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    return tmp_path


async def test_saved_files_are_found_only_by_the_session_and_time_of_their_request(project: Path) -> None:
    keep = find_keeper({FOLDER_VARIABLE: str(project)})
    assert keep is not None
    for at in (5, 6):
        (project / "a.txt").write_text(f"{at}\n")
        await keep(SESSION, at, done := trio.Event())
        assert done.is_set()
    done_at_5 = find_files(project, SESSION, 5)(7)
    assert (done_at_5.written, done_at_5.removed, done_at_5.ref) == (1, 0, "refs/mnemosyne/before/7")
    assert (project / "a.txt").read_text() == "5\n"
    for session, at in ((SESSION, 7), (OTHER, 5)):
        with pytest.raises(NotFound, match="--record-worktree"):
            find_files(project, session, at)


async def test_failure_to_save_files_is_reported_and_does_not_delay_the_reply(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (project / ".git/mnemosyne/lock").mkdir(parents=True)
    await keep_files(GitWorktree.around(project), trio.CapacityLimiter(1), SESSION, 5, done := trio.Event())
    assert done.is_set()
    assert "files at a request of session 00000000-0000-0000-0000-000000000001 could not be saved" in caplog.text


async def test_a_reply_waits_for_git_for_a_bounded_time(
    project: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    worktree, limiter = GitWorktree.around(project), trio.CapacityLimiter(1)
    worktree.ours.mkdir()
    with (worktree.ours / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as by a git that hangs
        for at in (5, 6):
            await keep_files(worktree, limiter, SESSION, at, done := trio.Event())
            assert done.is_set()
    assert trio.current_time() == 2 * LONGEST_WAIT
    assert caplog.text.count("could not be saved: git takes longer than 20 s") == 2
