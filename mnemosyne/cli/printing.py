"""Formatting of text, tables and values for terminals and JSON."""

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

from mnemosyne.figures import printable
from mnemosyne.terminal import harmless, json_text

PAGE_WIDTH = 110
"""Characters of a line of a paragraph, where there is no terminal."""


# All output of commands goes through these functions, because most of it is untrusted text.


def say(text: str = "", *, err: bool = False, nl: bool = True, bold: bool = False, fg: str | None = None) -> None:
    """Print a text on stdout, or on stderr; ``nl`` adds a line break."""
    safe = harmless(text)
    styled = (bold or fg) and not is_plain()
    click.echo(click.style(safe, bold=bold or None, fg=fg) if styled else safe, err=err, nl=nl)


def is_plain() -> bool:
    """Whether the user disabled colours (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def print_json(value: object) -> None:
    """Print one JSON value on stdout."""
    say(json_text(value, indent=2))


def fits_encoding(text: str) -> bool:
    """Whether stdout can show every character."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


# Tables

Row = Sequence[str]

Names = str | Sequence[str]
"""Headers, as a sequence or as one text separated by blanks."""

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"

LEAST_READABLE, LEAST = 12, 4
"""Minimum widths of text columns: first the one that stays readable; if the table still does not fit, the one that
only shows that there is text.
"""


def print_table(
    headers: Sequence[str],
    rows: Sequence[Row],
    *,
    right: Names = "",
    whole: Names = "",
    spare: Names = "",
    styles: Sequence[str] = (),
) -> None:
    """Print a table; ``styles`` has one entry for each row: empty, ``bold`` or a colour."""
    head, *lines = table_lines(headers, rows, right=right, whole=whole, spare=spare)
    styled = [_style(line, style) for line, style in zip(lines, styles or [""] * len(lines), strict=True)]
    click.echo("\n".join([_style(head, "bold"), *styled]))  # one call, because each call writes


def table_lines(
    headers: Sequence[str],
    rows: Sequence[Row],
    *,
    right: Names = "",
    whole: Names = "",
    spare: Names = "",
    width: int | None = None,
) -> list[str]:
    """The lines of a table, headers first, fitted to ``width`` in characters (default: the terminal's width; unlimited
    for a file or a pipe).

    ``right`` names the columns of numbers, which are aligned right. These and the ``whole`` columns are never cut. If
    the table is too wide, the other columns are cut; if they became unreadable, the ``spare`` columns are omitted, the
    last one first.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    places, gap = _places(headers, shown, right, whole, spare, terminal_width() if width is None else width)
    return ["".join(_cells(row, places, gap)).rstrip() for row in (headers, *shown)]


def _style(text: str, style: str) -> str:
    if not style or is_plain():
        return text
    return click.style(text, bold=True) if style == "bold" else click.style(text, fg=style)


def _places(
    headers: Sequence[str], rows: Sequence[Row], right: Names, whole: Names, spare: Names, room: int | None
) -> tuple[list[tuple[int, bool]], int]:
    """The width of each column (0 if omitted) and whether it contains numbers; and the gap between columns."""
    numbers, kept, droppable = map(_names, (right, whole, spare))
    widths, gap = fit(
        [max(map(_length, column)) for column in zip(headers, *rows, strict=True)],
        cuttable=[header not in numbers and header not in kept for header in headers],
        droppable=[headers.index(header) for header in reversed(droppable)],
        room=room,
    )
    return [(size, header in numbers) for size, header in zip(widths, headers, strict=True)], gap


def terminal_width() -> int | None:
    """The width in characters; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def fit(
    natural: Sequence[int], *, cuttable: Sequence[bool], droppable: Sequence[int], room: int | None
) -> tuple[list[int], int]:
    """The width of each column (0 if omitted), and the gap between columns."""
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
    """Shrink the widest column repeatedly, until the table fits or all columns have the minimum width."""
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


def _length(cell: str) -> int:
    # An ellipsis is one cell wide, so Rich need not be imported for it.
    if cell.replace(ELLIPSIS, ".").isascii():
        return len(cell)
    from rich.cells import cell_len

    return cell_len(cell)


def _cells(row: Row, places: Sequence[tuple[int, bool]], gap: int) -> Iterator[str]:
    """The pieces of a row: padding and cells."""
    there = [(cell, *place) for cell, place in zip(row, places, strict=True) if place[0]]
    for number, (cell, width, is_number) in enumerate(there):
        size = _length(cell)
        blanks = " " * max(0, width - size)
        yield " " * gap * bool(number) + blanks * is_number
        yield cell if size <= width else _shorten(cell, width)
        yield blanks * (not is_number)


_PATH = re.compile(r"(\w+ )?\S*/[^/ ]+")
"""A path, with at most one word before it."""


def _shorten(text: str, width: int) -> str:
    """Shorten a text at its end, and a path at its beginning, because its end distinguishes it."""
    from rich.cells import set_cell_size

    mark = ELLIPSIS if fits_encoding(ELLIPSIS) else "."
    path = _PATH.fullmatch(text) if text.isascii() else None
    if path is None:
        return set_cell_size(text, width - 1) + mark
    first = path[1] or ""
    first = first if 2 * len(first) < width else ""
    return first + mark + text[len(text) - width + len(first) + 1 :]


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr; without a terminal or colours, a line every few seconds. Yields a function that takes
    (done, total).
    """
    if not sys.stderr.isatty() or is_plain():
        yield _line_progress(label)
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


PROGRESS_SECONDS = 5.0
"""The interval between two lines of progress."""


def _line_progress(label: str) -> Callable[[int, int], None]:
    due = time.monotonic() + PROGRESS_SECONDS

    def report(done: int, total: int) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + PROGRESS_SECONDS
            say(f"{label}: {done:,} of {total:,}", err=True)

    return report
