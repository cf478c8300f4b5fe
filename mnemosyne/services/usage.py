"""What was used: the tokens that the provider counted, and what they cost at list prices, by session, day or model."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Literal, TypeVar

import attrs

from mnemosyne.domain.cost.catalogue import cost, price_of
from mnemosyne.domain.cost.prices import Terms, Tokens
from mnemosyne.services.quota import LIMITS_SEEN, QuotaWindow, windows_of
from mnemosyne.services.read_models import EVERY_SESSION, Question, ReadModels, names_in
from mnemosyne.times import utc

Group = TypeVar("Group", bound=Hashable)

Grouping = Literal["session", "day", "model"]


@attrs.frozen(kw_only=True)
class Consumption:
    """What one group of replies used. ``nanodollars`` is what the known prices come to, ``unpriced`` how many of the
    ``replies`` came from models, named in ``unknown``, that have none.
    """

    replies: int = 0
    tokens: Tokens = attrs.field(factory=Tokens)
    nanodollars: int = 0
    unpriced: int = 0
    unknown: frozenset[str] = frozenset()

    def __add__(self, other: "Consumption") -> "Consumption":
        """Both together."""
        return Consumption(
            replies=self.replies + other.replies,
            tokens=self.tokens + other.tokens,
            nanodollars=self.nanodollars + other.nanodollars,
            unpriced=self.unpriced + other.unpriced,
            unknown=self.unknown | other.unknown,
        )

    @property
    def price(self) -> int | None:
        """The money in nanodollars; None where nothing has a price."""
        return None if self.unpriced == self.replies else self.nanodollars


@attrs.frozen
class Usage:
    """What was used, by group: a session's id, a day (ISO 8601) or a model. ``names`` are the clients' for sessions,
    ``quota`` the windows of a subscription.
    """

    by: Grouping
    groups: Mapping[Hashable, Consumption]
    names: Mapping[Hashable, str]
    quota: Sequence[QuotaWindow] = ()

    @property
    def total(self) -> Consumption:
        """Of all groups."""
        return sum(self.groups.values(), Consumption())


async def read_usage(models: ReadModels, by: Grouping, zone: tzinfo | None) -> Usage:
    """What was used, in the order in which groups first appear. Days are those of ``zone``; None: of this machine."""
    rows, sessions, seen = await models.answers(Question("usage", "used"), EVERY_SESSION, LIMITS_SEEN)
    names: Mapping[Any, str] = names_in(sessions)
    return Usage(by, add_up(rows, _grouping(by, zone)), names, windows_of(seen))


def _grouping(by: Grouping, zone: tzinfo | None) -> Callable[[Mapping[str, Any]], Hashable]:
    def day(row: Mapping[str, Any]) -> Hashable:
        return utc(row["quarter"]).astimezone(zone).date().isoformat()

    groupings: dict[Grouping, Callable[[Mapping[str, Any]], Hashable]] = {
        "session": lambda row: row["stream"],
        "model": lambda row: row["model"],
        "day": day,
    }
    return groupings[by]


def consumption_of(row: Mapping[str, Any]) -> Consumption:
    """What one row of the queries ``used`` or ``used_by_turn`` says, and costs."""
    tokens = Tokens(*(row[name] for name in ("input", "output", "read", "write_5m", "write_1h")))
    terms = Terms(tier=row["service_tier"], geo=row["inference_geo"], speed=row["speed"], searches=row["web_searches"])
    amount = cost(tokens, row["model"], prompt=row["size"], terms=terms)
    if amount is None:
        name = _name_missing_price(row["model"], terms)
        return Consumption(replies=row["replies"], tokens=tokens, unpriced=row["replies"], unknown=frozenset({name}))
    return Consumption(replies=row["replies"], tokens=tokens, nanodollars=amount)


def _name_missing_price(model: str | None, terms: Terms) -> str:
    """What has no known price: a model, or one that has a price but not on these terms."""
    if price_of(model) is None:
        return model or "(none named)"
    return f"{model} ({', '.join(filter(None, (terms.speed, terms.tier, terms.geo)))})"


def add_up(
    rows: Iterable[Mapping[str, Any]], group_of: Callable[[Mapping[str, Any]], Group]
) -> dict[Group, Consumption]:
    """Rows of such a query added up by group, in the order in which the groups first appear."""
    groups: dict[Group, Consumption] = {}
    for row in rows:
        group = group_of(row)
        groups[group] = groups.get(group, Consumption()) + consumption_of(row)
    return groups
