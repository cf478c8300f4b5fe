"""Paths as source keys: the same file has the same key."""

import posixpath
import re

LONGEST = 400
"""The maximum length of a path, in characters; longer texts are not paths."""


def normal(path: str, folder: str = "") -> str:
    """Normalize a path; a relative one is resolved against ``folder``. Windows' separators become slashes."""
    path = path.strip().strip("\"'")[: LONGEST + 1].replace("\\", "/")
    joined = posixpath.normpath(posixpath.join(folder, path)) if path else ""
    return joined[1:] if joined.startswith("//") else joined


_ABSOLUTE = re.compile(r"/|~|[A-Za-z]:/")


def is_relative(path: str) -> bool:
    """Return whether a normalized path means a different file in another folder."""
    return _ABSOLUTE.match(path) is None


def is_path(text: object) -> bool:
    """Return whether a text can be a path."""
    return isinstance(text, str) and 0 < len(text.strip()) <= LONGEST and "\n" not in text
