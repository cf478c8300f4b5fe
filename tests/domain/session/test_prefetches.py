"""What was brought: whether it was used, and when to stop."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.events import FaultKind, ObjectFaulted
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.session.goal_events import Brought, BroughtJudged, MemoryBrought, Why
from mnemosyne.domain.session.prefetches import LEAST, LEAST_HITS, Bringing, Judged, Rates, find_used, pays
from tests.domain.remembered import BRANCH, created, remembered

RATES = Rates(write=1.25, read=0.05, output=5.0)
EVENT = MemoryBrought(
    at=0,
    branch=BRANCH,
    turn=9,
    message=16,
    epoch=2,
    why=Why.RECALL,
    objects=(Brought(object="k7m2qpd", tokens=300, words=("MAX_RETRIES", "src/queue.py"), enough=2),),
    tokens=400,
    prompt=80_000,
)
WORTH_IT = Judged(Why.RECALL, 400, 80_000, hit=True)
IN_VAIN = attrs.evolve(WORTH_IT, hit=False)


def test_what_was_brought_waits_to_be_judged_and_is_judged_once() -> None:
    waiting = Bringing().after(EVENT)
    assert waiting.waiting == {BRANCH: EVENT}
    judged = BroughtJudged(at=1, branch=BRANCH, turn=9, used=("k7m2qpd",))
    after = waiting.after(judged)
    assert after.judged == (Judged(Why.RECALL, 400, 80_000, hit=True),)
    assert after.after(judged) == after
    assert waiting.after(attrs.evolve(judged, turn=8)) == waiting


def test_before_enough_is_judged_it_goes_on() -> None:
    assert pays(Bringing(judged=(IN_VAIN,) * (LEAST - 1)), Why.RECALL, RATES)
    assert not pays(Bringing(judged=(IN_VAIN,) * LEAST), Why.RECALL, RATES)


def test_one_reason_does_not_speak_for_the_other() -> None:
    assert pays(Bringing(judged=(IN_VAIN,) * LEAST), Why.GOAL, RATES)


def test_it_goes_on_where_rounds_that_it_saves_cost_more_than_it_does() -> None:
    judged = (WORTH_IT,) * 3 + (IN_VAIN,) * 5
    assert pays(Bringing(judged=judged), Why.RECALL, RATES)
    dear = tuple(attrs.evolve(each, tokens=6_000, prompt=5_000) for each in judged)
    assert not pays(Bringing(judged=dear), Why.RECALL, RATES)


@given(st.lists(st.booleans(), min_size=LEAST, max_size=20))
def test_below_the_least_rate_of_hits_it_always_stops(hits: list[bool]) -> None:
    judged = tuple(attrs.evolve(WORTH_IT, hit=hit, tokens=1) for hit in hits)
    assert pays(Bringing(judged=judged), Why.RECALL, RATES) is (sum(hits) >= LEAST_HITS * len(hits))


@given(st.lists(st.booleans(), min_size=LEAST, max_size=20), st.integers(1, 3_000), st.integers(0, 200_000))
def test_one_more_hit_never_stops_it(hits: list[bool], tokens: int, prompt: int) -> None:
    judged = [Judged(Why.GOAL, tokens, prompt, hit) for hit in hits]
    better = [*judged[:-1], attrs.evolve(judged[-1], hit=True)]
    if pays(Bringing(judged=tuple(judged)), Why.GOAL, RATES):
        assert pays(Bringing(judged=tuple(better)), Why.GOAL, RATES)


@pytest.mark.parametrize(
    ("said", "hit"),
    [
        ("As #k7m2qpd says, seven.", True),
        ("It is MAX_RETRIES, set in src/queue.py.", True),
        ("It is MAX_RETRIES.", False),
        ("I do not know. #k7m2qpx may.", False),
        ("", False),
    ],
)
def test_it_was_used_if_it_is_named_or_said_again(said: str, hit: bool) -> None:
    assert find_used(EVENT, [said], Memory()) == (("k7m2qpd",) if hit else ())


def test_it_was_used_if_the_model_then_wanted_more_of_it() -> None:
    fault = ObjectFaulted(
        at=0,
        object="k7m2qpd",
        branch=BRANCH,
        turn=10,
        kind=FaultKind.EXPLICIT,
        reason="",
        distance=1,
        tokens=1,
        avoided_tokens=0,
        latency=1,
    )
    before = remembered(created("k7m2qpd"))
    assert find_used(EVENT, [], before) == ()
    assert find_used(EVENT, [], remembered(fault, before=before)) == ("k7m2qpd",)
