"""Refuses requests beyond the user's limits on cost, before they are sent.

A budget refuses a prompt, and never a request within an agent's work: between two calls of tools, of a sub-agent, or of
the client itself. The hard limit refuses every request but those without tools, such as for a title. If the bill cannot
be read in time, nothing is refused.
"""

import logging
import re
from collections.abc import Callable, Mapping
from math import ceil

import attrs
import trio

from mnemosyne.actors.messages import ArrivedRequest, Identity
from mnemosyne.domain.cost.prices import NANODOLLARS
from mnemosyne.domain.segmentation.authors import ends_with_prompt
from mnemosyne.domain.session.budget import DAY, DAYS, SESSION, Bills, SpendingLimits, UsedLimit, list_used
from mnemosyne.domain.wire.dialects import is_side
from mnemosyne.errors import BadConfiguration, LogFailed, OverBudget
from mnemosyne.figures import dollars_text

log = logging.getLogger(__name__)

BUDGET_HEADER = "x-mnemosyne-budget"
"""The session's budget in dollars, which a client may choose for itself: `run --budget`."""

_AMOUNT = re.compile(r"\d{1,9}(?:\.\d{1,9})?")


class SpendingGuard:
    """Enforces the server's ``limits``. Before a refusal it reads them again with ``reload``: they may be raised."""

    def __init__(self, bills: Bills, limits: SpendingLimits, reload: Callable[[], SpendingLimits]) -> None:
        self.limits = limits
        self._bills = bills
        self._reload = reload
        self._warned: set[tuple[object, ...]] = set()

    async def check(self, request: ArrivedRequest, identity: Identity, patience: float) -> None:
        """Raise OverBudget if a limit does not allow a request. Waits at most ``patience`` seconds for the bill."""
        chosen = _read_choice(request)
        if not (self.limits.are_set or chosen.are_set):
            return
        used = await self._list_used(request, identity, chosen, patience)
        if not any(each.is_reached for each in used):
            return
        read = (await request.read()).transcript
        origin = request.identify(read)
        is_prompt = origin.may_be_of_user and ends_with_prompt(read)
        stopping = [each for each in used if each.is_reached and (each.is_hard or is_prompt)]
        if stopping and not is_side(origin.conversation):
            raise OverBudget(_explain(stopping[0], self.limits.sources, is_chosen=chosen.are_set))

    async def _list_used(
        self, request: ArrivedRequest, identity: Identity, chosen: SpendingLimits, patience: float
    ) -> list[UsedLimit]:
        day = request.at // DAY
        with trio.move_on_after(patience):
            try:
                bill = await self._bills.bill_of(identity.tenant, identity.stream, day)
            except LogFailed as error:
                log.warning("limits on cost are not checked: %s", error)
                return []
            used = list_used(bill, self._in_force(chosen))
            if any(each.is_reached for each in used):
                try:
                    self.limits = self._reload()
                except BadConfiguration as error:
                    log.error("the limits on cost stay as they are: %s", error)
                used = list_used(bill, self._in_force(chosen))
            self._warn(used, identity, day)
            return used
        log.warning("limits on cost are not checked: the bill of a session could not be read in time")
        return []

    def _in_force(self, chosen: SpendingLimits) -> SpendingLimits:
        return self.limits if chosen.session is None else attrs.evolve(self.limits, session=chosen.session)

    def _warn(self, used: list[UsedLimit], identity: Identity, day: int) -> None:
        """Log each limit that is nearly used, once for each session or day."""
        for each in used:
            key = (each.setting, day if each.setting == DAYS else identity.stream)
            if key not in self._warned:
                self._warned.add(key)
                whose = "the day" if each.setting == DAYS else f"session {identity.stream}"
                amounts = dollars_text(each.spent), dollars_text(each.limit)
                log.warning("%s cost %s of %s = %s", whose, amounts[0], each.setting, amounts[1])


def _read_choice(request: ArrivedRequest) -> SpendingLimits:
    asked = next((value.strip() for name, value in request.headers if name.lower() == BUDGET_HEADER), "")
    return SpendingLimits(session=round(float(asked) * NANODOLLARS) if _AMOUNT.fullmatch(asked) else None)


def _explain(used: UsedLimit, sources: Mapping[str, str], *, is_chosen: bool) -> str:
    """What was spent, the limit, and how to go on."""
    source = sources.get(used.setting, "")
    more = ceil(2 * max(used.spent, used.limit, 1) / NANODOLLARS)
    whose = "today's sessions have cost" if used.setting == DAYS else "this session has cost"
    of_run = f"resume the session with `mnemosyne run --budget {more} -- CLIENT`"
    if used.setting == SESSION and (is_chosen or source.startswith("option")):
        way = of_run
    elif source.startswith(("option", "environment")):
        way = f"restart the server with more than {dollars_text(used.limit)} in {source}"
    else:
        way = f"raise the limit with `mnemosyne config set {used.setting} {more}` and send it again"
        way += f", or only for this session, {of_run}" if used.setting == SESSION else ""
    return (
        f"not sent: {whose} {dollars_text(used.spent)}, and the limit is {dollars_text(used.limit)} ({used.setting}). "
        f"To go on, {way}."
    )
