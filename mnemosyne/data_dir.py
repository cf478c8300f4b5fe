"""The data directory: its files outside the database, and its permissions: only its owner can read it."""

import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

from mnemosyne.errors import BadConfiguration
from mnemosyne.memory_key import MemoryKey

TOKEN_FILE = "token"
MEMORY_KEY_FILE = "memory-key"
LOG_FILE = "server.log"

LARGEST_LOG = 1024 * 1024
"""Bytes after which a server's log is renamed when the next server starts."""


def prepare_data_dir(data_dir: Path) -> None:
    """Create the data directory, for its owner only."""
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadConfiguration(
            f"The data directory {data_dir} cannot be created: {error.strerror or error}. "
            "Choose another with --data-dir."
        ) from None
    refuse_shared(data_dir, data_dir.stat())


def refuse_shared(data_dir: Path, status: os.stat_result) -> None:
    """Raise BadConfiguration if other users can replace the files."""
    if status.st_uid not in (os.geteuid(), 0):
        raise BadConfiguration(
            f"data_dir = {str(data_dir)!r} belongs to another user: run as its owner, or choose another directory."
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        whom = "every user of this machine" if status.st_mode & stat.S_IWOTH else "its group"
        raise BadConfiguration(
            f"data_dir = {str(data_dir)!r} can be written by {whom}: choose another one, or run `chmod go-w` on it."
        )


def local_token(data_dir: Path) -> str:
    """The token for the server's own pages, created at first use, readable by its owner only."""
    return _read_or_make(data_dir / TOKEN_FILE)


def memory_key(data_dir: Path) -> MemoryKey:
    """The key that identifies the owner of memory, created at first use, readable by its owner only."""
    return MemoryKey(_read_or_make(data_dir / MEMORY_KEY_FILE).encode())


def _read_or_make(path: Path) -> str:
    try:
        if not path.exists():
            _write_once(path, secrets.token_urlsafe(32))
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadConfiguration(f"The {path.name} file {path} cannot be used: {reason}.") from None
    if not text:
        raise BadConfiguration(f"The {path.name} file {path} is empty. Remove it, so that a new one is created.")
    return text


def existing_token(data_dir: Path) -> str | None:
    """The token, if a server has made one and we may read it."""
    try:
        return (data_dir / TOKEN_FILE).read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def open_server_log(data_dir: Path) -> BinaryIO:
    """Open the log of background servers for appending; a long one is renamed first."""
    path = data_dir / LOG_FILE
    try:
        if path.exists() and path.stat().st_size > LARGEST_LOG:
            path.replace(path.with_name(f"{LOG_FILE}.1"))
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise BadConfiguration(
            f"The server's log {path} cannot be written: {error.strerror or error}. Choose another --data-dir."
        ) from None
    return os.fdopen(handle, "ab", buffering=0)


def _write_once(path: Path, text: str) -> None:
    """Create a private file atomically; if another process was first, its file stays."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
