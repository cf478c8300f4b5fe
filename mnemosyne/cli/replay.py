"""``mnemosyne replay``: replay recordings, or re-run the decisions of a stored session with the current code."""

import logging
from pathlib import Path
from typing import Any

import click

from mnemosyne.app.storage import Storage, event_codec
from mnemosyne.cli.log_access import json_option, log_of, with_log
from mnemosyne.cli.printing import print_json, print_table, progress_bar, say
from mnemosyne.cli.settings import log_options
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.figures import plural
from mnemosyne.replay.deciding import Review, review
from mnemosyne.replay.formats import read_tapes
from mnemosyne.replay.running import RunOutcome, run
from mnemosyne.services.unstructuring import members


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="FILE…")
@click.option(
    "--log", "log_file", type=click.File("wb"), metavar="OUT.jsonl", help="Write the resulting logs in canonical form."
)
@click.option("--manage", is_flag=True, help="Replay the files with managing on.")
@click.option("--from-log", metavar="SESSION", help="Re-run the decisions of a stored session, and show differences.")
@click.option(
    "--window",
    type=click.IntRange(min=1),
    metavar="TOKENS",
    help="With --from-log: use this window, and show which managed turns would be decided differently.",
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
    """Replay recorded sessions as a server would process them, into a log in memory. FILE is a JSON Lines file of
    sessions, an export, or a folder of these.

    \b
      mnemosyne replay session.jsonl --manage
      mnemosyne replay --from-log 319a

    The same files give the same log, byte for byte. With --from-log, the commands of a stored session are run with the
    current code, and each decision that differs is shown. The exit code is 1 if anything differs.
    """
    if bool(files) == bool(from_log):
        raise click.UsageError("Name files to replay, or a session with --from-log.")
    if window is not None and not from_log:
        raise click.UsageError("--window needs --from-log.")
    if manage and from_log:
        raise click.UsageError("--manage needs files.")
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
            {**members(session, "external_id branches turns events sha256", id="session"), "ok": not session.problems}
            for session in outcome.sessions
        ]
        print_json({"sessions": sessions, **members(outcome, "notes problems", ok="good")})
        return
    rows = [
        (run.external_id or "-", str(run.branches), str(run.turns), str(run.events), run.sha256[:16])
        for run in outcome.sessions
    ]
    if rows:
        print_table(("SESSION", "BRANCHES", "TURNS", "EVENTS", "SHA256"), rows, right="BRANCHES TURNS EVENTS")
    for line in (*outcome.notes, *outcome.problems):
        say(line, err=True)


async def _review(storage: Storage, session: str, window: int | None) -> Review:
    logging.getLogger("mnemosyne").setLevel(logging.ERROR)  # warnings about the recorded past are not news
    with progress_bar("deciding again") as progress:
        return await review(storage, session, progress, window=window)


def _print_review(review: Review, *, as_json: bool) -> None:
    if as_json:
        summary = members(review, "decisions turns other_tables", id="session")
        names = "turn event field recorded today"
        differences = [members(difference, names, position="version") for difference in review.differences]
        skips = [members(skip, "why", position="version") for skip in review.skipped]
        print_json({**summary, "skipped": skips, "differences": differences})
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
        say(f"The session used another table of models ({digest.hex()}): prices, weights and windows may differ.")
    if review.turns:
        say(f"decided differently today: {', '.join(review.turns)}")
    verdict = plural(len(review.differences), "difference") if review.differences else "the same today"
    say(f"{plural(review.decisions, 'decision')}, {len(review.skipped)} skipped: {verdict}")
