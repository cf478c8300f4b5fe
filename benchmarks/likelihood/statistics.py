"""The costs of each way of keeping context, from scored cases, with intervals from resampling whole sessions."""

import random
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import attrs

from benchmarks.harness import Row

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


def estimate_row(
    labels: tuple[str, str, str],
    results: Sequence[T],
    statistic: Callable[[Sequence[T]], float | None],
    *,
    n: int | None = None,
    digits: str = ".3f",
    goal: float | None = None,
) -> list[Row]:
    """The row of a figure by its name, variant and unit, with its interval after the unit; none without a value. ``n``
    is the number of results unless given.
    """
    name, variant, unit = labels
    found = estimate(results, statistic) if results else None
    if found is None:
        return []
    interval = f"{unit} ({found.low:{digits}} to {found.high:{digits}})".strip()
    return [Row(name, variant, interval, found.value, None, None, len(results) if n is None else n, goal)]


def mean_added(way: str, base: str, mean: Callable[[Iterable[float]], float] = statistics.fmean) -> Statistic:
    """The mean (or median) cost of a way in nats a token."""
    return lambda results: mean(each.added(way, base) for each in results) if results else None


def mean_of(way: str) -> Statistic:
    """The mean of a way's scores."""
    return lambda results: statistics.fmean(each.losses[way] for each in results)


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
        below = sum(bisect_left(others, each) + bisect_right(others, each) for each in needing) / 2
        return below / len(others) / len(needing)

    return area


def least_predictable(losses: Sequence[float], share: float) -> list[int]:
    """The numbers of tokens that token-level cutting keeps, in order: this share of them, the least predictable."""
    kept = sorted(range(len(losses)), key=lambda number: -losses[number])[: round(share * len(losses))]
    return sorted(kept)
