"""What a run did to its folder, as a text."""

import difflib
import filecmp
import os
from collections.abc import Iterator
from pathlib import Path

LONGEST_CHANGES, LONGEST_CHANGE = 12_000, 5_000
"""Maximum length in characters of the changes of all files, and of one."""

LARGEST, MOST_FILES = 200_000, 20_000
"""Maximum size in bytes of a file whose changes are shown, and maximum number of files that are compared."""

_REPOSITORY = ".git"


def describe_changes(before: Path | None, after: Path) -> str:
    """The differences of a folder from the one that it is a copy of, or from an empty one: changed files first, then
    removed and new ones. Links and git's own files are ignored; large and binary files have their size only.
    """
    try:
        return _describe_all(before, after)
    except OSError as error:
        return f"The files cannot be read: {error.strerror or error}."


def _describe_all(before: Path | None, after: Path) -> str:
    old, new = {} if before is None else _list_files(before), _list_files(after)
    changed = [name for name in old.keys() & new.keys() if not filecmp.cmp(old[name], new[name])]
    parts: list[str] = []
    for name in (*sorted(changed), *sorted(old.keys() - new.keys()), *sorted(new.keys() - old.keys())):
        part = "\n".join(_describe(name, old.get(name), new.get(name)))[:LONGEST_CHANGE]
        if sum(map(len, parts)) + len(part) > LONGEST_CHANGES:
            part = f"{name}: {'changed' if name in old and name in new else 'new' if name in new else 'removed'}"
        parts.append(part)
    return "\n".join(parts)[:LONGEST_CHANGES]


def _list_files(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != _REPOSITORY)
        for name in sorted(names):
            path = Path(place) / name
            if len(found) < MOST_FILES and path.is_file() and not path.is_symlink():
                found[str(path.relative_to(folder)).encode("utf-8", "replace").decode()] = path
    return found


def _describe(name: str, before: Path | None, after: Path | None) -> Iterator[str]:
    old, new = (_read(path) for path in (before, after))
    if old is None or new is None:
        size = "removed" if after is None else f"{after.stat().st_size:,} bytes"
        yield f"{name}: {size}"
        return
    one, other = (name if path else "/dev/null" for path in (before, after))
    yield from difflib.unified_diff(old.splitlines(), new.splitlines(), one, other, n=2, lineterm="")


def _read(path: Path | None) -> str | None:
    """The text of a file, empty if there is none; None if it is large, binary or unreadable."""
    try:
        return "" if path is None else path.read_text("utf-8") if path.stat().st_size <= LARGEST else None
    except (OSError, ValueError):
        return None
