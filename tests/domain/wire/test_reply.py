"""A reply assembled from its events contains their content."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.wire import json_values
from mnemosyne.domain.wire.reply import Reply, ReplyBuilder, as_json, json_object
from tests.http.streams import TEXT, THINKING, TOOL, message

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


def built(events: list[dict[str, Any]]) -> Reply:
    builder = ReplyBuilder()
    for event in events:
        builder.take(event)
    return builder.result()


def test_a_streamed_message_equals_the_same_message_unstreamed() -> None:
    reply = built(message(THINKING, TEXT, TOOL, stop_reason="tool_use"))
    assert json.loads(reply.body)["content"] == [
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
        {"type": "text", "text": "Zwölf\u2028Boxkämpfer\x85 😀\r\n"},
        {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/a"}},
    ]
    assert (reply.complete, reply.stop_reason, reply.message_id, reply.model) == (
        True,
        "tool_use",
        "msg_1",
        "claude-opus-5-5",
    )


def test_usage_is_cumulative_and_the_last_count_is_kept() -> None:
    assert built(message(TEXT)).usage == {"input_tokens": 12, "cache_read_input_tokens": 100, "output_tokens": 9}


@pytest.mark.parametrize(
    ("start", "delta", "usage"),
    [
        (
            {"input_tokens": 7, "cache_read_input_tokens": 40, "output_tokens": 1},
            {"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 5},
            {"input_tokens": 7, "cache_read_input_tokens": 40, "output_tokens": 5},
        ),
        (
            {"cache_creation": {"ephemeral_1h_input_tokens": 30}, "output_tokens": 1},
            {"cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 2}, "output_tokens": None},
            {"cache_creation": {"ephemeral_1h_input_tokens": 30, "ephemeral_5m_input_tokens": 2}, "output_tokens": 1},
        ),
        ({"input_tokens": 0}, {"input_tokens": 8}, {"input_tokens": 8}),
        ({"input_tokens": 0}, {"input_tokens": 0, "speed": "fast"}, {"input_tokens": 0, "speed": "fast"}),
    ],
)
def test_a_zero_at_the_end_does_not_replace_an_earlier_count(
    start: dict[str, Any], delta: dict[str, Any], usage: dict[str, Any]
) -> None:
    begun = {"type": "message_start", "message": {"id": "m", "content": [], "usage": start}}
    assert built([begun, {"type": "message_delta", "delta": {}, "usage": delta}]).usage == usage


def test_the_type_of_an_error_in_mid_stream_is_reported() -> None:
    reply = built([*message(TEXT)[:4], {"type": "error", "error": {"type": "overloaded_error", "message": "no"}}])
    assert reply.error_type == "overloaded_error"


@pytest.mark.parametrize(
    ("pieces", "input_"), [(['{"a" : 1', "e3}"], {"a": 1000.0}), (['{"a": "cu'], '{"a": "cu'), ([""], {}), ([], {})]
)
def test_a_calls_input_is_parsed_and_invalid_json_is_kept_as_text(pieces: list[str], input_: Any) -> None:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    builder = ReplyBuilder()
    for event in message([TOOL[0], *deltas]):
        builder.take(event)
    assert [block.content()["input"] for block in builder.blocks()] == [input_]


def test_input_in_the_start_event_is_kept() -> None:
    builder = ReplyBuilder()
    for event in message([{**TOOL[0], "input": {"a": "ü"}}]):
        builder.take(event)
    assert [block.content()["input"] for block in builder.blocks()] == [{"a": "ü"}]


def test_input_too_deep_to_read_stays_text() -> None:
    deep = "[" * 100_000
    reply = built(message([TOOL[0], {"type": "input_json_delta", "partial_json": deep}]))
    assert json.loads(reply.body)["content"][0]["input"] == deep


def test_a_body_too_deep_to_read_is_kept() -> None:
    builder = ReplyBuilder()
    builder.take_raw(b"[" * 100_000)
    assert builder.result().body == b"[" * 100_000


def test_unknown_blocks_and_deltas_are_kept() -> None:
    reply = built(message([{"type": "hologram", "x": 1}, {"type": "hologram_delta", "y": 2}]))
    assert json.loads(reply.body)["content"] == [
        {"type": "hologram", "x": 1, "deltas": [{"type": "hologram_delta", "y": 2}]}
    ]


def test_text_that_is_not_valid_unicode_survives() -> None:
    reply = built(message([{"type": "text", "text": ""}, {"type": "text_delta", "text": "\ud83d"}]))
    assert json.loads(reply.body)["content"][0]["text"] == "\ud83d"


EVENT = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["message_start", "content_block_start", "content_block_delta", "message_delta", "error", "?"]
        )
    },
    optional={"index": JSON, "message": JSON, "delta": JSON, "usage": JSON, "content_block": JSON, "error": JSON},
)


@given(st.lists(EVENT, max_size=4))
def test_no_malformed_event_can_break_the_builder(events: list[dict[str, Any]]) -> None:
    built(events)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e999", "9" * 5000, "1E+99999"])
def test_replies_with_odd_numbers_are_written_as_valid_json(number: str) -> None:
    """Neither a streamed call nor a whole body with such a number is written as JSON that strict readers refuse."""
    whole = json_object(b'{"content":[{"type":"tool_use","input":{"question":"q","n":[%s]}}]}' % number.encode())
    reader = ReplyBuilder()
    reader.take({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "input": {}}})
    written = f'{{"question":"q","n":[{number}]}}'
    reader.take({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": written}})
    for read in (whole, reader.message()):
        [block] = json_values.read_strict(as_json(read))["content"]
        assert block["type"] == "tool_use"
    assert whole["content"][0]["input"]["question"] == "q"
    assert reader.message()["content"][0]["input"] == written
