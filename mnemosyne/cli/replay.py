"""``mnemosyne replay``: re-run the decisions of a stored session with the current code."""

import logging
from typing import Any

import click

from mnemosyne.app.policies import load_policy
from mnemosyne.app.storage import Storage
from mnemosyne.cli.log_access import log_of, prints, with_log
from mnemosyne.cli.printing import print_table, progress_bar, say
from mnemosyne.cli.settings import log_options
from mnemosyne.domain.window.policies import PlugIn
from mnemosyne.figures import plural
from mnemosyne.replay.deciding import Review, review
from mnemosyne.services.unstructuring import members


def _as_json(review: Review) -> dict[str, Any]:
    names = "turn event field recorded today"
    return {
        **members(review, "decisions turns other_tables by_earlier_version", id="session"),
        "skipped": [members(skip, "why", position="version") for skip in review.skipped],
        "differences": [members(difference, names, position="version") for difference in review.differences],
    }


def _print(review: Review) -> None:
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
    if review.turns and review.by_earlier_version:
        say("An earlier version recorded this session; today's planner may compact and evict differently.")
    if review.turns:
        say(f"decided differently today: {', '.join(review.turns)}")
    verdict = plural(len(review.differences), "difference") if review.differences else "the same today"
    say(f"{plural(review.decisions, 'decision')}, {len(review.skipped)} skipped: {verdict}")


@click.command()
@click.option(
    "--from-log", metavar="SESSION", required=True, help="Re-run the decisions of this session, and show differences."
)
@click.option(
    "--window",
    type=click.IntRange(min=1),
    metavar="TOKENS",
    help="Use this window, and show which managed turns would be decided differently.",
)
@log_options()
@prints(_as_json, _print, fails=lambda review: bool(review.differences))
def replay(from_log: str, window: int | None, **options: Any) -> Review:
    """Run the commands of a stored session with the current code, and show each decision that differs from the log.

    \b
      mnemosyne replay --from-log 319a

    The exit code is 1 if anything differs.
    """
    config = log_of(options)
    plug_in = load_policy(config)
    return with_log(config, lambda storage: _review(storage, from_log, window, plug_in))


async def _review(storage: Storage, session: str, window: int | None, plug_in: PlugIn | None) -> Review:
    logging.getLogger("mnemosyne").setLevel(logging.ERROR)  # warnings about the recorded past are not news
    with progress_bar("deciding again") as progress:
        return await review(storage, session, progress, window=window, plug_in=plug_in)
