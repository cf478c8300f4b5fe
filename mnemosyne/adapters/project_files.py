"""The files in which a project says what it is."""

from collections.abc import Iterable
from pathlib import Path

from mnemosyne.regular_files import read_text

LONGEST = 200_000
"""Bytes of a file that are read."""


def read_files(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The texts of those that are there, by name. A link, or a file that cannot be read, is left out."""
    found = {}
    for name in names:
        try:
            found[name] = read_text(folder / name, LONGEST, follow_link=False)
        except OSError:
            continue
    return found
