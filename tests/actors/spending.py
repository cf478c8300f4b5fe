"""Spending for actors whose log is in memory."""

from uuid import UUID

import attrs

from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.budget import DAY, DaySpending
from mnemosyne.projections.daily_spending import BUDGET
from mnemosyne.projections.projection import fold
from mnemosyne.projections.store import Tail
from mnemosyne.services.billed_replies import BilledReplies, ReplyEvent
from mnemosyne.services.usage import price_replies


@attrs.frozen
class LoggedSpending:
    """The projection of a log, recomputed for each answer (domain.session.budget.Spending)."""

    log: Tail

    async def on_day(self, day: int) -> DaySpending:
        events = await self.log.tail(after=0, limit=1_000_000)
        folded = fold(BUDGET, events)
        assert not folded.set_aside
        helpers = sum(int(row["helpers"] or 0) for key, row in folded.rows["spent"].items() if key[0] == day)
        known: dict[tuple[UUID, Address], BilledReplies] = {}
        for recorded in events:
            event = recorded.envelope.event
            if isinstance(event, ReplyEvent) and event.at // DAY == day:
                known.setdefault((recorded.stream, event.address), BilledReplies()).note(event)
        replies = [reply for each in known.values() for reply in each.replies]
        prices = [price_replies(used, None, terms, size=used.prompt) for used, terms in replies]
        return DaySpending(day, sum(each.nanodollars for each in prices), helpers)


@attrs.frozen
class EnoughTurns:
    """Turns so expensive that neither their budget share binds nor a helper's cost."""

    async def on_day(self, day: int) -> DaySpending:
        return DaySpending(day, turns=10**12)
