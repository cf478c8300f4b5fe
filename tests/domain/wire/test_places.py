"""An event of a stream belongs to the block or item that its index and ids name, if they name one."""

from typing import Any

import pytest

from mnemosyne.domain.wire.places import BlockPlaces, in_order, index_of
from mnemosyne.domain.wire.responses_reply import ItemPlaces


@pytest.mark.parametrize(("written", "index"), [(2, 2), (2.0, 2), ("2", 2), (True, None), (2.5, None), (None, None)])
def test_an_index_is_a_whole_number_however_it_is_written(written: Any, index: int | None) -> None:
    assert index_of(written) == index


@pytest.mark.parametrize("written", [float("inf"), float("nan"), "²", "9" * 5000, [], {}, ""])
def test_an_invalid_index_is_none(written: Any) -> None:
    assert index_of(written) is None


def test_blocks_are_ordered_by_index_only_if_all_indices_differ() -> None:
    assert in_order([2, 0, 1]) == [1, 2, 0]
    assert in_order([0, 0, 0]) == in_order([None, None, None]) == in_order([1, None, 0]) == [0, 1, 2]


@pytest.mark.parametrize("index", [0, None])
def test_an_id_decides_between_several_with_one_index(index: int | None) -> None:
    places = BlockPlaces()
    assert [places.begin(index, name) for name in "ab"] == [0, 1]
    assert [places.find(index, name) for name in "abab"] == [0, 1, 0, 1]


def test_the_index_decides_if_each_event_has_a_different_id() -> None:
    places = BlockPlaces()
    assert [places.begin(number, f"begun {number}") for number in (0, 1)] == [0, 1]
    assert [places.find(number, f"new {number}") for number in (0, 1, 0)] == [0, 1, 0]
    assert places.end(0, "newer") == 0


def test_an_event_without_index_or_id_belongs_to_the_last_block() -> None:
    places = BlockPlaces()
    assert places.find(None) is None
    assert places.find(3) is None
    places.begin(0)
    places.begin(1)
    assert places.find(None) == 1
    assert places.find(0) == places.find(None) == 0


def test_an_item_that_has_only_an_end_event_is_an_item_of_its_own() -> None:
    places = BlockPlaces()
    assert [places.end(0, name) for name in "ab"] == [0, 1]
    assert [places.end(None) for _ in range(2)] == [2, 3]


@pytest.mark.parametrize("odd", [{"output_index": True}, {"output_index": None}, {"item_id": 1}, {"item_id": "b"}, {}])
def test_a_delta_belongs_to_the_same_item_even_after_events_of_others(odd: dict[str, Any]) -> None:
    delta = {"type": "response.output_text.delta", "output_index": 0, "item_id": "a", "delta": "."}
    places = ItemPlaces()
    for index, name in enumerate("ab"):
        added = {"type": "response.output_item.added", "output_index": index, "item": {"id": name}}
        assert places.take(added) == index
    assert [places.take(delta) for _ in range(2)] == [0, 0]
    assert places.take({**delta, "output_index": 1, "item_id": "b"}) == 1
    places.take({**delta, **odd})
    assert places.take(delta) == 0
    assert places.take({**delta, "type": "response.output_item.done", "item": {"id": "b"}, "output_index": 1}) == 1


def test_an_item_in_an_event_does_not_determine_the_next_events_item() -> None:
    places = ItemPlaces()
    for name in "ab":
        places.take({"type": "response.output_item.added", "output_index": 0, "item": {"id": name}})
    odd = {"type": "response.output_text.delta", "output_index": 0, "item_id": "a", "item": {"id": "b"}, "delta": "."}
    assert places.take(odd) == 1
    assert places.take({key: value for key, value in odd.items() if key != "item"}) == 0
