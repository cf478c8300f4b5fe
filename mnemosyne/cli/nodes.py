"""``mnemosyne nodes``: the servers and workers that share a database."""

import attrs
import click

from mnemosyne.adapters.postgres.nodes import Node, list_nodes
from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.cli.printing import print_json, print_table, say
from mnemosyne.cli.reading import json_option, log_of, with_read_models
from mnemosyne.cli.settings import log_options


@click.command()
@log_options()
@json_option
def nodes(as_json: bool, **options: object) -> None:
    """Show the servers and workers that are connected to the database now, the oldest first.

    One worker leads: it keeps what is derived from the log, and another takes its place when it is gone. A server that
    is killed leaves the list at once; one that stands still stays, as its connections do.
    """
    found = with_read_models(log_of(options), _list)
    if as_json:
        print_json([{**attrs.asdict(each), "since": each.since.isoformat()} for each in found])
        return
    if not found:
        say("No server and no worker is connected to this database.", err=True)
        return
    print_table(
        ("WHAT", "HOST", "PID", "ADDRESS", "SINCE", "CONNECTIONS", "LEADS"),
        [
            (
                each.what,
                each.host,
                str(each.pid),
                each.address or "this machine",
                f"{each.since:%Y-%m-%d %H:%M:%S}",
                str(each.connections),
                "yes" if each.leads else "-",
            )
            for each in found
        ],
        right="PID CONNECTIONS",
    )


async def _list(models: OpenReadModels) -> tuple[Node, ...]:
    return await list_nodes(models.database)
