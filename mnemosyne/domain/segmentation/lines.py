"""The line that the index keeps of an object that left the window: enough to know it by, and to ask for it."""

from collections.abc import Sequence

from mnemosyne.domain.objects.kinds import KINDS
from mnemosyne.domain.objects.units import Description
from mnemosyne.domain.text.stubs import plain

LINE = 80
"""Characters of a line; of one that holds many calls, each has some."""

NAMED = 16
"""So much of a command, after the tool's name, tells it from others."""


def index_line(stub: str, parts: Sequence[Description]) -> str:
    """Tool and source, or those of each of its parts."""
    if len(parts) == 1:
        return _line(parts[0], LINE)
    each = [_line(part, len(part.tool or "") + 2 + NAMED) for part in parts]
    return "; ".join(dict.fromkeys(each)) or plain(stub, LINE)


def _line(part: Description, room: int) -> str:
    """Of a path the end is kept and its last part is always whole, of a command the beginning."""
    path = path_of(part)
    if path is None:
        return plain(without_facts(part), room)
    said = f"{part.tool or 'file'} {path}"
    if len(said) <= room:
        return plain(said, room)
    name = last_part(path)
    start = max(len(path) - len(name) - max(0, room - len(name) - len(part.tool or "file") - 2), 0)
    return plain(f"{part.tool or 'file'} …{path[start:]}", len(said))


def path_of(part: Description) -> str | None:
    """The file that a part is about."""
    return part.key if KINDS[part.kind].is_file else None


def last_part(path: str) -> str:
    """The name of a file without its folders."""
    return path.rstrip("/").rpartition("/")[2] or path


def without_facts(part: Description) -> str:
    """The stub without the facts in brackets at its end."""
    return part.stub.rpartition(" (")[0] or part.stub if part.stub.endswith(")") else part.stub
