"""Spending for actors whose log is in memory."""

import attrs

from mnemosyne.domain.session.budget import DaySpending
from mnemosyne.projections.daily_spending import BUDGET
from mnemosyne.projections.projection import fold
from mnemosyne.projections.store import Tail


@attrs.frozen
class LoggedSpending:
    """The projection of a log, recomputed for each answer (domain.session.budget.Spending)."""

    log: Tail

    async def on_day(self, day: int) -> DaySpending:
        folded = fold(BUDGET, await self.log.tail(after=0, limit=1_000_000))
        assert not folded.set_aside
        rows = [row for key, row in folded.rows["spent"].items() if key[0] == day]
        return DaySpending(day, *(sum(int(row.get(name) or 0) for row in rows) for name in ("turns", "helpers")))


@attrs.frozen
class EnoughTurns:
    """Turns so expensive that neither their budget share binds nor a helper's cost."""

    async def on_day(self, day: int) -> DaySpending:
        return DaySpending(day, turns=10**12)
