"""``mnemosyne branches``: the context windows of a session."""

from typing import TYPE_CHECKING, Any

import click

from mnemosyne.cli.log_access import log_of, prints, session_argument, with_log
from mnemosyne.cli.printing import print_table
from mnemosyne.cli.settings import log_options
from mnemosyne.cli.windows import decision_as_json, decision_text
from mnemosyne.domain.history.time_travel import Attempt, BranchTurns, History
from mnemosyne.domain.session.round_events import BranchModeSet
from mnemosyne.figures import iso_time, local_time
from mnemosyne.services.sessions import read_history
from mnemosyne.services.unstructuring import members

if TYPE_CHECKING:
    from mnemosyne.services.session_list import ListedDecision


def _branch_row(line: BranchTurns) -> tuple[str, ...]:
    opened = line.opened
    after = str(opened.forked_at) if opened.parent is not None else "-"
    return (
        line.name,
        opened.kind.value,
        opened.parent or "-",
        after,
        str(line.last),
        local_time(opened.at),
        opened.agent_id or "-",
    )


def address_of(attempt: Attempt) -> str:
    """``7``, or ``7.2`` if it is not the first attempt; ``7/1`` for a round."""
    at = attempt.address
    turn = str(at.turn) if at.attempt == 1 else f"{at.turn}.{at.attempt}"
    return turn if attempt.round is None else f"{turn}/{attempt.round.began.round}"


def _details(line: BranchTurns, decision: BranchModeSet | None) -> dict[str, Any]:
    opened = line.opened
    details = branch_as_json(opened.branch, opened.parent, opened.forked_at, line.last, decision)
    return details | members(opened, "kind inherits lane agent_id") | {"opened_at": iso_time(opened.at)}


def branch_as_json(
    name: str, parent: str | None, forked_at: int, last: int, decision: "BranchModeSet | ListedDecision | None"
) -> dict[str, Any]:
    """A branch as JSON, with its mode."""
    return {
        "id": name,
        "parent": parent,
        "forked_at": forked_at if parent is not None else None,
        "turns": last,
        **decision_as_json(decision),
    }


def _as_json(history: History) -> list[dict[str, Any]]:
    return [_details(line, history.modes.get(line.name)) for line in history.lines.values()]


def _print(history: History) -> None:
    headers = ("BRANCH", "KIND", "LEFT", "AFTER TURN", "TURNS", "OPENED", "AGENT", "UPSTREAM")
    rows = [(*_branch_row(line), decision_text(history.modes.get(line.name))) for line in history.lines.values()]
    print_table(headers, rows, right="TURNS", whole="OPENED")


@click.command()
@session_argument
@log_options()
@prints(_as_json, _print)
def branches(session: str, **options: Any) -> History:
    """List the branches of a session: the context windows of the main agent, of sub-agents and side calls, and those
    abandoned when the user rewound.

    \b
      mnemosyne branches 319a

    A fork shares the turns of its parent up to the turn after which it was forked.
    """
    return with_log(log_of(options), lambda storage: read_history(storage, session))[1]
