"""``mnemosyne pin`` and ``mnemosyne unpin``: a person says what has to stay."""

import secrets
import time
from typing import TYPE_CHECKING

import click

from mnemosyne.cli.objects import session_option
from mnemosyne.cli.printing import print_json
from mnemosyne.cli.reading import json_option, log_of, log_options, with_log

if TYPE_CHECKING:
    from mnemosyne.app.storage import Storage
    from mnemosyne.domain.objects.decide import Pin, Unpin
    from mnemosyne.domain.session.state import Session


@click.command(short_help="Keep an object in the window as it is.")
@click.argument("object_id", metavar="ID")
@session_option
@click.option("--reason", default="pinned by hand", show_default=True, metavar="TEXT", help="Why.")
@click.option("--turns", type=click.IntRange(1), metavar="N", help="For so many turns from now.  [default: for good]")
@log_options()
@json_option
def pin(object_id: str, session: str | None, reason: str, turns: int | None, as_json: bool, **options: object) -> None:
    """Keep an object at its fidelity in every branch, whatever the pressure, until `mnemosyne unpin`.

    With --turns, counted from the last turn of the branch that it was made in. It works beside a running server and
    without one; to pin again with other words changes the pin.
    """

    def command(state: "Session") -> "Pin":
        from mnemosyne.domain.objects.decide import Pin
        from mnemosyne.domain.objects.lookup import living

        found = living(state.memory, object_id)
        until = None if turns is None else state.branches[found.branch].turns + turns
        return Pin(at=_now(), object=found.id, reason=reason, until_turn=until)

    async def work(storage: "Storage") -> bool:
        from mnemosyne.services import memories

        found = await memories.find(storage, object_id, session)
        return bool(await memories.decide(storage, found.stream, command, secrets.token_hex(8)))

    from mnemosyne.domain.objects.lookup import bare

    recorded = with_log(log_of(options), work)
    if as_json:
        print_json({"object": bare(object_id), "recorded": recorded})
    else:
        click.echo(f"{bare(object_id)} is pinned" + ("" if recorded else " already") + ".")


@click.command(short_help="Let a pinned object go again.")
@click.argument("object_id", metavar="ID")
@session_option
@click.option("--reason", default="unpinned by hand", show_default=True, metavar="TEXT", help="Why.")
@log_options()
@json_option
def unpin(object_id: str, session: str | None, reason: str, as_json: bool, **options: object) -> None:
    """Let an object go again that `mnemosyne pin` kept. What is not pinned stays as it is."""

    def command(state: "Session") -> "Unpin":
        from mnemosyne.domain.objects.decide import Unpin
        from mnemosyne.domain.objects.lookup import living

        return Unpin(at=_now(), object=living(state.memory, object_id).id, reason=reason)

    async def work(storage: "Storage") -> bool:
        from mnemosyne.services import memories

        found = await memories.find(storage, object_id, session)
        return bool(await memories.decide(storage, found.stream, command, secrets.token_hex(8)))

    from mnemosyne.domain.objects.lookup import bare

    recorded = with_log(log_of(options), work)
    if as_json:
        print_json({"object": bare(object_id), "recorded": recorded})
    else:
        click.echo(f"{bare(object_id)} is free to go" + ("" if recorded else " already") + ".")


def _now() -> int:
    return time.time_ns() // 1000
