"""Topics shift where the words change, what is over stays as it is, and labels made by hand are met."""

import math
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.segmentation.topics import AFTER, SAME_THEME, SHORTEST, START, Names, Shift, likeness, shifts
from tests.domain.topic_labels import disagreement, found_in, labelled


@attrs.frozen
class Step:
    """An object of a history: where it begins, and whether the user typed it."""

    place: BlockPlace
    prompt: bool


TOPICS = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.6, 0.0, 0.8), (0.0, -0.6, 0.8)]


def conversation(*stretches: tuple[int, int, bool]) -> tuple[list[Step], list[Sequence[float]]]:
    """Stretches of objects: of which topic, how many, and whether the user begins it."""
    steps: list[Step] = []
    vectors: list[Sequence[float]] = []
    for topic, count, prompt in stretches:
        for number in range(count):
            steps.append(Step(BlockPlace(len(steps), 0), prompt and number == 0))
            vectors.append(TOPICS[topic])
    return steps, vectors


def found(
    steps: Sequence[Step], vectors: Sequence[Sequence[float]], since: BlockPlace = START, seen: int = 0
) -> list[Shift]:
    places = [each.place for each in steps]
    prompts = [number for number, each in enumerate(steps) if each.prompt]
    return list(shifts(places, prompts, vectors.__getitem__, since, seen))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Step], list[Sequence[float]]]:
    """Objects of changing topics; some were made later than what came after them, as a run of small ones is."""
    lengths = st.tuples(st.integers(0, 3), st.integers(1, 30), st.booleans())
    steps, vectors = conversation(*draw(st.lists(lengths, max_size=10)))
    moved = [
        each if each.prompt else Step(BlockPlace(max(0, each.place.message - draw(st.integers(0, 20))), 1), False)
        for each in steps
    ]
    return moved, vectors


def test_another_topic_begins_where_the_user_turns_to_it_and_only_there() -> None:
    steps, vectors = conversation((0, 20, True), (0, 20, True), (1, 20, True), (1, 20, True))
    assert [each.place for each in found(steps, vectors)] == [BlockPlace(40, 0)]
    assert found(*conversation((0, 40, True), (1, 40, False))) == []


def test_a_shift_shows_as_soon_as_enough_came_after_it() -> None:
    steps, vectors = conversation((0, 20, True), (1, AFTER, True))
    assert found(steps, vectors) == [Shift(BlockPlace(20, 0), 20 + AFTER)]
    assert found(steps[:-1], vectors) == []
    assert found(steps, vectors, seen=len(steps)) == []


def test_an_episode_is_never_shorter_than_it_may_be() -> None:
    assert found(*conversation((0, SHORTEST - 1, True), (1, 30, True))) == []
    assert len(found(*conversation((0, SHORTEST, True), (1, 30, True)))) == 1


def test_what_is_made_late_of_an_episode_that_is_over_changes_nothing() -> None:
    steps, vectors = conversation((0, 20, True), (1, AFTER, True))
    late = [Step(BlockPlace(19, number), False) for number in range(1, 30)]
    assert found([*steps, *late], [*vectors, *[TOPICS[1]] * len(late)]) == found(steps, vectors) != []


@given(histories(), st.data())
def test_what_is_over_never_changes(history: tuple[list[Step], list[Sequence[float]]], data: st.DataObject) -> None:
    steps, vectors = history
    part = data.draw(st.integers(0, len(steps)))
    assert found(steps[:part], vectors) == [each for each in found(steps, vectors) if each.made <= part]


@given(histories(), st.data())
def test_in_pieces_the_same_is_found_as_at_once(
    history: tuple[list[Step], list[Sequence[float]]], data: st.DataObject
) -> None:
    steps, vectors = history
    part = data.draw(st.integers(0, len(steps)))
    first = found(steps[:part], vectors)
    rest = found(steps, vectors, first[-1].place if first else START, seen=part)
    assert first + rest == found(steps, vectors)


class Counted(list[BlockPlace]):
    """Places, and how often one was looked at."""

    looked_at = 0

    def __getitem__(self, index: Any) -> Any:
        self.looked_at += 1
        return super().__getitem__(index)


@pytest.mark.parametrize("length", [1_000, 4_000])
def test_what_one_more_turn_looks_at_does_not_grow_with_the_history(length: int) -> None:
    prompts = range(0, length + 100, 50)
    for seen in range(length, length + 100):
        places = Counted(BlockPlace(number, 0) for number in range(seen + 1))
        told = [number for number in prompts if number <= seen]
        assert list(shifts(places, told, lambda _: TOPICS[0], seen=seen)) == []
        assert places.looked_at < len(told) + 300


def test_each_prompt_of_a_long_history_is_looked_at_only_near_it() -> None:
    places = Counted(BlockPlace(number, 0) for number in range(4_000))
    assert list(shifts(places, range(0, 4_000, 20), lambda _: TOPICS[0])) == []
    assert places.looked_at < 30 * len(places)


def test_names_that_few_others_have_say_most() -> None:
    inside = [{"common", "special"}, {"common", "special"}, {"common"}]
    there = [*inside, *[{"common", f"other{number}"} for number in range(10)]]
    found = Names.of(inside).weights(Names.of(there))
    assert found["special"] > found["common"] > 0


def test_names_stay_in_the_order_in_which_they_come_so_that_every_process_says_the_same() -> None:
    named = [[f"name{number}" for number in order] for order in ((5, 3, 9, 5), (1, 3), (8, 2, 7))]
    assert list(Names.of(named).held) == [f"name{number}" for number in (5, 3, 9, 1, 8, 2, 7)]


@given(st.lists(st.sets(st.sampled_from("abcdefgh"), min_size=1), min_size=2, max_size=12))
def test_likeness_is_the_same_from_both_sides_and_whole_with_oneself(named: list[set[str]]) -> None:
    there = Names.of(named)
    one, other = Names.of(named[:1]).weights(there), Names.of(named[1:]).weights(there)
    assert math.isclose(likeness(one, other), likeness(other, one))
    assert 0 <= likeness(one, other) <= 1 + 1e-9
    assert math.isclose(likeness(one, one), 1)
    assert likeness({}, one) == 0 < SAME_THEME


def test_it_agrees_with_labels_made_by_hand_better_than_the_simple_ways_do() -> None:
    """No boundary at all is the harder one to beat; a boundary at each prompt is what one has without all this."""
    sessions = labelled()
    if not sessions:
        pytest.skip("recorded inputs are not here: ../shared/data/sessions")
    pk, difference = disagreement(sessions, found_in)
    none, _ = disagreement(sessions, lambda _: [])
    _, prompts = disagreement(sessions, lambda each: [each.places[number].message for number in each.prompts])
    assert pk <= 0.22
    assert difference <= 0.23
    assert pk < none - 0.07
    assert difference < prompts / 2
