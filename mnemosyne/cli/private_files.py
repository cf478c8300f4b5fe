"""Files that hold what was said in a session, or what it cost: for the eyes of their owner alone."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def private_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to. It takes its name once the block has ended well, and nobody else may read it then or before;
    what had that name is kept until then. Where the name is that of a pipe or a terminal, that is written to.

    Raises OSError.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()  # a link stays one
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            yield file
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_private(path: Path, text: str) -> None:
    """Write a text in UTF-8. Raises OSError."""
    with private_file(path) as file:
        file.write(text.encode())
