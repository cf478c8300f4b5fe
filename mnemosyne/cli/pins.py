"""``mnemosyne pin`` and ``mnemosyne unpin``."""

import secrets
import time

import click

from mnemosyne.cli.objects import session_option
from mnemosyne.cli.printing import print_json, say
from mnemosyne.cli.reading import json_option, log_of, with_log
from mnemosyne.cli.settings import log_options
from mnemosyne.services import pins
from mnemosyne.services.pins import Pinning


@click.command()
@click.argument("object_id", metavar="ID")
@session_option
@click.option("--reason", default="pinned by hand", show_default=True, metavar="TEXT", help="The reason.")
@click.option("--turns", type=click.IntRange(1), metavar="N", help="Pin for N turns.  [default: until unpinned]")
@log_options()
@json_option
def pin(object_id: str, session: str | None, reason: str, turns: int | None, as_json: bool, **options: object) -> None:
    """Pin an object: it keeps its fidelity in every branch, however full the context is, until `mnemosyne unpin`.

    --turns counts from the last turn of the branch in which the object was created. The command works with and without
    a running server. Pinning a pinned object again replaces the pin.
    """
    done = with_log(
        log_of(options),
        lambda storage: pins.pin(
            storage,
            object_id,
            session=session,
            reason=reason,
            turns=turns,
            at=_now(),
            correlation_id=secrets.token_hex(8),
        ),
    )
    _print(done, "is pinned", as_json=as_json)


@click.command()
@click.argument("object_id", metavar="ID")
@session_option
@click.option("--reason", default="unpinned by hand", show_default=True, metavar="TEXT", help="The reason.")
@log_options()
@json_option
def unpin(object_id: str, session: str | None, reason: str, as_json: bool, **options: object) -> None:
    """Unpin an object that `mnemosyne pin` pinned. An object that is not pinned is not changed."""
    done = with_log(
        log_of(options),
        lambda storage: pins.unpin(
            storage, object_id, session=session, reason=reason, at=_now(), correlation_id=secrets.token_hex(8)
        ),
    )
    _print(done, "is not pinned", as_json=as_json)


def _print(done: Pinning, state: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"object": done.object, "recorded": done.recorded})
    else:
        say(f"{done.object} {state}{'' if done.recorded else ' (no change)'}.")


def _now() -> int:
    return time.time_ns() // 1000
