"""``mnemosyne pin`` and ``mnemosyne unpin``: a person says what has to stay."""

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
@click.option("--reason", default="pinned by hand", show_default=True, metavar="TEXT", help="Why.")
@click.option("--turns", type=click.IntRange(1), metavar="N", help="For so many turns from now.  [default: for good]")
@log_options()
@json_option
def pin(object_id: str, session: str | None, reason: str, turns: int | None, as_json: bool, **options: object) -> None:
    """Keep an object at its fidelity in every branch, whatever the pressure, until `mnemosyne unpin`.

    With --turns, counted from the last turn of the branch that it was made in. It works beside a running server and
    without one; to pin again with other words changes the pin.
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
@click.option("--reason", default="unpinned by hand", show_default=True, metavar="TEXT", help="Why.")
@log_options()
@json_option
def unpin(object_id: str, session: str | None, reason: str, as_json: bool, **options: object) -> None:
    """Let an object go again that `mnemosyne pin` kept. What is not pinned stays as it is."""
    done = with_log(
        log_of(options),
        lambda storage: pins.unpin(
            storage, object_id, session=session, reason=reason, at=_now(), correlation_id=secrets.token_hex(8)
        ),
    )
    _print(done, "is free to go", as_json=as_json)


def _print(done: Pinning, state: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"object": done.object, "recorded": done.recorded})
    else:
        say(f"{done.object} {state}{'' if done.recorded else ' already'}.")


def _now() -> int:
    return time.time_ns() // 1000
