"""``mnemosyne timeline``: what happened in a session, turn by turn."""

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.cli.plotting import braille
from mnemosyne.cli.printing import fits_encoding, iso_time, local_time, print_json, say, show, table_of
from mnemosyne.cli.private_files import write_private
from mnemosyne.cli.read_models import watch as show_changes
from mnemosyne.cli.read_models import watch_option, with_read_models
from mnemosyne.cli.reading import json_option, log_of, log_options, session_argument
from mnemosyne.cli.windows import mode_text
from mnemosyne.errors import BadConfiguration, BadOption
from mnemosyne.figures import count_text, dollars, dollars_text, plural, printable, seconds_text
from mnemosyne.services.charts import COLOURS, line_chart
from mnemosyne.services.timeline import Timeline, read_timeline, total

PLOT_WIDTH, PLOT_HEIGHT = 60, 6

AROUND = PLOT_HEIGHT + 6
"""Lines that stand above and below the table."""

Row = Mapping[str, Any]


@click.command()
@session_argument
@click.option("--branch", metavar="BRANCH", help="Only this branch.")
@click.option(
    "--plot", "plot", type=click.Path(path_type=Path), metavar="FILE.svg", help="Draw the context's size, too."
)
@watch_option
@log_options()
@json_option
def timeline(
    session: str, branch: str | None, plot: Path | None, watch: bool, as_json: bool, **options: object
) -> None:
    """Show what happened in a session: every attempt at every turn in the order in which they began, what it read and
    wrote in the provider's tokens, what that cost at list prices, how long it took and how it ended. Between them
    stands when a branch began to be managed or ceased to be, and why.

    IN is what the provider computed anew, READ what it had in its cache, WRITE what it put there. Branches are indented
    under the one that they came from. Below stands how the context grew, in tokens over turns.

    It works beside a running server and without one.
    """
    if plot is not None and plot.suffix.lower() != ".svg":
        raise BadOption(f"--plot draws SVG; name a file that ends in .svg, not {plot.name!r}.")
    if watch and (as_json or plot is not None):
        raise click.UsageError("--watch goes with neither --json nor --plot.")
    config = log_of(options)

    async def read(models: OpenReadModels) -> Timeline:
        return await read_timeline(models, session, branch)

    if watch:
        show_changes(config, read, partial(_render, last=max(5, shutil.get_terminal_size().lines - AROUND)))
        return
    found = with_read_models(config, read)
    if plot is not None:
        _draw(found, plot)
    if as_json:
        print_json(_as_json(found))
    else:
        show(_render(found))


# For programs


def _as_json(found: Timeline) -> dict[str, Any]:
    return {
        "session": _plain(found.session),
        "branches": [_plain(row) for row in found.branches],
        "turns": [_turn_as_json(row) for row in found.turns],
        "gaps": [_plain(row) for row in found.gaps],
        "modes": [_plain(row) for row in found.modes],
    }


def _turn_as_json(row: Row) -> dict[str, Any]:
    shown = _plain(row)
    return {
        **{name: value for name, value in shown.items() if name != "nanodollars"},
        "dollars": dollars(row["nanodollars"]),
    }


_TIMES = {"at", "since"}


def _plain(row: Row) -> dict[str, Any]:
    """A row as JSON values: times as text, ids as text."""
    shown = {}
    for name, value in row.items():
        if name in _TIMES or (name.endswith("_at") and name != "forked_at"):
            shown[name] = iso_time(value or 0)
        else:
            shown[name] = str(value) if name == "stream" else value
    return shown


# For people


def _render(found: Timeline, *, last: int | None = None) -> RenderableType:
    """All of it, or only the ``last`` lines of the table."""
    parts: list[RenderableType] = [_headline(found), _table(found, last)]
    if chart := _chart(found):
        parts.append(chart)
    return Group(*parts)


def _headline(found: Timeline) -> RenderableType:
    row = found.session
    client = " ".join(filter(None, (row["client"], row["client_version"])))
    turns = len({(turn["branch"], turn["turn"]) for turn in found.turns})
    facts = [
        client or "unknown client",
        row["model"],
        local_time(row["started_at"] or 0)[:DATE],
        plural(len(found.branches), "branch"),
        plural(turns, "turn"),
        dollars_text(found.nanodollars),
        "its content was forgotten" if row["forgotten_at"] else None,
    ]
    text = Text(printable(row["external_id"] or row["stream"]), style="bold")
    return text.append("  " + " · ".join(printable(fact) for fact in facts if fact), style="default not bold")


HEADERS = ("TURN", "WHEN", "MODEL", "IN", "READ", "WRITE", "OUT", "COST", "TOOK", "END")
NUMBERS = "WHEN IN READ WRITE OUT COST TOOK"


def _table(found: Timeline, last: int | None) -> RenderableType:
    depths = _depths(found.branches)
    days = {local_time(row["began_at"])[:DATE] for row in found.turns}
    clock = _time_of_day if len(days) == 1 else local_time
    lines = [(row["version"], _cells(row, depths, clock), _style(row)) for row in found.turns]
    lines += [(row["version"], _gap(row, clock), "yellow") for row in found.gaps]
    lines += [(row["version"], _mode(row, depths, clock), "dim") for row in found.modes]
    lines.sort(key=lambda line: line[0])
    if last is not None:
        lines = lines[-last:]
    rows, styles = [row for _, row, _ in lines], [style for *_, style in lines]
    return table_of(HEADERS, rows, right=NUMBERS, spare="MODEL TOOK", styles=styles)


DATE = len("2026-11-21")


def _time_of_day(at: int) -> str:
    return local_time(at)[DATE:].strip()


def _depths(branches: Sequence[Row]) -> dict[str, int]:
    """How far each branch is from one that hangs on nothing."""
    depths: dict[str, int] = {}
    for row in branches:  # a branch is opened after the one that it came from
        depths[row["branch"]] = depths.get(row["parent"], -1) + 1 if row["parent"] else 0
    return depths


def _cells(row: Row, depths: Mapping[str, int], clock: Callable[[int], str]) -> tuple[str, ...]:
    attempt = f".{row['attempt']}" if row["attempt"] > 1 else ""
    written = total(row, ("cache_write_5m_tokens", "cache_write_1h_tokens"))
    took = row["ended_at"] - row["began_at"] if row["ended_at"] is not None else None
    return (
        f"{'  ' * depths.get(row['branch'], 0)}{row['branch']} {row['turn']}{attempt}",
        clock(row["began_at"]),
        _model(row["reply_model"] or row["model"]),
        count_text(row["input_tokens"]),
        count_text(row["cache_read_tokens"]),
        count_text(written),
        count_text(row["output_tokens"]),
        dollars_text(row["nanodollars"]) if row["input_tokens"] is not None else "-",
        seconds_text(took),
        _end(row),
    )


def _model(name: str | None) -> str:
    """The model without what is the same for all of them."""
    return re.sub(r"-\d{8}$", "", printable(name or "-").removeprefix("claude-"))


def _end(row: Row) -> str:
    match row["state"]:
        case "open":
            return "(not ended)"
        case "interrupted":
            return f"interrupted: {printable(row['reason'])}"
    if row["error_type"] or (row["status"] or 0) >= 400:
        return f"{row['status']} {printable(row['error_type'] or '')}".strip()
    return printable(row["stop_reason"] or "-")


def _style(row: Row) -> str:
    if row["state"] == "finished":
        return "red" if row["error_type"] or (row["status"] or 0) >= 400 else ""
    return "yellow"


def _gap(row: Row, clock: Callable[[int], str]) -> tuple[str, ...]:
    text = f"{plural(row['turns'], 'turn')} not recorded: {printable(row['reason'])}"
    return _remark("(gap)", clock(row["since"]), text)


def _mode(row: Row, depths: Mapping[str, int], clock: Callable[[int], str]) -> tuple[str, ...]:
    name = f"{'  ' * depths.get(row['branch'], 0)}{row['branch']}"
    return _remark(name, clock(row["at"]), mode_text(row["mode"], printable(row["why"])))


def _remark(name: str, when: str, text: str) -> tuple[str, ...]:
    """A line that is no turn's."""
    return (name, when, *[""] * (len(HEADERS) - 3), text)


# Pictures


def _chart(found: Timeline) -> RenderableType | None:
    """The longest line, where the terminal can show it."""
    lines = found.context_sizes
    longest = max(lines, key=lambda branch: len(lines[branch]), default=None)
    if longest is None or len(lines[longest]) < 2:
        return None
    rows = braille([tokens for _, tokens in lines[longest]], width=PLOT_WIDTH, height=PLOT_HEIGHT)
    picture = "\n".join(["", f"context of {longest}, in tokens over turns", *rows])
    return Text(picture) if fits_encoding(picture) else None


def _draw(found: Timeline, file: Path) -> None:
    """The lines of the longest branches; more would not be told apart."""
    name = printable(found.session["external_id"] or found.session["stream"])
    lines = sorted(found.context_sizes.items(), key=lambda line: -len(line[1]))[: len(COLOURS)]
    picture = line_chart(f"Context of {name}", dict(lines), across="turn", up="tokens")
    try:
        write_private(file, picture)
    except OSError as error:
        raise BadConfiguration(f"The picture {file} cannot be written: {error.strerror or error}.") from None
    say(f"The picture is in {file}.", err=True)
