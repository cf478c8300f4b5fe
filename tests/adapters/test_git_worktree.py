"""Files are saved without changing the user's index and restored, with a real git."""

import os
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.adapters import git_worktree
from mnemosyne.adapters.git_worktree import GitWorktree
from mnemosyne.errors import NotFound, WorktreeFailed
from tests.profiles import examples

IGNORED = "build/\n*.log\n"


def git(folder: Path, *arguments: str) -> str:
    settings = ["-c", "user.name=Ada", "-c", "user.email=ada@example.invalid"]
    done = subprocess.run(["git", *settings, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and ".git" not in file.relative_to(folder).parts
    }


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Make the files of a folder these, and no others."""
    for name in files_of(folder):
        (folder / name).unlink()
    for empty in sorted(
        (each for each in folder.rglob("*") if each.is_dir() and ".git" not in each.parts), reverse=True
    ):
        empty.rmdir()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with one commit, a change that is staged and one that is not."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    write(folder, {".gitignore": IGNORED.encode(), "a.txt": b"one\n", "sub/b.txt": b"two\n"})
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "Begin")
    (folder / "a.txt").write_text("staged\n")
    git(folder, "add", "a.txt")
    (folder / "a.txt").write_text("staged and more\n")
    return folder


def user_view(folder: Path) -> list[str]:
    """All that a user sees of a repository."""
    return [git(folder, *words) for words in (["status", "--porcelain"], ["diff"], ["diff", "--cached"], ["branch"])]


def test_files_are_restored_and_the_user_s_index_is_unchanged(project: Path) -> None:
    (project / "new.txt").write_text("not in git\n")
    (project / "x.log").write_text("left out\n")
    before, seen = files_of(project), user_view(project)
    worktree = GitWorktree.around(project / "sub")
    ref = worktree.keep("s/call_1", "why")
    assert user_view(project) == seen
    (project / "a.txt").write_text("spoilt\n")
    (project / "sub/b.txt").unlink()
    (project / "later.txt").write_text("new since\n")
    (project / "x.log").write_text("left out, and longer\n")
    spoilt = files_of(project)
    done = worktree.restore_files(ref, "before/7")
    assert (done.written, done.removed) == (2, 1)
    assert files_of(project) == before | {"x.log": b"left out, and longer\n"}
    assert user_view(project) == seen
    assert worktree.restore_files(done.ref, "before/8").written == 2
    assert files_of(project) == spoilt


names = st.sampled_from(
    ["a.txt", "b", "b/x", "sub/c.py", "sub/deep/d", "ü ñ.txt", "-dash", 'quo"te', "x.log", "build/out"]
)
data = st.sampled_from([b"", b"one\n", b"two\r\n", b"\x00\xff"])
trees = st.dictionaries(names, data, max_size=7).filter(lambda files: not {"b", "b/x"} <= files.keys())


@examples(40)
@given(then=trees, now=trees, ignored_then=st.booleans(), ignored_now=st.booleans())
def test_any_change_is_undone_except_for_ignored_files(
    tmp_path_factory: pytest.TempPathFactory,
    then: dict[str, bytes],
    now: dict[str, bytes],
    ignored_then: bool,
    ignored_now: bool,
) -> None:
    folder = tmp_path_factory.mktemp("project")
    git(folder, "init", "--quiet")
    worktree = GitWorktree.around(folder)
    hidden = {"x.log", "build/out"}
    write(folder, then | ({".gitignore": IGNORED.encode()} if ignored_then else {}))
    original = files_of(folder)
    ref = worktree.keep("s/call_1", "why")
    write(folder, now | ({".gitignore": IGNORED.encode()} if ignored_now else {}))
    spoilt = files_of(folder)
    done = worktree.restore_files(ref, "before/1")

    def seen(files: dict[str, bytes], *, but: bool) -> dict[str, bytes]:
        return {name: data for name, data in files.items() if not (but and name in hidden)}

    assert seen(files_of(folder), but=ignored_then or ignored_now) == seen(original, but=ignored_then or ignored_now)
    worktree.restore_files(done.ref, "before/2")
    again = files_of(folder)
    assert {name: data for name, data in spoilt.items() if again.get(name) != data} == {}


def test_hooks_and_the_file_monitor_do_not_run(project: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    trap.chmod(0o755)
    for hook in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit"):
        (project / ".git/hooks" / hook).symlink_to(trap)
    git(project, "config", "core.fsmonitor", str(trap))
    worktree = GitWorktree.around(project)
    ref = worktree.keep("s/call_1", "why")
    (project / "a.txt").write_text("spoilt\n")
    worktree.restore_files(ref, "before/1")
    assert not (tmp_path / "ran").exists()


def test_concurrent_calls_are_all_kept_and_a_stale_lock_is_removed(project: Path) -> None:
    worktree = GitWorktree.around(project)
    worktree.keep("s/call_0", "why")
    (worktree.ours / "index.lock").touch()
    threads = [threading.Thread(target=worktree.keep, args=(f"s/call_{number}", "why")) for number in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worktree.list_kept("s").keys() == {f"call_{number}" for number in range(6)}
    assert worktree.list_kept("other") == {}


def test_git_variables_are_ignored(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "--quiet")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    GitWorktree.around(project).keep("s/call_1", "why")
    monkeypatch.delenv("GIT_DIR")
    assert git(other, "for-each-ref") == ""
    assert "refs/mnemosyne/s/call_1" in git(project, "for-each-ref")


def test_a_folder_without_git_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="not in a git working tree"):
        GitWorktree.around(tmp_path)
    with pytest.raises(NotFound, match="not in a git working tree"):
        GitWorktree.around(tmp_path / "missing")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_skipped(project: Path) -> None:
    (project / "secret").write_text("mine\n")
    (project / "secret").chmod(0)
    worktree = GitWorktree.around(project)
    ref = worktree.keep("s/call_1", "why")
    assert git(project, "ls-tree", "-r", "--name-only", ref).split() == [".gitignore", "a.txt", "sub/b.txt"]


def test_git_error_is_reported_and_saves_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worktree = GitWorktree.around(project)
    worktree.keep("s/1", "why")
    with monkeypatch.context() as patch:
        patch.setattr(git_worktree, "LONGEST_SECONDS", 0.0)
        with pytest.raises(WorktreeFailed, match="git add took longer than 0 s"):
            worktree.keep("s/2", "why")
    git(project, "config", "filter.fails.clean", "false")
    git(project, "config", "filter.fails.required", "true")
    (project / ".gitattributes").write_text("a.txt filter=fails\n")
    (project / "a.txt").write_text("changed\n")
    with pytest.raises(WorktreeFailed, match=r"git add failed .*: clean filter 'fails' failed"):
        worktree.keep("s/2", "why")
    (project / ".gitattributes").unlink()
    assert list(worktree.list_kept("s")) == ["1"]
    with pytest.raises(WorktreeFailed, match=r"git update-ref failed in .*: .*bad\.\.name"):
        worktree.keep("bad..name", "why")


def test_a_damaged_index_and_a_failure_that_passes_lose_nothing(project: Path) -> None:
    worktree = GitWorktree.around(project)
    worktree.keep("s/1", "why")
    (worktree.ours / "index").write_text("damaged")  # a server was killed while it copied the user's
    (project / "new.txt").write_text("new\n")
    assert git(project, "show", f"{worktree.keep('s/2', 'why')}:new.txt") == "new\n"
    # As for a file that a program removes while git reads the folder.
    git(project, "config", "filter.once.clean", "test -e .git/failed && cat || { touch .git/failed; false; }")
    git(project, "config", "filter.once.required", "true")
    (project / ".gitattributes").write_text("*.txt filter=once\n")
    (project / "new.txt").write_text("newer\n")
    assert git(project, "show", f"{worktree.keep('s/3', 'why')}:new.txt") == "newer\n"
    assert (project / ".git/failed").exists()


def test_files_are_saved_whatever_their_line_ends(project: Path) -> None:
    for name in ("core.autocrlf", "core.safecrlf"):
        git(project, "config", name, "true")
    (project / "mixed.txt").write_bytes(b"one\ntwo\r\n")
    ref = GitWorktree.around(project).keep("s/1", "why")
    assert "mixed.txt" in git(project, "ls-tree", "--name-only", ref).split()


def test_files_read_too_late_are_not_saved_but_need_not_be_read_again(project: Path) -> None:
    worktree = GitWorktree.around(project)
    (project / "new.txt").write_text("new\n")
    with pytest.raises(WorktreeFailed, match="too long"):
        worktree.keep("s/1", "why", until=0.0)
    assert worktree.list_kept("s") == {}
    assert "new.txt" in worktree._git("ls-files").split()
