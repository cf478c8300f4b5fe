"""How a session stands, in few figures: what a client shows in its status line."""

from collections.abc import Sequence
from uuid import UUID

import attrs

from mnemosyne.services import savings
from mnemosyne.services.quota import LIMITS_SEEN, QuotaWindow, windows_of
from mnemosyne.services.read_models import Question, ReadModels
from mnemosyne.services.savings import Balance


@attrs.frozen(kw_only=True)
class StatusLine:
    """``context`` is the size of the session's last prompt in tokens, ``zone`` the pressure it stood under; None where
    nobody knows. ``cost`` and ``saved`` are in nanodollars, None where no turn has a known price. ``rewritten`` is the
    turn before which a history was last rewritten, ``quota`` what is used of a subscription.
    """

    context: int | None
    zone: str | None
    cost: int | None
    saved: int | None
    rewritten: int | None
    quota: Sequence[QuotaWindow]


async def read_status_line(models: ReadModels, stream: UUID) -> StatusLine:
    """How it stands now. Raises LogFailed."""
    about = {"stream": stream}
    used, zones, epochs, seen = await models.answers(
        Question("savings", "saved_by_turn", about),
        Question("working_set", "windows_of", about),
        Question("savings", "epochs_of", about),
        LIMITS_SEEN,
    )
    total = sum(map(savings.balance_of, used), Balance())
    last = used[-1] if used else None
    zone = next(
        (row["zone"] for row in zones if last and (row["branch"], row["turn"]) == (last["branch"], last["turn"])), None
    )
    return StatusLine(
        context=None if last is None else last["counted"] or last["estimated"],
        zone=zone,
        cost=total.nanodollars if used and total.is_priced else None,
        saved=total.nanodollars_saved if used and total.is_priced else None,
        rewritten=max((row["turn"] for row in epochs if last and row["branch"] == last["branch"]), default=None),
        quota=windows_of(seen),
    )
