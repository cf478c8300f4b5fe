"""Messages sent upstream contain no marker, wherever it was, and a marker is put on a block that may carry it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.tools.memory_tools import NAMES, tools_json
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.wire import message_bytes, transcript
from mnemosyne.domain.wire.history import Round
from mnemosyne.domain.wire.messages import MESSAGES
from tests.domain.recorded import dumps

Json = dict[str, Any]

MARKER = {"cache_control": {"type": "ephemeral"}}
NAMED = {"name": "Look", "input_schema": {"type": "object"}}

texts = st.builds(
    lambda words, marked: {"type": "text", "text": words, **(MARKER if marked else {})}, st.text(), st.booleans()
)
results = st.builds(
    lambda parts, marked: {"type": "tool_result", "tool_use_id": "t", "content": parts, **(MARKER if marked else {})},
    st.one_of(st.text(), st.lists(texts, max_size=3)),
    st.booleans(),
)


def bare(value: Any) -> Any:
    """Return the value without any marker."""
    if isinstance(value, dict):
        return {key: bare(item) for key, item in value.items() if key != "cache_control"}
    return [bare(item) for item in value] if isinstance(value, list) else value


@given(st.lists(st.one_of(texts, results), max_size=4))
def test_every_marker_is_removed_and_nothing_else(content: list[Json]) -> None:
    message = {"role": "user", "content": content}
    sent = message_bytes.of_client(dumps(message))
    assert json.loads(sent) == bare(message)
    assert message_bytes.marker_in(sent) is None
    assert message_bytes.bare(message_bytes.mark(sent, b'{"type":"ephemeral"}')) == sent


def test_a_blank_text_of_the_assistant_is_removed() -> None:
    words = {"type": "text", "text": "So."}
    message = {"role": "assistant", "content": [{"type": "text", "text": "\n\n"}, words]}
    assert json.loads(message_bytes.of_client(dumps(message))) == {"role": "assistant", "content": [words]}


def test_a_marker_within_a_result_is_moved_and_does_not_accumulate() -> None:
    messages: list[Json] = [{"role": "user", "content": [{"type": "text", "text": "Go."}]}]
    history = None
    for number in range(6):
        marked = json.loads(json.dumps(messages))
        if number:
            marked[-1]["content"][0]["content"][0] |= MARKER
        body = sent_of(marked, history)
        history = body[1].add_round(1, Round((call(number),)))
        assert body[0].count(b"cache_control") == (1 if number else 0)
        part = [{"type": "text", "text": f"result {number}"}]
        messages += [
            {"role": "assistant", "content": [call(number)]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{number}", "content": part}]},
        ]


def call(number: int) -> Json:
    return {"type": "tool_use", "id": f"t{number}", "name": "Look", "input": {}}


def sent_of(
    messages: list[Json], before: upstream_history.UpstreamHistory | None = None, **members: Any
) -> tuple[bytes, upstream_history.UpstreamHistory]:
    read = transcript.read(dumps({"model": "m", "max_tokens": 5, "tools": [NAMED], "messages": messages, **members}))
    client = [read.transcript.message_bytes(number) for number in range(len(messages))]
    kept = len(before.ends) if before else 0
    history = (
        upstream_history.go_on(before, kept, client[kept:], NAMES)
        if before
        else upstream_history.first(client, dialect=MESSAGES)
    )
    return upstream_history.body(read.transcript, history, tools_json(MESSAGES)), history


def test_a_marker_for_a_message_without_a_block_is_put_on_the_previous_message() -> None:
    first = {"role": "user", "content": [{"type": "text", "text": "Hi.", **MARKER}]}
    body, _ = sent_of([first, {"role": "system", "content": []}])
    assert json.loads(body)["messages"][0]["content"][0]["cache_control"] == MARKER["cache_control"]
    assert body.count(b"cache_control") == 1


def test_with_a_top_level_marker_the_clients_own_marker_is_not_moved() -> None:
    hour = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    first = {"role": "user", "content": [{"type": "text", "text": "Hi.", **hour}]}
    rest = [
        {"role": "assistant", "content": [{"type": "text", "text": "Yes?"}]},
        {"role": "user", "content": [{"type": "text", "text": "Go."}]},
    ]
    body, _ = sent_of([first, *rest], cache_control=MARKER["cache_control"])
    sent = json.loads(body)["messages"]
    assert sent[0]["content"][0]["cache_control"] == hour["cache_control"]
    assert "cache_control" not in sent[-1]["content"][-1]


@pytest.mark.parametrize("tools", [[], None])
def test_no_tools_are_added_to_a_request_without_tools(tools: Any) -> None:
    body, _ = sent_of([{"role": "user", "content": "Hi."}], tools=tools)
    assert json.loads(body)["tools"] == tools
