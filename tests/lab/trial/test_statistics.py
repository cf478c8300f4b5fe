"""A trial makes a false claim at most one time in twenty, however few pairs disagree."""

import math

import pytest

from mnemosyne_lab.trial.statistics import (
    LEVEL,
    PairCounts,
    TrialOutcome,
    conclude,
    count_needed,
    interval,
    mcnemar,
    non_inferiority,
)

MARGIN = 0.05


def chance_of(counts: PairCounts, share: float, difference: float) -> float:
    """The multinomial probability of this result, with this share of disagreeing pairs and this difference."""
    gained, lost = (share + difference) / 2, (share - difference) / 2
    agree = counts.pairs - counts.gained - counts.lost
    ways = math.factorial(counts.pairs) // (
        math.factorial(counts.gained) * math.factorial(counts.lost) * math.factorial(agree)
    )
    return ways * gained**counts.gained * lost**counts.lost * (1 - share) ** agree


def results_of(pairs: int) -> list[PairCounts]:
    """Every possible result of this many pairs."""
    return [
        PairCounts(gained=gained, lost=lost, neither=pairs - gained - lost)
        for gained in range(pairs + 1)
        for lost in range(pairs + 1 - gained)
    ]


def test_inferior_arm_is_claimed_non_inferior_at_most_one_time_in_twenty() -> None:
    """Over all results of 14 pairs, for any share of disagreeing pairs. The interval comes close to that bound and
    does not exceed it.
    """
    results = results_of(14)
    claimed = [each for each in results if non_inferiority(each, 0.2) <= LEVEL]
    inside = [each for each in results if interval(each)[0] > -0.2]
    assert claimed
    for share in (0.21, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0):
        assert sum(chance_of(each, share, -0.2) for each in claimed) <= LEVEL + 0.001
        assert sum(chance_of(each, share, -0.2) for each in inside) <= 1.5 * LEVEL


def test_equal_arm_is_claimed_worse_at_most_one_time_in_twenty() -> None:
    """Even one that is worse by the whole margin."""
    worse = [each for each in results_of(9) if conclude(each, 0.2).outcome is TrialOutcome.WORSE]
    assert worse
    for share in (0.21, 0.3, 0.5, 1.0):
        assert sum(chance_of(each, share, -0.2) for each in worse) <= LEVEL + 0.001
    assert conclude(PairCounts(lost=4), 0.05).outcome is TrialOutcome.INCONCLUSIVE


def test_few_pairs_that_all_agree_show_nothing() -> None:
    """An interval that assumed no disagreement would have no width at all."""
    few = PairCounts(both=15, neither=5)
    assert non_inferiority(few, MARGIN) > 0.3
    assert interval(few)[0] < -0.1
    assert non_inferiority(PairCounts(both=60), MARGIN) <= LEVEL


@pytest.mark.parametrize(
    ("gained", "lost", "chance"),
    [(0, 0, 1.0), (5, 5, 1.0), (10, 2, 2 * 79 / 4096), (2, 10, 2 * 79 / 4096), (0, 6, 2 / 64)],
)
def test_mcnemars_exact_test_is_that_of_a_fair_coin(gained: int, lost: int, chance: float) -> None:
    assert mcnemar(PairCounts(gained=gained, lost=lost, both=7)) == pytest.approx(chance)


def test_interval_contains_the_difference_and_mirrors_with_the_arms() -> None:
    for counts in (PairCounts(30, 8, 3, 9), PairCounts(0, 0, 9, 0), PairCounts(0, 9, 0, 0), PairCounts(5, 0, 0, 5)):
        low, high = interval(counts)
        turned = PairCounts(counts.both, counts.lost, counts.gained, counts.neither)
        assert -1 <= low <= counts.difference <= high <= 1
        assert interval(turned) == pytest.approx((-high, -low))


def test_better_results_claim_no_less() -> None:
    chances = [non_inferiority(PairCounts(both=50, gained=each, lost=10 - each), MARGIN) for each in range(11)]
    assert chances == sorted(chances, reverse=True)


def test_claim_of_five_points_needs_about_620_pairs() -> None:
    """With a quarter of the pairs disagreeing; as many as a claim needs do show it for equal arms."""
    assert count_needed(0.05, 0.25) == 619
    assert count_needed(0.1, 0.25) == 155
    assert non_inferiority(PairCounts(both=76, gained=19, lost=19, neither=41), 0.1) <= LEVEL


def test_no_pairs_claim_nothing() -> None:
    none = PairCounts()
    assert (none.difference, interval(none), mcnemar(none), non_inferiority(none, MARGIN)) == (0, (-1, 1), 1, 1)
    assert conclude(none, MARGIN).outcome is TrialOutcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("counts", "outcome", "needed"),
    [
        (PairCounts(both=40, neither=2), TrialOutcome.NOT_WORSE, 4),
        (PairCounts(both=2), TrialOutcome.INCONCLUSIVE, 39),
        (PairCounts(both=10, lost=3, neither=2), TrialOutcome.INCONCLUSIVE, 37),
        (PairCounts(both=20, lost=6, neither=20), TrialOutcome.INCONCLUSIVE, 165),
        (PairCounts(both=15, lost=9, neither=20), TrialOutcome.INCONCLUSIVE, None),
        (PairCounts(both=5, lost=20, neither=5), TrialOutcome.WORSE, 102),
    ],
)
def test_inconclusive_result_needs_more_pairs_than_there_are(
    counts: PairCounts, outcome: TrialOutcome, needed: int | None
) -> None:
    """Unless the observed difference is at the margin: then no number of pairs would show that it is above."""
    found = conclude(counts, 0.2)
    assert (found.outcome, found.needed) == (outcome, needed)
    assert outcome is not TrialOutcome.INCONCLUSIVE or needed is None or needed > counts.pairs
