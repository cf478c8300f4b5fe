"""The files of a session at a turn are found by the calls after it."""

import subprocess
from pathlib import Path

import pytest

from mnemosyne.app.hooks import HookEvent
from mnemosyne.app.worktrees import find_files, keep_before_call
from mnemosyne.errors import BadOption, NotFound


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
