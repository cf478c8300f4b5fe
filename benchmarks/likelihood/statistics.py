"""The costs of each way of keeping context, from scored cases, with intervals from resampling whole sessions."""

import random
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import attrs

ROUNDS, SEED = 1_000, 20_261_127


@attrs.frozen
class Result:
    """A scored case: the mean loss of the action in nats a token by way, and of its ``needed`` tokens."""

    session: str
    needed: int
    losses: Mapping[str, float]
    needed_losses: Mapping[str, float] = attrs.field(factory=dict)
    context_tokens: Mapping[str, int] = attrs.field(factory=dict)

    def added(self, way: str, base: str) -> float:
        """The additional loss of the action, compared with another way."""
        return self.losses[way] - self.losses[base]


@attrs.frozen
class Estimate:
    """A value with the bounds of its 95 % interval."""

    value: float
    low: float
    high: float


class OfSession(Protocol):
    """Something that was measured in a session."""

    @property
    def session(self) -> str: ...


T = TypeVar("T", bound=OfSession)

Statistic = Callable[[Sequence[Result]], float | None]
"""A figure of some results; None where they do not determine it."""


def estimate(
    results: Sequence[T], statistic: Callable[[Sequence[T]], float | None], rounds: int = ROUNDS
) -> Estimate | None:
    """The figure with its interval: sessions are drawn with replacement, each with all its results."""
    value = statistic(results)
    if value is None:
        return None
    by_session: dict[str, list[T]] = {}
    for each in results:
        by_session.setdefault(each.session, []).append(each)
    sessions = list(by_session.values())
    draw = random.Random(SEED)
    drawn = (
        statistic([each for one in draw.choices(sessions, k=len(sessions)) for each in one]) for _ in range(rounds)
    )
    values = sorted(each for each in drawn if each is not None) or [value]
    return Estimate(value, values[int(0.025 * len(values))], values[int(0.975 * (len(values) - 1))])


def mean_added(way: str, base: str) -> Statistic:
    """The mean cost of a way in nats a token."""
    return lambda results: statistics.fmean(each.added(way, base) for each in results) if results else None


def median_added(way: str, base: str) -> Statistic:
    """The median cost of a way in nats a token."""
    return lambda results: statistics.median(each.added(way, base) for each in results) if results else None


def of_needed(results: Sequence[Result]) -> list[Result]:
    """The results with the losses of the needed tokens alone; without those that need nothing."""
    return [attrs.evolve(each, losses=each.needed_losses) for each in results if each.needed_losses]


def ratio(way: str, other: str, base: str) -> Statistic:
    """The cost of a way as a share of another's."""

    def share(results: Sequence[Result]) -> float | None:
        whole = sum(each.added(other, base) for each in results)
        return sum(each.added(way, base) for each in results) / whole if whole > 0 else None

    return share


def area_under_curve(way: str, base: str) -> Statistic:
    """The area under the curve: the share of pairs in which the case that needs its object costs more, ties half."""

    def area(results: Sequence[Result]) -> float | None:
        needing = [each.added(way, base) for each in results if each.needed]
        others = sorted(each.added(way, base) for each in results if not each.needed)
        if not needing or not others:
            return None
        return sum(_share_below(others, each) for each in needing) / len(needing)

    return area


def _share_below(ordered: Sequence[float], value: float) -> float:
    return (bisect_left(ordered, value) + bisect_right(ordered, value)) / 2 / len(ordered)


def least_predictable(losses: Sequence[float], share: float) -> list[int]:
    """The numbers of tokens that token-level cutting keeps, in order: this share of them, the least predictable."""
    kept = sorted(range(len(losses)), key=lambda number: -losses[number])[: round(share * len(losses))]
    return sorted(kept)
