"""``mnemosyne savings``: how much managing saved or cost, by session and in total."""

import click

from mnemosyne.cli.accounts import balance_as_json, quota_as_json, quota_lines, render_saving
from mnemosyne.cli.log_access import has_log, json_option, render_emptiness, start_of, with_read_models
from mnemosyne.cli.printing import print_json, print_table, say
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.figures import count_text, dollars_text, printable
from mnemosyne.services.savings import Balance, Savings, list_caveats, read_savings

HEADERS = ("SESSION", "TURNS", "MANAGED", "SENT", "UNMANAGED", "COST", "UNMANAGED $", "SAVED")
NUMBERS = ("TURNS", "MANAGED", "SENT", "UNMANAGED", "COST")


@click.command()
@click.option("--since", metavar="WHEN", help="Only turns since this time: a date such as 2026-11-21, or 12h, 7d, 2w.")
@log_options()
@json_option
def savings(since: str | None, as_json: bool, **options: object) -> None:
    """Show how much managing saved or cost, compared with the same session without Mnemosyne, including the client's
    own compactions and cache hits.

    \b
      mnemosyne savings --since 7d

    The unmanaged session is simulated turn by turn. Sessions that are only observed save and lose nothing. Side calls,
    such as for a title, are in neither column.
    """
    start = start_of(since)
    config = configuration(options)
    if not has_log(config):
        if as_json:
            print_json({"sessions": [], "total": None, "quota": []})
        else:
            say(render_emptiness(config), err=True)
        return
    found = with_read_models(config, lambda models: read_savings(models, start))
    if as_json:
        _print_json(found)
    elif found.sessions:
        _print(found)
    else:
        none = "The ledger has no turns yet." if since is None else f"The ledger has no turns since {since}."
        say(none, err=True)


def _print_json(found: Savings) -> None:
    rows = [
        {"session": str(stream), "external_id": found.names.get(stream), **balance_as_json(balance)}
        for stream, balance in found.sessions.items()
    ]
    print_json({"sessions": rows, "total": balance_as_json(found.total), "quota": quota_as_json(found.quota)})


def _print(found: Savings) -> None:
    rows = [
        (f"{str(stream)[:8]} {printable(found.names.get(stream, ''))}".rstrip(), *_cells(balance))
        for stream, balance in found.sessions.items()
    ]
    styles = [""] * len(rows)
    if len(rows) > 1:
        rows.append(("total", *_cells(found.total)))
        styles.append("bold")
    print_table(HEADERS, rows, right=NUMBERS, whole=("UNMANAGED $", "SAVED"), spare="MANAGED", styles=styles)
    for sentence in (*list_caveats(found.total), *quota_lines(found.quota, found.names)):
        say(sentence)


def _cells(balance: Balance) -> tuple[str, ...]:
    return (
        str(balance.turns),
        str(balance.managed),
        count_text(balance.actual.prompt),
        count_text(balance.shadow.prompt),
        dollars_text(balance.nanodollars if balance.is_priced else None),
        dollars_text(balance.nanodollars_unmanaged if balance.is_priced else None),
        render_saving(balance),
    )
