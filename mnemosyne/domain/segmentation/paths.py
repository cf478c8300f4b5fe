"""Paths as source keys: the same file, the same key."""

import posixpath
import re

LONGEST = 400
"""Characters of a path; what is longer is none."""


def normal(path: str, folder: str = "") -> str:
    """A path without detours, below a folder if it is relative. Windows' separators become slashes."""
    path = path.strip().strip("\"'")[: LONGEST + 1].replace("\\", "/")
    joined = posixpath.normpath(posixpath.join(folder, path)) if path else ""
    return joined[1:] if joined.startswith("//") else joined


_ABSOLUTE = re.compile(r"/|~|[A-Za-z]:/")


def is_relative(path: str) -> bool:
    """Whether a normal path means another file in another folder."""
    return _ABSOLUTE.match(path) is None


def is_path(text: object) -> bool:
    """Whether a text can be a path at all."""
    return isinstance(text, str) and 0 < len(text.strip()) <= LONGEST and "\n" not in text
