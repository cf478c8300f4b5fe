"""Files with the content of sessions are private, and complete or absent."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemosyne.cli.private_files import private_file, write_private
from mnemosyne.errors import BadConfiguration


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture(autouse=True)
def _open_to_all() -> Iterator[None]:
    """Permissions do not depend on the umask."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_file_is_private_while_it_is_written_and_replaces_an_open_one(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    path.chmod(0o644)
    with private_file(path) as file:
        file.write("né".encode())
        file.flush()
        (draft,) = (other for other in tmp_path.iterdir() if other != path)
        assert (mode(draft), path.read_text()) == (0o600, "old")
    assert (path.read_text(encoding="utf-8"), mode(path)) == ("né", 0o600)


def test_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(TypeError), private_file(path) as file:
        file.writelines([b"half", "no bytes"])  # type: ignore[list-item]
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"


def test_symbolic_link_stays_and_a_device_is_written_directly(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_private(link, "new")
    assert link.is_symlink()
    assert (target.read_text(), mode(target)) == ("new", 0o600)
    write_private(Path("/dev/null"), "gone")
    assert not Path("/dev/null").is_file()
    with pytest.raises(BadConfiguration, match=r"nowhere/x cannot be written: No such file or directory\."):
        write_private(tmp_path / "nowhere" / "x", "")
