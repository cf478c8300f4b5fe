"""The content of the data directory and its permissions."""

import os
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from mnemosyne.data_dir import (
    LARGEST_LOG,
    existing_token,
    local_token,
    memory_key,
    open_server_log,
    prepare_data_dir,
    refuse_shared,
)
from mnemosyne.errors import BadConfiguration


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_directory_and_its_content_are_private_to_the_owner(tmp_path: Path) -> None:
    data_dir = tmp_path / "deep/data"
    prepare_data_dir(data_dir)
    prepare_data_dir(data_dir)
    token = local_token(data_dir)
    key = memory_key(data_dir)
    open_server_log(data_dir).close()
    assert mode(data_dir / "memory-key") == 0o600
    assert key == memory_key(data_dir)
    assert (mode(data_dir), mode(data_dir / "token"), mode(data_dir / "server.log")) == (0o700, 0o600, 0o600)
    assert token == local_token(data_dir) == existing_token(data_dir)
    assert sorted(path.name for path in data_dir.iterdir()) == ["memory-key", "server.log", "token"]


def test_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadConfiguration, match=r"cannot be created: .*--data-dir"):
        prepare_data_dir(tmp_path / "file")
    with pytest.raises(BadConfiguration, match="cannot be written"):
        open_server_log(tmp_path / "missing")
    (tmp_path / "token").mkdir()
    with pytest.raises(BadConfiguration, match="cannot be used: Is a directory"):
        local_token(tmp_path)


def test_empty_memory_key_is_refused_as_guessable(tmp_path: Path) -> None:
    (tmp_path / "memory-key").write_text("\n")
    with pytest.raises(BadConfiguration, match="is empty"):
        memory_key(tmp_path)


def test_no_token_exists_before_the_first_server(tmp_path: Path) -> None:
    assert existing_token(tmp_path) is None
    (tmp_path / "token").write_bytes(b"\xff")
    assert existing_token(tmp_path) is None
    with pytest.raises(BadConfiguration, match="it is not text"):
        local_token(tmp_path)


def test_log_file_is_appended_until_it_is_long(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        with open_server_log(tmp_path) as log:
            log.write(text)
    assert (tmp_path / "server.log").read_bytes() == b"one\ntwo\n"
    (tmp_path / "server.log").write_bytes(b"x" * (LARGEST_LOG + 1))
    with open_server_log(tmp_path) as log:
        assert log.tell() == 0
    assert (tmp_path / "server.log.1").stat().st_size == LARGEST_LOG + 1


@pytest.mark.parametrize(("bits", "whom"), [(0o777, "every user"), (0o770, "its group"), (0o1702, "every user")])
def test_directory_writable_by_others_is_refused(bits: int, whom: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(bits)
    with pytest.raises(BadConfiguration, match=f"can be written by {whom}.*chmod go-w"):
        prepare_data_dir(tmp_path / "data")
    (tmp_path / "data").chmod(0o755)
    prepare_data_dir(tmp_path / "data")


def test_directory_of_another_user_is_refused_unless_it_is_root(tmp_path: Path) -> None:
    status = tmp_path.stat()
    for owner, is_refused in ((os.geteuid(), False), (0, False), (os.geteuid() + 1, True)):
        owned = os.stat_result((stat.S_IFDIR | 0o700, 0, 0, 0, owner, *tuple(status)[5:10]))
        with pytest.raises(BadConfiguration, match="belongs to another user") if is_refused else nullcontext():
            refuse_shared(tmp_path, owned)
