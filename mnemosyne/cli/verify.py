"""``mnemosyne verify``."""

from typing import Any

import click

from mnemosyne.cli.printing import print_json, progress_bar, say
from mnemosyne.cli.reading import has_log, json_option, log_of, render_emptiness, with_log
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.figures import plural
from mnemosyne.services.unstructuring import members
from mnemosyne.services.verifying import Verification, verify_sessions


@click.command()
@click.argument("session", required=False, metavar="[SESSION]")
@log_options()
@json_option
@click.pass_context
def verify(ctx: click.Context, /, session: str | None, as_json: bool, **options: object) -> None:
    """Rebuild the body of every turn and check it against the SHA-256 that was recorded when it was sent; put every
    reply together. Without SESSION, all of them.

    For each session it says `ok`, `forgotten`, what differs, or that it cannot be read. Besides the turns it counts
    requests that the client repeated, the rounds with the provider that a managed turn took, and turns that went
    through without a record while the database was away. The exit code is 1 if anything differs or cannot be read.
    """
    config = configuration(options) if session is None else log_of(options)
    found: list[Verification] = []
    if has_log(config):
        found = with_log(config, lambda storage: verify_sessions(storage, session, progress_bar))
    if as_json:
        print_json([_as_json(each) for each in found])
    elif not found:
        say(render_emptiness(config), err=True)
    else:
        for each in found:
            say(_text(each) if session is not None else f"{each.session}  {_text(each)}")
    ctx.exit(0 if all(each.is_sound for each in found) else 1)


def _text(found: Verification) -> str:
    if found.unreadable is not None:
        return f"cannot be read: {found.unreadable}"
    if found.differences:
        lines = [f"differs in {plural(len(found.differences), 'place')}"]
        return "\n".join([*lines, *(f"  {difference.sentence}" for difference in found.differences)])
    if found.forgotten:
        left = f" ({plural(found.checked, 'request')} after that ok)" if found.checked else ""
        return f"forgotten{left}"
    again = found.attempts - found.turns
    counts = ((again, "repeated request"), (found.rounds, "round"))
    besides = " and ".join(plural(count, what) for count, what in counts if count)
    missing = f"; {plural(found.unrecorded, 'turn')} went through unrecorded" if found.unrecorded else ""
    return f"ok {plural(found.turns, 'turn')}" + (f" ({besides} besides)" if besides else "") + missing


def _as_json(found: Verification) -> dict[str, Any]:
    counted = "verdict turns attempts rounds checked forgotten unrecorded unreadable"
    place = {"branch": "address.branch", "turn": "address.turn", "attempt": "address.attempt"}
    return {
        **members(found, f"external_id {counted}", id="session"),
        "differences": [members(each, "what", **place) for each in found.differences],
    }
