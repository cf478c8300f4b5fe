"""``mnemosyne verify``."""

from typing import Any

import click

from mnemosyne.cli.log_access import NothingRecorded, log_of, prints, render_emptiness, with_log
from mnemosyne.cli.printing import progress_bar, say
from mnemosyne.cli.settings import log_options
from mnemosyne.figures import plural
from mnemosyne.services.unstructuring import members
from mnemosyne.services.verifying import Verification, verify_sessions


def _text(found: Verification) -> str:
    if found.unreadable is not None:
        return f"cannot be read: {found.unreadable}"
    if found.differences:
        lines = [f"differs in {plural(len(found.differences), 'place')}"]
        return "\n".join([*lines, *(f"  {difference.sentence}" for difference in found.differences)])
    if found.forgotten:
        later = f" ({plural(found.checked, 'request')} after that ok)" if found.checked else ""
        return f"forgotten{later}"
    repeated = found.attempts - found.turns
    counts = ((repeated, "repeated request"), (found.rounds, "round"))
    extra = " and ".join(plural(count, what) for count, what in counts if count)
    missing = f"; {plural(found.unrecorded, 'turn')} not recorded" if found.unrecorded else ""
    return f"ok {plural(found.turns, 'turn')}" + (f" (and {extra})" if extra else "") + missing


def _as_json(found: Verification) -> dict[str, Any]:
    counted = "verdict turns attempts rounds checked forgotten unrecorded unreadable"
    place = {"branch": "address.branch", "turn": "address.turn", "attempt": "address.attempt"}
    return {
        **members(found, f"external_id {counted}", id="session"),
        "differences": [members(difference, "what", **place) for difference in found.differences],
    }


def _print(found: list[Verification]) -> None:
    is_one = click.get_current_context().params["session"] is not None
    for result in found:
        say(_text(result) if is_one else f"{result.session}  {_text(result)}")


@click.command()
@click.argument("session", required=False, metavar="[SESSION]")
@log_options()
@prints(
    lambda found: list(map(_as_json, found)),
    _print,
    empty=[],
    fails=lambda found: not all(result.is_sound for result in found),
)
def verify(session: str | None, **options: Any) -> list[Verification]:
    """Rebuild the request of every turn, check it against its recorded SHA-256, and reassemble every reply; without
    SESSION, for all sessions.

    \b
      mnemosyne verify 319a

    For each session it prints `ok`, `forgotten`, the differences, or why it cannot be read. The exit code is 1 if
    anything differs or cannot be read.
    """
    config = log_of(options)
    found = with_log(config, lambda storage: verify_sessions(storage, session, progress_bar))
    if not found:
        raise NothingRecorded(render_emptiness(config))
    return found
