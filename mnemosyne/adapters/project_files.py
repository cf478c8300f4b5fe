"""The files in which a project says what it is."""

from collections.abc import Iterable
from pathlib import Path

LONGEST = 200_000
"""Characters of a file that are read."""


def read_files(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The texts of those that are there, by name. A link, or a file that cannot be read, is left out."""
    found = {}
    for name in names:
        path = folder / name
        try:
            if path.is_symlink() or not path.is_file():
                continue
            with path.open(encoding="utf-8", errors="replace") as file:
                found[name] = file.read(LONGEST)
        except OSError:
            continue
    return found
