"""``mnemosyne projections`` and ``rebuild``: the read models; and ``nodes``: the processes that share the database."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import attrs
import click

from mnemosyne.adapters.postgres.cold_requests import ColdRequests, clear
from mnemosyne.adapters.postgres.leading import Node, list_nodes
from mnemosyne.adapters.postgres.projection_store import Report
from mnemosyne.app.object_index import fill_index
from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.app.storage import storage_of
from mnemosyne.cli.log_access import log_of, prints, with_read_models
from mnemosyne.cli.printing import print_table, say
from mnemosyne.cli.settings import log_options
from mnemosyne.figures import local_time, plural
from mnemosyne.projections.catalog import ALL, find
from mnemosyne.projections.object_index import OBJECT_INDEX
from mnemosyne.projections.projection import Projection
from mnemosyne.projections.rebuilding import rebuild_all
from mnemosyne.projections.usage import USAGE

Row = dict[str, Any]


def _print_states(rows: Sequence[Row]) -> None:
    headers = ("NAME", "VERSION", "POSITION", "LAG", "STATE")
    print_table(headers, [tuple(str(row[header.lower()]) for header in headers) for row in rows], right="POSITION LAG")
    for row in rows:
        if row["error"]:
            say(f"{row['name']}: {row['error']}.", err=True)
        if row["set_aside"]:
            were = "was" if row["set_aside"] == 1 else "were"
            aside = f"{plural(row['set_aside'], 'event')} {were} set aside"
            say(f"{row['name']}: {aside}; `mnemosyne sessions` names the sessions.", err=True)


@click.command()
@log_options()
@prints(list, _print_states)
def projections(**options: object) -> Sequence[Row]:
    """Show the state of the read models, which are derived from the log: the position of each in the log, and its lag
    in events.

    \b
      mnemosyne projections

    The state is current, behind, stopped (the database rejected its rows), rebuilding, stale (it will be rebuilt when
    it is read) or none (never used yet).
    """

    async def read(models: OpenReadModels) -> Sequence[Row]:
        return [_row(projection, await models.store.report(projection)) for projection in ALL]

    return with_read_models(log_of(options), read)


def _row(projection: Projection, report: Report) -> Row:
    status = report.status
    return {
        "name": projection.name,
        "version": projection.version,
        "position": status.mark.position if status else 0,
        "lag": report.lag,
        "state": report.state_of(projection),
        "error": (status.error or status.damage) if status else None,
        "set_aside": len(status.set_aside) if status else 0,
    }


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME …]")
@log_options()
def rebuild(names: tuple[str, ...], **options: object) -> None:
    """Rebuild read models from the log: the named ones, or all.

    \b
      mnemosyne rebuild timeline

    Readers use the old read model until the new one is complete. You can interrupt the command without losing anything.
    """
    chosen = [find(name) for name in names] or list(ALL)
    with_read_models(log_of(options), partial(_rebuild_all, chosen=chosen))


async def _rebuild_all(models: OpenReadModels, chosen: list[Projection]) -> None:
    label = chosen[0].name if len(chosen) == 1 else "read models"
    with models.bar_of(label, await models.log.last_position()) as report:
        marks = await rebuild_all(chosen, models.log, models.store, report)
    for name, mark in marks.items():
        if mark is None:
            say(f"{name}: another rebuild has started and replaces this one.", err=True)
        else:
            say(f"{name} is rebuilt, up to position {mark.position}.")
    if OBJECT_INDEX in chosen:
        await fill_index(models, rebuild=True)
    if USAGE in chosen:
        await models.database.run(clear)
        cold = ColdRequests(models.database, storage_of(models.database))
        while await cold.explain_next():
            pass


# Processes


def _print_nodes(connected: Sequence[Node]) -> None:
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


def _nodes_as_json(connected: Sequence[Node]) -> list[dict[str, Any]]:
    return [{**attrs.asdict(node), "since": node.since.isoformat()} for node in connected]


@click.command()
@log_options()
@prints(_nodes_as_json, _print_nodes)
def nodes(**options: Any) -> Sequence[Node]:
    """Show the servers and workers that are connected to the database, oldest first.

    \b
      mnemosyne nodes

    One worker leads: it maintains the data derived from the log. If it stops, another one takes over.
    """
    return with_read_models(log_of(options), lambda models: list_nodes(models.database))
