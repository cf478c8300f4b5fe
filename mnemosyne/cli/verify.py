"""``mnemosyne verify``."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from mnemosyne.cli.printing import plural, print_json, progress_bar
from mnemosyne.cli.reading import has_log, json_option, log_of, log_options, nothing_recorded, with_log
from mnemosyne.cli.settings import configuration

if TYPE_CHECKING:
    from mnemosyne.app.storage import Storage
    from mnemosyne.services.verifying import Report


@click.command(short_help="Rebuild every turn and check it against its recorded hash.")
@click.argument("session", required=False, metavar="[SESSION]")
@log_options()
@json_option
@click.pass_context
def verify(ctx: click.Context, /, session: str | None, as_json: bool, **options: object) -> None:
    """Rebuild the body of every turn and check it against the SHA-256 that was recorded when it was sent; put every
    reply together. Without SESSION, all of them.

    For each session it says `ok`, `forgotten`, or what differs. Besides the turns it counts requests that the client
    repeated, and the rounds with the provider that a managed turn took. The exit code is 1 if anything differs.
    """
    config = configuration(options) if session is None else log_of(options)
    reports = with_log(config, lambda storage: _reports(storage, session)) if has_log(config) else []
    if as_json:
        print_json([_as_json(report) for report in reports])
    elif not reports:
        click.echo(nothing_recorded(config), err=True)
    else:
        for report in reports:
            click.echo(_text(report) if session is not None else f"{report.session}  {_text(report)}")
    ctx.exit(1 if any(report.differences for report in reports) else 0)


async def _reports(storage: "Storage", session: str | None) -> "list[Report]":
    from mnemosyne.services.sessions import find
    from mnemosyne.services.verifying import verify

    if session is not None:
        streams: list[UUID] = [await find(storage, session)]
    else:
        streams = list(await storage.events.streams())
    reports = []
    for number, stream in enumerate(streams, start=1):
        with progress_bar(f"session {number} of {len(streams)}") as progress:
            reports.append(await verify(storage, stream, progress))
    return reports


def _text(report: "Report") -> str:
    if report.differences:
        lines = [f"differs in {plural(len(report.differences), 'place')}"]
        return "\n".join([*lines, *(f"  {difference.sentence}" for difference in report.differences)])
    if report.forgotten:
        left = f" ({plural(report.checked, 'request')} after that ok)" if report.checked else ""
        return f"forgotten{left}"
    again = report.attempts - report.turns
    counts = ((again, "repeated request"), (report.rounds, "round"))
    besides = " and ".join(plural(count, what) for count, what in counts if count)
    return f"ok {plural(report.turns, 'turn')}" + (f" ({besides} besides)" if besides else "")


def _as_json(report: "Report") -> dict[str, Any]:
    return {
        "id": str(report.session),
        "external_id": report.external_id,
        "verdict": report.verdict,
        "turns": report.turns,
        "attempts": report.attempts,
        "rounds": report.rounds,
        "checked": report.checked,
        "forgotten": report.forgotten,
        "differences": [
            {
                "branch": difference.address.branch,
                "turn": difference.address.turn,
                "attempt": difference.address.attempt,
                "what": difference.what,
            }
            for difference in report.differences
        ],
    }
