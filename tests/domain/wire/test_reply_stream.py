"""A recorded reply that is streamed again is read as the recorded one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply_stream import join_reply, stream_reply
from mnemosyne.domain.wire.request_matching import find_replies
from mnemosyne.domain.wire.responses import RESPONSES
from tests.domain.wire.dialects import WRITTEN, Exchange, ModelReply, Written, replies

IN_EACH_DIALECT = pytest.mark.parametrize("written", WRITTEN, ids=lambda each: each.dialect.name)


def read_again(message: dict[str, Any], dialect: Dialect, *, complete: bool) -> tuple[dict[str, Any], bool]:
    """The reply as a client reads it, and whether it is complete."""
    reader = dialect.reader()
    for frame in b"".join(stream_reply(message, dialect, complete=complete)).split(b"\n\n")[:-1]:
        data = frame.partition(b"data: ")[2]
        if data != b"[DONE]":
            reader.take(json.loads(data))
    return reader.message(), reader.result().complete


def read_first(written: Written, reply: ModelReply) -> dict[str, Any]:
    """The message that is recorded for a streamed reply."""
    reader = written.dialect.reader()
    for line in written.stream(reply).decode().splitlines():
        data = line.removeprefix("data: ")
        if data != line and data != "[DONE]":
            reader.take(json.loads(data))
    return reader.message()


@IN_EACH_DIALECT
@pytest.mark.parametrize("reply", [*replies(), ModelReply("x" * 500, "y" * 500)])
def test_reply_is_read_as_it_was_recorded(written: Written, reply: ModelReply) -> None:
    message = read_first(written, reply)
    assert read_again(message, written.dialect, complete=True) == (message, True)


@IN_EACH_DIALECT
def test_incomplete_reply_has_no_end(written: Written) -> None:
    assert read_again(read_first(written, ModelReply("Half.")), written.dialect, complete=False)[1] is False


@IN_EACH_DIALECT
def test_part_of_a_reply_that_broke_off_is_no_part_of_the_conversation(written: Written) -> None:
    """A client keeps a reply that has an end, and would send it again."""
    message = read_first(written, ModelReply("Half."))
    frames = b"".join(stream_reply(message, written.dialect, complete=False))
    assert b"content_block_stop" not in frames
    assert b"output_item.done" not in frames


@IN_EACH_DIALECT
@pytest.mark.parametrize("reply", replies())
def test_reply_joined_from_a_later_request_reads_as_the_original(written: Written, reply: ModelReply) -> None:
    dialect = written.dialect
    request = written.request([Exchange("Go.", [reply]), Exchange("On.", [ModelReply("Last.")])])
    ((start, end),) = find_replies(request, dialect)
    joined = dict(join_reply(request[dialect.array][start:end], dialect, "m"))
    message, complete = read_again(joined, dialect, complete=True)
    assert complete
    assert dialect.reply_content(message) == [
        block for each in request[dialect.array][start:end] for block in dialect.read_message(each)["content"]
    ]


@pytest.mark.parametrize(
    ("dialect", "content"),
    [
        (RESPONSES, "Teal."),
        (RESPONSES, [{"type": "output_text", "text": "Teal."}]),
        (CHAT, [{"type": "text", "text": "Te"}, {"type": "text", "text": "al."}]),
        (MESSAGES, "Teal."),
    ],
)
def test_reply_in_a_history_has_the_form_of_a_reply(dialect: Dialect, content: object) -> None:
    """A program may send a message in a shorter form than it got."""
    message, complete = read_again(
        dict(join_reply([{"role": "assistant", "content": content}], dialect, "m")), dialect, complete=True
    )
    assert complete
    if dialect is RESPONSES:
        ((item,), (part,)) = message["output"], message["output"][0]["content"]
        assert (item["type"], part["type"], part["text"]) == ("message", "output_text", "Teal.")
    elif dialect is CHAT:
        assert message["choices"][0]["message"]["content"] == "Teal."
    else:
        assert message["content"] == [{"type": "text", "text": "Teal."}]


TEXTS = st.text(max_size=200)
BLOCKS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
    st.builds(lambda text, seal: {"type": "thinking", "thinking": text, "signature": seal}, TEXTS, st.text(min_size=1)),
    st.builds(
        lambda given: {"type": "tool_use", "id": "t", "name": "n", "input": given}, st.dictionaries(TEXTS, TEXTS)
    ),
    st.just({"type": "redacted_thinking", "data": "c2VhbGVk"}),
    st.just({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}),
)


@given(st.lists(BLOCKS, max_size=4), st.sampled_from(["end_turn", "tool_use", "refusal"]))
def test_any_blocks_of_the_messages_api_are_read_as_they_were_recorded(content: list[Any], reason: str) -> None:
    usage = {"input_tokens": 3, "output_tokens": 7}
    message: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "content": content, "usage": usage}
    message |= {"stop_reason": reason, "stop_sequence": None}
    assert read_again(message, MESSAGES, complete=True) == (message, True)


def test_error_within_a_stream_comes_after_what_preceded_it() -> None:
    message = {"id": "m", "content": [{"type": "text", "text": "Half"}], "error": {"type": "overloaded_error"}}
    found, complete = read_again(message, MESSAGES, complete=True)
    assert (found["error"], found["content"], complete) == (message["error"], message["content"], False)
