"""Whether an agent with memory is not worse than without, by pairs of runs that each passed or failed.

- *Effect*: the difference of the two shares that passed, with Tango's score interval (T. Tango, Statistics in Medicine
  17, 1998, 891-908), which also holds with few disagreeing pairs.
- *Test*: unconditional exact test of non-inferiority. The p-value is the probability of a score at least as high as the
  observed one if memory is worse by the margin, at the share of disagreeing pairs that makes it largest (H. Hsueh,
  J. Liu, J. Chen, Biometrics 57, 2001, 478-483). A test conditional on the number of disagreeing pairs, such as
  McNemar's (Psychometrika 12, 1947, 153-157), cannot have a margin; its p-value of any difference is reported too.
- *Number of pairs*: asymptotic, with the observed share of disagreeing pairs (J. Nam, Biometrics 53, 1997, 1422-1430).
  One agreeing and one disagreeing pair are added (A. Agresti, Y. Min, Statistics in Medicine 24, 2005, 729-740), so
  that pairs without a disagreement do not promise too much.
"""

import math
from collections.abc import Callable
from enum import Enum
from statistics import NormalDist

import attrs

LEVEL = 0.05
"""The probability of claiming non-inferiority for an arm worse by the margin; the interval's is twice that."""

POWER = 0.8
"""The probability of claiming it for an equal arm."""

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
        return self.both + self.gained + self.lost + self.neither

    @property
    def difference(self) -> float:
        """The share that passed with memory, less the share that passed without; 0 without pairs."""
        return (self.gained - self.lost) / self.pairs if self.pairs else 0.0

    @property
    def swapped(self) -> "PairCounts":
        """The same with the arms exchanged."""
        return PairCounts(self.both, self.lost, self.gained, self.neither)

    @property
    def disagreeing(self) -> float:
        """The estimated share of pairs of which one passed, with a pseudo-count of 1 for each outcome."""
        return (self.gained + self.lost + 1) / (self.pairs + 2)


class TrialOutcome(Enum):
    NOT_WORSE = "not worse"
    WORSE = "worse"
    INCONCLUSIVE = "inconclusive"


@attrs.frozen
class Conclusion:
    """The outcome for a margin; ``p`` as in ``non_inferiority``. ``needed`` is the approximate number of pairs for
    NOT_WORSE; None if the observed difference is at or below the margin, where more pairs would not help.
    """

    outcome: TrialOutcome
    p: float
    needed: int | None


def conclude(counts: PairCounts, margin: float) -> Conclusion:
    """The conclusion at ``LEVEL``: WORSE by the same test, of the opposite claim. The number of pairs assumes equal
    arms, or, if that many pairs were not enough, the observed difference.
    """
    p, needed = non_inferiority(counts, margin), count_needed(margin, counts.disagreeing)
    if p <= LEVEL:
        return Conclusion(TrialOutcome.NOT_WORSE, p, needed)
    outcome = TrialOutcome.WORSE if non_inferiority(counts.swapped, -margin) <= LEVEL else TrialOutcome.INCONCLUSIVE
    if counts.pairs < needed:
        return Conclusion(outcome, p, needed)
    hopeless = counts.difference <= -margin
    return Conclusion(outcome, p, None if hopeless else count_needed(margin, counts.disagreeing, counts.difference))


def mcnemar(counts: PairCounts) -> float:
    """The two-sided p-value of McNemar's exact test: the null hypothesis is that both arms are equal."""
    found = counts.gained + counts.lost
    tail = sum(_binomial(found, each, 0.5) for each in range(min(counts.gained, counts.lost) + 1))
    return min(1.0, 2 * tail)


def interval(counts: PairCounts) -> tuple[float, float]:
    """Tango's score interval of the difference, of 90 %, so that each end is a bound at ``LEVEL``. (-1, 1) without
    pairs.
    """
    if not counts.pairs:
        return -1.0, 1.0
    return (
        _bisect(lambda at: _score(counts, at) <= _Z, -1.0, counts.difference),
        _bisect(lambda at: _score(counts, at) <= -_Z, counts.difference, 1.0),
    )


def non_inferiority(counts: PairCounts, margin: float) -> float:
    """The p-value of the exact test: the largest probability of a score at least as high, if memory is worse by the
    ``margin`` (-1 to 1; better if negative). 1 without pairs.
    """
    if not counts.pairs:
        return 1.0
    seen = _score(counts, -margin)
    bounds = [_find_least_gained(counts.pairs, found, margin, seen) for found in range(counts.pairs + 1)]
    least = abs(margin)
    shares = [least + (1 - least) * (step / _STEPS) ** 2 for step in range(_STEPS + 1)]
    return max(_chance(bounds, share, margin) for share in shares)


def count_needed(margin: float, disagreeing: float, difference: float = 0.0) -> int:
    """The approximate number of pairs for a claim with this share of disagreeing pairs and this true difference, which
    is above the negative margin.
    """
    reach = (_Z + NormalDist().inv_cdf(POWER)) / (margin + difference)
    return math.ceil(reach * reach * max(0.0, disagreeing - difference * difference))


_STEPS = 60
"""Shares of disagreeing pairs that are tried; close to each other where there are few."""


def _score(counts: PairCounts, difference: float) -> float:
    """Tango's score statistic: the standard errors by which the pairs exceed a difference, if that is the true one."""
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
    """The smallest difference for which ``is_inside`` holds."""
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if is_inside(middle) else (middle, high)
    return (low + high) / 2


def _find_least_gained(pairs: int, found: int, margin: float, seen: float) -> int:
    """The least number of gained pairs, of ``found`` disagreeing ones, with a score as high as the ``seen`` one."""
    low, high = 0, found + 1
    while low < high:
        middle = (low + high) // 2
        counts = PairCounts(gained=middle, lost=found - middle, neither=pairs - found)
        low, high = (low, middle) if _score(counts, -margin) >= seen - 1e-9 else (middle + 1, high)
    return low


def _chance(bounds: list[int], share: float, margin: float) -> float:
    """The probability of a result that reaches these bounds, if this ``share`` of pairs disagrees."""
    pairs = len(bounds) - 1
    gained = (share - margin) / (2 * share)
    spread = 8 * math.sqrt(pairs * share * (1 - share)) + 1
    first, last = max(0, math.floor(pairs * share - spread)), min(pairs, math.ceil(pairs * share + spread))
    return sum(_binomial(pairs, found, share) * _tail(found, bounds[found], gained) for found in range(first, last + 1))


def _tail(count: int, least: int, chance: float) -> float:
    """The probability of at least ``least`` successes among ``count``, each with the probability ``chance``."""
    if least > count:
        return 0.0
    return min(1.0, sum(_binomial(count, each, chance) for each in range(least, count + 1)))


def _binomial(count: int, each: int, chance: float) -> float:
    if chance <= 0.0 or chance >= 1.0:
        return float(each == (count if chance >= 1.0 else 0))
    ways = math.lgamma(count + 1) - math.lgamma(each + 1) - math.lgamma(count - each + 1)
    return math.exp(ways + each * math.log(chance) + (count - each) * math.log1p(-chance))
