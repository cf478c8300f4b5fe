"""``mnemosyne du``: what is stored."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

import attrs
import click

from mnemosyne.cli.printing import bytes_text, print_json, print_table
from mnemosyne.cli.reading import has_log, json_option, log_options, nothing_recorded, with_log
from mnemosyne.cli.sessions import short_ids
from mnemosyne.cli.settings import configuration
from mnemosyne.config import Config
from mnemosyne.domain.ports import Sizes

if TYPE_CHECKING:
    from mnemosyne.app.storage import Storage


@attrs.frozen
class Usage:
    """What a session takes up; ``sent`` are the bytes of its request bodies as they went upstream."""

    sizes: Sizes
    sent: int

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.sizes + other.sizes, self.sent + other.sent)

    @property
    def stored(self) -> int:
        """Everything that is kept: events and compressed content."""
        return self.sizes.event_bytes + self.sizes.stored_bytes


NOTHING = Usage(Sizes(), 0)


@click.command(short_help="Show what is stored, and how much of it.")
@log_options()
@json_option
def du(as_json: bool, **options: object) -> None:
    """Show what each session takes up.

    What is stored is what your agent sent and received, so your source code is among it; credentials are not. SENT is
    the size of all request bodies, CONTENT what is in them and in the replies, each text once, EVENTS what says how
    they are put together. STORED is what is kept of both, compressed; RATIO is STORED to SENT.
    """
    config = configuration(options)
    usage, disk = (with_log(config, _usage), _disk_bytes(config)) if has_log(config) else ({}, 0)
    total = sum(usage.values(), NOTHING)
    if as_json:
        sessions = [{"id": str(stream)} | _as_json(each) for stream, each in usage.items()]
        print_json({"sessions": sessions, "total": _as_json(total), "database_bytes": disk})
        return
    if not usage:
        click.echo(nothing_recorded(config), err=True)
        return
    ids = short_ids([str(stream) for stream in usage])
    rows = [(ids[str(stream)], *_row(each)) for stream, each in usage.items()]
    headers = ("SESSION", "EVENTS", "PIECES", "FORGOTTEN", "SENT", "CONTENT", "STORED", "RATIO")
    print_table(headers, [*rows, ("total", *_row(total))], right=" ".join(headers[1:]))
    click.echo(f"The database takes up {bytes_text(disk)} on disk.")


async def _usage(storage: "Storage") -> dict[UUID, Usage]:
    from mnemosyne.services.sessions import histories

    sizes = await storage.events.sizes()
    return {
        stream: Usage(sizes.get(stream, Sizes()), sum(began.size for began in history.bodies.values()))
        async for stream, history in histories(storage)
    }


def _disk_bytes(config: Config) -> int:
    import trio

    from mnemosyne.adapters.postgres.vacuum import disk_bytes
    from mnemosyne.app.storage import open_database

    async def run() -> int:
        async with open_database(config) as database:
            return await disk_bytes(database)

    return trio.run(run)


def _ratio(usage: Usage) -> float | None:
    return usage.stored / usage.sent if usage.sent else None


def _row(usage: Usage) -> tuple[str, ...]:
    ratio = _ratio(usage)
    return (
        str(usage.sizes.events),
        str(usage.sizes.contents),
        str(usage.sizes.forgotten),
        bytes_text(usage.sent),
        bytes_text(usage.sizes.raw_bytes),
        bytes_text(usage.stored),
        "-" if ratio is None else f"{ratio:.1%}",
    )


def _as_json(usage: Usage) -> dict[str, Any]:
    ratio = _ratio(usage)
    return {
        "events": usage.sizes.events,
        "event_bytes": usage.sizes.event_bytes,
        "contents": usage.sizes.contents,
        "forgotten": usage.sizes.forgotten,
        "sent_bytes": usage.sent,
        "raw_bytes": usage.sizes.raw_bytes,
        "stored_bytes": usage.sizes.stored_bytes,
        "ratio": None if ratio is None else round(ratio, 4),
        "ratio_to_raw": round(usage.stored / usage.sizes.raw_bytes, 4) if usage.sizes.raw_bytes else None,
    }
