"""The line that the index keeps for an evicted object: enough to recognize it and to ask for it."""

from collections.abc import Sequence

from mnemosyne.domain.objects.kinds import KINDS
from mnemosyne.domain.objects.units import Description
from mnemosyne.domain.text.stubs import ELLIPSIS, plain

LINE = 80
"""The maximum length of a line, in characters; the parts of a merged object share it."""

NAMED = 16
"""How many characters of a command, after the tool's name, distinguish it from others."""


def index_line(stub: str, parts: Sequence[Description]) -> str:
    """Return tool and source, or those of each part."""
    if len(parts) == 1:
        return _line(parts[0], LINE)
    lines = [_line(part, len(part.tool or "") + 2 + NAMED) for part in parts]
    return "; ".join(dict.fromkeys(lines)) or plain(stub, LINE)


def _line(part: Description, room: int) -> str:
    """Return a part's line. A path keeps its end, always including the whole file name; a command keeps its
    beginning.
    """
    path = path_of(part)
    if path is None:
        return plain(without_facts(part), room)
    line = f"{part.tool or 'file'} {path}"
    if len(line) <= room:
        return plain(line, room)
    name = last_part(path)
    start = max(len(path) - len(name) - max(0, room - len(name) - len(part.tool or "file") - 2), 0)
    return plain(f"{part.tool or 'file'} {ELLIPSIS}{path[start:]}", len(line))


def path_of(part: Description) -> str | None:
    """Return the path of the file that a part is about, or None."""
    return part.key if KINDS[part.kind].is_file else None


def last_part(path: str) -> str:
    """Return the name of a file without its folders."""
    return path.rstrip("/").rpartition("/")[2] or path


def without_facts(part: Description) -> str:
    """Return the stub without the facts in brackets at its end."""
    return part.stub.rpartition(" (")[0] or part.stub if part.stub.endswith(")") else part.stub
