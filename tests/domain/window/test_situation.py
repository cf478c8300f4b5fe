"""The limit of a prompt, and the record of reuse."""

from fractions import Fraction

import attrs
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.tokens import Estimator, Features
from mnemosyne.domain.objects.events import ObjectRestored, ObjectSuperseded, Supersession
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.session.ledger import Ledger
from mnemosyne.domain.session.round_events import WindowStated
from mnemosyne.domain.session.state import Session, evolve, evolve_all
from mnemosyne.domain.window.ages import Quotable, Reuse
from mnemosyne.domain.window.object_sizes import Size
from mnemosyne.domain.window.situation import Sizes, count_reuse, find_limit
from tests.domain.remembered import BRANCH, created, degraded, faulted, remembered
from tests.domain.session_events import opened_branch

SMALL, MILLION = "claude-haiku-4-5", "claude-opus-5-5"


def test_default_limit_is_the_client_compaction_point_or_the_model_window() -> None:
    seen = Session(ledger=attrs.evolve(Ledger(), compacts_at=400_000))
    assert find_limit(None, MILLION, Session()) == 967_000
    assert find_limit(None, MILLION, seen) == 400_000
    assert find_limit(None, SMALL, Session()) == 160_000  # it compacts at 155,000, but the default window is larger
    assert find_limit(None, SMALL, seen) == 200_000


def test_configured_window_is_also_the_limit() -> None:
    for wanted in (45_000, 160_000, 400_000):
        assert find_limit(wanted, MILLION, Session()) == wanted
    assert find_limit(400_000, SMALL, Session()) == 200_000


def test_window_stated_by_the_provider_is_the_limit_if_smallest() -> None:
    def limits(stated: int) -> list[int]:
        event = WindowStated(at=1, branch="main", turn=3, attempt=1, model=MILLION, window=stated, tokens=None)
        session = evolve(Session(), event)
        return [find_limit(None, MILLION, session), find_limit(45_000, MILLION, session)]

    assert limits(200_000) == [200_000, 45_000]
    assert limits(32_000) == [32_000, 32_000]
    assert limits(2_000_000) == [967_000, 45_000]


def test_stated_window_applies_only_to_its_model() -> None:
    event = WindowStated(at=1, branch="main", turn=3, attempt=1, model=MILLION, window=32_000, tokens=33_000)
    assert find_limit(None, SMALL, evolve(Session(), event)) == 160_000


def test_record_of_reuse_counts_every_object_ever_lowered_below_l1_and_those_needed_again() -> None:
    names = ("abc2345", "bcd2345", "cde2345")
    memory = remembered(*(created(name, number) for number, name in enumerate(names)))
    session = attrs.evolve(evolve(Session(), opened_branch(BRANCH)), memory=memory)
    assert reuse_of(session) == Reuse()
    lowered = [degraded(names[0], Fidelity.EVICTED), degraded(names[1], Fidelity.STUB)]
    session = evolve_all(session, [degraded(names[2], Fidelity.DETAILED), faulted(names[2], 11), *lowered])
    assert reuse_of(session) == Reuse(evicted=2)
    session = evolve_all(session, [faulted(names[0], 12), faulted(names[0], 15)])
    record = Reuse(evicted=2, needed=1)
    assert reuse_of(session) == record
    restored = attrs.evolve(RESTORED, object=names[0])
    session = evolve_all(session, [restored, degraded(names[0], Fidelity.STUB)])
    assert reuse_of(session) == record  # each object counts once, and a restore takes none back
    cleared = attrs.evolve(session, eviction_turns=session.eviction_turns.clear(BRANCH).fork("fork", BRANCH))
    assert [reuse_of(cleared, branch) for branch in (BRANCH, "fork", "agent")] == [record, record, Reuse()]


def reuse_of(session: Session, branch: str = BRANCH) -> Reuse:
    return count_reuse(session.eviction_turns.find_record(branch), session.memory.objects, by_kind=False)[Quotable.ANY]


def test_record_of_reuse_counts_by_kind_what_is_read_again_even_after_an_edit() -> None:
    whole, part = created("bcd2345", 1), created("abc2345", 3, tags=("read", "lines:1-9"))
    edited = ObjectSuperseded(at=1, object="abc2345", branch=BRANCH, by=None, how=Supersession.EDITED)
    session = evolve(Session(), opened_branch(BRANCH))
    session = evolve_all(session, [whole, part, *(degraded(each.object, Fidelity.EVICTED) for each in (whole, part))])
    again = evolve_all(session, [edited, created("cde2345", 7, tags=("read", "lines:5-20"))])
    elsewhere = evolve_all(session, [created("cde2345", 7, tags=("read", "lines:5-20"), source_key="/src/other.py")])
    counts = [
        count_reuse(each.eviction_turns.find_record(BRANCH), each.memory.objects)
        for each in (session, again, elsewhere)
    ]
    none = {Quotable.PART: Reuse(1), Quotable.WHOLE: Reuse(1)}
    assert counts == [none, {**none, Quotable.PART: Reuse(1, needed=1)}, none]
    assert reuse_of(again) == Reuse(2)


RESTORED = ObjectRestored(
    at=0, object="", branch=BRANCH, turn=15, before=Fidelity.STUB, after=Fidelity.FULL, cause=Cause.FAULT
)


ASKED = st.tuples(
    st.sampled_from("ab"),
    st.sampled_from((100_000, 1_000_000)),
    st.sampled_from((Fraction(1, 2), Fraction(1), Fraction(3, 2))),
    st.sampled_from(("claude-opus-4-5", "gpt-5")),
)


@given(st.lists(ASKED))
def test_cached_counts_of_an_object_equal_fresh_ones(asked: list[tuple[str, int, Fraction, str]]) -> None:
    held = Sizes()
    for name, text, scale, model in asked:
        size, usual = Size((Features(text=text),) * 5, Features(text=10_000)), Estimator.of(model)
        assert held.count_grown(name, size, usual, scale) == size.count_full(usual.at(scale))
