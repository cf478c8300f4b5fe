"""The same calls are read, however their server numbers and cuts them."""

import json
from typing import Any

import pytest
from hypothesis import given

from mnemosyne.domain.wire.chat_calls import Calls, JsonText
from tests.domain.wire.gateways import Called, CallStyle, call_styles, called

Json = dict[str, Any]


def read(deltas: list[Json]) -> list[Json]:
    calls = Calls()
    for delta in deltas:
        calls.take(delta.get("tool_calls") or [])
    return calls.content()


def short(calls: list[Json]) -> list[tuple[str, str]]:
    return [(call["function"]["name"], call["function"]["arguments"]) for call in calls]


@given(called(), call_styles())
def test_every_style_of_a_gateway_gives_the_same_calls(calls: list[Called], style: CallStyle) -> None:
    found = read(style.write(calls))
    assert [call.as_whole(style) for call in calls] == found


def piece(name: str | None = None, arguments: str | None = None, **members: Any) -> Json:
    function = {"name": name, "arguments": arguments}
    return {**members, "function": {key: value for key, value in function.items() if value is not None}}


def test_the_same_tool_twice_without_index_or_id_is_two_calls() -> None:
    deltas = [{"tool_calls": [piece("read", '{"a":1}')]}, {"tool_calls": [piece("read", '{"a":2}')]}]
    assert short(read(deltas)) == [("read", '{"a":1}'), ("read", '{"a":2}')]
    assert short(read([{"tool_calls": [piece("read", '{"a":1}'), piece("read", '{"a":1}')]}])) == [
        ("read", '{"a":1}'),
        ("read", '{"a":1}'),
    ]


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0), (1.5, 0.0), (-1, 7)])
def test_numbers_are_ids(numbers: tuple[float, float]) -> None:
    deltas = [
        {"tool_calls": [item]}
        for number in numbers
        for item in (piece("read", '{"a"', id=number), piece(None, ":1}", id=number))
    ]
    assert [call["id"] for call in read(deltas)] == list(numbers)
    assert short(read(deltas)) == [("read", '{"a":1}')] * 2


def test_a_new_id_with_more_arguments_is_the_same_call() -> None:
    deltas = [
        piece("read", "", index=0, id="r1"),
        piece(None, '{"a"', index=0, id="r2"),
        piece(None, ":1}", index=0, id="r3"),
    ]
    assert read([{"tool_calls": [delta]} for delta in deltas]) == [
        {"id": "r1", "function": {"name": "read", "arguments": '{"a":1}'}}
    ]


def test_calls_that_share_an_id_are_separate_if_their_names_begin_again() -> None:
    by_index = [piece("read", f'{{"a":{n}}}', index=n, id="call") for n in range(3)]
    by_turns = [piece("read", f'{{"a":{n}}}', index=0, id="call") for n in range(3)]
    for deltas in (by_index, by_turns):
        assert [text for _, text in short(read([{"tool_calls": [delta]} for delta in deltas]))] == [
            '{"a":0}',
            '{"a":1}',
            '{"a":2}',
        ]


def test_arguments_after_complete_arguments_stay_with_their_call() -> None:
    deltas = [piece("read", '{"a":1}', index=0, id="a"), piece(None, "}", index=0)]
    assert short(read([{"tool_calls": deltas}])) == [("read", '{"a":1}}')]


def test_arguments_that_are_an_object_are_kept() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "read", "arguments": {"path": "/ä"}}}
    assert short(read([{"tool_calls": [call]}])) == [("read", '{"path":"/ä"}')]


@pytest.mark.parametrize("index", [float("inf"), float("nan"), 10**30, -1, True, [], "x"])
def test_an_invalid_index_breaks_nothing(index: Any) -> None:
    assert short(read([{"tool_calls": [piece("read", "{}", index=index, id="a"), 7, None]}])) == [("read", "{}")]


@pytest.mark.parametrize("value", [{}, {"a": '}"\\'}, {"a": [{"b": "\\\\"}, "{["]}, {"é": "\\u0022"}])
def test_json_is_complete_at_its_last_character_wherever_it_is_cut(value: Json) -> None:
    written = json.dumps(value)
    for size in (1, 2, 3, len(written)):
        text = JsonText()
        for start in range(0, len(written), size):
            assert not text.is_whole
            text.feed(written[start : start + size])
        assert text.is_whole
