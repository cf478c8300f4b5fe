"""The price of each turn, by kind of token, from the same rows as ``mnemosyne usage``."""

from collections.abc import Iterable, Mapping
from uuid import UUID

import attrs

from mnemosyne.domain.cost.catalogue import cost
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.services.read_models import Question, ReadModels, Row
from mnemosyne.services.usage import Consumption, consumption_of, terms_in

KINDS = tuple(field.name for field in attrs.fields(Tokens))


@attrs.frozen(kw_only=True)
class TurnPrice:
    """The billed usage of an attempt at a turn, over all its requests. ``parts`` are nanodollars by kind of token; they
    are empty if a request has no known price.
    """

    used: Consumption
    parts: Mapping[str, int]

    @property
    def nanodollars(self) -> int | None:
        """The price of the turn; None if a request has no known price."""
        return None if self.used.unpriced else self.used.nanodollars

    def input_rate(self, *, cached: bool) -> float:
        """The average price of an input token, in nanodollars: read from the cache, or not."""
        kinds = ("read",) if cached else ("input", "write_5m", "write_1h")
        tokens = sum(getattr(self.used.tokens, kind) for kind in kinds)
        return sum(self.parts.get(kind, 0) for kind in kinds) / tokens if tokens else 0.0


Prices = Mapping[tuple[str, int, int], TurnPrice]
"""Prices by branch, turn and attempt."""


async def read_prices(models: ReadModels, stream: UUID) -> Prices:
    """The prices of a session's turns; turns without reported usage are omitted. Raises LogFailed."""
    (rows,) = await models.answers(Question("usage", "used_by_turn", {"stream": stream}))
    return prices_of(rows)


def prices_of(rows: Iterable[Row]) -> Prices:
    found: dict[tuple[str, int, int], TurnPrice] = {}
    for row in rows:
        key = row["branch"], row["turn"], row["attempt"]
        before = found.get(key, TurnPrice(used=Consumption(), parts={}))
        used, parts = before.used + consumption_of(row), _price_parts(row)
        parts = {kind: before.parts.get(kind, 0) + parts.get(kind, 0) for kind in KINDS}
        found[key] = TurnPrice(used=used, parts={} if used.unpriced else parts)
    return found


def _price_parts(row: Row) -> Mapping[str, int]:
    """The price of each kind of token, without web searches."""
    terms = attrs.evolve(terms_in(row), searches=0)
    parts = {kind: cost(Tokens(**{kind: row[kind]}), row["model"], prompt=row["size"], terms=terms) for kind in KINDS}
    return {kind: amount for kind, amount in parts.items() if amount is not None}
