"""Files that only their owner can read, for the content and the cost of sessions."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mnemosyne.errors import BadConfiguration


@contextmanager
def private_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that only its owner can read. It replaces ``path`` when the block ends without an exception. A pipe
    or a terminal is written to directly.

    Raises OSError.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()  # keep a symbolic link
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            yield file
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_private(path: Path, text: str) -> None:
    """Write a text in UTF-8. Raises BadConfiguration."""
    try:
        with private_file(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise BadConfiguration(f"{path} cannot be written: {error.strerror or error}.") from None
