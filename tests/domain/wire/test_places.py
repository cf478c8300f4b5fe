"""An event of a stream belongs to the block or item that its index and ids name, where they name one."""

from typing import Any

import pytest

from mnemosyne.domain.wire.places import BlockPlaces, in_order, index_of
from mnemosyne.domain.wire.responses_reply import ItemPlaces


@pytest.mark.parametrize(("written", "index"), [(2, 2), (2.0, 2), ("2", 2), (True, None), (2.5, None), (None, None)])
def test_an_index_is_a_whole_number_however_it_is_written(written: Any, index: int | None) -> None:
    assert index_of(written) == index


@pytest.mark.parametrize("written", [float("inf"), float("nan"), "²", "9" * 5000, [], {}, ""])
def test_what_is_no_index_is_none(written: Any) -> None:
    assert index_of(written) is None


def test_the_order_is_that_of_the_indices_only_where_each_has_its_own() -> None:
    assert in_order([2, 0, 1]) == [1, 2, 0]
    assert in_order([0, 0, 0]) == in_order([None, None, None]) == in_order([1, None, 0]) == [0, 1, 2]


@pytest.mark.parametrize("index", [0, None])
def test_an_id_decides_among_several_of_one_index(index: int | None) -> None:
    places = BlockPlaces()
    assert [places.begin(index, name) for name in "ab"] == [0, 1]
    assert [places.find(index, name) for name in "abab"] == [0, 1, 0, 1]


def test_an_index_decides_where_each_event_has_another_id() -> None:
    places = BlockPlaces()
    assert [places.begin(number, f"begun {number}") for number in (0, 1)] == [0, 1]
    assert [places.find(number, f"new {number}") for number in (0, 1, 0)] == [0, 1, 0]
    assert places.end(0, "newer") == 0


def test_what_names_nothing_belongs_to_what_was_spoken_of_last() -> None:
    places = BlockPlaces()
    assert places.find(None) is None
    assert places.find(3) is None
    places.begin(0)
    places.begin(1)
    assert places.find(None) == 1
    assert places.find(0) == places.find(None) == 0


def test_an_item_of_which_only_the_end_comes_is_one_of_its_own() -> None:
    places = BlockPlaces()
    assert [places.end(0, name) for name in "ab"] == [0, 1]
    assert [places.end(None) for _ in range(2)] == [2, 3]


@pytest.mark.parametrize("odd", [{"output_index": True}, {"output_index": None}, {"item_id": 1}, {"item_id": "b"}, {}])
def test_a_delta_belongs_to_the_same_item_whether_or_not_others_came_between(odd: dict[str, Any]) -> None:
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


def test_the_item_in_an_event_says_nothing_of_the_next_event() -> None:
    places = ItemPlaces()
    for name in "ab":
        places.take({"type": "response.output_item.added", "output_index": 0, "item": {"id": name}})
    odd = {"type": "response.output_text.delta", "output_index": 0, "item_id": "a", "item": {"id": "b"}, "delta": "."}
    assert places.take(odd) == 1
    assert places.take({key: value for key, value in odd.items() if key != "item"}) == 0
