"""A comparison agrees with the points of its sessions."""

from fractions import Fraction

import attrs

from mnemosyne_lab.evaluation.results import Epoch, SessionResult, compare, ends_of
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
        epochs=[Epoch(turn=2, reason="it is full", price=Fraction(10))],
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
