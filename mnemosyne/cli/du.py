"""``mnemosyne du``: disk usage."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import click

from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.cli.log_access import log_of, prints, with_read_models
from mnemosyne.cli.printing import print_table, say
from mnemosyne.cli.sessions import short_ids
from mnemosyne.cli.settings import log_options
from mnemosyne.figures import bytes_text, percent_text
from mnemosyne.services.footprints import Footprint, measure
from mnemosyne.services.unstructuring import members


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
        "-" if ratio is None else percent_text(ratio, 1),
    )


def _footprint_as_json(footprint: Footprint) -> dict[str, Any]:
    ratio, to_raw = footprint.ratio, footprint.ratio_to_raw
    return {
        **members(footprint.sizes, "events event_bytes contents archived forgotten raw_bytes stored_bytes"),
        "sent_bytes": footprint.sent,
        "ratio": None if ratio is None else round(ratio, 4),
        "ratio_to_raw": None if to_raw is None else round(to_raw, 4),
    }


DiskUsage = tuple[Mapping[UUID, Footprint], int]
"""The footprint of each session, and the bytes of the database on disk."""


def _as_json(found: DiskUsage) -> dict[str, Any]:
    usage, disk = found
    sessions = [{"id": str(stream), **_footprint_as_json(footprint)} for stream, footprint in usage.items()]
    total = sum(usage.values(), Footprint())
    return {"sessions": sessions, "total": _footprint_as_json(total), "database_bytes": disk}


def _print(found: DiskUsage) -> None:
    usage, disk = found
    ids = short_ids([str(stream) for stream in usage])
    rows = [(ids[str(stream)], *_row(footprint)) for stream, footprint in usage.items()]
    total = ("total", *_row(sum(usage.values(), Footprint())))
    print_table(_HEADERS, [*rows, total], right=_HEADERS[1:], spare="PIECES ARCHIVED FORGOTTEN")
    say(f"The database uses {bytes_text(disk)} on disk.")


_HEADERS = ("SESSION", "EVENTS", "PIECES", "ARCHIVED", "FORGOTTEN", "SENT", "CONTENT", "STORED", "RATIO")


@click.command()
@log_options()
@prints(_as_json, _print, empty=_as_json(({}, 0)))
def du(**options: Any) -> DiskUsage:
    """Show the disk usage of each session.

    \b
      mnemosyne du

    SENT is the size of all request bodies, CONTENT that of their texts and the replies, each counted once. STORED is
    the compressed size on disk; RATIO is STORED divided by SENT. For ARCHIVED pieces, the database stores only the path
    of the file.
    """

    async def read(models: OpenReadModels) -> DiskUsage:
        return await measure(models.archive, models), await models.archive.files.disk_bytes()

    return with_read_models(log_of(options), read)
