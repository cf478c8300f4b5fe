"""How values look on a terminal, and in JSON."""

import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

import click

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

PAGE_WIDTH = 110

_UNITS = ("B", "KB", "MB", "GB", "TB")


def print_json(value: object) -> None:
    """One JSON value on stdout."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def show(renderable: "RenderableType") -> None:
    """Print what is laid out. A file or a pipe has no width that lines would have to be cut to; paragraphs of a table
    have that of a page there.
    """
    from rich.console import Console

    if sys.stdout.isatty():
        Console(highlight=False).print(renderable)
        return
    console = Console(file=io.StringIO(), width=PAGE_WIDTH, highlight=False)
    with console.capture() as capture:
        console.print(renderable, soft_wrap=True)
    click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def fits_encoding(text: str) -> bool:
    """Whether stdout can show every character."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


# Tables

Row: TypeAlias = "Sequence[str | Text]"

Names = str | Sequence[str]
"""Headers; as one text, with blanks in between."""

LEAST_READABLE, LEAST = 12, 4
"""Columns of text are cut to so many characters: first to what can still be read, and where that does not help, to what
still shows that there is something.
"""


def print_table(
    headers: Sequence[str], rows: Sequence[Row], *, right: Names = "", whole: Names = "", spare: Names = ""
) -> None:
    """Print what ``table_of`` makes of it."""
    show(table_of(headers, rows, right=right, whole=whole, spare=spare))


def table_of(
    headers: Sequence[str],
    rows: Sequence[Row],
    *,
    right: Names = "",
    whole: Names = "",
    spare: Names = "",
    styles: Sequence[str] = (),
    width: int | None = None,
) -> "Text":
    """A table; ``styles`` has one for each row, if any. On a terminal no line is wider than that.

    The headers in ``right`` are those of numbers; neither these columns nor the ``whole`` ones are ever cut. Where it
    does not fit, columns of text are cut; where they would be hard to read, the ``spare`` columns are left out, the
    last first. ``width`` is in characters; without one it is the terminal's, and a file or a pipe has none.
    """
    from rich.text import Text

    numbers, kept, droppable = map(_names, (right, whole, spare))
    natural = [max(map(_length, column)) for column in zip(headers, *rows, strict=True)]
    widths, gap = fit(
        natural,
        cuttable=[header not in numbers and header not in kept for header in headers],
        droppable=[headers.index(header) for header in reversed(droppable)],
        room=terminal_width() if width is None else width,
    )
    places = [(size, header in numbers) for size, header in zip(widths, headers, strict=True)]
    lines = [_line(headers, places, gap, "bold")]
    lines += [_line(row, places, gap, style) for row, style in zip(rows, styles or [""] * len(rows), strict=True)]
    return Text("\n", no_wrap=True, overflow="ignore").join(lines)


def terminal_width() -> int | None:
    """In characters; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def fit(
    natural: Sequence[int], *, cuttable: Sequence[bool], droppable: Sequence[int], room: int | None
) -> tuple[list[int], int]:
    """The width of each column, 0 for one that is left out, and the blanks between two columns."""
    kept = list(natural)
    if room is None or _total(kept, 2) <= room:
        return kept, 2
    for dropped in (None, *droppable):
        if dropped is not None:
            kept[dropped] = 0
        widths = _cut(kept, cuttable, LEAST_READABLE, room)
        if _total(widths, 1) <= room:
            return widths, 1
    return _cut(kept, cuttable, LEAST, room), 1


def _cut(widths: Sequence[int], cuttable: Sequence[bool], least: int, room: int) -> list[int]:
    """Take from the widest column again and again, until all fit, or all are as narrow as they may be."""
    cut = list(widths)
    while _total(cut, 1) > room:
        wide = [index for index, may in enumerate(cuttable) if may and cut[index] > least]
        if not wide:
            break
        cut[max(wide, key=cut.__getitem__)] -= 1
    return cut


def _total(widths: Sequence[int], gap: int) -> int:
    there = [width for width in widths if width]
    return sum(there) + gap * (len(there) - 1)


def _names(names: Names) -> Sequence[str]:
    return names.split() if isinstance(names, str) else names


def _length(cell: "str | Text") -> int:
    from rich.cells import cell_len

    return cell_len(cell if isinstance(cell, str) else cell.plain)


def _line(row: Row, places: Sequence[tuple[int, bool]], gap: int, style: str) -> "Text":
    """A row in its columns: how wide each is, and whether it is one of numbers."""
    from rich.text import Text

    there = [(cell, *place) for cell, place in zip(row, places, strict=True) if place[0]]
    line = Text(style=style)
    for number, (cell, width, is_number) in enumerate(there):
        blanks = " " * max(0, width - _length(cell))
        line.append(" " * gap * bool(number) + blanks * is_number)
        line.append(_shortened(cell, width))
        line.append(blanks * (not is_number))
    line.rstrip()
    return line


def _shortened(cell: "str | Text", width: int) -> "str | Text":
    from rich.cells import set_cell_size

    if _length(cell) <= width:
        return cell
    mark = "…" if fits_encoding("…") else "."
    return set_cell_size(cell if isinstance(cell, str) else cell.plain, width - 1) + mark


# Values


def bytes_text(count: int) -> str:
    """A number of bytes for people."""
    size, unit = float(count), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def local_time(at: int) -> str:
    """A time (µs of UTC) for people, where they are."""
    return datetime.fromtimestamp(at / 1e6, tz=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S") if at else "-"


def iso_time(at: int) -> str | None:
    """A time (µs of UTC) for programs."""
    if not at:
        return None
    return datetime.fromtimestamp(at / 1e6, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def plural(count: int, noun: str) -> str:
    """``1 turn``, ``2 turns``; ``1 branch``, ``2 branches``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{'es' if noun.endswith('ch') else 's'}"


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr where that is a terminal; what it gives takes (done, of how many)."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
