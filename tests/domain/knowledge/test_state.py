"""Knowledge is a bitemporal fold of events: valid time and recording time."""

from hypothesis import given

from mnemosyne.domain.knowledge.kinds import EntrySource
from mnemosyne.domain.knowledge.state import FLOOR, HALF_LIFE, Knowledge, evolve, fold, fold_up_to
from tests.domain.knowledge.support import DAY, FIRST, ArchivedContents, entry, follow, held, steps


@given(steps())
def test_folding_events_one_by_one_equals_folding_them_at_once(done: list[tuple[str, int, int, int]]) -> None:
    for _, archived in follow(done):
        one_by_one = Knowledge()
        for event in archived.events:
            one_by_one = evolve(one_by_one, event)
        assert one_by_one == fold(archived.events) == archived.known


@given(steps())
def test_knowledge_as_of_a_time_equals_the_live_state_then(
    done: list[tuple[str, int, int, int]],
) -> None:
    live = dict(follow(done))  # of several at one time, the last
    for at, archived in live.items():
        (*_, (_, last)) = follow(done)
        then = fold_up_to(last.events, at)
        assert held(then, at) == held(archived.known, at)


def test_a_preference_that_changed_twice_has_three_answers_over_time() -> None:
    archived = ArchivedContents()
    first = archived.remember("tabs of 2", at=FIRST)
    second = archived.update(first, "tabs of 4", at=FIRST + DAY)
    archived.update(second, "tabs of 8", at=FIRST + 2 * DAY)
    assert [archived.lines(FIRST + days * DAY) for days in (0, 1, 2)] == [["tabs of 2"], ["tabs of 4"], ["tabs of 8"]]
    assert archived.lines(FIRST - 1) == []


def test_valid_time_and_recording_time_give_different_answers() -> None:
    archived = ArchivedContents()
    first = archived.remember("CI runs on amd64", at=FIRST)
    archived.update(first, "CI runs on arm64", at=FIRST + 10 * DAY, valid_from=FIRST + 3 * DAY)
    at = FIRST + 5 * DAY
    assert [each.content for each in archived.known.valid(at)] == ["CI runs on arm64"]
    assert [each.content for each in fold_up_to(archived.events, at).valid(at)] == ["CI runs on amd64"]


def test_belief_in_an_extracted_entry_decays_until_it_is_confirmed() -> None:
    archived = ArchivedContents()
    archived.remember("the tests need docker", source=EntrySource.EXTRACTED, confidence=0.8)
    found = entry(archived.known, "the tests need docker")
    assert found.belief(FIRST) == 0.8
    assert found.belief(FIRST + HALF_LIFE) == 0.4
    assert found.belief(FIRST + 60 * DAY) < FLOOR
    archived.remember("the tests need a database")
    assert entry(archived.known, "the tests need a database").belief(FIRST + 10 * HALF_LIFE) == 1.0


def test_confirming_resets_decay_and_reading_does_not() -> None:
    from mnemosyne.domain.knowledge.decide import ConfirmEntry

    archived = ArchivedContents()
    id_ = archived.remember("the tests need docker", source=EntrySource.EXTRACTED, confidence=0.8)
    archived.take(ConfirmEntry(at=FIRST + HALF_LIFE, write="c", wanted=id_))
    assert archived.known.entries[id_].belief(FIRST + HALF_LIFE) == 0.8
