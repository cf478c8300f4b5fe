"""What helper models may cost, against what turns cost: a sum a day, and a share of the day's bill.

Both are derived from the log, so neither a crash nor a second process lets anything be spent twice. A day is one of
UTC. Amounts are whole nanodollars; turns are counted at list prices, one of an unknown model as nothing.
"""

import attrs

from mnemosyne.domain.cost.prices import cost, tokens_of
from mnemosyne.domain.objects.events import ObjectSummarized
from mnemosyne.domain.session.events import TurnFinished

DAY = 24 * 60 * 60 * 1_000_000
"""In µs."""


@attrs.frozen
class Spent:
    """What was spent on day number ``day`` (since 1970): ``turns`` by the client, ``helpers`` by us."""

    day: int
    turns: int = 0
    helpers: int = 0


@attrs.frozen
class Budget:
    """The most that helpers may cost: nanodollars ``a_day``, and a ``share`` (0 to 1) of what the day's turns cost."""

    a_day: int
    share: float

    def room(self, spent: Spent) -> int:
        """What may still be spent that day; never below 0."""
        return max(0, min(self.a_day, int(self.share * spent.turns)) - spent.helpers)


def on(day: int, spent: Spent) -> Spent:
    """What was spent on that day; nothing, if it has just begun."""
    return spent if spent.day == day else Spent(day)


def after(spent: Spent, event: object) -> Spent:
    """With what an event of the log tells of that day."""
    match event:
        case TurnFinished() if event.at // DAY == spent.day:
            used = tokens_of(event.usage)
            amount = cost(used, event.model) if used is not None else None
            return attrs.evolve(spent, turns=spent.turns + (amount or 0))
        case ObjectSummarized() if event.at // DAY == spent.day:
            return attrs.evolve(spent, helpers=spent.helpers + event.nanodollars)
        case _:
            return spent
