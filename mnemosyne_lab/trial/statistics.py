"""Whether the one of two ways is not worse than the other, judged by pairs of which each passed or failed.

Only pairs that disagree tell anything (McNemar). With few of them an interval that takes their number for given claims
too much, so non-inferiority is tested without that: over every share of pairs that might disagree, how likely is a
result at least as good as the one seen, if the one way were worse by the margin? The largest of these chances counts.
"""

import math
from collections.abc import Callable
from statistics import NormalDist

import attrs

LEVEL = 0.05
"""The probability of claiming non-inferiority for an arm worse by the margin; the interval's is twice that."""

POWER = 0.8
"""The probability of claiming it for an equal arm."""

DISAGREE = 0.25
"""The share of pairs that disagree where none is known yet."""

_Z = NormalDist().inv_cdf(1 - LEVEL)


@attrs.frozen
class PairCounts:
    """How many pairs passed ``both`` ways, only with memory (``gained``), only without (``lost``), and ``neither``."""

    both: int = 0
    gained: int = 0
    lost: int = 0
    neither: int = 0

    @property
    def pairs(self) -> int:
        """All of them."""
        return self.both + self.gained + self.lost + self.neither

    @property
    def difference(self) -> float:
        """The share that passed with memory, less the share that passed without; 0 without pairs."""
        return (self.gained - self.lost) / self.pairs if self.pairs else 0.0

    @property
    def disagreeing(self) -> float:
        """The share of pairs of which one passed; 0 without pairs."""
        return (self.gained + self.lost) / self.pairs if self.pairs else 0.0


def mcnemar(counts: PairCounts) -> float:
    """McNemar's exact test: how likely pairs that disagree fall apart at least so far, if both ways are as good."""
    found = counts.gained + counts.lost
    tail = sum(_binomial(found, each, 0.5) for each in range(min(counts.gained, counts.lost) + 1))
    return min(1.0, 2 * tail)


def interval(counts: PairCounts) -> tuple[float, float]:
    """Tango's score interval of the difference (1998), which allows for few disagreeing pairs: 90 %, so its lower end
    bounds the difference at ``LEVEL``. (-1, 1) without pairs.
    """
    if not counts.pairs:
        return -1.0, 1.0
    return (
        _bisect(lambda at: _score(counts, at) <= _Z, -1.0, counts.difference),
        _bisect(lambda at: _score(counts, at) <= -_Z, counts.difference, 1.0),
    )


def non_inferiority(counts: PairCounts, margin: float) -> float:
    """How likely a result at least as good is, at most, if memory made it worse by the ``margin`` (0 to 1): claimed at
    ``LEVEL`` or below. 1 without pairs.
    """
    if not counts.pairs:
        return 1.0
    seen = _score(counts, -margin)
    bounds = [_find_least_gained(counts.pairs, found, margin, seen) for found in range(counts.pairs + 1)]
    shares = [margin + (1 - margin) * (step / _STEPS) ** 2 for step in range(_STEPS + 1)]
    return max(_chance(bounds, share, margin) for share in shares)


def count_needed(margin: float, disagreeing: float = DISAGREE) -> int:
    """The approximate number of pairs for a claim about equal arms with this share of disagreeing pairs."""
    reach = _Z + NormalDist().inv_cdf(POWER)
    return math.ceil(reach * reach * disagreeing / (margin * margin))


_STEPS = 60
"""Shares of disagreeing pairs that are tried; close to each other where there are few."""


def _score(counts: PairCounts, difference: float) -> float:
    """By how many standard errors the pairs lie above a difference, if that were the true one."""
    pairs, gained, lost = counts.pairs, counts.gained, counts.lost
    b = -gained - lost + (2 * pairs - gained + lost) * difference
    c = -lost * difference * (1 - difference)
    share = (math.sqrt(max(0.0, b * b - 8 * pairs * c)) - b) / (4 * pairs)
    variance = pairs * (2 * share + difference * (1 - difference))
    above = gained - lost - pairs * difference
    if variance <= 1e-12:
        return 0.0 if abs(above) < 1e-9 else math.copysign(math.inf, above)
    return above / math.sqrt(variance)


def _bisect(is_inside: Callable[[float], bool], low: float, high: float) -> float:
    """Bisect for the smallest difference for which ``is_inside`` holds."""
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if is_inside(middle) else (middle, high)
    return (low + high) / 2


def _find_least_gained(pairs: int, found: int, margin: float, seen: float) -> int:
    """Of so many pairs that disagree, how many at least must be gained for a result as good as the one seen."""
    low, high = 0, found + 1
    while low < high:
        middle = (low + high) // 2
        counts = PairCounts(gained=middle, lost=found - middle, neither=pairs - found)
        low, high = (low, middle) if _score(counts, -margin) >= seen - 1e-9 else (middle + 1, high)
    return low


def _chance(bounds: list[int], share: float, margin: float) -> float:
    """The chance of a result that reaches these bounds, if so large a share of pairs disagrees."""
    pairs = len(bounds) - 1
    gained = (share - margin) / (2 * share)
    spread = 8 * math.sqrt(pairs * share * (1 - share)) + 1
    first, last = max(0, math.floor(pairs * share - spread)), min(pairs, math.ceil(pairs * share + spread))
    return sum(_binomial(pairs, found, share) * _tail(found, bounds[found], gained) for found in range(first, last + 1))


def _tail(count: int, least: int, chance: float) -> float:
    """The chance of at least so many."""
    if least > count:
        return 0.0
    return min(1.0, sum(_binomial(count, each, chance) for each in range(least, count + 1)))


def _binomial(count: int, each: int, chance: float) -> float:
    if chance <= 0.0 or chance >= 1.0:
        return float(each == (count if chance >= 1.0 else 0))
    ways = math.lgamma(count + 1) - math.lgamma(each + 1) - math.lgamma(count - each + 1)
    return math.exp(ways + each * math.log(chance) + (count - each) * math.log1p(-chance))
