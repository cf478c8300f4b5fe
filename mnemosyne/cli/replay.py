"""``mnemosyne replay``: recordings through the application, or a stored session against today's code."""

import logging
from pathlib import Path
from typing import Any

import click

from mnemosyne.app.storage import Storage, event_codec
from mnemosyne.cli.printing import print_json, print_table, progress_bar, say
from mnemosyne.cli.reading import json_option, log_of, with_log
from mnemosyne.cli.settings import log_options
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.figures import plural
from mnemosyne.replay.deciding import Review, review
from mnemosyne.replay.reading import read_tapes
from mnemosyne.replay.running import RunOutcome, run
from mnemosyne.services.unstructuring import members


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="FILE…")
@click.option("--log", "log_file", type=click.File("wb"), metavar="OUT.jsonl", help="Write the logs here, canonically.")
@click.option("--manage", is_flag=True, help="Play the files as a server would that manages.")
@click.option("--from-log", metavar="SESSION", help="Decide a stored session's turns again, and show the differences.")
@click.option(
    "--window",
    type=click.IntRange(min=1),
    metavar="TOKENS",
    help="With --from-log: which managed turns would be decided otherwise if a prompt might hold so much?",
)
@log_options()
@json_option
@click.pass_context
def replay(
    ctx: click.Context,
    /,
    files: tuple[Path, ...],
    log_file: Any,
    manage: bool,
    from_log: str | None,
    window: int | None,
    as_json: bool,
    **options: object,
) -> None:
    """Feed recorded sessions through the application, in this process: their requests, answers and times go where a
    server's would, into a log in memory. FILE is JSON Lines of sessions, a folder of captured requests or files of it,
    or an export; a folder stands for all that it holds.

    With --manage it is done as a server that manages would do it; a recorded answer calls no memory tool.

    The same files give the same log, byte for byte, on every machine. The exit code is 1 if a turn does not rebuild to
    what was sent, or if a file cannot be played.

    With --from-log, feed the commands of a stored session to today's code instead, each in the state that the recorded
    events led to, and show each decision that would be another one today; the exit code is 1 if there is any.
    """
    if bool(files) == bool(from_log):
        raise click.UsageError("Name files to replay, or a session with --from-log.")
    if window is not None and not from_log:
        raise click.UsageError("--window goes with --from-log.")
    if manage and from_log:
        raise click.UsageError("--manage goes with files.")
    if from_log:
        review = with_log(log_of(options), lambda storage: _review(storage, from_log, window))
        _print_review(review, as_json=as_json)
        ctx.exit(1 if review.differences else 0)
    outcome = _play(files, log_file, manage=manage)
    _print_outcome(outcome, as_json=as_json)
    ctx.exit(0 if outcome.good else 1)


def _play(files: tuple[Path, ...], log_file: Any, *, manage: bool) -> RunOutcome:
    with progress_bar("replaying"):
        return run(read_tapes(files, event_codec()), log_file, Mode.MANAGE if manage else Mode.OBSERVE)


def _print_outcome(outcome: RunOutcome, *, as_json: bool) -> None:
    if as_json:
        sessions = [
            {**members(each, "external_id branches turns events sha256", id="session"), "ok": not each.problems}
            for each in outcome.sessions
        ]
        print_json({"sessions": sessions, **members(outcome, "notes problems", ok="good")})
        return
    rows = [
        (each.external_id or "-", str(each.branches), str(each.turns), str(each.events), each.sha256[:16])
        for each in outcome.sessions
    ]
    if rows:
        print_table(("SESSION", "BRANCHES", "TURNS", "EVENTS", "SHA256"), rows, right="BRANCHES TURNS EVENTS")
    for line in (*outcome.notes, *outcome.problems):
        say(line, err=True)


async def _review(storage: Storage, session: str, window: int | None) -> Review:
    logging.getLogger("mnemosyne").setLevel(logging.ERROR)  # what was late then is no news now
    with progress_bar("deciding again") as progress:
        return await review(storage, session, progress, window=window)


def _print_review(review: Review, *, as_json: bool) -> None:
    if as_json:
        found = members(review, "decisions turns other_tables", id="session")
        names = "turn event field recorded today"
        differences = [members(each, names, position="version") for each in review.differences]
        skips = [members(each, "why", position="version") for each in review.skipped]
        print_json({**found, "skipped": skips, "differences": differences})
        return
    if review.differences:
        rows = [
            (str(each.version), each.turn or "-", each.event, each.field or "-", each.recorded, each.today)
            for each in review.differences
        ]
        print_table(("POSITION", "TURN", "EVENT", "FIELD", "RECORDED", "TODAY"), rows, right="POSITION")
    for skipped in review.skipped:
        say(skipped.sentence)
    for digest in review.other_tables:
        say(f"It was decided with another table of models ({digest.hex()}): prices, weights and windows may differ.")
    if review.turns:
        say(f"decided otherwise today: {', '.join(review.turns)}")
    verdict = plural(len(review.differences), "difference") if review.differences else "the same today"
    say(f"{plural(review.decisions, 'decision')}, {len(review.skipped)} skipped: {verdict}")
