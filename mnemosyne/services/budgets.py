"""The user's limits on cost, and how much of each is used."""

from collections.abc import Callable, Iterable
from uuid import UUID

import attrs

from mnemosyne.domain.session.budget import DAY, SpendingBill, SpendingLimits, UsedLimit, list_used
from mnemosyne.services.read_models import Question, ReadModels, Row
from mnemosyne.services.usage import consumption_of


@attrs.frozen
class Budgets:
    """The limits in force; ``now`` gives µs of UTC."""

    limits: SpendingLimits
    now: Callable[[], int]

    async def list_used(self, models: ReadModels, stream: UUID) -> list[UsedLimit]:
        """The limits that a session, or today, has reached or nearly reached."""
        if not self.limits.are_set:
            return []
        return list_used(bill_of(*await models.answers(*ask_bill(stream, self.now() // DAY))), self.limits)


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
