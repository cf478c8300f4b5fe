"""``mnemosyne timeline``: a session turn by turn."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from mnemosyne.cli.log_access import log_of, prints, session_argument, with_read_models
from mnemosyne.cli.printing import print_table, say
from mnemosyne.cli.settings import log_options
from mnemosyne.cli.windows import mode_text
from mnemosyne.figures import count_text, dollars, dollars_text, iso_time, local_time, plural, printable, seconds_text
from mnemosyne.services.timeline import Timeline, read_timeline, total

Row = Mapping[str, Any]


def _as_json(found: Timeline) -> dict[str, Any]:
    return {
        "session": _plain(found.session),
        "branches": [_plain(row) for row in found.branches],
        "turns": [_plain(row) for row in found.turns],
        "gaps": [_plain(row) for row in found.gaps],
        "modes": [_plain(row) for row in found.modes],
    }


def _plain(row: Row) -> dict[str, Any]:
    """A row as JSON values: times and ids as text, amounts in dollars."""
    shown: dict[str, Any] = {}
    for name, value in row.items():
        if name == "nanodollars":
            shown["dollars"] = dollars(value)
        elif name in ("at", "since") or (name.endswith("_at") and name != "forked_at"):
            shown[name] = iso_time(value or 0)
        else:
            shown[name] = str(value) if name == "stream" else value
    return shown


def _print(found: Timeline) -> None:
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
    say(printable(row["external_id"] or row["stream"]), bold=True, nl=False)
    say("  " + " · ".join(printable(fact) for fact in facts if fact))
    _print_table(found)


HEADERS = ("TURN", "WHEN", "MODEL", "IN", "READ", "WRITE", "OUT", "COST", "TOOK", "END")
NUMBERS = "WHEN IN READ WRITE OUT COST TOOK"


def _print_table(found: Timeline) -> None:
    depths = _depths(found.branches)
    days = {local_time(row["began_at"])[:DATE] for row in found.turns}
    clock = _time_of_day if len(days) == 1 else local_time
    lines = [(row["version"], _cells(row, depths, clock), _style(row)) for row in found.turns]
    lines += [(row["version"], _gap(row, clock), "yellow") for row in found.gaps]
    lines += [(row["version"], _mode(row, depths, clock), "") for row in found.modes]
    lines.sort(key=lambda line: line[0])
    rows, styles = [row for _, row, _ in lines], [style for *_, style in lines]
    print_table(HEADERS, rows, right=NUMBERS, whole="TURN", spare="MODEL TOOK", styles=styles)


DATE = len("2026-11-21")


def _time_of_day(at: int) -> str:
    return local_time(at)[DATE:].strip()


def _depths(branches: Sequence[Row]) -> dict[str, int]:
    """The depth of each branch in the tree of branches."""
    depths: dict[str, int] = {}
    for row in branches:  # a branch is opened after its parent
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
    """The model name without the common prefix and the date."""
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
    """A row that is not a turn."""
    return (name, when, *[""] * (len(HEADERS) - 3), text)


@click.command()
@session_argument
@click.option("--branch", metavar="BRANCH", help="Only this branch.")
@log_options()
@prints(_as_json, _print)
def timeline(session: str, branch: str | None, **options: Any) -> Timeline:
    """Show a session turn by turn: every attempt with its tokens, cost, duration and result, and where managing started
    or stopped.

    \b
      mnemosyne timeline 319a --branch main

    IN counts uncached input tokens, READ tokens read from the cache, WRITE tokens written to it. Branches are indented
    under their parent.
    """
    return with_read_models(log_of(options), lambda models: read_timeline(models, session, branch))
