"""``mnemosyne usage``: tokens and cost by session, day or model."""

from collections.abc import Hashable
from datetime import UTC, tzinfo
from typing import Any
from uuid import UUID

import click

from mnemosyne.cli.accounts import quota_lines
from mnemosyne.cli.log_access import has_log, json_option, render_emptiness, with_read_models
from mnemosyne.cli.printing import price_sentence, print_json, print_table, say
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.figures import count_text, dollars, dollars_text, printable
from mnemosyne.services.unstructuring import members
from mnemosyne.services.usage import Consumption, Grouping, Usage, read_usage

HEADERS = ("REPLIES", "IN", "READ", "WRITE", "OUT", "COST")


@click.command()
@click.option(
    "--by", type=click.Choice(["session", "day", "model"]), default="day", show_default=True, help="Grouping."
)
@log_options()
@json_option
def usage(by: Grouping, as_json: bool, **options: object) -> None:
    """Show the tokens counted by the provider and their cost at list prices; with a subscription, also the used share
    of its limits.

    \b
      mnemosyne usage --by model

    IN counts uncached input tokens, READ tokens read from the cache, WRITE tokens written to it. Days are in your time
    zone; in JSON, in UTC.
    """
    config = configuration(options)
    if not has_log(config):
        if as_json:
            print_json([])
        else:
            say(render_emptiness(config), err=True)
        return
    zone: tzinfo | None = UTC if as_json else None
    found = with_read_models(config, lambda models: read_usage(models, by, zone))
    if as_json:
        print_json([_as_json(found, group) for group in found.groups])
    elif found.groups:
        _print(found)
    else:
        say("No reply has reported its usage yet.", err=True)


def _as_json(found: Usage, group: Hashable) -> dict[str, Any]:
    use = found.groups[group]
    named: dict[str, Any] = {found.by: group}
    if found.by == "session":
        taken = {window.span: window.taken.get(group, 0.0) for window in found.quota if isinstance(group, UUID)}
        named = {"session": str(group), "external_id": found.names.get(group), "quota": taken}
    return {
        **named,
        **members(use, "replies", unpriced_replies="unpriced"),
        **members(use.tokens, input_tokens="input", cache_read_tokens="read", output_tokens="output"),
        **members(use.tokens, cache_write_5m_tokens="write_5m", cache_write_1h_tokens="write_1h"),
        "dollars": dollars(use.price),
        "unpriced_models": sorted(use.unknown),
    }


def _print(found: Usage) -> None:
    rows = [(_name(found, group), *_cells(use)) for group, use in found.groups.items()]
    styles = [""] * len(rows)
    if len(rows) > 1:
        rows.append(("total", *_cells(found.total)))
        styles.append("bold")
    print_table((found.by.upper(), *HEADERS), rows, right=HEADERS, styles=styles)
    if found.total.unpriced:
        say(_render_unpriced(found.total), fg="yellow")
    for line in quota_lines(found.quota, found.names):
        say(line)


def _name(found: Usage, group: Hashable) -> str:
    if found.by == "session":
        return f"{str(group)[:8]} {printable(found.names.get(group, ''))}".rstrip()
    return "(none named)" if group is None else printable(group)


def _cells(use: Consumption) -> tuple[str, ...]:
    tokens = use.tokens
    counts = (tokens.input, tokens.read, tokens.write_5m + tokens.write_1h, tokens.output)
    mark = "+" if use.unpriced and use.unpriced < use.replies else ""
    return (str(use.replies), *map(count_text, counts), dollars_text(use.price) + mark)


def _render_unpriced(total: Consumption) -> str:
    replies = "1 reply is" if total.unpriced == 1 else f"{total.unpriced} replies are"
    return price_sentence(total.unknown, replies)
