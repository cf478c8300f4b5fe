"""The user's limits on cost, and how much of each is used."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from uuid import UUID

import attrs

from mnemosyne.domain.session.budget import DAY, DAYS, SpendingBill, SpendingLimits, UsedLimit, list_used
from mnemosyne.errors import BadConfiguration
from mnemosyne.figures import dollars_text
from mnemosyne.services.read_models import Question, ReadModels, Row
from mnemosyne.services.usage import consumption_of


@attrs.define
class Budgets:
    """The limits in force. ``load`` reads them each time, because they may be raised; unreadable ones stay as they
    were. ``now`` gives µs of UTC.
    """

    load: Callable[[], SpendingLimits]
    now: Callable[[], int]
    _last: SpendingLimits = attrs.field(factory=SpendingLimits)

    async def list_used(self, models: ReadModels, stream: UUID) -> list[UsedLimit]:
        """The limits that a session, or today, has reached or nearly reached."""
        with suppress(BadConfiguration):
            self._last = self.load()
        if not self._last.are_set:
            return []
        return list_used(bill_of(*await models.answers(*ask_bill(stream, self.now() // DAY))), self._last)

    async def describe(self, models: ReadModels, streams: Iterable[UUID]) -> list[str]:
        """A sentence about each limit that one of some sessions, or today, has reached or nearly reached."""
        sentences: dict[str, None] = {}
        for stream in streams:
            for each in await self.list_used(models, stream):
                whose = "today's sessions have" if each.setting == DAYS else f"session {str(stream)[:8]} has"
                amounts = f"{dollars_text(each.spent)} of {dollars_text(each.limit)}"
                sentences[f"{whose} cost {amounts} ({each.setting})"] = None
        return list(sentences)


def ask_bill(stream: UUID, day: int) -> tuple[Question, Question]:
    """The questions for the bill of a session, and of its tenant's sessions on a day (its number)."""
    about = {"stream": stream}
    return (
        Question("usage", "billed", {**about, "since": day * DAY}),
        Question("budget", "helpers_billed", {**about, "day": day}),
    )


def bill_of(replies: Iterable[Row], helpers: Iterable[Row]) -> SpendingBill:
    """The bill, from the answers to ``ask_bill``: replies at list prices, those without a known price as 0."""
    priced = [(row, consumption_of(row).nanodollars) for row in (*replies, *helpers)]
    return SpendingBill(
        session=sum(amount for row, amount in priced if row["own"]),
        day=sum(amount for row, amount in priced if row["today"]),
    )
