"""``mnemosyne usage``: tokens and money, by session, day or model."""

from collections.abc import Callable, Hashable, Mapping
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import click

from mnemosyne.cli.figures import count_text, dollars, dollars_text, printable
from mnemosyne.cli.printing import print_json
from mnemosyne.cli.read_models import ReadModels, show, table_of, watch_option, with_read_models
from mnemosyne.cli.read_models import watch as show_changes
from mnemosyne.cli.reading import has_log, json_option, log_options, nothing_recorded
from mnemosyne.cli.settings import configuration

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mnemosyne.projections.usage import Used

HEADERS = ("REPLIES", "IN", "READ", "WRITE", "OUT", "COST")


@attrs.frozen
class Usage:
    """What was used, by group. ``names`` holds what a group is called, where that is not what it is."""

    by: str
    groups: "dict[Hashable, Used]"
    names: Mapping[Hashable, str]


@click.command(short_help="Show tokens and money by session, day or model.")
@click.option("--by", type=click.Choice(["session", "day", "model"]), default="day", show_default=True, help="Groups.")
@watch_option
@log_options()
@json_option
def usage(by: str, watch: bool, as_json: bool, **options: object) -> None:
    """Show what was used: the tokens that the provider counted, and what they cost at list prices.

    IN is what the provider computed anew, READ what it had in its cache, WRITE what it put there, OUT what it answered.
    Days are those of your time zone; in JSON, of UTC. Replies of models without a known price are counted and not
    priced.

    It works beside a running server and without one.
    """
    if watch and as_json:
        raise click.UsageError("--watch does not go with --json.")
    config = configuration(options)
    if not has_log(config):
        if as_json:
            print_json([])
        else:
            click.echo(nothing_recorded(config), err=True)
        return
    zone = UTC if as_json else None
    if watch:
        show_changes(config, partial(_read, by=by, zone=None), _table)
        return
    found = with_read_models(config, partial(_read, by=by, zone=zone))
    if as_json:
        print_json([_as_json(found, group) for group in found.groups])
    else:
        _print(found)


async def _read(models: ReadModels, by: str, zone: tzinfo | None) -> Usage:
    from mnemosyne.projections.timeline import EVERY_SESSION, TIMELINE
    from mnemosyne.projections.usage import USAGE, USED, summed

    both = (TIMELINE, USAGE)
    await models.refresh(both)
    rows, sessions = await models.ask(both, (USED, {}), (EVERY_SESSION, {}))
    names = {row["stream"]: row["external_id"] for row in sessions if row["external_id"]}
    return Usage(by, summed(rows, _grouping(by, zone)), names)


def _grouping(by: str, zone: tzinfo | None) -> Callable[[Mapping[str, Any]], Hashable]:
    from mnemosyne.projections.usage import QUARTER

    def day(row: Mapping[str, Any]) -> Hashable:
        moment = datetime.fromtimestamp(row["quarter"] * QUARTER / 1e6, tz=UTC)
        return moment.astimezone(zone).date().isoformat()

    groupings: dict[str, Callable[[Mapping[str, Any]], Hashable]] = {
        "session": lambda row: row["stream"],
        "model": lambda row: row["model"],
        "day": day,
    }
    return groupings[by]


def _as_json(found: Usage, group: Hashable) -> dict[str, Any]:
    use = found.groups[group]
    tokens = use.tokens
    named = {"session": str(group), "external_id": found.names.get(group)} if found.by == "session" else None
    return {
        **(named or {found.by: group}),
        "replies": use.replies,
        "input_tokens": tokens.input,
        "cache_read_tokens": tokens.read,
        "cache_write_5m_tokens": tokens.write_5m,
        "cache_write_1h_tokens": tokens.write_1h,
        "output_tokens": tokens.output,
        "dollars": dollars(_amount(use)),
        "unpriced_replies": use.unpriced,
        "unpriced_models": sorted(use.unknown),
    }


def _amount(use: "Used") -> int | None:
    """The money; None where nothing has a price."""
    return None if use.unpriced == use.replies else use.nanodollars


def _print(found: Usage) -> None:
    if not found.groups:
        click.echo("No reply has told what it used yet.", err=True)
        return
    show(_table(found))


def _table(found: Usage) -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    from mnemosyne.projections.usage import Used

    lines = [((_name(found, group), *_cells(use)), "") for group, use in found.groups.items()]
    total = sum(found.groups.values(), Used())
    if len(found.groups) > 1:
        lines.append((("in all", *_cells(total)), "bold"))
    table = table_of((found.by.upper(), *HEADERS), lines, right=" ".join(HEADERS))
    return Group(table, Text(_unpriced(total), style="yellow")) if total.unpriced else table


def _name(found: Usage, group: Hashable) -> str:
    if found.by == "session":
        return f"{str(group)[:8]} {printable(found.names.get(group, ''))}".rstrip()
    return "(none named)" if group is None else printable(group)


def _cells(use: "Used") -> tuple[str, ...]:
    tokens = use.tokens
    counts = (tokens.input, tokens.read, tokens.write_5m + tokens.write_1h, tokens.output)
    mark = "+" if use.unpriced and use.unpriced < use.replies else ""
    return (str(use.replies), *map(count_text, counts), dollars_text(_amount(use)) + mark)


def _unpriced(total: "Used") -> str:
    models = ", ".join(printable(name) for name in sorted(total.unknown))
    replies = "1 reply is" if total.unpriced == 1 else f"{total.unpriced} replies are"
    return f"No price is known for {models}: {replies} counted and not priced."
