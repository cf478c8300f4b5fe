"""A comparison agrees with the points of its sessions."""

from fractions import Fraction
from itertools import accumulate

import attrs

from mnemosyne_lab.evaluation.results import Epoch, SessionResult, TurnPoint, compare, ends_of, list_paybacks, payback
from tests.lab.evaluation.building import session


def billed(name: str, *amounts: int) -> SessionResult:
    """A session whose requests were billed this way."""
    made = session(name, turns=len(amounts), strength=0)
    points = [attrs.evolve(point, billed=Fraction(amount)) for point, amount in zip(made.points, amounts, strict=True)]
    return attrs.evolve(made, points=points, billed=Fraction(sum(amounts)))


def test_session_that_ends_cheaper_may_have_been_dearer_in_between() -> None:
    managed = [billed("one", 10, 20, 0), billed("two", 5, 5)]
    without = [billed("one", 10, 10, 30), billed("two", 10, 10)]
    found = compare("api-5m", "p", "unmanaged", managed, without)
    assert found.ratio == Fraction(40, 70)
    assert (found.dearest, found.dearest_session) == (Fraction(3, 5), "one")
    assert (found.ends, found.ends_dearer) == (5, 1)
    assert (found.dearest_end, found.dearest_end_session) == (Fraction(3, 2), "one")


def test_dearer_ends_are_reported_with_the_request_that_caused_them() -> None:
    """A rewrite before request 2 that had paid off by request 4, and a fault with request 5."""
    made = billed("one", 10, 20, 10, 0, 19)
    managed = attrs.evolve(
        made,
        points=[*made.points[:4], attrs.evolve(made.points[4], restored=1_200)],
        epochs=[Epoch(turn=2, reason="it is full", price=Fraction(10), expected_payback=None)],
    )
    without = billed("one", 10, 10, 10, 11, 10)
    rewrite, need = compare("api-5m", "p", "unmanaged", [managed], [without]).dearer
    assert (rewrite.first, rewrite.last, rewrite.turn) == (2, 3, 2)
    assert rewrite.worst == Fraction(3, 2)
    assert rewrite.more == 10
    assert rewrite.why == "rewritten: it is full"
    assert (need.first, need.last, need.turn) == (5, 5, 5)
    assert need.more == 9
    assert need.why == "1,200 tokens that had left were needed"


def test_client_that_dropped_its_history_makes_others_dearer() -> None:
    managed, without = billed("one", 10, 20), billed("one", 10, 10)
    smaller = [attrs.evolve(each, resident=(0, 0, 0, 0), fixed=1) for each in without.points]
    (found,) = compare("api-5m", "p", "native", [managed], [attrs.evolve(without, points=smaller)]).dearer
    assert found.why == "the other client had dropped some of its history"


def test_free_session_is_compared_with_nothing() -> None:
    assert ends_of(billed("one", 0, 3), billed("one", 0, 2)) == [Fraction(3, 2)]
    found = compare("local", "p", "native", [], [])
    assert (found.ratio, found.dearest, found.dearest_end, found.ends) == (None, None, None, 0)


def test_session_costs_the_same_as_itself_at_every_end() -> None:
    same = [session("a"), session("b")]
    found = compare("api-5m", "p", "p", same, same)
    assert {found.ratio, found.dearest, found.dearest_end} == {1}
    assert found.ends_dearer == 0


def points(pairs: list[tuple[int, int]]) -> list[TurnPoint]:
    """Turns with these costs (with the policy, without)."""
    return [
        TurnPoint(
            turn=turn, at=0.0, resident=(0, 0, 0, 0), fixed=0, unmanaged_tokens=0,
            billed=Fraction(billed), shadow=Fraction(shadow),
        )
        for turn, (billed, shadow) in enumerate(pairs, 1)
    ]  # fmt: skip


def paid(turn: int, pairs: list[tuple[int, int]]) -> int | None:
    saved = accumulate(Fraction(shadow - billed) for billed, shadow in pairs)
    return payback(turn, dict(enumerate(saved, 1)))


def test_epoch_has_paid_off_when_the_balance_is_back_at_its_start() -> None:
    assert paid(2, [(10, 10), (25, 10), (5, 10), (5, 10), (5, 10), (5, 10)]) == 3


def test_savings_before_an_epoch_must_be_recovered() -> None:
    assert paid(3, [(10, 10), (0, 10), (20, 10), (5, 10), (5, 10), (5, 10)]) == 2


def test_free_epoch_pays_off_at_once_and_a_late_one_never() -> None:
    assert paid(2, [(10, 10), (5, 10)]) == 0
    assert paid(2, [(10, 10), (30, 10), (5, 10)]) is None


def test_epoch_before_the_first_turn_starts_from_zero() -> None:
    assert paid(1, [(15, 10), (5, 10)]) == 1


def test_each_rewrite_has_its_payback_on_the_balance_of_all_turns() -> None:
    told = attrs.evolve(
        session(), points=points([(10, 10), (25, 10), (0, 10), (0, 10)]),
        epochs=[Epoch(turn=2, reason="paid for", price=Fraction(15), expected_payback=4)],
    )  # fmt: skip
    assert list_paybacks(told) == [2]
