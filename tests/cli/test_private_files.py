"""What is written of a session is its owner's alone, and whole or not there."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemosyne.cli.private_files import private_file, write_private


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture(autouse=True)
def _open_to_all() -> Iterator[None]:
    """What a file may be read by does not depend on the umask."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_file_is_readable_by_its_owner_alone_while_it_is_written_and_after(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    with private_file(path) as file:
        file.write(b"half")
        file.flush()
        assert [mode(each) for each in tmp_path.iterdir()] == [0o600]
        assert not path.exists()
    assert mode(path) == 0o600


def test_what_was_there_and_open_to_others_is_replaced_and_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "né")
    assert (path.read_text(encoding="utf-8"), mode(path)) == ("né", 0o600)


def test_what_was_there_is_kept_where_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(TypeError), private_file(path) as file:
        file.writelines([b"half", "no bytes"])  # type: ignore[list-item]
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"


def test_a_link_leads_where_it_led(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_private(link, "new")
    assert link.is_symlink()
    assert (target.read_text(), mode(target)) == ("new", 0o600)


def test_what_is_no_file_is_written_to_as_it_is() -> None:
    write_private(Path("/dev/null"), "gone")
    assert not Path("/dev/null").is_file()


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        write_private(tmp_path / "nowhere" / "x", "")
