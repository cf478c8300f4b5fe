"""Only the named files are read, only from the folder itself, and only so far."""

import os
from pathlib import Path

from mnemosyne.adapters import project_files
from mnemosyne.adapters.project_files import read_files


def test_files_that_are_there_are_read_and_links_and_folders_are_not(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_bytes(b"caf\xc3\xa9 \xff")
    (tmp_path / "secret").write_text("a key")
    (tmp_path / "Makefile").symlink_to(tmp_path / "secret")
    (tmp_path / "go.mod").mkdir()
    os.mkfifo(tmp_path / "Cargo.toml")
    found = read_files(tmp_path, ["README.md", "Makefile", "go.mod", "package.json", "Cargo.toml"])
    assert found == {"README.md": "caf\u00e9 \ufffd"}
    assert read_files(tmp_path / "gone", ["README.md"]) == {}


def test_a_long_file_is_read_to_its_bound(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("x" * (project_files.LONGEST + 10))
    assert len(read_files(tmp_path, ["README.md"])["README.md"]) == project_files.LONGEST
