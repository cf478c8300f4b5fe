"""The state of a session in a few figures, for a client's status line."""

from collections.abc import Sequence
from uuid import UUID

import attrs

from mnemosyne.domain.history.guards import Repetition
from mnemosyne.domain.session.budget import UsedLimit
from mnemosyne.domain.session.events import BranchKind
from mnemosyne.services import savings
from mnemosyne.services.budgets import Budgets
from mnemosyne.services.observing import Observations, observe
from mnemosyne.services.quota import QuotaUse, ask_limits, uses_of
from mnemosyne.services.read_models import Question, ReadModels
from mnemosyne.services.sessions import Archive


@attrs.frozen(kw_only=True)
class StatusLine:
    """``context`` is the size of the session's last prompt in tokens, ``zone`` its pressure; None if unknown. ``cost``
    and ``saved`` are in nanodollars, None if no turn has a known price. ``rewritten`` is the turn of the last rewrite,
    ``plan`` the progress of the current plan (``3 of 7``), ``repeated`` a call repeated in the last turns, ``budgets``
    the limits on cost that are nearly used, ``quota`` its use of a subscription.
    """

    context: int | None
    zone: str | None
    cost: int | None
    saved: int | None
    rewritten: int | None
    plan: str | None
    repeated: Repetition | None
    budgets: Sequence[UsedLimit]
    quota: Sequence[QuotaUse]


async def read_status_line(
    archive: Archive, models: ReadModels, stream: UUID, seen: Observations, budgets: Budgets
) -> StatusLine:
    """The current status. Raises LogFailed."""
    about = {"stream": stream}
    used, unaccounted, helpers, zones, epochs, branches, limits = await models.answers(
        Question("savings", "saved_by_turn", about),
        Question("savings", "saved_unaccounted", about),
        Question("budget", "helpers_of", about),
        Question("working_set", "windows_of", about),
        Question("savings", "epochs_of", about),
        Question("timeline", "branches", about),
        ask_limits(stream),
    )
    used = savings.join_replies(used)
    balances = savings.balances_of(used, unaccounted, helpers)
    total = sum(balances, savings.Balance())
    interactive = {row["branch"] for row in branches if BranchKind(row["kind"]).is_interactive}
    last = next((row for row in reversed(used) if row["branch"] in interactive), None)
    observed = await observe(archive, stream, None, len(used), seen)
    plan = observed.plan
    zone = next(
        (row["zone"] for row in zones if last and (row["branch"], row["turn"]) == (last["branch"], last["turn"])), None
    )
    return StatusLine(
        context=None if last is None else last["counted"] or last["estimated"],
        zone=zone,
        cost=total.nanodollars if total.is_priced else None,
        saved=total.nanodollars_saved if total.is_priced else None,
        rewritten=max((row["turn"] for row in epochs if last and row["branch"] == last["branch"]), default=None),
        plan=plan.progress if plan is not None and plan.is_followed else None,
        repeated=observed.lately_repeated,
        budgets=await budgets.list_used(models, stream),
        quota=uses_of(limits, lambda key: key[0] == stream),
    )
