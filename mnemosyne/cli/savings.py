"""``mnemosyne savings``: what managing saved or cost, by session and in all."""

import re
import time
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mnemosyne.cli.accounts import ASSUMPTIONS, money_saved
from mnemosyne.cli.figures import count_text, dollars, dollars_text, printable
from mnemosyne.cli.printing import plural, print_json
from mnemosyne.cli.read_models import ReadModels, show, table_of, with_read_models
from mnemosyne.cli.reading import has_log, json_option, log_options, nothing_recorded
from mnemosyne.cli.settings import configuration

if TYPE_CHECKING:
    from mnemosyne.projections.savings import Saved

HEADERS = ("SESSION", "TURNS", "MANAGED", "SENT", "UNMANAGED", "COST", "UNMANAGED $", "SAVED")
NUMBERS = "TURNS MANAGED SENT UNMANAGED COST"

_HOUR = 3600 * 10**6
_UNITS = {"h": _HOUR, "d": 24 * _HOUR, "w": 7 * 24 * _HOUR}
"""In µs."""


@click.command(short_help="Show what managing saved or cost.")
@click.option("--since", metavar="WHEN", help="Only turns since then: 2026-11-21, or 12h, 7d, 2w ago.")
@log_options()
@json_option
def savings(since: str | None, as_json: bool, **options: object) -> None:
    """Show what managing saved or cost: the tokens that were sent and their price, beside what the same client would
    have paid without Mnemosyne, its own compactions and cache hits included.

    The unmanaged session is simulated, turn by turn, beside the real one. In sessions that are only observed nothing is
    changed, so nothing is saved and nothing lost. Side calls, such as for a title, are in neither column.

    It works beside a running server and without one.
    """
    start = _since(since)
    config = configuration(options)
    if not has_log(config):
        if as_json:
            print_json({"sessions": [], "total": None})
        else:
            click.echo(nothing_recorded(config), err=True)
        return
    sessions, names = with_read_models(config, partial(_read, since=start))
    if as_json:
        _print_json(sessions, names)
    elif not sessions:
        click.echo(
            "No turn is in the ledger yet." if since is None else f"No turn of the ledger began since {since}.",
            err=True,
        )
    else:
        _print(sessions, names)


def _since(text: str | None) -> int:
    """µs of UTC; 0 for ever. Raises BadParameter."""
    if text is None:
        return 0
    if ago := re.fullmatch(r"(\d{1,5})([hdw])", text):
        return time.time_ns() // 1000 - int(ago[1]) * _UNITS[ago[2]]
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1e6)
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text!r} is no time; give a date as 2026-11-21, or 12h, 7d, 2w.", param_hint="--since"
        ) from None


async def _read(models: ReadModels, since: int) -> "tuple[dict[Any, Saved], dict[Any, str]]":
    from mnemosyne.projections.savings import SAVED, SAVINGS, by_session
    from mnemosyne.projections.timeline import EVERY_SESSION, TIMELINE

    both = (SAVINGS, TIMELINE)
    await models.refresh(both)
    rows, sessions = await models.ask(both, (SAVED, {"since": since}), (EVERY_SESSION, {}))
    return by_session(rows), {row["stream"]: row["external_id"] for row in sessions if row["external_id"]}


def as_json_of(use: "Saved") -> dict[str, Any]:
    """The numbers for programs. Amounts in tokens of plain input are rounded."""
    priced = use.unpriced < use.turns
    return {
        "turns": use.turns,
        "managed_turns": use.managed,
        "assumed_turns": use.assumed,
        "unpriced_turns": use.unpriced,
        "simulated_compactions": use.compacted,
        "tokens_sent": use.actual.prompt,
        "tokens_unmanaged": use.shadow.prompt,
        "billed": round(use.billed),
        "billed_unmanaged": round(use.unmanaged),
        "billed_expected": round(use.expected),
        "dollars": dollars(use.nanodollars) if priced else None,
        "dollars_unmanaged": dollars(use.nanodollars_unmanaged) if priced else None,
        "dollars_saved": dollars(use.nanodollars_saved) if priced else None,
        "deviates": use.deviates,
    }


def _print_json(sessions: "dict[Any, Saved]", names: dict[Any, str]) -> None:
    from mnemosyne.projections.savings import Saved

    rows = [
        {"session": str(stream), "external_id": names.get(stream), **as_json_of(use)}
        for stream, use in sessions.items()
    ]
    print_json({"sessions": rows, "total": as_json_of(sum(sessions.values(), Saved()))})


def _print(sessions: "dict[Any, Saved]", names: dict[Any, str]) -> None:
    from mnemosyne.projections.savings import Saved

    lines = [
        ((f"{str(stream)[:8]} {printable(names.get(stream, ''))}".rstrip(), *_cells(use)), "")
        for stream, use in sessions.items()
    ]
    total = sum(sessions.values(), Saved())
    if len(sessions) > 1:
        lines.append((("in all", *_cells(total)), "bold"))
    show(table_of(HEADERS, lines, right=NUMBERS))
    for sentence in notes(total):
        click.echo(sentence)


def _cells(use: "Saved") -> tuple[str, ...]:
    priced = use.unpriced < use.turns
    return (
        str(use.turns),
        str(use.managed),
        count_text(use.actual.prompt),
        count_text(use.shadow.prompt),
        dollars_text(use.nanodollars if priced else None),
        dollars_text(use.nanodollars_unmanaged if priced else None),
        money_saved(use),
    )


def notes(use: "Saved") -> list[str]:
    """What the numbers rest on."""
    if not use.managed:
        return [
            "Every one of these turns was only observed: what the client sent went upstream, so nothing was saved and"
            " nothing lost."
        ]
    said = [ASSUMPTIONS]
    if use.compacted:
        times = plural(use.compacted, "time")
        said.append(f"It would have compacted {times}; to what size is assumed, from recorded sessions.")
    if use.assumed:
        said.append(f"Of {plural(use.assumed, 'turn')} the provider did not say what it used: that is assumed, too.")
    if use.unpriced:
        said.append(f"{plural(use.unpriced, 'turn')} of a model without a known price: counted and not priced.")
    if use.deviates:
        said.append("At times the provider billed markedly more than the rules of its cache let us expect.")
    return said
