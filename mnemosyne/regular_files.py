"""Read untrusted files: regular files only, and in bounded pieces.

Opening a pipe without a writer blocks, and some devices never end. A file's type is checked after it is opened, so it
cannot be replaced in between.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO


class LineTooLong(ValueError):
    """A line is longer than its reader takes; ``number`` counts from 1."""

    def __init__(self, number: int, longest: int) -> None:
        super().__init__(f"line {number} has more than {longest:,} bytes")
        self.number = number


def open_regular(path: Path, *, follow_link: bool = True) -> IO[bytes]:
    """Open a regular file for reading; raises OSError for anything else, at once."""
    # O_NONBLOCK returns at once from a pipe (open(2)), and changes nothing for a regular file.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_link else os.O_NOFOLLOW)
    file = open(os.open(path, flags), "rb")  # noqa: SIM115 -- it is the caller's to close
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def read_text(path: Path, longest: int, *, follow_link: bool = True) -> str:
    """At most ``longest`` bytes of a regular file as text; invalid UTF-8 is replaced. Raises OSError."""
    with open_regular(path, follow_link=follow_link) as file:
        return file.read(longest).decode("utf-8", "replace")


def read_whole(path: Path, longest: int) -> bytes:
    """All bytes of a file that the user named, which may be a pipe or a device. Raises OSError, also if it has more
    than ``longest`` bytes.
    """
    with path.open("rb") as file:
        data = file.read(longest + 1)
    if len(data) > longest:
        raise OSError(errno.EFBIG, f"it has more than {longest:,} bytes", str(path))
    return data


def read_files(folder: Path, names: Iterable[str], longest: int) -> dict[str, str]:
    """At most ``longest`` bytes of each file that is there, by name. Links and unreadable files are left out."""
    found = {}
    for name in names:
        try:
            found[name] = read_text(folder / name, longest, follow_link=False)
        except OSError:
            continue
    return found


def read_lines(file: IO[bytes], longest: int) -> Iterator[bytes]:
    """The lines of a file, with their ends, each of at most ``longest`` bytes. Raises LineTooLong before more than that
    is in memory.
    """
    number = 1
    while line := file.readline(longest + 1):
        if len(line) > longest:
            raise LineTooLong(number, longest)
        yield line
        number += 1
