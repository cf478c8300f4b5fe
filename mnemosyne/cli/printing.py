"""How values look on a terminal, and in JSON."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import click

Row = Sequence[str]

_UNITS = ("B", "KB", "MB", "GB", "TB")


def print_json(value: object) -> None:
    """One JSON value on stdout."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(headers: Row, rows: Sequence[Row], *, right: str = "") -> None:
    """Columns as wide as they need to be; the headers in ``right`` name those that are numbers."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    numbers = {index for index, header in enumerate(headers) if header in right.split()}

    def line(row: Row) -> str:
        cells = (
            cell.rjust(width) if index in numbers else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    click.secho(line(headers), bold=True)
    click.echo("".join(f"{line(row)}\n" for row in rows), nl=False)


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
