"""Only regular files are opened, links only on request, and lines are bounded."""

import io
import os
from pathlib import Path

import pytest

from mnemosyne.regular_files import LineTooLong, open_regular, read_lines, read_text


def test_regular_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"caf\xc3\xa9 \xff and more")
    assert read_text(tmp_path / "a", 7) == "caf\u00e9 \ufffd"


def test_pipes_devices_and_folders_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for each in (tmp_path / "pipe", tmp_path / "link", tmp_path, Path("/dev/zero"), tmp_path / "gone"):
        with pytest.raises(OSError):  # noqa: PT011 -- of which kind differs between systems
            open_regular(each)


def test_link_to_a_regular_file_is_followed_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert read_text(tmp_path / "link", 10) == "text"
    with pytest.raises(OSError):  # noqa: PT011
        read_text(tmp_path / "link", 10, follow_link=False)


def test_lines_keep_their_ends_and_a_longer_one_is_refused_with_its_number() -> None:
    assert list(read_lines(io.BytesIO(b"ab\n\nabc"), 3)) == [b"ab\n", b"\n", b"abc"]
    lines = read_lines(io.BytesIO(b"ab\nabcd\nab"), 3)
    assert next(lines) == b"ab\n"
    with pytest.raises(LineTooLong, match="line 2 has more than 3 bytes"):
        next(lines)
