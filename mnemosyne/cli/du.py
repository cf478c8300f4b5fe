"""``mnemosyne du``: disk usage."""

from typing import Any
from uuid import UUID

import click

from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.cli.log_access import has_log, json_option, render_emptiness, with_read_models
from mnemosyne.cli.printing import print_json, print_table, say
from mnemosyne.cli.sessions import short_ids
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.figures import bytes_text
from mnemosyne.services.footprints import Footprint, measure
from mnemosyne.services.unstructuring import members


@click.command()
@log_options()
@json_option
def du(as_json: bool, **options: object) -> None:
    """Show the disk usage of each session.

    \b
      mnemosyne du

    SENT is the size of all request bodies, CONTENT that of their texts and the replies, each counted once. STORED is
    the compressed size on disk; RATIO is STORED divided by SENT. For ARCHIVED pieces, the database stores only the path
    of the file.
    """
    config = configuration(options)

    async def read(models: OpenReadModels) -> tuple[dict[UUID, Footprint], int]:
        return await measure(models.archive, models), await models.archive.files.disk_bytes()

    usage, disk = with_read_models(config, read) if has_log(config) else ({}, 0)
    total = sum(usage.values(), Footprint())
    if as_json:
        sessions = [{"id": str(stream)} | _as_json(footprint) for stream, footprint in usage.items()]
        print_json({"sessions": sessions, "total": _as_json(total), "database_bytes": disk})
        return
    if not usage:
        say(render_emptiness(config), err=True)
        return
    ids = short_ids([str(stream) for stream in usage])
    rows = [(ids[str(stream)], *_row(footprint)) for stream, footprint in usage.items()]
    headers = ("SESSION", "EVENTS", "PIECES", "ARCHIVED", "FORGOTTEN", "SENT", "CONTENT", "STORED", "RATIO")
    print_table(headers, [*rows, ("total", *_row(total))], right=headers[1:], spare="PIECES ARCHIVED FORGOTTEN")
    say(f"The database uses {bytes_text(disk)} on disk.")


def _row(footprint: Footprint) -> tuple[str, ...]:
    sizes, ratio = footprint.sizes, footprint.ratio
    return (
        str(sizes.events),
        str(sizes.contents),
        str(sizes.archived),
        str(sizes.forgotten),
        bytes_text(footprint.sent),
        bytes_text(sizes.raw_bytes),
        bytes_text(footprint.stored),
        "-" if ratio is None else f"{ratio:.1%}",
    )


def _as_json(footprint: Footprint) -> dict[str, Any]:
    ratio, to_raw = footprint.ratio, footprint.ratio_to_raw
    return {
        **members(footprint.sizes, "events event_bytes contents archived forgotten raw_bytes stored_bytes"),
        "sent_bytes": footprint.sent,
        "ratio": None if ratio is None else round(ratio, 4),
        "ratio_to_raw": None if to_raw is None else round(to_raw, 4),
    }
