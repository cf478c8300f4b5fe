"""Knowledge is a bitemporal fold of events: valid time and recording time."""

from hypothesis import given

from mnemosyne.domain.knowledge.decide import ConfirmEntry
from mnemosyne.domain.knowledge.kinds import EntrySource
from mnemosyne.domain.knowledge.state import FLOOR, HALF_LIFE, Knowledge, fold, fold_up_to
from tests.domain.knowledge.support import DAY, FIRST, KnowledgePlace, entry, follow, held, steps


@given(steps())
def test_folding_events_one_by_one_equals_folding_them_at_once(done: list[tuple[str, int, int, int]]) -> None:
    for _, place in follow(done):
        one_by_one = Knowledge()
        for event in place.events:
            one_by_one = fold((event,), one_by_one)
        assert one_by_one == fold(place.events) == place.known


@given(steps())
def test_knowledge_as_of_a_time_equals_the_live_state_then(done: list[tuple[str, int, int, int]]) -> None:
    live = dict(follow(done))  # of several at one time, the last
    for at, place in live.items():
        (*_, (_, last)) = follow(done)
        then = fold_up_to(last.events, at)
        assert held(then, at) == held(place.known, at)


def test_belief_in_an_extracted_entry_decays_until_it_is_confirmed() -> None:
    place = KnowledgePlace()
    place.remember("the tests need docker", source=EntrySource.EXTRACTED, confidence=0.8)
    found = entry(place.known, "the tests need docker")
    assert found.belief(FIRST) == 0.8
    assert found.belief(FIRST + HALF_LIFE) == 0.4
    assert found.belief(FIRST + 60 * DAY) < FLOOR
    place.take(ConfirmEntry(at=FIRST + HALF_LIFE, write="c", wanted=found.id))
    assert place.known.entries[found.id].belief(FIRST + 2 * HALF_LIFE) == 0.5
    place.remember("the tests need a database")
    assert entry(place.known, "the tests need a database").belief(FIRST + 10 * HALF_LIFE) == 1.0
