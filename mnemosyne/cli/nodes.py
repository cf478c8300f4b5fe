"""``mnemosyne nodes``: the servers and workers that share a database."""

import attrs
import click

from mnemosyne.adapters.postgres.nodes import list_nodes
from mnemosyne.cli.log_access import json_option, log_of, with_read_models
from mnemosyne.cli.printing import print_json, print_table, say
from mnemosyne.cli.settings import log_options
from mnemosyne.figures import local_time


@click.command()
@log_options()
@json_option
def nodes(as_json: bool, **options: object) -> None:
    """Show the servers and workers that are connected to the database, oldest first.

    \b
      mnemosyne nodes

    One worker leads: it maintains the data derived from the log. If it stops, another one takes over.
    """
    connected = with_read_models(log_of(options), lambda models: list_nodes(models.database))
    if as_json:
        print_json([{**attrs.asdict(node), "since": node.since.isoformat()} for node in connected])
        return
    if not connected:
        say("No servers or workers are connected to this database.", err=True)
        return
    rows = [
        (
            node.what,
            node.host,
            str(node.pid),
            node.address or "this machine",
            local_time(int(node.since.timestamp() * 1e6)),
            str(node.connections),
            "yes" if node.leads else "-",
        )
        for node in connected
    ]
    print_table(("WHAT", "HOST", "PID", "ADDRESS", "SINCE", "CONNECTIONS", "LEADS"), rows, right="PID CONNECTIONS")
