"""Episodes are recorded when they end, contain every object once, refer to their theme, and can be forgotten."""

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.aggregate import MemoryObject, is_episode, parts_of
from mnemosyne.domain.objects.events import Link, LinkRelation, ObjectCreated
from mnemosyne.domain.objects.memory import Memory, forget, fork
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.segmentation.episodes import FIRST_TURN, list_ended, topics_of
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.redaction import redact
from mnemosyne.domain.session.state import evolve
from mnemosyne.replay.deciding import review
from mnemosyne.services import memories
from tests.domain.remembered import BRANCH, created, remembered
from tests.domain.talks import TURNS, on_topics
from tests.profiles import examples
from tests.replay.recordings import played, streams
from tests.replay.session_tapes import tape_of
from tests.services.talking import Plain

TOPICS = ("parser", "billing", "parser", "search")


def recorded(topics: tuple[str, ...] = TOPICS) -> tuple[Plain, list[Recorded[Event]]]:
    """Return the log of a session with these topics."""
    log, _ = played(tape_of(on_topics(*topics)))
    (stream,) = streams(log)
    return Plain(log), list(trio.run(log.read, stream))


def memory_of(events: list[Recorded[Event]]) -> Memory:
    return memories.fold(events).memory


def episodes_of(memory: Memory) -> list[MemoryObject]:
    return [each for each in memory.objects.values() if is_episode(each)]


@pytest.fixture(scope="module")
def whole() -> tuple[Plain, list[Recorded[Event]]]:
    return recorded()


def test_topics_have_turns_names_and_a_theme(
    whole: tuple[Plain, list[Recorded[Event]]],
) -> None:
    topics = topics_of(memory_of(whole[1]), "main")
    first, second, third, fourth = topics.episodes
    assert [each.first_turn for each in topics.episodes] == [number * (TURNS + 1) + 1 for number in range(4)]
    assert "parser_" in first.about
    assert "billing" not in first.about
    assert "billing_" in second.about
    assert fourth.object is None  # still open
    assert first.theme == third.theme != second.theme == second.object


def test_every_object_with_places_is_in_exactly_one_episode(whole: tuple[Plain, list[Recorded[Event]]]) -> None:
    memory = memory_of(whole[1])
    parts = [part for each in topics_of(memory, "main").episodes for part in each.parts]
    placed = [each.id for each, _ in memory.standings("main") if each.places]
    assert sorted(parts) == sorted(placed)


def test_an_episode_that_returns_to_a_topic_refers_to_the_earlier_one(
    whole: tuple[Plain, list[Recorded[Event]]],
) -> None:
    memory = memory_of(whole[1])
    topics = topics_of(memory, "main")
    (theme,) = topics.themes
    assert [each.first_turn for each in theme] == [1, 2 * (TURNS + 1) + 1]
    again = memory.objects[str(theme[1].object)]
    assert [each.target for each in again.links if each.relation is LinkRelation.REFERENCES] == [theme[0].object]


def test_episodes_are_recorded_only_in_a_long_session_and_then_all_that_have_ended(
    whole: tuple[Plain, list[Recorded[Event]]],
) -> None:
    made = [each.envelope.event for each in whole[1] if isinstance(each.envelope.event, ObjectCreated)]
    episodes = [event for event in made if is_episode(event)]
    assert [event.turn >= FIRST_TURN for event in episodes] == [True, True, True]
    assert episodes[0].turn == FIRST_TURN
    _, short = recorded(("parser",))
    assert topics_of(memory_of(short), "main").episodes == ()


STRETCHES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 25)), max_size=7)


@examples(40)
@given(STRETCHES, st.integers(1, 9))
def test_the_same_episodes_are_recorded_turn_by_turn_as_at_once(stretches: list[tuple[str, int]], step: int) -> None:
    made = [
        created(
            f"o{part}-{number}",
            message=100 * part + 2 * number - (100 if number % 7 == 6 and part else 0),  # some are made late
            key_entities=(f"{topic}_one", f"{topic}_two_{number % 3}"),
            source_key=None,
            tags=("user",) if number == 0 else (),
        )
        for part, (topic, count) in enumerate(stretches)
        for number in range(count)
    ]
    at_once = _recorded(Memory(), made)
    memory = _at(Memory(), FIRST_TURN)
    for first in range(0, len(made), step):
        memory = _recorded(memory, made[first : first + step])
    assert [parts_of(each) for each in episodes_of(memory)] == [parts_of(each) for each in episodes_of(at_once)]
    taken = [part for each in topics_of(_at(memory, FIRST_TURN), BRANCH).episodes for part in each.parts]
    assert sorted(taken) == sorted(each.object for each in made)


class Looked(dict[str, MemoryObject]):
    """Objects by id, and how many were accessed."""

    count = 0

    def __getitem__(self, key: str) -> MemoryObject:
        self.count += 1
        return super().__getitem__(key)


@pytest.mark.parametrize("length", [300, 1_500])
def test_a_turn_that_ends_no_episode_reads_only_the_newest_objects(length: int) -> None:
    made = [
        created(f"o{number}", message=2 * number, source_key=None, tags=("user",) if number % 40 == 0 else ())
        for number in range(length)
    ]
    before = _at(remembered(*made[:-2]), FIRST_TURN)
    after = remembered(*made[-2:], before=before)
    objects = Looked(after.objects)
    assert list_ended(before, attrs.evolve(after, objects=objects), BRANCH, FIRST_TURN) == []
    assert objects.count < 130


def _at(memory: Memory, turn: int) -> Memory:
    shown = memory.view_of(BRANCH)
    return memory.with_view(BRANCH, attrs.evolve(shown, measure=attrs.evolve(shown.measure, turn=turn)))


def _recorded(before: Memory, made: list[ObjectCreated]) -> Memory:
    after = remembered(*made, before=before)
    ids: list[str] = []
    for draft in list_ended(before, after, BRANCH, FIRST_TURN):
        ids.append(f"e{len(after.objects)}")
        links = [Link(each.relation, _id_of(each.target, ids)) for each in draft.links]
        event = created(ids[-1], kind=draft.kind, role=draft.role, stub=draft.stub, places=(), links=tuple(links))
        after = remembered(event, before=after)
    return after


def _id_of(target: str | int, ids: list[str]) -> str:
    return target if isinstance(target, str) else ids[target]


def test_grouping_does_not_count_as_a_use_of_an_object(whole: tuple[Plain, list[Recorded[Event]]]) -> None:
    memory = memory_of(whole[1])
    first, *_ = episodes_of(memory)
    assert {memory.objects[part].accesses for part in parts_of(first)} == {0}


def test_a_fork_begins_with_the_episodes_in_its_shared_history(whole: tuple[Plain, list[Recorded[Event]]]) -> None:
    memory = memory_of(whole[1])
    first, second, _ = episodes_of(memory)
    end = max(place.message for part in parts_of(second) for place in memory.objects[part].places)
    whole_fork = topics_of(fork(memory, "fork", "main", end + 1, 3 * TURNS), "fork")
    assert [each.object for each in whole_fork.episodes] == [first.id, second.id]
    cut = topics_of(fork(memory, "fork", "main", end - 10, 3 * TURNS), "fork")
    assert [each.object for each in cut.episodes] == [first.id, None]


async def test_replaying_the_log_makes_the_same_episodes(whole: tuple[Plain, list[Recorded[Event]]]) -> None:
    archive, events = whole
    reviewed = await review(archive, str(events[0].stream))
    assert reviewed.decisions > FIRST_TURN
    assert reviewed.differences == []


def test_forgetting_removes_every_word_of_an_episode_and_the_log_stays_consistent(
    whole: tuple[Plain, list[Recorded[Event]]],
) -> None:
    _, events = whole
    state = memories.fold(events[:0])
    for each in events:
        state = evolve(state, redact(each.envelope.event))
    bare = episodes_of(state.memory)
    assert len(bare) == 3
    assert {(each.stub, each.line, each.tags, each.key_entities, each.source_key) for each in bare} == {
        ("", "", (), (), None)
    }
    assert topics_of(forget(memory_of(events)), "main").episodes == ()
